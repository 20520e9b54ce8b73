//! Keeps the sessions of browsers, and parses the two headers by which a plain request names its
//! key: HTTP Basic and the session cookie.
//!
//! A session is a random token, held in memory only. Called by the server's state and by the
//! sign-in page.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use base64::Engine;
use rustix_futex_sync::Mutex;

use crate::token::random_token;

/// Prefix of the name of the cookie that holds a browser session.
pub(crate) const SESSION_COOKIE: &str = "firstbyte_session";

/// Lifetime of a session: a working day. After it, the user has to sign in again.
const SESSION_LIFETIME: Duration = Duration::from_secs(12 * 3600);

/// Maximum number of sessions, about 100 bytes each.
const MAX_SESSIONS: usize = 10_000;

/// Browser sessions: random tokens, held in memory only.
#[derive(Default)]
pub(crate) struct BrowserSessions {
    by_token: Mutex<HashMap<String, (String, Instant)>>,
}

impl std::fmt::Debug for BrowserSessions {
    /// Omits the tokens, because each is as good as a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

impl BrowserSessions {
    /// Begins a session for the holder of `access_key`. Returns the cookie's value. If there are
    /// [`MAX_SESSIONS`] valid sessions, ends all of them first.
    pub(crate) fn begin(&self, access_key: &str) -> String {
        let token = random_token();
        let now = Instant::now();
        let mut by_token = self.by_token.lock();
        if by_token.len() >= MAX_SESSIONS {
            by_token.retain(|_, (_, since)| now.duration_since(*since) < SESSION_LIFETIME);
        }
        if by_token.len() >= MAX_SESSIONS {
            by_token.clear();
        }
        by_token.insert(token.clone(), (access_key.to_owned(), now));
        token
    }

    /// Ends the session with this token.
    pub(crate) fn end(&self, token: &str) {
        self.by_token.lock().remove(token);
    }

    /// Returns the access key of a session, or `None` if there is no such session.
    pub(crate) fn holder(&self, token: &str) -> Option<String> {
        let by_token = self.by_token.lock();
        let (access_key, since) = by_token.get(token)?;
        (since.elapsed() < SESSION_LIFETIME).then(|| access_key.clone())
    }
}

/// Parses an `Authorization: Basic` value into access key and secret.
pub(crate) fn parse_basic(authorization: &str) -> Option<(String, String)> {
    let (scheme, encoded) = authorization.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = base64::engine::general_purpose::STANDARD.decode(encoded.trim()).ok()?;
    let text = String::from_utf8(decoded).ok()?;
    let (access_key, secret) = text.split_once(':')?;
    Some((access_key.to_owned(), secret.to_owned()))
}

/// Finds the value of cookie `name` in a `Cookie` header.
pub(crate) fn cookie_value<'a>(header: &'a str, name: &str) -> Option<&'a str> {
    header
        .split(';')
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ending_a_session_makes_it_invalid() {
        let sessions = BrowserSessions::default();
        let token = sessions.begin("alice");
        assert_eq!(sessions.holder(&token).as_deref(), Some("alice"));
        sessions.end(&token);
        assert_eq!(sessions.holder(&token), None);
    }
}
