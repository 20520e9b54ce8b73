//! Errors of transfers: those of the stores, and other reasons for which a run ends or an object
//! fails.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use firstbyte_location::{ChecksumError, Location, Version, shown};
use firstbyte_store::{Error as StoreError, FailureKind, Trace, difference, is_full};

/// This crate's results.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason for which a transfer, or one object of it, failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A store failed; the message names the place.
    #[error(transparent)]
    Store(#[from] firstbyte_store::Error),
    /// The run was stopped ([`Stop`](crate::Stop)). The bytes that arrived are kept, and the same
    /// copy resumes from there.
    #[error("interrupted; run it again to resume")]
    Interrupted,
    /// The run's deadline passed. The bytes that arrived are kept.
    #[error("not done within the deadline of {after:?}; run it again to resume")]
    Deadline {
        /// The deadline.
        after: Duration,
    },
    /// The source has no object, so a sync would delete all of the destination.
    #[error("{location}: is empty; nothing was deleted")]
    EmptySource {
        /// The source.
        location: String,
    },
    /// The source could not be listed completely, so a sync cannot determine which names are extra.
    #[error(
        "kept {kept} of the destination's objects: part of the source could not be listed, and may still have them"
    )]
    ExtrasKept {
        /// Objects that only the destination has, by the incomplete listing.
        kept: u64,
    },
    /// The object's version differs from the manifest's.
    #[error("{location}: changed since it was planned{}", difference(.expected, .found))]
    Replaced {
        /// The object.
        location: String,
        /// The version in the manifest.
        expected: Box<Version>,
        /// The version found.
        found: Box<Version>,
    },
    /// Two locations are one place, or one lies in the other, under another name.
    #[error("{place} and {other} are the same place, or one contains the other: nothing was deleted")]
    OnePlace {
        /// The directory with the marker.
        place: String,
        /// The location at which it appeared.
        other: String,
    },
    /// It could not be tested whether two locations are different places.
    #[error("{other} may be another name of {place}, which could not be tested ({why}): nothing was deleted")]
    Unproven {
        /// The directory in which a marker was to be created.
        place: String,
        /// The location at which it was not to appear.
        other: String,
        /// The error.
        why: String,
    },
    /// The request makes no sense for this place.
    #[error("{location}: {why}")]
    Invalid {
        /// The place.
        location: String,
        /// The reason, and a remedy.
        why: String,
    },
    /// A file of this process, such as a journal, failed.
    #[error("{what}: {source}")]
    Io {
        /// The file.
        what: String,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// A temporary file failed.
    #[error("a temporary file in {directory}: {source}")]
    Temporary {
        /// The directory of temporary files.
        directory: String,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The caller's stream, from which data is read or to which it is written, failed.
    #[error("{end} the stream: {source}")]
    Stream {
        /// The direction.
        end: StreamEnd,
        /// The stream's error.
        source: std::io::Error,
    },
}

/// The direction of a caller's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// Data is read from it.
    Input,
    /// Data is written to it.
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
    /// A remedy that the user can try, if one is known.
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

    /// The kind of the failure.
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

    /// The request that failed, where there was one.
    #[must_use]
    pub fn trace(&self) -> Option<&Trace> {
        match self {
            Self::Store(error) => error.trace(),
            _ => None,
        }
    }

    /// Whether the error ends the whole run, not only one object. The end of a run cancels its
    /// requests.
    pub(crate) fn ends_run(&self) -> bool {
        let cancelled = matches!(self, Self::Store(StoreError::Cancelled));
        cancelled || matches!(self, Self::Interrupted | Self::Deadline { .. })
    }

    /// Whether a later run may succeed where this one failed.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_transient())
    }

    /// Whether a file system has no room left: no other object would fit either.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Self::Store(error) => error.is_full_disk(),
            Self::Io { source, .. } | Self::Temporary { source, .. } | Self::Stream { source, .. } => {
                is_full(source)
            }
            _ => false,
        }
    }

    /// Whether the error concerns two places rather than one object.
    pub(crate) fn concerns_places(&self) -> bool {
        matches!(self, Self::OnePlace { .. } | Self::Unproven { .. })
    }

    /// Whether the source's stated length was false: it is then read once more, to its end.
    pub(crate) fn is_false_length(&self) -> bool {
        matches!(self, Self::Store(StoreError::FalseLength { .. }))
    }

    /// Adds the name of the file to an I/O error.
    pub(crate) fn io(what: impl std::fmt::Display) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { what: what.to_string(), source }
    }

    /// Converts the error of a temporary file.
    pub(crate) fn temporary(source: std::io::Error) -> Self {
        Self::Temporary { directory: shown(&tempfile::env::temp_dir()).to_string(), source }
    }

    /// Converts the error of the caller's stream.
    pub(crate) fn stream(end: StreamEnd) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Stream { end, source }
    }

    /// Names the destination `path` in a local I/O error, unless `source` is local too.
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

/// One object that could not be copied or deleted.
#[derive(Debug)]
pub struct Failure {
    /// The object's location, printable.
    pub location: String,
    /// The error.
    pub error: Error,
}
