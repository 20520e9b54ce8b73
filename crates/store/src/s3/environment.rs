//! Reads AWS's environment variables, for `credentials`, `profile` and `settings`.

use std::env;

use super::key::AccessKey;
use crate::dates;
use crate::options::StoreOptions;

/// Returns the value of a variable, if it is set and not blank.
pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().and_then(stated)
}

/// Returns the value of a variable without the white space around it, unless the value is blank.
/// Files and secrets of Kubernetes from which keys are taken often end with a line break
/// (<https://github.com/kubernetes/kubernetes/issues/23404>,
/// <https://github.com/argoproj/argo-workflows/issues/981>, as of 28 November 2026).
pub(super) fn stated(value: String) -> Option<String> {
    match value.trim() {
        "" => None,
        trimmed if trimmed.len() < value.len() => Some(trimmed.to_owned()),
        _ => Some(value),
    }
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
        // Older programs set the second one.
        session_token: variable("AWS_SESSION_TOKEN").or_else(|| variable("AWS_SECURITY_TOKEN")),
        // `aws configure export-credentials` sets it.
        expiry: variable("AWS_CREDENTIAL_EXPIRATION").as_deref().and_then(dates::rfc3339),
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
