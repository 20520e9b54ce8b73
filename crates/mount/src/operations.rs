//! Counts the operations that the kernel requests, and logs slow ones.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Duration at which an operation is logged as slow. A healthy store answers in less time.
const SLOW_OPERATION: Duration = Duration::from_secs(1);

/// The operations that may take time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MountOperation {
    Lookup,
    Open,
    Read,
    ReadDirectory,
    Attributes,
}

impl MountOperation {
    pub(crate) const ALL: [Self; 5] =
        [Self::Lookup, Self::Open, Self::Read, Self::ReadDirectory, Self::Attributes];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Lookup => "lookup",
            Self::Open => "open",
            Self::Read => "read",
            Self::ReadDirectory => "readdir",
            Self::Attributes => "attributes",
        }
    }
}

/// The counts of one kind of operation.
#[derive(Debug, Default)]
pub(crate) struct OperationCount {
    pub(crate) done: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) nanoseconds: AtomicU64,
    pub(crate) slow: AtomicU64,
}

/// The counts of all operations.
#[derive(Debug, Default)]
pub(crate) struct OperationCounters {
    counts: [OperationCount; MountOperation::ALL.len()],
    /// Number of bytes read through this process. Reads that the kernel passes through, or answers
    /// from its page cache, are not included.
    pub(crate) bytes: AtomicU64,
    /// Number of files that are open now.
    pub(crate) open: AtomicU64,
    /// Number of opens after which the kernel read the file directly.
    pub(crate) direct_opens: AtomicU64,
    /// Number of opens in which the content of a small file was passed to the kernel.
    pub(crate) given_contents: AtomicU64,
}

/// Result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationOutcome {
    Done,
    Failed,
}

impl<T, E> From<&Result<T, E>> for OperationOutcome {
    fn from(result: &Result<T, E>) -> Self {
        if result.is_ok() { Self::Done } else { Self::Failed }
    }
}

impl OperationCounters {
    pub(crate) fn of(&self, operation: MountOperation) -> &OperationCount {
        &self.counts[operation as usize]
    }

    /// Counts an operation that began at `begun`. If the operation was slow, logs it with the text
    /// of `what`.
    pub(crate) fn count(
        &self,
        operation: MountOperation,
        begun: Instant,
        outcome: OperationOutcome,
        what: impl FnOnce() -> String,
    ) {
        let took = begun.elapsed();
        let count = self.of(operation);
        count.done.fetch_add(1, Ordering::Relaxed);
        count.nanoseconds.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        if outcome == OperationOutcome::Failed {
            count.failed.fetch_add(1, Ordering::Relaxed);
        }
        if took >= SLOW_OPERATION {
            count.slow.fetch_add(1, Ordering::Relaxed);
            tracing::warn!("slow: {} of {} took {:.1} s", operation.word(), what(), took.as_secs_f64());
        }
    }
}
