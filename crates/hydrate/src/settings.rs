//! The settings of a hydrator. The command line and the library fill them in.

use std::path::PathBuf;
use std::time::Duration;

use firstbyte_store::Sharing;

/// Settings for caching and fetching.
#[derive(Clone, Debug)]
pub struct HydrationSettings {
    /// Cache directory, created if it does not exist. With `None`, nothing is cached.
    pub cache: Option<PathBuf>,
    /// Users that share the cache directory.
    pub sharing: Sharing,
    /// The store's name in the cache, instead of its endpoint: for a store with several addresses.
    pub store_name: Option<String>,
    /// The most bytes that the cache may use; `None` if only `reserve` limits it.
    pub cache_size: Option<u64>,
    /// Bytes to leave free on the cache's file system.
    pub reserve: u64,
    /// Limit on the memory of buffers, in bytes.
    pub memory: u64,
    /// Time after which a read fails.
    pub deadline: Duration,
    /// Limit on background hydration, in bytes per second.
    pub background_rate: Option<u64>,
}

impl Default for HydrationSettings {
    fn default() -> Self {
        Self {
            cache: None,
            sharing: Sharing::Private,
            store_name: None,
            cache_size: None,
            // Enough for the logs and results of a job on a small root volume.
            reserve: 512 << 20,
            memory: firstbyte_store::MEMORY,
            // As for every remote read: a dead endpoint is an error within 30 s.
            deadline: firstbyte_pacing::DEADLINE,
            background_rate: None,
        }
    }
}
