//! Signing in from a browser: key and secret once, then a session cookie that scripts cannot read and other sites
//! cannot send. Wrong secrets are counted by address, so that guessing is slow.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::StatusCode;
use http::header::{COOKIE, LOCATION, SET_COOKIE};

use super::shell;
use crate::auth::{SESSION_COOKIE, cookie};
use crate::config::Authentication;
use crate::request::{Request, query_pairs};
use crate::response::Response;
use crate::site::Site;

/// Wrong secrets an address may send within [`WINDOW`]: plenty for typing errors, useless for guessing.
const MOST_FAILURES: u32 = 10;
/// How long they are remembered.
const WINDOW: Duration = Duration::from_secs(60);
/// Addresses remembered at once; some 40 bytes each.
const MOST_ADDRESSES: usize = 10_000;
/// Longest form read: a key, a secret and a path fit well.
const LONGEST_FORM: usize = 16 << 10;

/// Wrong secrets of late, by address.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    failures: Mutex<HashMap<IpAddr, (u32, Instant)>>,
}

impl Attempts {
    fn allowed(&self, from: IpAddr) -> bool {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.get(&from).is_none_or(|(count, since)| *count < MOST_FAILURES || since.elapsed() > WINDOW)
    }

    fn failed(&self, from: IpAddr) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= MOST_ADDRESSES {
            failures.retain(|_, (_, since)| since.elapsed() <= WINDOW);
        }
        if failures.len() >= MOST_ADDRESSES {
            failures.clear();
        }
        let (count, since) = failures.entry(from).or_insert((0, Instant::now()));
        if since.elapsed() > WINDOW {
            (*count, *since) = (0, Instant::now());
        }
        *count += 1;
    }
}

/// Takes the form: on the right secret a session and the way back, else the form again.
pub(super) async fn sign_in(site: &Site, mut request: Request) -> Response {
    let base = &site.config.base_path;
    let Ok(form) = request.body.collect(LONGEST_FORM).await else {
        return Response::text(StatusCode::BAD_REQUEST, "the form is too long or was cut off");
    };
    let form = String::from_utf8_lossy(&form).into_owned();
    let field = |name: &str| {
        query_pairs(&form).find(|(key, _)| key == name).map(|(_, value)| value).unwrap_or_default()
    };
    let next = field("next");
    let next = if is_local(&next) { next.as_str() } else { "/" };
    let from = request.peer.ip();
    let Authentication::Keys(keys) = &site.config.authentication else { return go_to(base, next) };
    if !site.page.attempts.allowed(from) {
        let problem = "Too many wrong secrets from your address. Wait a minute, then try again.";
        let mut answer = shell::login(base, next, Some(problem));
        answer.status = StatusCode::TOO_MANY_REQUESTS;
        return answer;
    }
    let Some(key) = keys.check(&field("key"), &field("secret")) else {
        site.page.attempts.failed(from);
        return shell::login(base, next, Some("That key and secret do not belong together."));
    };
    let token = site.sessions.begin(&key.access_key);
    go_to(base, next).with_header(SET_COOKIE, set_cookie(site, &token, ""))
}

/// Ends the session, here and in the browser.
pub(super) fn sign_out(site: &Site, request: &Request) -> Response {
    if let Some(token) = request.header(COOKIE).and_then(|header| cookie(header, SESSION_COOKIE)) {
        site.sessions.end(token);
    }
    go_to(&site.config.base_path, "/.firstbyte/login")
        .with_header(SET_COOKIE, set_cookie(site, "", "; Max-Age=0"))
}

/// Without Max-Age the cookie also ends with the browser; the server ends the session in any case.
fn set_cookie(site: &Site, token: &str, more: &str) -> String {
    let secure = if site.config.tls.is_some() { "; Secure" } else { "" };
    format!(
        "{SESSION_COOKIE}={token}; Path={}/; HttpOnly; SameSite=Strict{secure}{more}",
        site.config.base_path
    )
}

fn go_to(base: &str, next: &str) -> Response {
    Response::new(StatusCode::SEE_OTHER).with_header(LOCATION, format!("{base}{next}"))
}

/// Whether `next` is a path on this server: browsers read `//x` and `/\x` as another host.
fn is_local(next: &str) -> bool {
    next.starts_with('/') && !next[1..].starts_with(['/', '\\']) && !next.contains(|c: char| c.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_stays_on_this_server() {
        for local in ["/", "/a/b?format=ndjson", "/a//b"] {
            assert!(is_local(local), "{local}");
        }
        for other in
            ["", "https://evil.example", "//evil.example", "/\\evil.example", "/\t/evil.example", "a"]
        {
            assert!(!is_local(other), "{other:?}");
        }
    }

    #[test]
    fn guessing_is_stopped_for_its_address_only() {
        let attempts = Attempts::default();
        let (guesser, other) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2]));
        for _ in 0..MOST_FAILURES {
            assert!(attempts.allowed(guesser));
            attempts.failed(guesser);
        }
        assert!(!attempts.allowed(guesser));
        assert!(attempts.allowed(other));
    }
}
