//! Describes a setting that cannot be used. `profile`, `settings` and `endpoints` report it.

use crate::error::Error;

/// A setting that cannot be used, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnusableSetting {
    pub(super) what: String,
    pub(super) why: String,
}

impl From<UnusableSetting> for Error {
    fn from(UnusableSetting { what, why }: UnusableSetting) -> Self {
        Self::Options { what, why }
    }
}
