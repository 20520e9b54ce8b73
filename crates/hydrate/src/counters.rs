//! Counts the reads, requests and bytes of an engine, for statistics and tests.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::block_table::Priority;

#[derive(Default)]
pub(crate) struct HydrationCounters {
    pub(crate) reads: AtomicU64,
    pub(crate) read_bytes: AtomicU64,
    pub(crate) waited: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) cuts: AtomicU64,
    pub(crate) uncached: AtomicU64,
    fetches: [AtomicU64; 3],
    fetched_bytes: [AtomicU64; 3],
}

/// Counts of an engine's work since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HydrationCounts {
    /// Number of reads.
    pub reads: u64,
    /// Number of bytes read.
    pub read_bytes: u64,
    /// Number of reads that had to wait for bytes.
    pub waited: u64,
    /// Number of reads that failed.
    pub failed: u64,
    /// Number of requests that were repeated after a failure.
    pub retries: u64,
    /// Number of requests that were cut off and repeated because no bytes arrived.
    pub cuts: u64,
    /// Number of blocks that were fetched and not cached, because there is no cache or no room in
    /// it.
    pub uncached: u64,
    /// Number of requests for readers that waited.
    pub demand_fetches: u64,
    /// Number of bytes received for readers that waited.
    pub demand_bytes: u64,
    /// Number of requests ahead of readers.
    pub ahead_fetches: u64,
    /// Number of bytes received ahead of readers.
    pub ahead_bytes: u64,
    /// Number of requests for hydration.
    pub background_fetches: u64,
    /// Number of bytes received for hydration.
    pub background_bytes: u64,
}

impl HydrationCounters {
    pub(crate) fn count_fetch(&self, priority: Priority) {
        self.fetches[priority as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn count_received(&self, priority: Priority, bytes: usize) {
        self.fetched_bytes[priority as usize].fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn snapshot(&self) -> HydrationCounts {
        let of = |values: &[AtomicU64; 3], priority: Priority| values[priority as usize].load(Relaxed);
        HydrationCounts {
            reads: self.reads.load(Relaxed),
            read_bytes: self.read_bytes.load(Relaxed),
            waited: self.waited.load(Relaxed),
            failed: self.failed.load(Relaxed),
            retries: self.retries.load(Relaxed),
            cuts: self.cuts.load(Relaxed),
            uncached: self.uncached.load(Relaxed),
            demand_fetches: of(&self.fetches, Priority::Demand),
            demand_bytes: of(&self.fetched_bytes, Priority::Demand),
            ahead_fetches: of(&self.fetches, Priority::Ahead),
            ahead_bytes: of(&self.fetched_bytes, Priority::Ahead),
            background_fetches: of(&self.fetches, Priority::Background),
            background_bytes: of(&self.fetched_bytes, Priority::Background),
        }
    }
}
