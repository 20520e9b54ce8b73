//! Defines the errors of a probe. Each error names the location and the kind that receipts print,
//! and may advise a remedy.

use std::borrow::Cow;

use firstbyte_location::Location;
use firstbyte_store::{Error as StoreError, FailureKind};

/// An error of a probe.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store reports an error.
    #[error(transparent)]
    Store(#[from] firstbyte_store::Error),
    /// A local directory cannot be listed.
    #[error(transparent)]
    Listing(firstbyte_listing::Error),
    /// A local file cannot be opened or read.
    #[error("{location}: {source}")]
    Io {
        /// The file.
        location: String,
        /// The cause.
        source: std::io::Error,
    },
    /// Names cannot be listed, so no object to read is known.
    #[error("{location}: nothing to measure, its names cannot be listed ({why})")]
    NotListed {
        /// The location.
        location: String,
        /// The reason.
        why: String,
        /// The kind of the failure.
        kind: FailureKind,
    },
    /// The content cannot be read.
    #[error("{location}: nothing to measure, its content cannot be read ({why})")]
    NotRead {
        /// The location.
        location: String,
        /// The reason.
        why: String,
    },
    /// There is no object with content.
    #[error("{location}: nothing to measure, no object with content is there")]
    Empty {
        /// The location.
        location: String,
    },
    /// The budget does not suffice for the first requests.
    #[error("{location}: the budget ended before anything was measured")]
    Budget {
        /// The location.
        location: String,
    },
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn io(location: &Location, source: std::io::Error) -> Self {
        Self::Io { location: location.to_string(), source }
    }

    /// Returns the kind of the failure, as receipts print it.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Store(error) => error.kind(),
            Self::Listing(_) => FailureKind::Io,
            Self::Io { source, .. } => FailureKind::of_io(source),
            Self::NotListed { kind, .. } => *kind,
            Self::NotRead { .. } => FailureKind::Denied,
            Self::Empty { .. } => FailureKind::NotFound,
            Self::Budget { .. } => FailureKind::BadInput,
        }
    }

    /// Returns a remedy, as one clause. `None` if none is known.
    #[must_use]
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        let advice = match self {
            Self::NotListed { location, kind, .. } if kind.is_absence() => {
                return StoreError::NotFound { location: location.clone(), trace: None }.advice();
            }
            Self::NotListed { .. } => "name one large object of it instead",
            Self::NotRead { .. } => "check the rights of this user or role",
            Self::Empty { .. } => "name a place with data, or let the probe write with --write",
            Self::Budget { .. } => "raise --budget or --time",
            _ => return None,
        };
        Some(advice.into())
    }
}
