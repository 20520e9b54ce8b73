//! Implements uploads over HTTP, below `/.firstbyte/uploads`. Every request names the directory by
//! `path`, as in its URL.
//!
//! | request | does | answers |
//! | --- | --- | --- |
//! | `GET uploads?path=` | lists the directory's unfinished uploads | an array of states |
//! | `POST uploads?path=` `{name, size, mtime, type}` | begins or resumes one | `{id, ...}` |
//! | `PUT uploads/ID/N?path=` + `x-firstbyte-crc32c` | writes part N | 201; 200 if it is stored |
//! | `POST uploads/ID/complete?path=` `{existing, crc32c}` | publishes the file | `{name}` |
//! | `DELETE uploads/ID?path=` | removes the upload | 204 |
//!
//! A refusal is `{error, message}` with a fitting status. All requests except GET need the header
//! `x-firstbyte-page`, which no other site can make a browser send. Host and Origin are checked in
//! addition. A body goes from the socket to the file piece by piece, with one piece in memory.

use std::sync::atomic::Ordering::Relaxed;

use firstbyte_location::Algorithm;
use http::header::CACHE_CONTROL;
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::upload::{BrowserFile, Error, ExistingFilePolicy, UploadDirectory, claim, record};
use crate::access::keys::RequestRights;
use crate::http::request::{HttpRequest, RequestBody};
use crate::http::response::HttpResponse;
use crate::object::checksum::MultiHasher;
use crate::object::writer::PieceWriter;
use crate::path::EntryPath;
use crate::state::DirectoryState;

/// Maximum length of a JSON body in bytes. An escaped file name of 255 bytes is far shorter.
const MAX_JSON_BYTES: usize = 16 << 10;
/// Maximum length of the body that completes an upload, in bytes: more than twice the length of
/// 10,000 quoted checksums of eight digits.
const MAX_COMPLETION_BYTES: usize = 256 << 10;
/// The header with the part's CRC32C as eight hex digits.
const CRC32C: &str = "x-firstbyte-crc32c";
/// The header that marks a request as the page's own.
const FROM_PAGE: &str = "x-firstbyte-page";

