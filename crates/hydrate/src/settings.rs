//! The settings of a hydrator. The command line and the library fill them in.

use std::path::PathBuf;
use std::time::Duration;

/// Settings for caching and fetching.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Cache directory, created if it does not exist. `None`: nothing is cached.
    pub cache: Option<PathBuf>,
    /// Most bytes that the cache may use. `None`: limited only by `reserve`.
    pub cache_size: Option<u64>,
    /// Bytes to leave free on the cache's file system.
    pub reserve: u64,
    /// Limit on the memory of buffers, in bytes.
    pub memory: u64,
    /// Time after which a read fails.
    pub deadline: Duration,
    /// Limit on background hydration, in bytes a second.
    pub background_rate: Option<u64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cache: None,
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
