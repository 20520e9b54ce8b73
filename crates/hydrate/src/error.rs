//! The errors of this crate.

use std::io;
use std::path::{Path, PathBuf};

use firstbyte_location::shown;
use firstbyte_store::{FailureKind, Trace, differing_texts};

/// A failed operation on a file or the cache. Cheap to clone: the error of one fetch is reported
/// to every read that waits for it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The store failed.
    #[error("{0}")]
    Store(std::sync::Arc<firstbyte_store::Error>),
    /// The object changed since it was opened. Cached blocks can still be read.
    #[error("{location}: changed while it was open: it was {expected}, and is {found} now; {advice}")]
    Changed {
        /// The object.
        location: String,
        /// The version that was opened.
        expected: String,
        /// The version that the store has now.
        found: String,
        /// The remedy to try.
        advice: &'static str,
    },
    /// A thread of this process panicked.
    #[error("{location}: a thread of firstbyte panicked while it fetched this; please report it")]
    Panicked {
        /// The object.
        location: String,
    },
    /// The server sends nothing that identifies the content, and its one response has passed.
    #[error(
        "{location}: its server sends neither ETag nor date, so it can be read only once and in order; copy it first"
    )]
    Unversioned {
        /// The object.
        location: String,
    },
    /// The length of the object is not known.
    #[error("{location}: its server does not send its length; copy it first")]
    NoLength {
        /// The object.
        location: String,
    },
    /// A directory, prefix or bucket, but an object is needed.
    #[error("{location}: is a directory")]
    Directory {
        /// The directory.
        location: String,
    },
    /// No bytes arrived within the deadline.
    #[error("{location}: no bytes within {seconds} s; is the endpoint reachable?")]
    Deadline {
        /// The object.
        location: String,
        /// The deadline, seconds.
        seconds: u64,
    },
    /// A thread cannot be started.
    #[error("cannot start a thread: {source}")]
    Thread {
        /// The system's error.
        source: std::sync::Arc<io::Error>,
    },
    /// The cache has no room for the object, or there is no cache.
    #[error("{location}: cannot be cached: {}", no_room(*.capacity))]
    NoRoom {
        /// The object.
        location: String,
        /// Bytes that the cache can hold; `None` without a cache.
        capacity: Option<u64>,
    },
    /// The object was released while it was hydrated.
    #[error("{location}: was released while it was hydrated; run it again")]
    Released {
        /// The object.
        location: String,
    },
    /// The server identifies the content by its date and length alone, so the cache keeps nothing
    /// of it once it is closed.
    #[error(
        "{location}: cannot be kept: its server identifies it by date and length alone; copy it with `firstbyte cp`"
    )]
    NotKept {
        /// The object.
        location: String,
    },
    /// The cache directory cannot be used.
    #[error("{}: {what}: {source}", shown(path))]
    Cache {
        /// The directory or file.
        path: PathBuf,
        /// The operation.
        what: &'static str,
        /// The system's error.
        source: std::sync::Arc<io::Error>,
    },
    /// The blocks of an object do not match the checksum of the store.
    #[error("{0}; its blocks are dropped from the cache")]
    Checksum(firstbyte_location::ChecksumError),
    /// The cache directory was written by a newer firstbyte.
    #[error(
        "{}: cache format {found}, this firstbyte knows {known}; use another --cache or a newer firstbyte",
        shown(path)
    )]
    Newer {
        /// The directory.
        path: PathBuf,
        /// The format found.
        found: u32,
        /// The newest format that this build reads.
        known: u32,
    },
}

impl Error {
    /// The kind of the failure.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Store(error) => error.kind(),
            Self::Changed { .. } => FailureKind::Changed,
            Self::Panicked { .. } => FailureKind::Internal,
            Self::Unversioned { .. } | Self::NoLength { .. } | Self::NotKept { .. } | Self::Newer { .. } => {
                FailureKind::Unsupported
            }
            Self::Directory { .. } => FailureKind::IsDirectory,
            Self::Deadline { .. } => FailureKind::TimedOut,
            Self::Thread { source } | Self::Cache { source, .. } => FailureKind::of_io(source),
            Self::NoRoom { .. } => FailureKind::Full,
            Self::Released { .. } => FailureKind::Failed,
            Self::Checksum(_) => FailureKind::Damaged,
        }
    }

    /// The request that failed, if there was one.
    #[must_use]
    pub fn trace(&self) -> Option<&Trace> {
        match self {
            Self::Store(error) => error.trace(),
            _ => None,
        }
    }

    /// Makes the error of a read that took longer than `deadline`.
    pub(crate) fn deadline(location: &firstbyte_location::Location, deadline: std::time::Duration) -> Self {
        Self::Deadline { location: location.to_string(), seconds: deadline.as_secs().max(1) }
    }

    /// Whether the cache's disk is full, or its quota reached.
    #[must_use]
    pub fn is_full_disk(&self) -> bool {
        matches!(self, Self::Cache { source, .. } if firstbyte_store::is_full(source))
    }

    /// Makes a function for `map_err` that adds the operation and its `path`.
    pub(crate) fn cache(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Cache { path, what, source: std::sync::Arc::new(source) }
    }
}

impl From<firstbyte_store::Error> for Error {
    fn from(error: firstbyte_store::Error) -> Self {
        match error {
            firstbyte_store::Error::Changed { location, expected, found, .. } => {
                let advice = match expected.differs_by_tag(&found) {
                    true => {
                        "or the servers behind this address disagree on its ETag: `firstbyte cat` reads it in one request"
                    }
                    false => "open it again",
                };
                let (expected, found) = differing_texts(&expected, &found);
                Self::Changed { location, expected, found, advice }
            }
            other => Self::Store(std::sync::Arc::new(other)),
        }
    }
}

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Describes why an object has no room, and a remedy.
fn no_room(capacity: Option<u64>) -> String {
    match capacity {
        None => "there is no cache; name a directory with --cache".to_owned(),
        Some(bytes) => {
            let held = bytes as f64 / f64::from(1 << 20);
            format!("no room: the cache holds at most {held:.1} MiB; raise --cache-size, or lower --reserve")
        }
    }
}
