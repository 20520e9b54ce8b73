//! Helpers for AWS's asynchronous code: a runtime, and its errors in one line. Called by `chain`
//! and `profile`.

use tokio::runtime::Runtime;

pub(super) fn runtime() -> std::result::Result<Runtime, String> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())
}

/// Returns an error with its causes in one line. The chain's outermost message is too general.
pub(super) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    // The chain lists all its attempts over several lines, most of them sources that are not set
    // up.
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
