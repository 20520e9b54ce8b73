//! What can end a transfer, beyond what the stores themselves report.

use std::time::Duration;

use firstbyte_location::{ChecksumError, Location};

/// This crate's results.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a transfer, or one object of it, failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A store failed; the message names the place.
    #[error(transparent)]
    Store(#[from] firstbyte_store::Error),
    /// [`Stop`](crate::Stop) was called. What had arrived is kept, and the same copy resumes from there.
    #[error("interrupted; run it again to resume")]
    Interrupted,
    /// The whole run's deadline passed. What had arrived is kept.
    #[error("not done within the deadline of {after:?}; run it again to resume")]
    Deadline {
        /// The deadline.
        after: Duration,
    },
    /// A source without any object, which would leave nothing at the destination.
    #[error("{location}: holds no object, so nothing was deleted")]
    EmptySource {
        /// The source.
        location: String,
    },
    /// Something asked for that has no meaning here.
    #[error("{location}: {why}")]
    Invalid {
        /// The place.
        location: String,
        /// Why, and what to do instead.
        why: String,
    },
    /// A file of this process's own (journal, spool, standard input or output) failed.
    #[error("{what}: {source}")]
    Io {
        /// Which.
        what: String,
        /// The operating system's error.
        source: std::io::Error,
    },
}

impl From<ChecksumError> for Error {
    fn from(error: ChecksumError) -> Self {
        Self::Store(error.into())
    }
}

impl Error {
    /// What the user can try, where there is something.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Store(error) => error.advice(),
            Self::Deadline { .. } => Some("give a longer --deadline"),
            Self::EmptySource { .. } => {
                Some("check the name; --allow-empty deletes all that only the destination has")
            }
            _ => None,
        }
    }

    /// Whether the run as a whole has to end because of it, not only one object. A request is cancelled when its run ends.
    pub(crate) fn ends_run(&self) -> bool {
        let cancelled = matches!(self, Self::Store(firstbyte_store::Error::Cancelled));
        cancelled || matches!(self, Self::Interrupted | Self::Deadline { .. })
    }

    /// Wraps an I/O error with the file it happened to.
    pub(crate) fn io(what: impl std::fmt::Display) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { what: what.to_string(), source }
    }

    pub(crate) fn invalid(location: &Location, why: impl Into<String>) -> Self {
        Self::Invalid { location: location.to_string(), why: why.into() }
    }
}

/// One object that could not be copied or deleted.
#[derive(Debug)]
pub struct Failure {
    /// Its location, printable.
    pub location: String,
    /// Why.
    pub error: Error,
}
