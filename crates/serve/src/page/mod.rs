//! Answers browsers with pages: the directory page, uploads and changes from that page, and
//! sign-in.
//!
//! The page is a small shell ([`shell`]) whose script reads the same NDJSON listing as other
//! programs. Only the visible rows are in the document, so the page opens fast for any number of
//! entries. The reserved path `/.firstbyte/` has the worker script, the [`mod@login`] form, the
//! upload [`protocol`], the [`changes`] of entries and the [`links`] to them. The protocol and the
//! changes call [`upload`] and [`entries`], which do not depend on HTTP.

mod changes;
mod entries;
pub(crate) mod html;
mod links;
mod login;
mod protocol;
pub(crate) mod rows;
mod shell;
mod upload;

use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, LOCATION};
use http::{Method, StatusCode};

use crate::access::keys::RequestRights;
use crate::config::Buckets;
use crate::http::refusal;
use crate::http::request::HttpRequest;
use crate::http::response::HttpResponse;
use crate::object::root::ServedRoot;
use crate::page::rows::PageRow;
use crate::path::EntryPath;
use crate::state::{DirectoryState, ServerState};

/// Makes the page of the directory `path`, which `access` may list.
pub(crate) async fn directory(
    state: &DirectoryState,
    request: &HttpRequest,
    path: &EntryPath,
    access: &RequestRights,
) -> HttpResponse {
    let (root, below, reader) = (state.root.clone(), path.clone(), access.clone());
    let rows = match tokio::task::spawn_blocking(move || rows::first(&root, &below, &reader)).await {
        Ok(Ok(rows)) => rows,
        Ok(Err(error)) => return refusal::of_io_error(&error),
        Err(stopped) => return refusal::of_io_error(&std::io::Error::other(stopped)),
    };
    let writing = if state.writable(access, path).is_some() {
        shell::PageWriting::Offered { kept: state.config.limits.abandoned }
    } else {
        shell::PageWriting::Hidden
    };
    show_directory(state, request, path, access, writing, &rows)
}

/// Makes the page of the directory `path` of a gateway, which offers no changes.
pub(crate) fn remote_directory(
    state: &ServerState,
    request: &HttpRequest,
    path: &EntryPath,
    access: &RequestRights,
    rows: &[PageRow],
) -> HttpResponse {
    show_directory(state, request, path, access, shell::PageWriting::Hidden, rows)
}

fn show_directory(
    state: &ServerState,
    request: &HttpRequest,
    path: &EntryPath,
    access: &RequestRights,
    writing: shell::PageWriting,
    rows: &[PageRow],
) -> HttpResponse {
    let account = matches!(access, RequestRights::Key(_)).then(|| access.name());
    shell::directory(&shell::DirectoryPage {
        base: &state.config.base_path,
        links: &request.prefix,
        path,
        writing,
        account,
        rows,
    })
}

/// Redirects from the root to the same page below the bucket's name, if the directory has an entry
/// of that name. Without the redirection, the page's links to that entry would lead back to the
/// bucket.
pub(crate) async fn below_the_bucket(
    state: &DirectoryState,
    request: &HttpRequest,
    path: &EntryPath,
) -> Option<HttpResponse> {
    let Buckets::Named(name) = &state.config.buckets else { return None };
    if !path.is_root() || !own_prefix(state, request).is_empty() {
        return None;
    }
    state.root.open_entry(&path.join(name.as_ref())).await.ok()?;
    let target = format!("{}/{}/", request.prefix, html::url_path(name.as_bytes()));
    let moved = HttpResponse::text(StatusCode::TEMPORARY_REDIRECT, "this page is the bucket's");
    Some(moved.with_header(LOCATION, target))
}

/// Asks a browser without a key to sign in, and redirects it to the requested page afterwards.
pub(crate) fn login(state: &ServerState, request: &HttpRequest) -> HttpResponse {
    let query = if request.query.is_empty() { String::new() } else { format!("?{}", request.query) };
    let next = format!("{}{}{query}", own_prefix(state, request), request.path);
    shell::login(&state.config.base_path, &next, None, None)
}

/// Answers a browser's request for a name that does not exist.
pub(crate) fn answer_missing(state: &ServerState, request: &HttpRequest) -> HttpResponse {
    shell::missing(&state.config.base_path, &request.path)
}

/// Answers a request for `/.firstbyte/`, followed by `rest`.
pub(crate) async fn answer_reserved(
    state: &DirectoryState,
    request: HttpRequest,
    rest: &str,
    access: &RequestRights,
) -> HttpResponse {
    match (&request.method, rest) {
        (&Method::GET | &Method::HEAD, "upload-worker.js") => upload_worker(),
        _ if rest == "uploads" || rest.starts_with("uploads/") => {
            protocol::answer(state, access, request).await
        }
        (_, "links") => links::answer(state, access, request).await,
        _ if rest.starts_with("changes/") => {
            changes::answer(state, access, request, rest.trim_start_matches("changes/")).await
        }
        _ => answer_account(state, Some(&state.root), request, rest).await,
    }
}

/// Answers requests for `/.firstbyte/` that every server supports: signing in and out. `root` is
/// the served directory, if there is one.
pub(crate) async fn answer_account(
    state: &ServerState,
    root: Option<&ServedRoot>,
    request: HttpRequest,
    rest: &str,
) -> HttpResponse {
    match (&request.method, rest) {
        (&Method::GET | &Method::HEAD, "login") => shell::login(&state.config.base_path, "/", None, None),
        (&Method::POST, "login") => login::sign_in(state, root, request).await,
        (&Method::POST, "logout") => login::sign_out(state, &request),
        _ => HttpResponse::text(StatusCode::NOT_FOUND, "there is nothing here"),
    }
}

/// Refuses a page that the visitor's key may not read. The response links to a page that the key
/// may read, and to the sign-in.
pub(crate) async fn answer_refused(
    state: &ServerState,
    root: Option<&ServedRoot>,
    request: &HttpRequest,
    access: &RequestRights,
) -> HttpResponse {
    let problem = format!("The key {} gives no right to read this. Sign in with another one.", access.name());
    let next = format!("{}{}", own_prefix(state, request), request.path);
    let home = login::home(state, root, access).await;
    let mut answer = shell::login(&state.config.base_path, &next, Some(&problem), Some(&home));
    answer.status = StatusCode::FORBIDDEN;
    answer
}

/// Returns the request's prefix without the base path: the name of the only bucket, if the request
/// has it.
fn own_prefix<'a>(state: &ServerState, request: &'a HttpRequest) -> &'a str {
    request.prefix.strip_prefix(state.config.base_path.as_str()).unwrap_or_default()
}

fn upload_worker() -> HttpResponse {
    HttpResponse::document("text/javascript; charset=utf-8", shell::UPLOAD_WORKER)
        .with_header(CONTENT_SECURITY_POLICY, "default-src 'none'; connect-src 'self'")
        .with_header(CACHE_CONTROL, "no-cache")
}
