//! Reads AWS's environment variables, and provides a runtime for AWS's asynchronous code. Called by
//! `credentials` and `profile`.

use std::env;

use aws_credential_types::Credentials;
use tokio::runtime::Runtime;

use crate::Options;

/// The value of a variable that is set and not empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Keys in variables, which take precedence unless the options name a profile.
pub(super) fn from_variables(options: &Options) -> Option<Credentials> {
    if options.profile.is_some() {
        return None;
    }
    let key = variable("AWS_ACCESS_KEY_ID")?;
    let secret = variable("AWS_SECRET_ACCESS_KEY")?;
    Some(Credentials::new(key, secret, variable("AWS_SESSION_TOKEN"), None, "environment"))
}

/// A runtime on the current thread.
pub(super) fn runtime() -> std::result::Result<Runtime, String> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())
}

/// An error with its causes in one line: the chain's outermost message alone is too general.
pub(super) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    // The chain lists all that it tried, over several lines; most of it was not set up.
    let Some((_, tried)) = text.split_once("Attempted:") else { return text };
    let failed =
        tried.lines().map(str::trim).filter(|line| !line.is_empty() && !line.contains("not enabled"));
    match failed.collect::<Vec<_>>().join("; ") {
        none if none.is_empty() => {
            "none in variables, profiles, and roles of a container or an instance".into()
        }
        failed => failed,
    }
}
