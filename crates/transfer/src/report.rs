//! Defines the reports of a run: an [`Observer`] that is called during the run, and a [`Summary`]
//! at its end.

use std::fmt;

use firstbyte_location::{Location, Version};
use firstbyte_store::RequestCounts;

use crate::error::Failure;

/// An action that a dry run reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Copy an object.
    Copy {
        /// The location of the source.
        source: Location,
        /// The location of the destination.
        destination: Location,
        /// Length in bytes, if the listing contains it.
        size: Option<u64>,
    },
    /// Delete an object. For `sync`, it is one that only the destination has.
    Delete {
        /// The location of the object.
        location: Location,
    },
}

/// A difference between two places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// An object that only the source has.
    OnlySource(Location),
    /// An object that only the destination has.
    OnlyDestination(Location),
    /// The lengths differ.
    Size {
        /// The object in the source, and its length in bytes.
        source: (Location, u64),
        /// The object in the destination, and its length in bytes.
        destination: (Location, u64),
    },
    /// The lengths are equal, but the content differs.
    Content(Location, Location),
}

impl Difference {
    /// Converts the difference to a row in JSON.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::json;
        match self {
            Self::OnlySource(location) => {
                json!({ "difference": "only_source", "source": location.to_string() })
            }
            Self::OnlyDestination(location) => {
                json!({ "difference": "only_destination", "destination": location.to_string() })
            }
            Self::Size { source, destination } => json!({
                "difference": "size", "source": source.0.to_string(), "source_size": source.1,
                "destination": destination.0.to_string(), "destination_size": destination.1,
            }),
            Self::Content(one, other) => {
                json!({ "difference": "content", "source": one.to_string(), "destination": other.to_string() })
            }
        }
    }
}

/// Log target of the event that is logged for each complete object.
pub const OBJECTS: &str = "firstbyte_transfer::objects";

/// Receives the events of a run, for progress bars, logs and tests. Threads of the run call these
/// methods, so they must return quickly. By default, every method does nothing.
pub trait Observer: Sync {
    /// Called when more objects and bytes that have to be moved were found.
    fn expected(&self, _objects: u64, _bytes: u64) {}
    /// Called when all objects of the run have been found, so no more are expected.
    fn listed(&self) {}
    /// Called when a worker starts with an object. A call of `finished`, `skipped` or `failed`
    /// follows, unless the run ends early.
    fn began(&self, _source: &Location) {}
    /// Called when a large object starts to move in pieces. `bytes` is its length, or 0 if that is
    /// not known.
    fn started(&self, _source: &Location, _bytes: u64) {}
    /// Called when more bytes were moved: received, accepted by the server, or taken from an
    /// earlier run.
    fn moved(&self, _bytes: u64) {}
    /// Called when an object of `bytes` is complete. An earlier run may have moved a part of it.
    fn finished(&self, _source: &Location, _destination: &Location, _bytes: u64) {}
    /// Called when an object was found unchanged.
    fn skipped(&self, _source: &Location) {}
    /// Called when a directory, or its marker in a store, was created at the destination, or when
    /// no directory was needed.
    fn made_directory(&self, _source: &Location) {}
    /// Called when an object has failed for good.
    fn failed(&self, _failure: &Failure) {}
    /// Called when two places differ.
    fn differs(&self, _difference: &Difference) {}
    /// Called by a dry run for each action that it would do.
    fn planned(&self, _action: &Action) {}
}

/// An observer that ignores all events.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {}

/// How far the content was verified against the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verified {
    /// Not at all: the source states no length, and the content ended with the connection.
    Nothing,
    /// By length and version only: the source has no checksum of the whole object.
    Length,
    /// By a checksum of the whole object.
    Full,
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "none",
            Self::Length => "length",
            Self::Full => "full",
        })
    }
}

/// Resource that limited the speed of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bottleneck {
    /// The network: no other limit was reached.
    Link,
    /// The rate that the caller allows.
    Limit,
    /// The server's response time.
    Server,
    /// Local reads and writes.
    Disk,
    /// Processor time, of this process or of all processes on this machine.
    Cpu,
    /// The memory ceiling, which limited the number of requests.
    Memory,
}

impl fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Link => "link",
            Self::Limit => "limit",
            Self::Server => "server",
            Self::Disk => "disk",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
        })
    }
}

/// An object that is complete at its destination.
#[derive(Debug)]
pub(crate) struct CompletedObject {
    pub(crate) bytes: u64,
    pub(crate) verified: Verified,
    pub(crate) version: Option<Version>,
    /// The version of the source. `None` if `version` is already the version of the source.
    pub(crate) source: Option<Box<Version>>,
}

