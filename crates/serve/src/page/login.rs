//! Signs users in from a browser. The form sends key and secret once, and the response sets a
//! session cookie that scripts cannot read and other sites cannot send. The browser is then
//! redirected to the page it requested. If it requested no page, or one that the key may not read,
//! it is redirected to the key's start directory.

use http::StatusCode;
use http::header::{COOKIE, LOCATION, RETRY_AFTER, SET_COOKIE};

use super::shell;
use crate::access::keys::RequestRights;
use crate::access::sessions::cookie_value;
use crate::config::{Authentication, Buckets};
use crate::http::request::{HttpRequest, query_pairs};
use crate::http::response::HttpResponse;
use crate::object::root::ServedRoot;
use crate::page::html::url_path;
use crate::path::EntryPath;
use crate::state::{ServerState, SignIn};

/// Maximum length of a form in bytes. A key, a secret and a path are far shorter.
const MAX_FORM_BYTES: usize = 16 << 10;

/// Checks the submitted form. If the secret is right, begins a session and redirects the browser.
/// Otherwise shows the form again.
pub(super) async fn sign_in(
    state: &ServerState,
    root: Option<&ServedRoot>,
    mut request: HttpRequest,
) -> HttpResponse {
    let base = &state.config.base_path;
    let Ok(form) = request.body.collect(MAX_FORM_BYTES).await else {
        return HttpResponse::text(StatusCode::BAD_REQUEST, "the form is too long or was cut off");
    };
    let form = String::from_utf8_lossy(&form).into_owned();
    let field = |name: &str| {
        query_pairs(&form).find(|(key, _)| key == name).map(|(_, value)| value).unwrap_or_default()
    };
    let next = field("next");
    let next = if is_local(&next) { next.as_str() } else { "/" };
    if matches!(state.config.authentication, Authentication::None) {
        return go_to(base, next);
    }
    let again = |problem: &str| shell::login(base, next, Some(problem), None);
    match state.sign_in(request.peer.ip(), &field("key"), &field("secret")) {
        SignIn::Key(key) => {
            let token = state.sessions.begin(&key.access_key);
            let access = RequestRights::Key(key);
            let next = if should_show(state, &access, next) {
                next.to_owned()
            } else {
                home(state, root, &access).await
            };
            go_to(base, &next).with_header(SET_COOKIE, set_cookie(state, &token, ""))
        }
        SignIn::Wrong => again("That key and secret do not belong together."),
        SignIn::Wait(wait) => {
            let seconds = (wait.as_secs() + 1).to_string();
            let problem = format!(
                "Too many wrong secrets of this key came from your address. Try again in {seconds} seconds."
            );
            let mut answer = again(&problem).with_header(RETRY_AFTER, seconds);
            answer.status = StatusCode::TOO_MANY_REQUESTS;
            answer
        }
    }
}

/// Returns whether to show `next`, the requested path on this server, after the sign-in: the key
/// may read it, and it is not the root. A browser asks for the root by default, and the key's own
/// start page is of more use.
fn should_show(state: &ServerState, access: &RequestRights, next: &str) -> bool {
    let path = next.split(['?', '#']).next().unwrap_or_default();
    let path = state.config.buckets.split(path).map_or(path, |(_, rest)| rest);
    EntryPath::from_url(path).is_ok_and(|path| !path.is_root() && access.reaches(&path.as_directory()))
}

/// Returns the start page of `access`, as a path on this server: the directory that contains all
/// paths of `access`, or its nearest existing parent. A gateway has no `root`, so there the
/// existence is not checked.
pub(super) async fn home(state: &ServerState, root: Option<&ServedRoot>, access: &RequestRights) -> String {
    let mut path = access.home();
    while let Some(root) = root.filter(|_| !path.is_root()) {
        let found = root.open_entry(&path).await.and_then(|entry| entry.metadata());
        if found.is_ok_and(|metadata| metadata.is_dir()) {
            break;
        }
        path = path.parent();
    }
    let bucket = match &state.config.buckets {
        Buckets::Named(name) if !path.is_root() => format!("/{}", url_path(name.as_bytes())),
        _ => String::new(),
    };
    format!("{bucket}/{}", url_path(&path.as_directory()))
}

/// Ends the session on the server and in the browser.
pub(super) fn sign_out(state: &ServerState, request: &HttpRequest) -> HttpResponse {
    if let Some(token) =
        request.header(COOKIE).and_then(|header| cookie_value(header, &state.session_cookie()))
    {
        state.sessions.end(token);
    }
    go_to(&state.config.base_path, "/.firstbyte/login")
        .with_header(SET_COOKIE, set_cookie(state, "", "; Max-Age=0"))
}

/// Sets the cookie without Max-Age, so that the cookie ends with the browser. The server ends the
/// session after its lifetime in any case.
fn set_cookie(state: &ServerState, token: &str, more: &str) -> String {
    let secure = if state.config.tls.is_some() { "; Secure" } else { "" };
    format!(
        "{}={token}; Path={}/; HttpOnly; SameSite=Strict{secure}{more}",
        state.session_cookie(),
        state.config.base_path
    )
}

fn go_to(base: &str, next: &str) -> HttpResponse {
    HttpResponse::new(StatusCode::SEE_OTHER).with_header(LOCATION, format!("{base}{next}"))
}

/// True if `next` is a path on this server. Browsers read `//x` and `/\x` as another host.
fn is_local(next: &str) -> bool {
    next.starts_with('/') && !next[1..].starts_with(['/', '\\']) && !next.contains(|c: char| c.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sign_in_redirects_only_to_this_server() {
        for local in ["/", "/a/b?format=ndjson", "/a//b"] {
            assert!(is_local(local), "{local}");
        }
        for other in
            ["", "https://evil.example", "//evil.example", "/\\evil.example", "/\t/evil.example", "a"]
        {
            assert!(!is_local(other), "{other:?}");
        }
    }
}
