//! Counts what a slow file system does. Any thread may read the counters at any time.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The counters of one mount. The ordering is relaxed, so a reader may see values from slightly
/// different times.
#[derive(Debug, Default)]
pub(super) struct MountCounters {
    requests: AtomicU64,
    reads: AtomicU64,
    bytes_to_client: AtomicU64,
}

/// The values of a mount's counters at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountSnapshot {
    /// The real path of the mount point.
    pub directory: PathBuf,
    /// Number of requests for which a client waits: names, attributes, opening, reading.
    pub requests: u64,
    /// Number of requests that read file data.
    pub reads: u64,
    /// Number of bytes of file data that were sent.
    pub bytes_to_client: u64,
}

impl MountCounters {
    pub(super) fn count_request(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    pub(super) fn count_read(&self) {
        self.reads.fetch_add(1, Relaxed);
    }

    pub(super) fn count_sent(&self, bytes: u64) {
        self.bytes_to_client.fetch_add(bytes, Relaxed);
    }

    pub(super) fn snapshot(&self, directory: PathBuf) -> MountSnapshot {
        let (requests, reads) = (self.requests.load(Relaxed), self.reads.load(Relaxed));
        MountSnapshot { directory, requests, reads, bytes_to_client: self.bytes_to_client.load(Relaxed) }
    }
}
