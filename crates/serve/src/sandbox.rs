//! Isolates stored documents from the origin of the server's own pages.
//!
//! Every response passes through it, from any route: a file is the same document by plain HTTP, by
//! S3, by a presigned URL and with a `response-content-type` of the link's choosing. A document
//! gets an origin of its own, from which it can neither write to this server nor read with the
//! visitor's session.

use std::ffi::OsStr;
use std::path::Path;

use http::StatusCode;
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};

use crate::config::{Authentication, Writing};
use crate::content_type::content_type;
use crate::response::Response;
use crate::site::Site;

/// Scripts may run, without this server's origin.
const POLICY: HeaderValue = HeaderValue::from_static("sandbox allow-scripts allow-popups allow-downloads");

/// Content types that no browser runs as a document of their origin. The policy would do them no
/// good, and keeps browsers from showing a PDF.
const INERT: [&str; 12] = [
    "text/plain",
    "text/csv",
    "text/tab-separated-values",
    "text/css",
    "text/javascript",
    "application/json",
    "application/x-ndjson",
    "application/octet-stream",
    "application/pdf",
    "application/wasm",
    "application/zip",
    "application/gzip",
];

/// Adds the headers. `named` is the content type that the requested path's name stands for.
pub(crate) fn confine(site: &Site, named: &str, mut response: Response) -> Response {
    let headers = &mut response.headers;
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let bodiless = matches!(response.status, StatusCode::NOT_MODIFIED | StatusCode::NO_CONTENT);
    if bodiless || headers.contains_key(CONTENT_SECURITY_POLICY) {
        return response;
    }
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    // On a read-only server without keys, a script can misuse neither uploads nor a session. So a
    // report there keeps its origin, and with it everything that it may need of a browser. This
    // holds only if the content type follows from the file's name. An uploader or a link may have
    // chosen any other.
    let guarded = site.config.writing == Writing::Allowed
        || matches!(site.config.authentication, Authentication::Keys(_));
    if is_inert(kind) || (!guarded && kind == named) {
        return response;
    }
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    response
}

/// The content type that the name of the file at `path`, a URL's, stands for.
pub(crate) fn named_type(path: &str) -> &'static str {
    content_type(Path::new(OsStr::new(path)).file_name())
}

fn is_inert(kind: &str) -> bool {
    let essence = kind.split(';').next().unwrap_or_default().trim();
    if essence.ends_with("xml") {
        return false;
    }
    let lower = essence.to_ascii_lowercase();
    ["image/", "audio/", "video/", "font/"].iter().any(|family| lower.starts_with(family))
        && !lower.ends_with("xml")
        || INERT.contains(&lower.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_no_browser_runs_is_inert() {
        for kind in ["text/plain; charset=utf-8", "image/png", "application/pdf", "VIDEO/mp4", "font/woff2"] {
            assert!(is_inert(kind), "{kind}");
        }
        for kind in [
            "text/html",
            "TEXT/HTML; charset=utf-8",
            "application/xhtml+xml",
            "image/svg+xml",
            "Image/SVG+XML",
            "application/xml",
            "text/xml",
            "multipart/x-mixed-replace",
            "message/rfc822",
            "text/html,text/plain",
            "",
        ] {
            assert!(!is_inert(kind), "{kind}");
        }
        assert_eq!(named_type("/a/b.html"), "text/html; charset=utf-8");
    }
}
