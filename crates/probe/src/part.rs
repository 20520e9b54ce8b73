//! The reason that ends a part of a probe early. A part keeps what it has measured until then.

use std::fmt;

use firstbyte_store::{Error as StoreError, FailureKind};

use crate::error::Error;

/// The reason that ends a part of a probe.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PartEnd {
    /// The time is over.
    Time,
    /// The next request would cost more than the budget.
    Money,
    /// The place asked to slow down.
    Throttled,
    /// The user ended the probe.
    Interrupted,
    /// Any other failure, in one line.
    Failed(String),
}

impl fmt::Display for PartEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time => f.write_str("the time was spent"),
            Self::Money => f.write_str("the budget was spent"),
            Self::Throttled => f.write_str("the place refused, and asked to slow down"),
            Self::Interrupted => f.write_str("interrupted"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

impl From<Error> for PartEnd {
    fn from(error: Error) -> Self {
        match &error {
            Error::Store(StoreError::Budget { .. }) => Self::Money,
            other => match other.kind() {
                FailureKind::Throttled => Self::Throttled,
                FailureKind::Interrupted => Self::Interrupted,
                _ => Self::Failed(error.to_string()),
            },
        }
    }
}

/// Returns true for a failure that concerns one object: another one may be readable.
pub(crate) fn concerns_object(error: &Error) -> bool {
    matches!(
        error.kind(),
        FailureKind::NotFound
            | FailureKind::Denied
            | FailureKind::Archived
            | FailureKind::Changed
            | FailureKind::Damaged
            | FailureKind::IsDirectory
            | FailureKind::Refused
            | FailureKind::Io
    )
}
