//! Runs AWS's asynchronous code, and shortens its errors to one line. `chain` and `profile` call
//! this module.

use tokio::runtime::Runtime;

use crate::error::LOGIN_SESSION;

pub(super) fn runtime() -> std::result::Result<Runtime, String> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())
}

/// Smallest number of characters to show of an error's causes.
const MIN_CAUSE_CHARACTERS: usize = 40;

/// Returns an error and its causes in one line.
pub(super) fn describe(error: &dyn std::error::Error) -> String {
    chain_of(error).join(": ")
}

/// Returns the last cause of an error from the credential chain. If that is too short to be
/// understood alone, adds the causes before it. `None` if no source of credentials is configured.
pub(super) fn last_cause(error: &dyn std::error::Error) -> Option<String> {
    let causes = chain_of(error);
    // The chain lists all its attempts over several lines. Most are sources that are not
    // configured, and are left out.
    if let Some((_, tried)) = causes.join(": ").split_once("Attempted:") {
        let failed =
            tried.lines().map(str::trim).filter(|line| !line.is_empty() && !line.contains("not enabled"));
        let failed = failed.collect::<Vec<_>>().join("; ");
        return (!failed.is_empty()).then_some(failed);
    }
    let mut shown = String::new();
    for cause in causes.iter().rev() {
        shown = if shown.is_empty() { cause.clone() } else { format!("{cause}: {shown}") };
        if shown.len() >= MIN_CAUSE_CHARACTERS {
            break;
        }
    }
    // The chain names the feature of its library that it was built without.
    match shown.contains("credentials-login") {
        true => Some(LOGIN_SESSION.to_owned()),
        false => Some(shown.trim_end_matches('.').to_owned()),
    }
}

/// Returns the messages of an error and its causes, the outermost first.
fn chain_of(error: &dyn std::error::Error) -> Vec<String> {
    std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Failed(&'static str, #[source] Option<Box<Failed>>);

    fn nested(texts: &[&'static str]) -> Failed {
        let inner = texts[1..].first().map(|_| Box::new(nested(&texts[1..])));
        Failed(texts[0], inner)
    }

    #[test]
    fn only_the_last_cause_is_shown_unless_it_is_too_short() {
        let forbidden = "request forbidden: IMDS is disabled or the caller has insufficient permissions.";
        let error = nested(&["an error occurred while loading credentials", "service error", forbidden]);
        assert_eq!(last_cause(&error).as_deref(), Some(forbidden.trim_end_matches('.')));
        assert!(describe(&error).starts_with("an error occurred while loading credentials: service error: "));
        let short = nested(&["an error occurred", "the token file /run/token cannot be read", "denied"]);
        assert_eq!(last_cause(&short).as_deref(), Some("the token file /run/token cannot be read: denied"));
        let none =
            nested(&["no credentials. Attempted:\n  environment: not enabled\n  profile: not enabled"]);
        assert_eq!(last_cause(&none), None);
    }
}