impl CompletedObject {
    /// Returns the version of the source that was copied.
    pub(crate) fn source_version(&self) -> Option<&Version> {
        self.source.as_deref().or(self.version.as_ref())
    }
}

/// The results of a run. A receipt prints all of them.
#[derive(Debug, Default)]
pub struct Summary {
    /// Number of objects that are complete at their destination.
    pub objects: u64,
    /// Total length of the complete objects, bytes.
    pub bytes: u64,
    /// Number of objects that were found unchanged.
    pub skipped: u64,
    /// Number of objects that were deleted: at the destination, or the sources of a move.
    pub deleted: u64,
    /// Number of differences that a check has found.
    pub differences: u64,
    /// Number of pipes, sockets and devices, which are not copied.
    pub special: u64,
    /// Number of empty directories, which a store cannot hold.
    pub empty_directories: u64,
    /// Number of unfinished copies at the source, which are not content.
    pub unfinished: u64,
    /// Wall-clock time, seconds.
    pub seconds: f64,
    /// Seconds from the start to the first byte; `None` if no byte arrived.
    pub first_byte_seconds: Option<f64>,
    /// Number of requests sent.
    pub requests: u64,
    /// Number of requests sent, by kind.
    pub requests_by_kind: RequestCounts,
    /// Number of body bytes received from stores.
    pub received: u64,
    /// Number of body bytes sent to stores.
    pub sent: u64,
    /// Number of requests that were sent again after a failure.
    pub retries: u64,
    /// Number of requests that were sent in place of a silent one.
    pub hedged: u64,
    /// Number of bytes that an interrupted run had moved and this run could use.
    pub resumed_bytes: u64,
    /// Number of bytes fetched or sent a second time.
    pub reread_bytes: u64,
    /// Number of bytes of unfinished objects that the next run can use.
    pub kept_bytes: u64,
    /// The weakest verification among the copied objects. `None` if no object was copied.
    pub verified: Option<Verified>,
    /// The version of the object, if exactly one is complete. If the destination is a store, it is
    /// the version written, otherwise the version read.
    pub version: Option<Version>,
    /// The first [`Summary::LISTED_FAILURES`] failures.
    pub failed: Vec<Failure>,
    /// Total number of failures.
    pub failures: u64,
    /// Resource that limited the run's speed. `None` if the run was too short to judge.
    pub bound_by: Option<Bottleneck>,
    /// The reason why the run has ended early: an interruption, its deadline, or a failing bucket
    /// or endpoint of a tree.
    pub ended: Option<crate::error::Error>,
}

impl Summary {
    /// Maximum number of failures that are kept with their text, so that millions of failures do
    /// not fill the memory.
    pub const LISTED_FAILURES: usize = firstbyte_store::PAGE;

    /// Counts a failure. Keeps its text if fewer than [`LISTED_FAILURES`](Self::LISTED_FAILURES)
    /// were kept.
    pub fn fail(&mut self, failure: Failure) {
        self.failures += 1;
        if self.failed.len() < Self::LISTED_FAILURES {
            self.failed.push(failure);
        }
    }

    /// Counts a complete object.
    pub(crate) fn add_completed(&mut self, done: CompletedObject) {
        self.objects += 1;
        self.bytes += done.bytes;
        self.verified = Some(self.verified.map_or(done.verified, |verified| verified.min(done.verified)));
        self.version = done.version.filter(|_| self.objects == 1);
    }

    /// Adds the results of the previous run over the same objects, which this run has repeated.
    /// Objects that the previous run copied were found unchanged by this run, so they do not count
    /// as skipped. Only the failures of this run are kept.
    pub(crate) fn added_to(self, before: Self) -> Self {
        Self {
            objects: before.objects + self.objects,
            bytes: before.bytes + self.bytes,
            skipped: self.skipped.saturating_sub(before.objects),
            deleted: before.deleted + self.deleted,
            seconds: before.seconds + self.seconds,
            first_byte_seconds: before.first_byte_seconds.or(self.first_byte_seconds),
            requests: before.requests + self.requests,
            requests_by_kind: before.requests_by_kind.plus(&self.requests_by_kind),
            received: before.received + self.received,
            sent: before.sent + self.sent,
            retries: before.retries + self.retries,
            hedged: before.hedged + self.hedged,
            resumed_bytes: before.resumed_bytes + self.resumed_bytes,
            reread_bytes: before.reread_bytes + self.reread_bytes,
            verified: [before.verified, self.verified].into_iter().flatten().min(),
            ..self
        }
    }

    /// Returns the bytes per second over the wall-clock time.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes as f64 / self.seconds } else { 0.0 }
    }
}
