//! How a hydrator works. The edges fill this in from flags.

use std::path::PathBuf;
use std::time::Duration;

/// How reads are cached and fetched.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Cache directory; created where it is missing. Without one nothing is kept.
    pub cache: Option<PathBuf>,
    /// Most bytes the cache may take; unlimited (but for `reserve`) where none is given.
    pub cache_size: Option<u64>,
    /// Bytes the cache leaves free on its file system.
    pub reserve: u64,
    /// Ceiling for the memory of buffers, bytes.
    pub memory: u64,
    /// Longest time a read may take before it is an error.
    pub deadline: Duration,
    /// Bytes a second that background hydration may take; unlimited where none is given.
    pub background_rate: Option<u64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cache: None,
            cache_size: None,
            // Enough for a job's own logs and results on a small root volume.
            reserve: 512 << 20,
            memory: 32 << 20,
            // As for every remote read: a dead endpoint is an error within 30 s.
            deadline: Duration::from_secs(30),
            background_rate: None,
        }
    }
}
