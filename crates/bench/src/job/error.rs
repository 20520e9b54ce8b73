//! Errors of jobs, of test data, and of fio. The engine records such an error as the outcome of a
//! run.

use std::io;
use std::path::Path;

use firstbyte_location::shown;

/// The result of a job or a part of it.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a job failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The description of the job is contradictory or incomplete.
    #[error("{what}")]
    Job {
        /// The mistake and its correction.
        what: String,
    },
    /// An operation on a file, a directory or a process failed.
    #[error("{place}: {cause}")]
    Io {
        /// Path or name.
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
    /// The target does not fit the job: it is too short or empty, or has fewer files than stated.
    #[error("{place}: {what}")]
    Target {
        /// The target, or the object in it.
        place: String,
        /// The content found and the content required.
        what: String,
    },
    /// The content differs from the generated data.
    #[error("{place}: wrong content{}", offset.map_or_else(String::new, |at| format!(" at byte {at}")))]
    Content {
        /// The object or file.
        place: String,
        /// Offset of the first wrong byte, if known.
        offset: Option<u64>,
    },
    /// A required program is not installed.
    #[error("{program} is not installed; install the package {package} (apt-get install {package})")]
    Missing {
        /// Name of the program.
        program: &'static str,
        /// Name of Debian's package.
        package: &'static str,
    },
    /// A program failed.
    #[error("{program}: {what}")]
    Program {
        /// Name of the program.
        program: String,
        /// The exit status and the last line of output.
        what: String,
    },
}

impl Error {
    /// Returns a function that makes an error of the operating system at `path`.
    pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self + use<'_> {
        move |cause| Self::Io { place: shown(path).to_string(), cause }
    }

    /// Returns the error for a job that cannot be run as described.
    pub(crate) fn job(what: impl Into<String>) -> Self {
        Self::Job { what: what.into() }
    }

    /// Returns the error for a target that does not fit the job.
    pub(crate) fn target(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Target { place: place.into(), what: what.into() }
    }

    /// True if wrong bytes were delivered, which is worse than a failure.
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
