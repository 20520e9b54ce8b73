//! Errors that prevent or stop a measurement.

use std::io;
use std::path::PathBuf;

use crate::result;

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a measurement cannot begin or continue. The failure of a contender is not an
/// error, but the outcome of its run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read, written or made.
    #[error("{}: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        cause: io::Error,
    },
    /// The plan is malformed or contradicts itself.
    #[error("{plan}: {what}")]
    Plan {
        /// The plan's file or name.
        plan: String,
        /// The mistake and its place.
        what: String,
    },
    /// A target is missing, empty, or cannot be read.
    #[error("{location}: {what}")]
    Target {
        /// The target as it was given.
        location: String,
        /// The mistake and its remedy.
        what: String,
    },
    /// A service did not become ready, or ended early.
    #[error("service {name}: {what}")]
    Service {
        /// Name of the service in the plan.
        name: String,
        /// The failure, with the last line of the service's log.
        what: String,
    },
    /// A command that prepares data failed.
    #[error("{command}: {what}")]
    Prepare {
        /// The command line.
        command: String,
        /// The exit code and the last line of the command's output.
        what: String,
    },
    /// A results file is malformed, or was written by a newer version.
    #[error("{}: {cause}", path.display())]
    Results {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: result::Error,
    },
    /// Another measurement writes the results file.
    #[error("{}: another measurement writes this file; name another one with --out", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// A results file has other cases than the plan that would continue it.
    #[error("{}: these are results of another command line; write to another file or remove it", path.display())]
    OtherPlan {
        /// The file.
        path: PathBuf,
    },
    /// Limits on memory or processors cannot be set. The text names the group, the reason and the
    /// remedy.
    #[error("{0}")]
    Limits(String),
    /// The user stopped the measurement.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Returns the error for a mistake in a case of a plan.
    pub(crate) fn in_case(plan: &str, case: &str, what: impl std::fmt::Display) -> Self {
        Self::Plan { plan: plan.to_owned(), what: format!("case {case}: {what}") }
    }

    /// Returns a function that makes a file error with this path.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        |cause| Self::File { path, cause }
    }
}
