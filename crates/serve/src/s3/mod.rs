//! The S3 API over the directory. s3s parses and verifies requests and renders responses; [`api`]
//! reads and writes files.
//!
//! s3s is called as a service with the request that the connection loop has read. If the answer is
//! a file, s3s does not stream it: the handler leaves a [`FileRange`] in the response's extensions,
//! and the loop sends that range itself.

mod access;
mod api;
mod attributes;
mod below;
mod buckets;
pub(crate) mod checksum;
mod chunked;
mod error;
mod index;
mod list;
mod listings;
pub(crate) mod metadata;
mod multipart;
mod objects;
mod operations;
mod outputs;
mod pages;
mod private;
mod reads;
mod service;
mod signed;
mod sorted;
mod unfinished;
mod unknown;
mod writes;

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use firstbyte_location::ByteRange;
use futures::StreamExt;
use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, RETRY_AFTER};
use http::{HeaderMap, Method, StatusCode, Uri};
use s3s::{S3Error, S3ErrorCode};

use self::chunked::{S3Body, Trailers};
pub(crate) use self::service::Service;
use crate::request::{Request, RequestBody, query_pairs};
use crate::response::{Body, Response};
use crate::site::Site;

/// The header that says how a signature covers the body.
const PAYLOAD: &str = "x-amz-content-sha256";

/// Part of a file, for the loop to send.
#[derive(Clone, Debug)]
struct FileRange {
    file: Arc<File>,
    range: ByteRange,
}

/// Answers an S3 request. Also returns the access key that signed it, for the log. `sent_path` is
/// its path with the base path, where there is one.
pub(crate) async fn answer(
    site: &Arc<Site>,
    mut request: Request,
    sent_path: Option<String>,
) -> (Response, Option<String>) {
    let from = request.peer.ip();
    let key = site.s3.keys().and_then(|_| signer(&request));
    if site.s3.keys().is_some() {
        if let Err(refused) = signed::check(&request, site.config.signatures) {
            return (error_response(refused), None);
        }
        if let Some(wait) = key.as_ref().and_then(|key| site.attempts.wait(from, site.counted(key))) {
            return (too_many_attempts(wait), None);
        }
    }
    // A form's signature is among its fields and covers no path.
    let service = match (&site.s3.verifying, &key, sent_path) {
        (Some(verifying), Some(_), Some(sent)) => {
            request.path = sent;
            verifying
        }
        _ => &site.s3.service,
    };
    let received = request.body.length().unwrap_or(0);
    let Ok(request) = into_s3s(request, &site.s3) else {
        return (Response::text(StatusCode::BAD_REQUEST, "the target is not a URI"), None);
    };
    site.metrics.received_bytes.fetch_add(received, Relaxed);
    let response = match service.call(request).await {
        Ok(response) => from_s3s(response),
        Err(error) => {
            tracing::error!(?error, "the S3 service failed");
            Response::text(StatusCode::INTERNAL_SERVER_ERROR, "the S3 service failed")
        }
    };
    let Some(key) = key else { return (response, None) };
    let counted = site.counted(&key);
    if is_wrong_signature(&response) {
        site.attempts.failed(from, counted);
        return (response, None);
    }
    if response.status.is_success() {
        site.attempts.succeeded(from, counted);
    }
    // Only keys that exist are named in the log: the name was sent by the client.
    let known = (!counted.is_empty()).then(|| key.clone());
    (response, known)
}

/// An S3 error made before s3s sees the request.
fn error_response(error: S3Error) -> Response {
    match error.to_http_response() {
        Ok(response) => from_s3s(response),
        Err(error) => {
            tracing::error!(?error, "an S3 error could not be written");
            Response::text(StatusCode::INTERNAL_SERVER_ERROR, "the S3 service failed")
        }
    }
}

/// Asks to try later, in the words that S3 clients wait upon: too many wrong signatures came for a
/// key.
fn too_many_attempts(wait: Duration) -> Response {
    let seconds = wait.as_secs() + 1;
    let message =
        format!("too many wrong secrets of this key came from your address; try again in {seconds} s");
    error_response(S3Error::with_message(S3ErrorCode::SlowDown, message))
        .with_header(RETRY_AFTER, seconds.to_string())
}

/// Whether s3s found the signature to be made with another secret.
fn is_wrong_signature(response: &Response) -> bool {
    let code = b"<Code>SignatureDoesNotMatch</Code>";
    response.status == StatusCode::FORBIDDEN
        && matches!(&response.body, Body::Bytes(bytes) if bytes.windows(code.len()).any(|part| part == code))
}

