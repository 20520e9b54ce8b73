//! Defines the errors of a probe. Each error names the location and the kind that receipts print,
//! and may advise a remedy.

use std::borrow::Cow;

use firstbyte_location::Location;
use firstbyte_store::{Error as StoreError, FailureKind, io_advice};

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
    #[error("{location}: nothing to measure, its names cannot be listed ({})", refusal.why)]
    NotListed {
        /// The location.
        location: String,
        /// The cause.
        refusal: Refusal,
    },
    /// Content cannot be read.
    #[error("{location}: nothing to measure, its content cannot be read ({})", refusal.why)]
    NotRead {
        /// The location.
        location: String,
        /// The cause.
        refusal: Refusal,
    },
    /// A path names a device, a socket or a pipe.
    #[error("{location}: nothing to measure, it is neither a file nor a directory")]
    NotRegular {
        /// The location.
        location: String,
    },
    /// No object has content.
    #[error("{location}: nothing to measure, no object with content was found")]
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
    /// The user ended the probe before anything was measured.
    #[error("interrupted")]
    Interrupted,
}

/// The cause of a refusal: its line, its kind and its remedy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// The message, as one line.
    pub why: String,
    /// The kind of the failure.
    pub kind: FailureKind,
    /// The remedy, if one is known.
    pub advice: Option<String>,
    /// True if this user lacks a right, so another operation may be allowed.
    pub lacks_right: bool,
}

impl Refusal {
    pub(crate) fn of(error: &Error) -> Self {
        let lacks_right = match error {
            // The other codes are about the signature, the key or the clock.
            Error::Store(StoreError::Denied { detail, .. }) => {
                detail.starts_with("AccessDenied") || detail.starts_with("40")
            }
            other => other.kind() == FailureKind::Denied,
        };
        let advice = error.advice().map(Cow::into_owned);
        Self { why: error.to_string(), kind: error.kind(), advice, lacks_right }
    }

    /// Returns the same refusal, whose line does not begin with the location.
    pub(crate) fn without(&self, location: &str) -> Self {
        let rest = self.why.strip_prefix(location).and_then(|rest| rest.strip_prefix(": "));
        Self { why: rest.unwrap_or(&self.why).to_owned(), ..self.clone() }
    }

    /// Returns the remedy of the cause. If only a right is missing, adds `otherwise`.
    #[must_use]
    pub fn remedy(&self, otherwise: &str) -> Option<String> {
        match (&self.advice, self.lacks_right) {
            (Some(advice), true) => Some(format!("{advice}; or {otherwise}")),
            (None, true) => Some(otherwise.to_owned()),
            (advice, false) => advice.clone(),
        }
    }
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
            Self::NotListed { refusal, .. } | Self::NotRead { refusal, .. } => refusal.kind,
            Self::Empty { .. } => FailureKind::NotFound,
            Self::Budget { .. } | Self::NotRegular { .. } => FailureKind::BadInput,
            Self::Interrupted => FailureKind::Interrupted,
        }
    }

    /// Returns a remedy, as one clause. `None` if none is known.
    #[must_use]
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        let advice = match self {
            Self::Store(error) => return error.advice(),
            Self::Io { source, .. } => io_advice(source.kind())?,
            Self::NotListed { location, refusal } if refusal.kind.is_absence() => {
                return StoreError::NotFound { location: location.clone(), trace: None }.advice();
            }
            Self::NotListed { refusal, .. } => {
                return refusal.remedy("name one large object of it instead").map(Cow::Owned);
            }
            Self::NotRead { refusal, .. } => {
                return refusal.remedy("name an object that this user may read").map(Cow::Owned);
            }
            Self::NotRegular { .. } => "name a file or a directory",
            Self::Empty { .. } => "name a place with data, or let the probe write with --write",
            Self::Budget { .. } => "raise --budget",
            Self::Listing(_) | Self::Interrupted => return None,
        };
        Some(advice.into())
    }
}
