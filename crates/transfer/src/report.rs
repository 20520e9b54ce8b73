//! The reports of a run: calls of an [`Observer`] during the run, and a [`Summary`] at its end.

use std::fmt;

use firstbyte_location::{Location, Version};
use firstbyte_store::RequestCounts;

use crate::error::Failure;

/// An action that a dry run reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Copy an object.
    Copy {
        /// The source.
        source: Location,
        /// The destination.
        destination: Location,
        /// Length in bytes, if the listing has it.
        size: Option<u64>,
    },
    /// Delete an object that the source does not have.
    Delete {
        /// The object.
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
    /// The lengths are equal, and the content differs.
    Content(Location, Location),
}

impl Difference {
    /// Converts the difference to a row of JSON.
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

/// Log target of the event for each complete object.
pub const OBJECTS: &str = "firstbyte_transfer::objects";

/// Receives the events of a run: progress bars, logs, tests. Worker threads call it, so it must be
/// quick. Every method does nothing unless overridden.
pub trait Observer: Sync {
    /// More objects and bytes were found that are to be moved.
    fn expected(&self, _objects: u64, _bytes: u64) {}
    /// All objects of the run have been found: no more are expected.
    fn listed(&self) {}
    /// A worker begins with an object. `finished`, `skipped` or `failed` follows.
    fn began(&self, _source: &Location) {}
    /// A large object is moved in pieces from now on. `bytes` is its length, or 0 if that is not
    /// known.
    fn started(&self, _source: &Location, _bytes: u64) {}
    /// More bytes have arrived.
    fn moved(&self, _bytes: u64) {}
    /// An object of `bytes` is complete; an earlier run may have moved part of it.
    fn finished(&self, _source: &Location, _destination: &Location, _bytes: u64) {}
    /// An object was found unchanged.
    fn skipped(&self, _source: &Location) {}
    /// A directory, or its marker in a store, was created at the destination or is not needed.
    fn made_directory(&self, _source: &Location) {}
    /// An object failed for good.
    fn failed(&self, _failure: &Failure) {}
    /// Two places differ.
    fn differs(&self, _difference: &Difference) {}
    /// A dry run reports an action.
    fn planned(&self, _action: &Action) {}
}

/// Ignores all events.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {}

/// The extent to which content was checked against the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verified {
    /// Nothing: the source states no length, and the content ended with the connection.
    Nothing,
    /// Length and version only: the source offers no checksum over the whole object.
    Length,
    /// Against a checksum over the whole object.
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

/// The limit of a run's speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bottleneck {
    /// The network: more requests brought no more bytes.
    Link,
    /// The rate that the caller allows.
    Limit,
    /// The server's time to answer.
    Server,
    /// Local reads and writes.
    Disk,
    /// Processor time: of this process, or of all processes of this machine.
    Cpu,
    /// The memory ceiling limited the number of requests.
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
    /// The version of the source, if `version` is that of the copy.
    pub(crate) source: Option<Box<Version>>,
}

impl CompletedObject {
    /// The version of the source that was copied.
    pub(crate) fn copied(&self) -> Option<&Version> {
        self.source.as_deref().or(self.version.as_ref())
    }
}

/// The results of a run: everything a receipt prints.
#[derive(Debug, Default)]
pub struct Summary {
    /// Objects complete at their destination.
    pub objects: u64,
    /// Total length of these objects, bytes.
    pub bytes: u64,
    /// Objects found unchanged.
    pub skipped: u64,
    /// Objects deleted at the destination.
    pub deleted: u64,
    /// Differences found by a check.
    pub differences: u64,
    /// Pipes, sockets and devices, which are not copied.
    pub special: u64,
    /// Empty directories, which a store cannot hold.
    pub empty_directories: u64,
    /// Unfinished copies at the source, which are no content.
    pub unfinished: u64,
    /// Wall time, seconds.
    pub seconds: f64,
    /// Seconds from the start to the first byte; `None` if no byte arrived.
    pub first_byte_seconds: Option<f64>,
    /// Requests sent.
    pub requests: u64,
    /// Requests sent, by kind.
    pub requests_by_kind: RequestCounts,
    /// Bytes of bodies received from stores.
    pub received: u64,
    /// Bytes of bodies sent to stores.
    pub sent: u64,
    /// Requests sent again after a failure.
    pub retries: u64,
    /// Requests sent in place of one that stayed silent.
    pub hedged: u64,
    /// Bytes kept from an interrupted run.
    pub resumed_bytes: u64,
    /// Bytes fetched or sent a second time.
    pub reread_bytes: u64,
    /// Bytes of unfinished objects that the next run resumes from.
    pub kept_bytes: u64,
    /// The weakest check among the objects; `None` if no object was copied.
    pub verified: Option<Verified>,
    /// The version copied, for a run of one object.
    pub version: Option<Version>,
    /// The first [`Summary::LISTED_FAILURES`] failures.
    pub failed: Vec<Failure>,
    /// The number of failures.
    pub failures: u64,
    /// The limit of the run's speed; `None` if the run was too short to judge.
    pub bound_by: Option<Bottleneck>,
    /// The reason for which the run ended early: an interruption, its deadline, or a failing bucket
    /// or endpoint of a tree.
    pub ended: Option<crate::error::Error>,
}

impl Summary {
    /// Failures kept with their text, so that millions of them do not fill memory.
    pub const LISTED_FAILURES: usize = firstbyte_store::PAGE;

    /// Counts a failure, and keeps its text while there are not too many.
    pub fn fail(&mut self, failure: Failure) {
        self.failures += 1;
        if self.failed.len() < Self::LISTED_FAILURES {
            self.failed.push(failure);
        }
    }

    /// Counts a complete object.
    pub(crate) fn complete(&mut self, done: CompletedObject) {
        self.objects += 1;
        self.bytes += done.bytes;
        self.verified = Some(self.verified.map_or(done.verified, |verified| verified.min(done.verified)));
        self.version = done.version.filter(|_| self.objects == 1);
    }

    /// Adds the results of the run before, which this run has repeated: objects copied before were
    /// found unchanged now, and the failures are the same.
    pub(crate) fn after(self, before: Self) -> Self {
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

    /// Bytes per second, over the wall time.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes as f64 / self.seconds } else { 0.0 }
    }
}
