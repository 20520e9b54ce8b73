//! Errors that prevent or stop a measurement.

use std::io;
use std::path::PathBuf;

use crate::result;

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason for which a measurement cannot begin or continue. A contender that fails is not an
/// error: its run has that outcome.
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
        /// Its name in the plan.
        name: String,
        /// The failure, with the last line of the service's log.
        what: String,
    },
    /// A command that prepares data failed.
    #[error("{command}: {what}")]
    Prepare {
        /// The command line.
        command: String,
        /// Its exit code and the last line that it printed.
        what: String,
    },
    /// A results file is malformed, newer, or of another plan.
    #[error("{}: {cause}", path.display())]
    Results {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: result::Error,
    },
    /// A results file has other cases than the plan that would continue it.
    #[error("{}: these are results of another command line; write to another file or remove it", path.display())]
    OtherPlan {
        /// The file.
        path: PathBuf,
    },
    /// Limits on memory or processors cannot be set: the group, the reason, and what to do.
    #[error("{0}")]
    Limits(String),
    /// The user stopped the measurement.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// A mistake in a case of a plan.
    pub(crate) fn in_case(plan: &str, case: &str, what: impl std::fmt::Display) -> Self {
        Self::Plan { plan: plan.to_owned(), what: format!("case {case}: {what}") }
    }

    /// A file error with its path.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        |cause| Self::File { path, cause }
    }
}
