//! Counters of a link. Any thread may read them at any time.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Written only by the link's thread. Relaxed ordering: a reader may see figures of slightly
/// different moments.
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

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Connections accepted.
    pub connections: u64,
    /// Requests: how often client bytes began a connection or followed server bytes.
    pub requests: u64,
    /// Bytes delivered to the server.
    pub bytes_to_server: u64,
    /// Bytes delivered to clients.
    pub bytes_to_client: u64,
    /// Responses that began late.
    pub delays: u64,
    /// Responses that were paused.
    pub stalls: u64,
    /// Connections cut.
    pub cuts: u64,
    /// Bytes corrupted.
    pub corruptions: u64,
    /// Segments sent twice.
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
