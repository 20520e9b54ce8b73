//! The S3 API over the directory. s3s parses and verifies requests and renders responses; [`api`]
//! reads and writes files.
//!
//! s3s is called as a service with the request that the connection loop has read. If the answer is
//! a file, s3s does not stream it: the handler leaves a [`FileContent`] in the response's
//! extensions, and the loop sends that range itself.

mod access;
mod api;
mod attributes;
mod buckets;
pub(crate) mod checksum;
mod chunk_signatures;
mod error;
mod form;
mod index;
mod list;
mod listings;
pub(crate) mod metadata;
mod multipart;
mod objects;
mod operations;
mod outputs;
mod pages;
pub(crate) mod part_checksums;
mod payload;
mod private;
mod query;
mod reads;
mod service;
mod signed;
mod sorted;
pub(crate) mod stated;
mod understood;
mod unfinished;
mod verify;
mod writes;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use futures::StreamExt;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, RETRY_AFTER};
use http::{HeaderValue, StatusCode, Uri};
use s3s::{S3Error, S3ErrorCode, S3Result, s3_error};

use self::payload::Payload;
pub(crate) use self::service::Service;
use self::signed::Scheme;
use self::understood::BodyKind;
use self::verify::Verified;
use crate::request::Request;
use crate::response::{Body, FileContent, Response};
use crate::site::Site;

/// Answers an S3 request. Also returns the access key that signed it, for the log. `sent_path` is
/// its path with the base path, where there is one.
pub(crate) async fn answer(
    site: &Arc<Site>,
    request: Request,
    sent_path: Option<String>,
) -> (Response, Option<String>) {
    let key = site.s3.keys().and_then(|_| signer(&request));
    let (scheme, verified) = match verified(site, &request, key.as_deref(), sent_path.as_deref()).await {
        Ok(verified) => verified,
        Err(refused) => return (*refused, None),
    };
    let received = request.body.length().unwrap_or(0);
    site.metrics.received_bytes.fetch_add(received, Relaxed);
    let response = pass_on(&site.s3, request, &scheme, verified).await.unwrap_or_else(error_response);
    // Only keys that exist are named in the log: the name was sent by the client.
    (response, key.filter(|key| !site.counted(key).is_empty()))
}

/// The way in which a request is signed, and its signer; nothing of both without keys.
///
/// # Errors
/// The answer to a request whose signature does not hold, or that has none. HTML forms have theirs
/// among their fields.
async fn verified(
    site: &Site,
    request: &Request,
    key: Option<&str>,
    sent_path: Option<&str>,
) -> Result<(Scheme, Option<Verified>), Box<Response>> {
    let Some(verifying) = &site.s3.verifying else { return Ok((Scheme::Unsigned, None)) };
    let refuse = |error| Box::new(error_response(error));
    let scheme = signed::check(request, site.config.signatures).map_err(refuse)?;
    let Some(key) = key else {
        if signed::may_be_form(request) {
            return Ok((scheme, None));
        }
        return Err(refuse(s3_error!(AccessDenied, "a signature is needed")));
    };
    let (from, counted) = (request.peer.ip(), site.counted(key));
    if let Some(wait) = site.attempts.wait(from, counted) {
        return Err(Box::new(too_many_attempts(wait)));
    }
    match verify::verify(verifying, request, sent_path).await {
        Ok(verified) => {
            site.attempts.succeeded(from, counted);
            Ok((scheme, Some(verified)))
        }
        Err(refused) => {
            if is_wrong_signature(&refused) {
                site.attempts.failed(from, counted);
            }
            Err(refused)
        }
    }
}

/// Hands the request to s3s as if it had come without signature and without any coding of its
/// body. The content of an object stays a stream; any other body is a document, read and checked
/// here.
async fn pass_on(
    service: &Service,
    mut request: Request,
    scheme: &Scheme,
    verified: Option<Verified>,
) -> S3Result<Response> {
    query::take_headers(&mut request)?;
    let Request { method, path, query, mut headers, body, .. } = request;
    let query = query::unsigned(&query);
    let target: Uri = join(&path, &query).parse().map_err(|error| s3_error!(error, InvalidURI))?;
    understood::check(&method, &path, &query, &headers)?;
    let signatures = verified.as_ref().and_then(|verified| verified.chunk_signatures(scheme, &headers));
    if verified.is_some() && signatures.is_none() && payload::is_signed_in_chunks(&headers) {
        return Err(s3_error!(
            InvalidRequest,
            "signed chunks need a signature of version 4 in Authorization"
        ));
    }
    let kind = understood::body_kind(&method, &path, &query, &headers);
    headers.remove(AUTHORIZATION);
    let (content, mut stated) = Payload::new(&mut headers, body, signatures)?;
    let body = if matches!(kind, BodyKind::Content | BodyKind::Form) {
        let stream: s3s::stream::DynByteStream = Box::pin(content);
        s3s::Body::from(stream)
    } else {
        let document = content.collect(service::LARGEST_XML).await?;
        if kind == BodyKind::Completion {
            stated = stated.of_body_only();
        }
        stated.check_document(&document)?;
        if !document.is_empty() && headers.contains_key(understood::COPY_SOURCE) {
            return Err(s3_error!(InvalidRequest, "a copy has no body: its content is the source's"));
        }
        headers.insert(CONTENT_LENGTH, HeaderValue::from(document.len()));
        s3s::Body::from(document)
    };
    let mut passed = http::Request::new(body);
    (*passed.method_mut(), *passed.uri_mut(), *passed.headers_mut()) = (method, target, headers);
    passed.extensions_mut().insert(stated);
    if let Some(verified) = verified {
        passed.extensions_mut().insert(verified);
    }
    match service.service.call(passed).await {
        Ok(response) => Ok(from_s3s(response)),
        Err(error) => {
            tracing::error!(?error, "the S3 service failed");
            Err(s3_error!(InternalError, "the S3 service failed"))
        }
    }
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

fn join(path: &str, query: &str) -> String {
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

fn from_s3s(response: http::Response<s3s::Body>) -> Response {
    let (mut parts, body) = response.into_parts();
    let body = match (parts.extensions.remove::<FileContent>(), body.bytes()) {
        (Some(content), _) => Body::File(content),
        (None, Some(bytes)) if bytes.is_empty() => Body::Empty,
        (None, Some(bytes)) => Body::Bytes(bytes),
        (None, None) => Body::Stream(Box::pin(body.map(|piece| piece.map_err(std::io::Error::other)))),
    };
    Response { status: parts.status, headers: parts.headers, body }
}
