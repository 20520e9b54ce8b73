//! Makes public links to files, valid for a limited time, for the page's "Copy link". `POST
//! /.firstbyte/links?path=/DIR/FILE` with `{seconds}` answers `{url}`: a path and query signed with
//! the visitor's key. A link has the key's right to read, for this file only.
//!
//! Refusals and the protection from other sites are the same as in the upload [`super::protocol`].

use std::time::{Duration, SystemTime};

use http::header::HOST;
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::html::url_path;
use super::protocol::{PageRefusal, PageResult, check_from_page, json_response, read_json};
use crate::access::keys::{KeyRights, RequestRights};
use crate::access::signing::{MAX_VALIDITY, presign};
use crate::config::Buckets;
use crate::http::request::HttpRequest;
use crate::http::response::HttpResponse;
use crate::path::EntryPath;
use crate::state::ServerState;

/// Maximum length of a JSON body in bytes.
const MAX_JSON_BYTES: usize = 1 << 10;

#[derive(Deserialize)]
struct LinkRequest {
    seconds: u64,
}

pub(super) async fn answer(
    state: &ServerState,
    access: &RequestRights,
    request: HttpRequest,
) -> HttpResponse {
    link(state, access, request).await.unwrap_or_else(PageRefusal::into_response)
}

async fn link(state: &ServerState, access: &RequestRights, mut request: HttpRequest) -> PageResult {
    let refused = |status, code, message: &str| PageRefusal(status, code, message.to_owned());
    if request.method != Method::POST {
        return Err(refused(StatusCode::METHOD_NOT_ALLOWED, "request", "links are made by POST"));
    }
    check_from_page(&request)?;
    let RequestRights::Key(key) = access else {
        return Err(refused(
            StatusCode::FORBIDDEN,
            "denied",
            "sign in first: a link is signed with your key",
        ));
    };
    let path = request.query("path").unwrap_or_default();
    let path = EntryPath::from_url(&path)
        .map_err(|why| refused(StatusCode::BAD_REQUEST, "request", &why.to_string()))?;
    if !access.allows(KeyRights::Read, path.as_bytes()) {
        return Err(refused(StatusCode::FORBIDDEN, "denied", "your key may not read this"));
    }
    let LinkRequest { seconds } = read_json(&mut request.body, MAX_JSON_BYTES).await?;
    let valid = Duration::from_secs(seconds);
    if seconds == 0 || valid > MAX_VALIDITY {
        return Err(refused(StatusCode::BAD_REQUEST, "request", "a link is valid for 1 second to 7 days"));
    }
    let object = object_path(state, &path).ok_or_else(|| {
        let message = "a file beside the buckets has no link: move it into a directory";
        refused(StatusCode::CONFLICT, "name", message)
    })?;
    let host = request.header(HOST).unwrap_or_default();
    let url = presign(key, host, &object, SystemTime::now(), valid);
    Ok(json_response(StatusCode::OK, &json!({ "url": url, "seconds": seconds })))
}

/// Returns the path of an object's URL in the S3 API. `None` if the object is in no bucket.
fn object_path(state: &ServerState, path: &EntryPath) -> Option<String> {
    let below = url_path(path.as_bytes());
    let base = &state.config.base_path;
    match &state.config.buckets {
        Buckets::Named(name) => Some(format!("{base}/{}/{below}", url_path(name.as_bytes()))),
        Buckets::FirstLevel => below.contains('/').then(|| format!("{base}/{below}")),
    }
}
