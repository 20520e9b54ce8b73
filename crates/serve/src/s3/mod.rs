//! Answers the S3 API for the served source. s3s parses requests, checks signatures and renders
//! responses; [`api`] reads and writes files.
//!
//! s3s is called as a service with the request that the connection loop has read. s3s does not
//! stream files: the handler leaves the range of the file in the response's extensions, and the
//! connection loop sends that range itself.

mod accepted;
mod access;
mod address;
mod answers;
mod api;
mod attempt;
mod attributes;
mod buckets;
mod chunk_signatures;
mod error;
mod form;
mod form_file;
mod index;
mod list;
mod listings;
mod multipart;
mod objects;
mod opened;
mod operations;
mod outputs;
mod page_builder;
mod pages;
mod payload;
mod posted;
mod private;
mod query;
mod reads;
mod remote_list;
mod service;
mod sessions;
mod signature_dates;
mod signed;
mod understood;
mod unfinished;
mod verify;
mod writes;

use std::sync::atomic::Ordering::Relaxed;

use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use s3s::service::S3Service;
use s3s::{S3Result, s3_error};

use self::answers::{error_response, from_s3s};
use self::attempt::KeyAttempt;
use self::form_file::PassedFile;
use self::payload::RequestPayload;
use self::posted::PostedForm;
pub(crate) use self::service::S3Frontend;
use self::signed::SignatureScheme;
use self::understood::BodyKind;
use self::verify::VerifiedRequest;
use crate::http::refusal::unknown_host_line;
use crate::http::request::{HttpRequest, RequestBody};
use crate::http::response::{HttpResponse, ResponseBody};
use crate::state::ServerState;

/// Answers an S3 request. Also returns the access key that its signature proved, for the log.
/// `sent_path` is the path as the client sent it, if it differs from the request's path because of
/// the base path or a bucket in the host name.
pub(crate) async fn answer(
    service: &S3Frontend,
    state: &ServerState,
    request: HttpRequest,
    sent_path: Option<String>,
) -> (HttpResponse, Option<String>) {
    let attempt = KeyAttempt::new(request.peer.ip());
    let response = match verify_request(service, state, &request, sent_path.as_deref(), &attempt).await {
        Ok((scheme, verified)) => {
            let received = request.body.length().unwrap_or(0);
            state.metrics.received_bytes.fetch_add(received, Relaxed);
            let answered = match sessions::is_create_session(&request) {
                true => begin_session(service, request, &scheme, verified, &attempt).await,
                false => pass_on(service, request, &scheme, verified, &attempt).await,
            };
            answered.unwrap_or_else(error_response)
        }
        Err(refused) => *refused,
    };
    if let Some(key) = attempt.proved_key() {
        state.attempts.clear_failures(attempt.address(), &key);
        return (response, Some(key));
    }
    if let Some(key) = attempt.compared_key().filter(|_| is_wrong_signature(&response)) {
        state.attempts.count_failure(attempt.address(), state.counted_name(&key));
    }
    (response, None)
}

/// Checks how a request is signed, and by which key. On a server without keys, every request counts
/// as unsigned.
///
/// # Errors
/// The response to a request whose signature is invalid or missing. HTML forms are not checked
/// here, because their signature is among their fields.
async fn verify_request(
    service: &S3Frontend,
    state: &ServerState,
    request: &HttpRequest,
    sent_path: Option<&str>,
    attempt: &KeyAttempt,
) -> Result<(SignatureScheme, Option<VerifiedRequest>), Box<HttpResponse>> {
    let Some(verifying) = &service.verifying else { return Ok((SignatureScheme::Unsigned, None)) };
    let refuse = |error| Box::new(error_response(error));
    let scheme = signed::check(request, state.config.signatures).map_err(refuse)?;
    if scheme == SignatureScheme::Unsigned {
        if signed::may_be_form(request) {
            return Ok((scheme, None));
        }
        return Err(refuse(s3_error!(AccessDenied, "a signature is needed")));
    }
    if let Some(keys) = service.key_file.as_ref().filter(|_| sessions::is_signed_for(&request.headers)) {
        let verified = service.sessions.verify(request, &scheme, sent_path, (keys, attempt)).await;
        return verified.map(|verified| (scheme, Some(verified))).map_err(refuse);
    }
    let refused = match attempt.run(verify::verify(verifying, request, &request.method, sent_path)).await {
        Ok(verified) => return Ok((scheme, Some(verified))),
        Err(refused) => refused,
    };
    let is_presigned =
        matches!(scheme, SignatureScheme::Presigned { .. } | SignatureScheme::PresignedVersion2);
    if request.method == Method::HEAD && is_presigned && is_wrong_signature(&refused) {
        // A client that has a signed URL for GET and uses it for another method is not guessing a
        // secret.
        let holder = KeyAttempt::new(attempt.address());
        let read = verify::verify(verifying, request, &Method::GET, sent_path);
        if holder.run(read).await.is_ok() {
            attempt.forget();
        }
    }
    Err(refused)
}

