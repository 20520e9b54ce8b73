//! Counts what a link does. Any thread may read the counters at any time.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The counters of a link. Only the thread of the link writes them. The ordering is relaxed, so a
/// reader may see values from slightly different times.
#[derive(Debug, Default)]
pub(crate) struct LinkCounters {
    pub(crate) connections: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) bytes_to_server: AtomicU64,
    pub(crate) bytes_to_client: AtomicU64,
    pub(crate) delays: AtomicU64,
    pub(crate) stalls: AtomicU64,
    pub(crate) cuts: AtomicU64,
    pub(crate) corruptions: AtomicU64,
    pub(crate) duplicates: AtomicU64,
}

/// The values of a link's counters at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Number of connections accepted.
    pub connections: u64,
    /// Number of requests. A request begins when client bytes are the first on a connection or
    /// follow server bytes.
    pub requests: u64,
    /// Bytes delivered to the server.
    pub bytes_to_server: u64,
    /// Bytes delivered to clients.
    pub bytes_to_client: u64,
    /// Number of responses that began late.
    pub delays: u64,
    /// Number of responses that were paused.
    pub stalls: u64,
    /// Number of connections cut.
    pub cuts: u64,
    /// Number of bytes corrupted.
    pub corruptions: u64,
    /// Number of segments sent twice.
    pub duplicates: u64,
}

impl LinkCounters {
    pub(crate) fn add(counter: &AtomicU64, n: usize) {
        counter.fetch_add(n as u64, Relaxed);
    }

    pub(crate) fn snapshot(&self) -> LinkCounts {
        LinkCounts {
            connections: self.connections.load(Relaxed),
            requests: self.requests.load(Relaxed),
            bytes_to_server: self.bytes_to_server.load(Relaxed),
            bytes_to_client: self.bytes_to_client.load(Relaxed),
            delays: self.delays.load(Relaxed),
            stalls: self.stalls.load(Relaxed),
            cuts: self.cuts.load(Relaxed),
            corruptions: self.corruptions.load(Relaxed),
            duplicates: self.duplicates.load(Relaxed),
        }
    }
}
