//! What people see in a browser: the directory page, uploads from it, and signing in.
//!
//! The page is a small shell ([`shell`]) whose script reads the same NDJSON listing programs read, and keeps only the
//! rows in view in the document: it opens at once however many entries there are. Below the reserved path
//! `/.firstbyte/` live its worker script, the [`mod@login`] form, and the upload [`protocol`] over [`upload`], which knows
//! nothing of HTTP.

mod html;
mod login;
mod protocol;
mod rows;
mod shell;
mod upload;

use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{Method, StatusCode};

use crate::auth::{Access, Rights};
use crate::config::{Authentication, Writing};
use crate::files;
use crate::request::Request;
use crate::response::Response;
use crate::root::EntryPath;
use crate::site::Site;

/// What the page remembers between requests.
#[derive(Debug, Default)]
pub(crate) struct Page {
    attempts: login::Attempts,
}

/// The page of the directory `path`, which `access` may list.
pub(crate) async fn directory(site: &Site, path: &EntryPath, access: &Access) -> Response {
    let (root, below) = (site.root.clone(), path.clone());
    let rows = match tokio::task::spawn_blocking(move || rows::first(&root, &below)).await {
        Ok(Ok(rows)) => rows,
        Ok(Err(error)) => return files::failure(&error),
        Err(stopped) => return files::failure(&std::io::Error::other(stopped)),
    };
    let uploading =
        if may_upload(site, access, path) { shell::Uploading::Offered } else { shell::Uploading::Hidden };
    let account = matches!(access, Access::Key(_)).then(|| access.name());
    shell::directory(&shell::Directory {
        base: &site.config.base_path,
        path,
        uploading,
        account,
        rows: &rows,
    })
}

/// Asks a browser that showed no key to sign in, and brings it back to what it asked for afterwards.
pub(crate) fn login(site: &Site, request: &Request) -> Response {
    let query = if request.query.is_empty() { String::new() } else { format!("?{}", request.query) };
    shell::login(&site.config.base_path, &format!("{}{query}", request.path), None)
}

/// Answers what lies below `/.firstbyte/`, at `rest`.
pub(crate) async fn reserved(site: &Site, request: Request, rest: &str, access: &Access) -> Response {
    match (&request.method, rest) {
        (&Method::GET | &Method::HEAD, "upload-worker.js") => worker(),
        (&Method::GET | &Method::HEAD, "login") => shell::login(&site.config.base_path, "/", None),
        (&Method::POST, "login") => login::sign_in(site, request).await,
        (&Method::POST, "logout") => login::sign_out(site, &request),
        _ if rest == "uploads" || rest.starts_with("uploads/") => {
            protocol::answer(site, access, request).await
        }
        _ => Response::text(StatusCode::NOT_FOUND, "there is nothing here"),
    }
}

/// Fences a served file off from the page: a document somebody uploaded runs in an origin of its own, where it can
/// neither write here nor read with the visitor's session. Where there is nothing to gain (read-only, no keys), a
/// document keeps its origin, and with it all that a report may want of a browser.
pub(crate) fn fence(site: &Site, response: Response) -> Response {
    let kind = response.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_document =
        ["text/html", "image/svg+xml", "application/xml"].iter().any(|document| kind.starts_with(document));
    let guarded = site.config.writing == Writing::Allowed
        || matches!(site.config.authentication, Authentication::Keys(_));
    let response = response.with_header(X_CONTENT_TYPE_OPTIONS, "nosniff");
    if !(is_document && guarded) {
        return response;
    }
    response.with_header(CONTENT_SECURITY_POLICY, "sandbox allow-scripts allow-popups allow-downloads")
}

/// Whether `access` may put files into `directory`.
fn may_upload(site: &Site, access: &Access, directory: &EntryPath) -> bool {
    let mut prefix = directory.as_bytes().to_vec();
    if !prefix.is_empty() {
        prefix.push(b'/');
    }
    site.config.writing == Writing::Allowed && access.allows(Rights::Write, &prefix)
}

fn worker() -> Response {
    Response::document("text/javascript; charset=utf-8", shell::UPLOAD_WORKER)
        .with_header(CONTENT_SECURITY_POLICY, "default-src 'none'; connect-src 'self'")
        .with_header(X_CONTENT_TYPE_OPTIONS, "nosniff")
        .with_header(CACHE_CONTROL, "no-cache")
}