/// Begins a session for an existing directory bucket that the signer may reach.
async fn begin_session(
    service: &S3Frontend,
    request: HttpRequest,
    scheme: &SignatureScheme,
    verified: Option<VerifiedRequest>,
    attempt: &KeyAttempt,
) -> S3Result<HttpResponse> {
    let holder = verified.as_ref().map_or("", VerifiedRequest::access_key).to_owned();
    let session = service.sessions.begin(&request, &holder)?;
    let (method, query) = (Method::HEAD, String::new());
    let found = pass_on(service, HttpRequest { method, query, ..request }, scheme, verified, attempt).await?;
    match found.status {
        StatusCode::OK => Ok(session),
        StatusCode::NOT_FOUND => Err(s3_error!(NoSuchBucket, "the bucket does not exist")),
        _ => Err(s3_error!(AccessDenied, "this key gives no right to do so")),
    }
}

/// Passes the request to s3s without its signature and without the coding of its body. The content
/// of an object stays a stream. Any other body is a document, which is read and checked here.
async fn pass_on(
    service: &S3Frontend,
    mut request: HttpRequest,
    scheme: &SignatureScheme,
    verified: Option<VerifiedRequest>,
    attempt: &KeyAttempt,
) -> S3Result<HttpResponse> {
    query::take_headers(&mut request)?;
    sessions::remove_headers(&mut request.headers);
    let HttpRequest { method, path, query, mut headers, body, .. } = request;
    let query = query::without_signature(&query);
    let target: Uri = query::join(&path, &query).parse().map_err(|error| s3_error!(error, InvalidURI))?;
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
    if kind == BodyKind::Form {
        return pass_form_on(service, target, headers, body, attempt).await;
    }
    let (content, mut stated) = RequestPayload::new(&mut headers, body, signatures)?;
    let body = if kind == BodyKind::Content {
        let stream: s3s::stream::DynByteStream = Box::pin(content);
        s3s::Body::from(stream)
    } else {
        let document = content.collect(service::MAX_XML_BYTES).await?;
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
    let (mut parts, body) = passed.into_parts();
    accepted::rewrite(&mut parts.headers, &mut parts.extensions);
    call(&service.service, http::Request::from_parts(parts, body), attempt).await
}

/// Passes the fields of an HTML form to s3s, and its file to the operation. If the server has keys,
/// a form without a signature is refused before its file is read.
async fn pass_form_on(
    service: &S3Frontend,
    target: Uri,
    mut headers: HeaderMap,
    body: RequestBody,
    attempt: &KeyAttempt,
) -> S3Result<HttpResponse> {
    let form = PostedForm::read(&headers, body).await?;
    if service.keys().is_some() && !form.is_signed() {
        return Err(s3_error!(AccessDenied, "the form has no signature"));
    }
    let (placeholder, kind, file) = form.split()?;
    headers.insert(CONTENT_TYPE, kind);
    headers.remove(CONTENT_LENGTH);
    let stream: s3s::stream::DynByteStream = Box::pin(placeholder);
    let mut passed = http::Request::new(s3s::Body::from(stream));
    (*passed.method_mut(), *passed.uri_mut(), *passed.headers_mut()) = (Method::POST, target, headers);
    passed.extensions_mut().insert(PassedFile::new(file));
    call(&service.forms, passed, attempt).await
}

async fn call(
    service: &S3Service,
    request: http::Request<s3s::Body>,
    attempt: &KeyAttempt,
) -> S3Result<HttpResponse> {
    match attempt.run(service.call(request)).await {
        Ok(response) => Ok(from_s3s(response)),
        Err(error) => {
            tracing::error!(?error, "the S3 service failed");
            Err(s3_error!(InternalError, "the S3 service failed"))
        }
    }
}

/// Refuses a request for a host name that does not belong to the server.
pub(crate) fn unknown_host(host: &str) -> HttpResponse {
    error_response(s3_error!(InvalidRequest, "{}", unknown_host_line(host)))
}

/// True if `response` reports a signature that was made with a wrong secret.
fn is_wrong_signature(response: &HttpResponse) -> bool {
    let code = b"<Code>SignatureDoesNotMatch</Code>";
    response.status == StatusCode::FORBIDDEN
        && matches!(&response.body, ResponseBody::Bytes(bytes) if bytes.windows(code.len()).any(|part| part == code))
}
