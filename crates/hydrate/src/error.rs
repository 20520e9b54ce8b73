//! Defines the errors of this crate.

use std::io;
use std::path::{Path, PathBuf};

use firstbyte_location::shown;
use firstbyte_store::{FailureKind, Trace, differing_texts};

/// Advice for a reader of an object that has changed. A hydration job gets `RUN_AGAIN` instead.
const OPEN_AGAIN: &str = "open it again";
const RUN_AGAIN: &str = "run it again";

/// A failed operation on a file or the cache. Cloning is cheap, because the error of one fetch is
/// reported to every read that waits for the fetch.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The store returned an error.
    #[error("{0}")]
    Store(std::sync::Arc<firstbyte_store::Error>),
    /// The object has changed since it was opened. Blocks that are cached can still be read.
    #[error("{location}: changed while it was open: it was {expected}, and is {found} now; {advice}")]
    Changed {
        /// The location of the object.
        location: String,
        /// The version that was opened.
        expected: String,
        /// The version that the store has now.
        found: String,
        /// Advice on what to do.
        advice: &'static str,
    },
    /// A thread of this process panicked.
    #[error("{location}: a thread of firstbyte panicked while it fetched this; please report it")]
    Panicked {
        /// The location of the object.
        location: String,
    },
    /// The server sends nothing that identifies the content, and the only response that can be used
    /// is over.
    #[error(
        "{location}: its server sends neither ETag nor date, so it can be read only once and in order; copy it with `firstbyte cp`"
    )]
    Unversioned {
        /// The location of the object.
        location: String,
    },
    /// The length of the object is not known.
    #[error("{location}: its server does not say its length; copy it with `firstbyte cp`")]
    NoLength {
        /// The location of the object.
        location: String,
    },
    /// The location is a device, socket or pipe.
    #[error("{location}: is a device, socket or pipe, which has no length; name a file")]
    Special {
        /// The location of the device, socket or pipe.
        location: String,
    },
    /// The location is a directory, prefix or bucket, where an object is needed.
    #[error("{location}: is a directory")]
    Directory {
        /// The location of the directory.
        location: String,
    },
    /// No bytes arrived within the deadline.
    #[error("{location}: no bytes within {seconds} s; is the endpoint reachable?")]
    Deadline {
        /// The location of the object.
        location: String,
        /// The deadline in seconds.
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
        /// The location of the object.
        location: String,
        /// Number of bytes that the cache can hold; `None` without a cache.
        capacity: Option<u64>,
    },
    /// The object was released while it was being hydrated.
    #[error("{location}: was released while it was hydrated; run it again")]
    Released {
        /// The location of the object.
        location: String,
    },
    /// The server identifies the content only by its date and length, so the cache drops the
    /// content when it is closed.
    #[error(
        "{location}: cannot be kept: its server identifies it by date and length alone; copy it with `firstbyte cp`"
    )]
    NotKept {
        /// The location of the object.
        location: String,
    },
    /// The cache directory cannot be used.
    #[error("{}: {what}: {source}", shown(path))]
    Cache {
        /// The directory or file.
        path: PathBuf,
        /// The operation that failed.
        what: &'static str,
        /// The system's error.
        source: std::sync::Arc<io::Error>,
    },
    /// The blocks of an object do not match the store's checksum.
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
        /// The format that was found.
        found: u32,
        /// The newest format that this build can read.
        known: u32,
    },
}

impl Error {
    /// Returns the kind of the failure.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Store(error) => error.kind(),
            Self::Changed { .. } => FailureKind::Changed,
            Self::Panicked { .. } => FailureKind::Internal,
            Self::Unversioned { .. }
            | Self::NoLength { .. }
            | Self::Special { .. }
            | Self::NotKept { .. }
            | Self::Newer { .. } => FailureKind::Unsupported,
            Self::Directory { .. } => FailureKind::IsDirectory,
            Self::Deadline { .. } => FailureKind::TimedOut,
            Self::Thread { source } | Self::Cache { source, .. } => FailureKind::of_io(source),
            Self::NoRoom { .. } => FailureKind::Full,
            Self::Released { .. } => FailureKind::Failed,
            Self::Checksum(_) => FailureKind::Damaged,
        }
    }

    /// Returns the trace of the request that failed, if a request failed.
    #[must_use]
    pub fn trace(&self) -> Option<&Trace> {
        match self {
            Self::Store(error) => error.trace(),
            _ => None,
        }
    }

    /// Returns the error as a job reports it. The user of a job has opened nothing, so the advice
    /// is to run the job again.
    pub(crate) fn of_job(self) -> Self {
        self.advise_instead(RUN_AGAIN)
    }

    /// Replaces the advice in the error for a changed object, which is to open the object or to run
    /// the job again. Used for a job that names the versions it wants: running it again would not
    /// find them either.
    #[must_use]
    pub fn advise_instead(self, advice: &'static str) -> Self {
        match self {
            Self::Changed { location, expected, found, advice: OPEN_AGAIN | RUN_AGAIN } => {
                Self::Changed { location, expected, found, advice }
            }
            other => other,
        }
    }

    /// Creates the error of a read that took longer than `deadline`.
    pub(crate) fn deadline(location: &firstbyte_location::Location, deadline: std::time::Duration) -> Self {
        Self::Deadline { location: location.to_string(), seconds: deadline.as_secs().max(1) }
    }

    /// Returns whether the cache's disk is full or its quota is reached.
    #[must_use]
    pub fn is_full_disk(&self) -> bool {
        matches!(self, Self::Cache { source, .. } if firstbyte_store::is_full(source))
    }

    /// Returns a function for `map_err` that adds the failed operation `what` and its `path`.
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
                    false => OPEN_AGAIN,
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

/// Describes why an object has no room, and what to do.
fn no_room(capacity: Option<u64>) -> String {
    match capacity {
        None => "there is no cache; name a directory with --cache".to_owned(),
        Some(bytes) => {
            let held = bytes as f64 / f64::from(1 << 20);
            format!("no room: the cache holds at most {held:.1} MiB; raise --cache-size, or lower --reserve")
        }
    }
}