/// The access key a signature names; it need not exist.
fn signer(request: &Request) -> Option<String> {
    let by_header = request.header(AUTHORIZATION).filter(|value| value.starts_with("AWS"));
    let credential = match by_header {
        Some(value) => match value.strip_prefix("AWS ") {
            Some(version_2) => return Some(version_2.split_once(':')?.0.to_owned()),
            None => value.split_once("Credential=")?.1.to_owned(),
        },
        None => match request.query("X-Amz-Credential") {
            Some(credential) => credential,
            None => return request.query("AWSAccessKeyId"),
        },
    };
    Some(credential.split('/').next()?.to_owned())
}

fn into_s3s(request: Request, service: &Service) -> Result<http::Request<s3s::Body>, http::Error> {
    let Request { method, path, query, mut headers, body, .. } = request;
    let (body, target, trailers) = match service.keys() {
        Some(_) => {
            let is_unsigned = headers.get(PAYLOAD).is_some_and(|payload| payload == "UNSIGNED-PAYLOAD");
            let body = match body.length() {
                _ if is_chunked(&headers) => S3Body::watched(body),
                None if is_unsigned && method == Method::PUT => S3Body::of_any_length(body),
                _ => S3Body::plain(body),
            };
            (body, join(&path, &query), None)
        }
        None => {
            let (body, trailers) = without_signature(&mut headers, body);
            (body, join(&path, &unsigned_query(&query)), Some(trailers))
        }
    };
    let mut builder = http::Request::builder().method(method).uri(target.parse::<Uri>()?);
    if let Some(all) = builder.headers_mut() {
        *all = headers;
    }
    let stream: s3s::stream::DynByteStream = Box::pin(body);
    let mut request = builder.body(s3s::Body::from(stream))?;
    if let Some(trailers) = trailers {
        request.extensions_mut().insert(trailers);
    }
    Ok(request)
}

/// Whether a body comes in chunks of S3's own coding, `aws-chunked`.
fn is_chunked(headers: &HeaderMap) -> bool {
    let payload = headers.get(PAYLOAD);
    payload.is_some_and(|value| value.as_bytes().starts_with(b"STREAMING-"))
}

/// Takes the signature off, and the coding that comes with a signed body.
fn without_signature(headers: &mut HeaderMap, body: RequestBody) -> (S3Body, Trailers) {
    headers.remove(AUTHORIZATION);
    let trailers = Trailers::default();
    let is_chunked = is_chunked(headers);
    headers.remove(PAYLOAD);
    if !is_chunked {
        return (S3Body::plain(body), trailers);
    }
    let decoded = headers.remove("x-amz-decoded-content-length");
    let length = decoded.as_ref().and_then(|value| value.to_str().ok()?.parse().ok());
    match decoded {
        Some(value) => headers.insert(CONTENT_LENGTH, value),
        None => headers.remove(CONTENT_LENGTH),
    };
    let encoding = headers.remove(CONTENT_ENCODING);
    let encoding = encoding.as_ref().and_then(|value| value.to_str().ok()).unwrap_or_default();
    let rest: Vec<&str> = encoding
        .split(',')
        .map(str::trim)
        .filter(|coding| !coding.is_empty() && *coding != "aws-chunked")
        .collect();
    if let Ok(value) = rest.join(",").parse::<http::HeaderValue>()
        && !value.is_empty()
    {
        headers.insert(CONTENT_ENCODING, value);
    }
    (S3Body::decoding(body, length, trailers.clone()), trailers)
}

fn unsigned_query(query: &str) -> String {
    const SIGNATURE: [&str; 9] = [
        "X-Amz-Signature",
        "X-Amz-Credential",
        "X-Amz-Algorithm",
        "X-Amz-Date",
        "X-Amz-Expires",
        "X-Amz-SignedHeaders",
        "X-Amz-Security-Token",
        "AWSAccessKeyId",
        "Signature",
    ];
    let named =
        |pair: &&str| query_pairs(pair).next().is_some_and(|(name, _)| !SIGNATURE.contains(&name.as_str()));
    query.split('&').filter(named).collect::<Vec<_>>().join("&")
}

fn join(path: &str, query: &str) -> String {
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

fn from_s3s(response: http::Response<s3s::Body>) -> Response {
    let (mut parts, body) = response.into_parts();
    let body = match (parts.extensions.remove::<FileRange>(), body.bytes()) {
        (Some(FileRange { file, range }), _) => Body::File { file, range },
        (None, Some(bytes)) if bytes.is_empty() => Body::Empty,
        (None, Some(bytes)) => Body::Bytes(bytes),
        (None, None) => Body::Stream(Box::pin(body.map(|piece| piece.map_err(std::io::Error::other)))),
    };
    Response { status: parts.status, headers: parts.headers, body }
}

#[cfg(test)]
mod tests {
    use super::unsigned_query;

    #[test]
    fn only_the_signature_is_taken_off_a_query() {
        let query = "X-Amz-Signature=1&partNumber=2&X-Amz-Date=3&uploadId=4&x-id=GetObject";
        assert_eq!(unsigned_query(query), "partNumber=2&uploadId=4&x-id=GetObject");
    }
}
