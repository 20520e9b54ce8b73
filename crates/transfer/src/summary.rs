//! What a run did: everything a receipt prints.

use std::fmt;

use firstbyte_location::Version;

use crate::Failure;
use crate::pieces::Done;

/// How far the content was checked against the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verified {
    /// Length and version only: the source offers no checksum over the whole object.
    Length,
    /// Against a checksum over the whole object.
    Full,
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Full { "full" } else { "length" })
    }
}

/// What kept a run from being faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The network, or a rate limit: more requests brought no more bytes.
    Link,
    /// The server's time to answer.
    Server,
    /// Local reads and writes.
    Disk,
    /// This process's processor time.
    Cpu,
    /// The memory ceiling kept the level of concurrency down.
    Memory,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Link => "link",
            Self::Server => "server",
            Self::Disk => "disk",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
        })
    }
}

/// What a run did.
#[derive(Debug, Default)]
pub struct Summary {
    /// Objects complete at their destination.
    pub objects: u64,
    /// Their length together.
    pub bytes: u64,
    /// Objects found unchanged.
    pub skipped: u64,
    /// Objects deleted at the destination.
    pub deleted: u64,
    /// Pipes, sockets and devices, which are not copied.
    pub special: u64,
    /// Empty directories that a store cannot hold.
    pub empty_directories: u64,
    /// Wall time.
    pub seconds: f64,
    /// From the start to the first byte that arrived; none where none did.
    pub first_byte_seconds: Option<f64>,
    /// Requests sent.
    pub requests: u64,
    /// Of those, sent again after a failure.
    pub retries: u64,
    /// Of those, sent in place of one that stayed silent.
    pub hedged: u64,
    /// Bytes that were there already from an interrupted run.
    pub resumed_bytes: u64,
    /// Bytes fetched or sent a second time.
    pub reread_bytes: u64,
    /// The weakest check among the objects; none where none was copied.
    pub verified: Option<Verified>,
    /// The version copied, for a run of one object.
    pub version: Option<Version>,
    /// What failed; the first [`Summary::LISTED_FAILURES`] of them.
    pub failed: Vec<Failure>,
    /// How many failed.
    pub failures: u64,
    /// What kept it from being faster; none where too little was moved to tell.
    pub bound_by: Option<Bound>,
    /// Why the run ended before its time: interrupted, past its deadline, or the bucket or endpoint of a tree fails.
    pub ended: Option<crate::Error>,
}

impl Summary {
    /// Failures kept with their text; a run over millions of objects must not fill memory with errors.
    pub const LISTED_FAILURES: usize = 1_000;

    /// Counts a complete object.
    pub(crate) fn complete(&mut self, done: Done) {
        self.objects += 1;
        self.bytes += done.bytes;
        self.verified = Some(self.verified.map_or(done.verified, |verified| verified.min(done.verified)));
        self.version = done.version.filter(|_| self.objects == 1);
    }

    /// Bytes a second, over the wall time.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes as f64 / self.seconds } else { 0.0 }
    }
}
