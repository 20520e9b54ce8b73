//! What can go wrong between a read and its bytes.

use std::io;
use std::path::{Path, PathBuf};

use firstbyte_location::shown;

/// A failed operation on a hydrated file or its cache. Cheap to clone: one fetch that fails is told to all who wait for it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The store could not give the bytes.
    #[error("{0}")]
    Store(std::sync::Arc<firstbyte_store::Error>),
    /// The object is not what was opened any more; blocks that are here can still be read, others never again.
    #[error("{location}: changed while it was open: it was {expected}, and is {found} now; open it again")]
    Changed {
        /// The object.
        location: String,
        /// The version that was opened.
        expected: String,
        /// What the store holds now.
        found: String,
    },
    /// Nothing pins the content, and the one stream that can be had of it has passed.
    #[error(
        "{location}: its server tells neither ETag nor date, so it can be read only once and in order; copy it first"
    )]
    Unpinned {
        /// The object.
        location: String,
    },
    /// The length is not known before the end.
    #[error("{location}: its server does not tell its length; copy it first")]
    NoLength {
        /// The object.
        location: String,
    },
    /// A directory, a prefix or a bucket where an object is needed.
    #[error("{location}: is a directory")]
    Directory {
        /// Which.
        location: String,
    },
    /// No answer within the deadline.
    #[error("{location}: no bytes within {seconds} s; is the endpoint reachable?")]
    Deadline {
        /// The object.
        location: String,
        /// The deadline, seconds.
        seconds: u64,
    },
    /// The system refuses a thread.
    #[error("cannot start a thread: {source}")]
    Thread {
        /// Why.
        source: std::sync::Arc<io::Error>,
    },
    /// Hydration needs a cache with room.
    #[error(
        "{location}: cannot be kept: there is no cache, or no room in it; see --cache-size and --reserve"
    )]
    NoRoom {
        /// The object.
        location: String,
    },
    /// The cache directory cannot be used.
    #[error("{}: {what}: {source}", shown(path))]
    Cache {
        /// The directory or file.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: std::sync::Arc<io::Error>,
    },
    /// The blocks of an object together are not what the store says that it is.
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
        /// Format found.
        found: u32,
        /// Newest format known here.
        known: u32,
    },
}

impl Error {
    /// No answer within `deadline`.
    pub(crate) fn deadline(location: &firstbyte_location::Location, deadline: std::time::Duration) -> Self {
        Self::Deadline { location: location.to_string(), seconds: deadline.as_secs().max(1) }
    }

    /// For `map_err`: what was tried at which place.
    pub(crate) fn cache(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Cache { path: path.to_owned(), what, source: std::sync::Arc::new(source) }
    }
}

impl From<firstbyte_store::Error> for Error {
    fn from(error: firstbyte_store::Error) -> Self {
        match error {
            firstbyte_store::Error::Changed { location, expected, found } => {
                Self::Changed { location, expected: expected.to_string(), found: found.to_string() }
            }
            other => Self::Store(std::sync::Arc::new(other)),
        }
    }
}

/// Result of an operation here.
pub type Result<T> = std::result::Result<T, Error>;