/// A refusal: status, error code for programs, sentence for the user.
pub(super) struct PageRefusal(pub(super) StatusCode, pub(super) &'static str, pub(super) String);

pub(super) type PageResult = std::result::Result<HttpResponse, PageRefusal>;

impl PageRefusal {
    /// Makes the response: `{error, message}`.
    pub(super) fn into_response(self) -> HttpResponse {
        let Self(status, code, message) = self;
        json_response(status, &json!({ "error": code, "message": message }))
    }
}

impl From<Error> for PageRefusal {
    fn from(error: Error) -> Self {
        let (status, code) = error.code();
        if status.is_server_error() {
            tracing::warn!("upload: {error}");
        }
        Self(status, code, error.to_string())
    }
}

fn bad(message: &str) -> PageRefusal {
    PageRefusal(StatusCode::BAD_REQUEST, "request", message.into())
}

#[derive(Default, Deserialize)]
struct Completion {
    #[serde(default)]
    existing: ExistingFilePolicy,
    /// The CRC32C of every part, in order.
    crc32c: Option<Vec<String>>,
}

pub(super) async fn answer(
    state: &DirectoryState,
    access: &RequestRights,
    request: HttpRequest,
) -> HttpResponse {
    dispatch(state, access, request).await.unwrap_or_else(PageRefusal::into_response)
}

/// Returns the directory that a request names, if `access` may write there. Refuses requests that
/// another site may have caused.
pub(super) fn writable(
    state: &DirectoryState,
    access: &RequestRights,
    request: &HttpRequest,
) -> std::result::Result<EntryPath, PageRefusal> {
    let path = request.query("path").ok_or_else(|| bad("say which directory: ?path=/DIRECTORY/"))?;
    let path = EntryPath::from_url(&path).map_err(|why| bad(&why.to_string()))?;
    let Some(path) = state.writable(access, &path) else {
        let message = "writing here is not allowed: the server is read-only, or your key may not write here";
        return Err(PageRefusal(StatusCode::FORBIDDEN, "denied", message.into()));
    };
    if request.method != Method::GET {
        check_from_page(request)?;
    }
    Ok(path)
}

/// Refuses requests that another site may have caused.
pub(super) fn check_from_page(request: &HttpRequest) -> std::result::Result<(), PageRefusal> {
    if request.headers.get(FROM_PAGE).is_some() {
        return Ok(());
    }
    let message = format!("send the header {FROM_PAGE}: it shows that no other site asks");
    Err(PageRefusal(StatusCode::FORBIDDEN, "origin", message))
}

async fn dispatch(state: &DirectoryState, access: &RequestRights, mut request: HttpRequest) -> PageResult {
    let path = writable(state, access, &request)?;
    let directory = UploadDirectory {
        root: state.root.clone(),
        uploads: state.uploads.clone(),
        buckets: state.config.buckets.clone(),
        path,
    };
    let rest = request.path.strip_prefix("/.firstbyte/uploads").unwrap_or_default().to_owned();
    let words: Vec<&str> = rest.split('/').skip(1).collect();
    match (&request.method, words.as_slice()) {
        (&Method::GET, []) => {
            let found = blocking(move || directory.list()).await?;
            Ok(json_response(StatusCode::OK, &json!(found)))
        }
        (&Method::POST, []) => {
            let source: BrowserFile = read_json(&mut request.body, MAX_JSON_BYTES).await?;
            let status = blocking(move || directory.begin(source)).await?;
            Ok(json_response(StatusCode::OK, &json!(status)))
        }
        (&Method::POST, [id, "complete"]) => {
            let Completion { existing, crc32c } = read_json(&mut request.body, MAX_COMPLETION_BYTES).await?;
            let id = (*id).to_owned();
            let name = blocking(move || directory.complete(&id, existing, crc32c.as_deref())).await?;
            Ok(json_response(StatusCode::OK, &json!({ "name": name })))
        }
        (&Method::DELETE, [id]) => {
            let id = (*id).to_owned();
            blocking(move || directory.discard(&id)).await?;
            Ok(HttpResponse::new(StatusCode::NO_CONTENT))
        }
        (&Method::PUT, [id, number]) => {
            let number = number.parse().map_err(|_| bad("the part's number is not one"))?;
            receive(state, directory, id, number, &mut request).await
        }
        _ => Err(PageRefusal(
            StatusCode::NOT_FOUND,
            "request",
            "the upload protocol has no such request".into(),
        )),
    }
}

/// Receives part `number` and writes it to its place.
async fn receive(
    state: &DirectoryState,
    directory: UploadDirectory,
    id: &str,
    number: usize,
    request: &mut HttpRequest,
) -> PageResult {
    let crc = request.header(CRC32C).and_then(|hex| u32::from_str_radix(hex, 16).ok());
    let crc = crc.ok_or_else(|| bad("send the part's CRC32C in x-firstbyte-crc32c, as eight hex digits"))?;
    let length = request.body.length();
    let length = length
        .ok_or_else(|| PageRefusal(StatusCode::LENGTH_REQUIRED, "length", "send a Content-Length".into()))?;
    let id = id.to_owned();
    let claimed = blocking(move || claim(&directory.find(&id)?, number, length, crc)).await?;
    let Some(claim) = claimed else {
        // The body is read to its end, so that the connection can carry the next request.
        while let Some(piece) = request.body.next().await {
            piece.map_err(|e| bad(&e.to_string()))?;
        }
        return Ok(json_response(StatusCode::OK, &json!({ "part": number })));
    };
    let unwritten = |error| PageRefusal::from(Error::unwritten(number, error));
    let mut writer = PieceWriter::new(claim.clone(), 0, MultiHasher::only(Algorithm::Crc32c));
    while let Some(piece) = request.body.next().await {
        let piece = piece.map_err(|e| bad(&format!("part {number}: {e}; send it again")))?;
        state.metrics.received_bytes.fetch_add(piece.len() as u64, Relaxed);
        writer.write(piece).await.map_err(unwritten)?;
    }
    let length = writer.offset();
    let checksums = writer.finish().await.map_err(unwritten)?.finish();
    blocking(move || record(&claim, number, length, checksums, crc)).await?;
    Ok(json_response(StatusCode::CREATED, &json!({ "part": number })))
}

/// Runs file system work on a blocking thread, so that other connections do not wait for the disk.
pub(super) async fn blocking<T: Send + 'static, E: Into<PageRefusal> + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> std::result::Result<T, PageRefusal> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(E::into),
        Err(stopped) => Err(PageRefusal(StatusCode::INTERNAL_SERVER_ERROR, "io", stopped.to_string())),
    }
}

pub(super) async fn read_json<T: serde::de::DeserializeOwned>(
    body: &mut RequestBody,
    longest: usize,
) -> std::result::Result<T, PageRefusal> {
    let text = body.collect(longest).await.map_err(|e| bad(&e.to_string()))?;
    serde_json::from_slice(&text).map_err(|e| bad(&format!("the body is not the JSON expected here: {e}")))
}

pub(super) fn json_response(status: StatusCode, value: &serde_json::Value) -> HttpResponse {
    let mut response =
        HttpResponse::document("application/json", value.to_string()).with_header(CACHE_CONTROL, "no-store");
    response.status = status;
    response
}
