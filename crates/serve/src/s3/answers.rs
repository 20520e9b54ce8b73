//! Answers of s3s, and S3's errors, as responses of the connection loop.

use futures::StreamExt;
use http::StatusCode;
use http::header::CONTENT_RANGE;
use s3s::S3Error;

use crate::http::response::{Body, FileContent, Response};

/// An S3 error made before s3s sees the request.
pub(crate) fn error_response(error: S3Error) -> Response {
    match error.to_http_response() {
        Ok(response) => from_s3s(response),
        Err(error) => {
            tracing::error!(?error, "an S3 error could not be written");
            Response::text(StatusCode::INTERNAL_SERVER_ERROR, "the S3 service failed")
        }
    }
}

/// The answer of s3s; a file in its extensions is the body.
pub(crate) fn from_s3s(response: http::Response<s3s::Body>) -> Response {
    let (mut parts, body) = response.into_parts();
    let body = match (parts.extensions.remove::<FileContent>(), body.bytes()) {
        (Some(content), _) => Body::File(content),
        (None, Some(bytes)) if bytes.is_empty() => Body::Empty,
        (None, Some(bytes)) => Body::Bytes(bytes),
        (None, None) => Body::Stream(Box::pin(body.map(|piece| piece.map_err(std::io::Error::other)))),
    };
    // s3s answers HEAD with a range by 200.
    let is_part = parts.status == StatusCode::OK && parts.headers.contains_key(CONTENT_RANGE);
    let status = if is_part { StatusCode::PARTIAL_CONTENT } else { parts.status };
    Response { status, headers: parts.headers, body }
}
