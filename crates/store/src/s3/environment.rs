//! Reads AWS's environment variables, for `credentials`, `profile` and `settings`.

use std::env;

use super::key::AccessKey;
use crate::options::StoreOptions;

/// Returns the value of a variable, if it is set and not empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the keys in environment variables. They take precedence over other sources, unless the
/// options name a profile.
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

/// The place in which a setting was found. Settings may be in variables and in profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SettingSource {
    /// The variable that applies to S3 only.
    ServiceVariable,
    /// The variable that applies to all services.
    Variable,
    /// The `[services]` section that the profile names.
    Services,
    /// The profile.
    Profile,
}

/// The names under which a setting may be found in variables and in profiles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    /// The variable that applies to all services. The variable for S3 has the suffix `_S3`.
    pub(super) variable: Option<&'static str>,
    /// The key in a profile.
    pub(super) key: &'static str,
}
