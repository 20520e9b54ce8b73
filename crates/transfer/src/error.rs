//! Defines the errors of transfers: errors of the stores, and other reasons why a run ends or an
//! object fails.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use firstbyte_location::{ChecksumError, Location, Version, shown};
use firstbyte_store::{Error as StoreError, FailureKind, Trace, difference, is_full};

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a transfer, or one object of a transfer, has failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A store returned an error. Its message names the location.
    #[error(transparent)]
    Store(#[from] firstbyte_store::Error),
    /// The run was stopped ([`Stop`](crate::Stop)). The bytes that have arrived are kept, so the
    /// same copy resumes from there.
    #[error("interrupted; run it again to resume")]
    Interrupted,
    /// The run's deadline has passed. The bytes that have arrived are kept.
    #[error("not done within the deadline of {after:?}; run it again to resume")]
    Deadline {
        /// The deadline.
        after: Duration,
    },
    /// The source has no objects, so a sync would delete everything at the destination.
    #[error("{location}: is empty; nothing was deleted")]
    EmptySource {
        /// The location of the source.
        location: String,
    },
    /// The source could not be listed completely, so a sync cannot determine which names only the
    /// destination has.
    #[error(
        "kept {kept} of the destination's objects: part of the source could not be listed, and may still have them"
    )]
    ExtrasKept {
        /// Number of objects that only the destination seems to have. They were kept, because the
        /// source may have them too.
        kept: u64,
    },
    /// The source has another version than the one to copy, which a manifest or the caller names.
    #[error("{location}: changed since it was planned{}", difference(.expected, .found))]
    Replaced {
        /// The location of the object.
        location: String,
        /// The version to copy.
        expected: Box<Version>,
        /// The version that the store has now.
        found: Box<Version>,
    },
    /// Two locations are the same place under different names, or one contains the other: a marker
    /// file created in one of them appeared in the other.
    #[error("{place} and {other} are the same place, or one contains the other: nothing was deleted")]
    OnePlace {
        /// The directory in which the marker was created.
        place: String,
        /// The location at which the marker appeared.
        other: String,
    },
    /// The test whether two locations are different places has failed. The test creates a marker
    /// file in one of them and looks for it in the other.
    #[error("{other} may be another name of {place}, which could not be tested ({why}): nothing was deleted")]
    Unproven {
        /// The directory in which the marker was created, or should have been.
        place: String,
        /// The location at which the marker must not appear.
        other: String,
        /// The reason why the test failed.
        why: String,
    },
    /// The request cannot be carried out for this location.
    #[error("{location}: {why}")]
    Invalid {
        /// The location.
        location: String,
        /// The reason, and advice.
        why: String,
    },
    /// An operation on a file of this process, such as a journal, failed.
    #[error("{what}: {source}")]
    Io {
        /// The file or the operation.
        what: String,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// An operation on a temporary file failed.
    #[error("a temporary file in {directory}: {source}")]
    Temporary {
        /// The directory of temporary files.
        directory: String,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The caller's stream failed, from which data is read or to which data is written.
    #[error("{end} the stream: {source}")]
    Stream {
        /// Direction in which the stream was used.
        end: StreamEnd,
        /// The error of the stream.
        source: std::io::Error,
    },
}

/// The direction in which a caller's stream is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// Data is read from the stream.
    Input,
    /// Data is written to the stream.
    Output,
}

impl fmt::Display for StreamEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Input => "reading",
            Self::Output => "writing",
        })
    }
}

impl From<ChecksumError> for Error {
    fn from(error: ChecksumError) -> Self {
        Self::Store(error.into())
    }
}

