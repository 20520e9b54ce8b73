//! Reads AWS's environment variables. Called by `credentials`, `profile` and `settings`.

use std::env;

use super::key::AccessKey;
use crate::options::StoreOptions;

/// Returns the value of a variable that is set and not empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the keys in variables. They take precedence unless the options name a profile.
pub(super) fn from_variables(options: &StoreOptions) -> Option<AccessKey> {
    if options.profile.is_some() {
        return None;
    }
    Some(AccessKey {
        id: variable("AWS_ACCESS_KEY_ID")?,
        secret: variable("AWS_SECRET_ACCESS_KEY")?,
        session_token: variable("AWS_SESSION_TOKEN"),
        expiry: None,
    })
}

/// The source of a setting that may be in variables and in profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SettingSource {
    /// The variable for S3 only.
    ServiceVariable,
    /// The variable for all services.
    Variable,
    /// The `[services]` section that the profile names.
    Services,
    /// The profile.
    Profile,
}

/// The names of a setting that may be in variables and in profiles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    /// The variable for all services. The one for S3 ends in `_S3`.
    pub(super) variable: Option<&'static str>,
    /// The key in a profile.
    pub(super) key: &'static str,
}
