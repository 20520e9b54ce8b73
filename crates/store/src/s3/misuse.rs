//! Describes a setting that cannot be used. `profile`, `settings` and `endpoints` report it.

use crate::error::Error;

/// A setting that cannot be used, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Misuse {
    pub(super) what: String,
    pub(super) why: String,
}

impl From<Misuse> for Error {
    fn from(Misuse { what, why }: Misuse) -> Self {
        Self::Options { what, why }
    }
}
