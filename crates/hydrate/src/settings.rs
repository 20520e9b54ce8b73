//! Defines the settings of a hydrator. The command line and the library fill them in.

use std::path::PathBuf;
use std::time::Duration;

use firstbyte_store::Sharing;

/// Settings for caching and fetching.
#[derive(Clone, Debug)]
pub struct HydrationSettings {
    /// Cache directory, which is created if it does not exist. With `None`, nothing is cached.
    pub cache: Option<PathBuf>,
    /// The users that share the cache directory.
    pub sharing: Sharing,
    /// Name of the store in the cache, used instead of its endpoint. For a store that has several
    /// addresses.
    pub store_name: Option<String>,
    /// Maximum number of bytes that the cache may use. `None` if only `reserve` limits the cache.
    pub cache_size: Option<u64>,
    /// Number of bytes to leave free on the cache's file system.
    pub reserve: u64,
    /// Memory limit of this job, bytes. A cache in memory counts towards it.
    pub memory_limit: Option<u64>,
    /// Maximum memory of buffers, bytes.
    pub memory: u64,
    /// Time after which a read fails.
    pub deadline: Duration,
    /// Maximum rate of all background hydration, bytes per second.
    pub background_rate: Option<u64>,
}

impl Default for HydrationSettings {
    fn default() -> Self {
        Self {
            cache: None,
            sharing: Sharing::Private,
            store_name: None,
            cache_size: None,
            // Room for the logs and results of a job on a small root volume.
            reserve: 512 << 20,
            memory_limit: None,
            memory: firstbyte_store::MEMORY,
            // The same deadline as for every remote read: a dead endpoint is an error within 30 s.
            deadline: firstbyte_pacing::DEADLINE,
            background_rate: None,
        }
    }
}
