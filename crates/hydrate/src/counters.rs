//! What an engine has done, for whoever shows it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::inflight::Class;

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) reads: AtomicU64,
    pub(crate) read_bytes: AtomicU64,
    pub(crate) waited: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) cuts: AtomicU64,
    pub(crate) unkept: AtomicU64,
    fetches: [AtomicU64; 3],
    fetched_bytes: [AtomicU64; 3],
}

/// What an engine has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterSnapshot {
    /// Reads asked for.
    pub reads: u64,
    /// Bytes they asked for.
    pub read_bytes: u64,
    /// Of the reads, those that had to wait for bytes.
    pub waited: u64,
    /// Of the reads, those that failed.
    pub failed: u64,
    /// Requests tried again after a failure.
    pub retries: u64,
    /// Requests given up for their silence and sent again.
    pub cuts: u64,
    /// Blocks that were fetched and not cached: there is no cache, or no room in it.
    pub unkept: u64,
    /// Requests for readers who waited.
    pub demand_fetches: u64,
    /// Bytes they brought.
    pub demand_bytes: u64,
    /// Requests ahead of readers.
    pub ahead_fetches: u64,
    /// Bytes they brought.
    pub ahead_bytes: u64,
    /// Requests for hydration.
    pub background_fetches: u64,
    /// Bytes they brought.
    pub background_bytes: u64,
}

impl Counters {
    pub(crate) fn fetched(&self, class: Class) {
        self.fetches[class as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn brought(&self, class: Class, bytes: usize) {
        self.fetched_bytes[class as usize].fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn snapshot(&self) -> CounterSnapshot {
        let of = |values: &[AtomicU64; 3], class: Class| values[class as usize].load(Relaxed);
        CounterSnapshot {
            reads: self.reads.load(Relaxed),
            read_bytes: self.read_bytes.load(Relaxed),
            waited: self.waited.load(Relaxed),
            failed: self.failed.load(Relaxed),
            retries: self.retries.load(Relaxed),
            cuts: self.cuts.load(Relaxed),
            unkept: self.unkept.load(Relaxed),
            demand_fetches: of(&self.fetches, Class::Demand),
            demand_bytes: of(&self.fetched_bytes, Class::Demand),
            ahead_fetches: of(&self.fetches, Class::Ahead),
            ahead_bytes: of(&self.fetched_bytes, Class::Ahead),
            background_fetches: of(&self.fetches, Class::Background),
            background_bytes: of(&self.fetched_bytes, Class::Background),
        }
    }
}