impl Error {
    /// Returns advice for the user, if there is any.
    #[must_use]
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        let advice = match self {
            Self::Store(error) => return error.advice(),
            Self::Replaced { .. } => "plan again to copy the new version",
            Self::Deadline { .. } => "give a longer --deadline",
            Self::ExtrasKept { .. } => "fix or exclude what could not be listed, and sync again",
            Self::OnePlace { .. } => "name another destination",
            Self::Unproven { .. } => "copy with cp, compare with check, and then rm the source",
            Self::EmptySource { .. } => "check the name, or add --allow-empty to empty the destination",
            Self::Temporary { source, .. } if is_full(source) => "set TMPDIR to a directory with room",
            Self::Stream { end: StreamEnd::Output, source } if is_full(source) => {
                "free some space there, or name another destination"
            }
            _ => return None,
        };
        Some(advice.into())
    }

    /// Returns the kind of the failure.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Store(error) => error.kind(),
            Self::Interrupted => FailureKind::Interrupted,
            Self::Deadline { .. } => FailureKind::Deadline,
            Self::Replaced { .. } => FailureKind::Changed,
            Self::OnePlace { .. } | Self::Invalid { .. } => FailureKind::BadInput,
            Self::Io { source, .. } | Self::Temporary { source, .. } | Self::Stream { source, .. } => {
                FailureKind::of_io(source)
            }
            Self::EmptySource { .. } | Self::ExtrasKept { .. } | Self::Unproven { .. } => FailureKind::Failed,
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

    /// Returns whether the error ends the whole run, and not only one object. Includes the
    /// cancellation of a request, because requests are cancelled when a run ends.
    pub(crate) fn ends_run(&self) -> bool {
        let cancelled = matches!(self, Self::Store(StoreError::Cancelled));
        cancelled || matches!(self, Self::Interrupted | Self::Deadline { .. })
    }

    /// Returns whether a later run may succeed where this one failed.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_transient())
    }

    /// Returns whether a file system has no room left. If so, no other object would fit either.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Self::Store(error) => error.is_full_disk(),
            Self::Io { source, .. } | Self::Temporary { source, .. } | Self::Stream { source, .. } => {
                is_full(source)
            }
            _ => false,
        }
    }

    /// Returns whether the error is about a pair of locations and not about a single object.
    pub(crate) fn concerns_places(&self) -> bool {
        matches!(self, Self::OnePlace { .. } | Self::Unproven { .. })
    }

    /// Returns whether the length that the source stated was false. If so, the source is read once
    /// more, to its end.
    pub(crate) fn is_false_length(&self) -> bool {
        matches!(self, Self::Store(StoreError::FalseLength { .. }))
    }

    /// Returns a function that converts an I/O error and adds `what`, which names the file.
    pub(crate) fn io(what: impl std::fmt::Display) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { what: what.to_string(), source }
    }

    /// Converts the I/O error of a temporary file.
    pub(crate) fn temporary(source: std::io::Error) -> Self {
        Self::Temporary { directory: shown(&tempfile::env::temp_dir()).to_string(), source }
    }

    /// Returns a function that converts the I/O error of the caller's stream.
    pub(crate) fn stream(end: StreamEnd) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Stream { end, source }
    }

    /// Names the destination `path` in an I/O error of a local file, unless the source is local
    /// too.
    pub(crate) fn at_file(self, path: &Path, source: &Location) -> Self {
        match self {
            Self::Store(StoreError::Io { source: cause, .. }) if source.as_local().is_none() => {
                StoreError::Io { location: shown(path).to_string(), source: cause }.into()
            }
            other => other,
        }
    }

    pub(crate) fn invalid(location: &Location, why: impl Into<String>) -> Self {
        Self::Invalid { location: location.to_string(), why: why.into() }
    }
}

/// An object that could not be copied, deleted or compared, or a name that could not be listed.
#[derive(Debug)]
pub struct Failure {
    /// The location of the object, printable.
    pub location: String,
    /// The reason.
    pub error: Error,
}

impl Failure {
    /// Creates the failure of a name that the listing of `root` could not show. If the error ended
    /// the listing, the failure names the root.
    pub(crate) fn of_listing(root: &Location, error: StoreError) -> Self {
        let location = error.unlisted_name(root).map_or_else(|| root.to_string(), str::to_owned);
        Self { location, error: error.into() }
    }
}
