//! Counters of a slow file system. Any thread may read them at any time.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of one mount. Relaxed ordering: a reader may see figures of slightly different moments.
#[derive(Debug, Default)]
pub(super) struct MountCounters {
    requests: AtomicU64,
    reads: AtomicU64,
    bytes_to_client: AtomicU64,
}

/// The counters of one mount at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountSnapshot {
    /// The real path of the mount point.
    pub directory: PathBuf,
    /// Requests that a client waits for: names, attributes, opening, reading.
    pub requests: u64,
    /// Requests that read data of files.
    pub reads: u64,
    /// Bytes of files that were sent.
    pub bytes_to_client: u64,
}

impl MountCounters {
    pub(super) fn request(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    pub(super) fn read(&self) {
        self.reads.fetch_add(1, Relaxed);
    }

    pub(super) fn sent(&self, bytes: u64) {
        self.bytes_to_client.fetch_add(bytes, Relaxed);
    }

    pub(super) fn snapshot(&self, directory: PathBuf) -> MountSnapshot {
        let (requests, reads) = (self.requests.load(Relaxed), self.reads.load(Relaxed));
        MountSnapshot { directory, requests, reads, bytes_to_client: self.bytes_to_client.load(Relaxed) }
    }
}
