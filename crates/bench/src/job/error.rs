//! Errors of jobs, of the data they check, and of fio. The engine records such an error as the
//! outcome of a run.

use std::io;
use std::path::Path;

use firstbyte_location::shown;

/// The result of a job or a part of it.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason for which a job failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The description of the job contradicts itself or lacks a parameter.
    #[error("{what}")]
    Job {
        /// The mistake, and what to write instead.
        what: String,
    },
    /// A file, a directory or a process.
    #[error("{place}: {cause}")]
    Io {
        /// Its path or name.
        place: String,
        /// The kernel's error.
        cause: io::Error,
    },
    /// The library could not open, list or copy; the message names the place.
    #[error(transparent)]
    Library(#[from] firstbyte::Error),
    /// A local directory could not be listed.
    #[error(transparent)]
    Listing(#[from] firstbyte_listing::Error),
    /// The target is not what the job needs: too short, empty, fewer files than stated.
    #[error("{place}: {what}")]
    Target {
        /// The target, or the object in it.
        place: String,
        /// The content that was found and the content that is needed.
        what: String,
    },
    /// The bytes are not those that were made.
    #[error("{place}: wrong content{}", offset.map_or_else(String::new, |at| format!(" at byte {at}")))]
    Content {
        /// The object or file.
        place: String,
        /// Offset of the first wrong byte, if it was looked for.
        offset: Option<u64>,
    },
    /// A program that is needed is missing.
    #[error("{program} is not installed; install the package {package} (apt-get install {package})")]
    Missing {
        /// Name of the program.
        program: &'static str,
        /// Debian's package.
        package: &'static str,
    },
    /// A program failed.
    #[error("{program}: {what}")]
    Program {
        /// Its name.
        program: String,
        /// The way in which it ended, and the last line that it printed.
        what: String,
    },
}

impl Error {
    /// An error of the operating system at `path`.
    pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self + use<'_> {
        move |cause| Self::Io { place: shown(path).to_string(), cause }
    }

    /// A job that cannot be run as it is described.
    pub(crate) fn job(what: impl Into<String>) -> Self {
        Self::Job { what: what.into() }
    }

    /// A target that is not what the job needs.
    pub(crate) fn target(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Target { place: place.into(), what: what.into() }
    }

    /// True if bytes were delivered and are wrong, which is worse than a failure.
    #[must_use]
    pub fn is_wrong_content(&self) -> bool {
        matches!(self, Self::Content { .. })
    }
}

impl From<firstbyte_store::Error> for Error {
    fn from(error: firstbyte_store::Error) -> Self {
        Self::Library(error.into())
    }
}
