//! Makes the responses that refuse a plain HTTP request, and the response to a failed file
//! operation.

use std::io;
use std::time::Duration;

use firstbyte_location::is_full;
use http::StatusCode;
use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};

use crate::http::response::HttpResponse;

/// 401: asks for a key by HTTP Basic.
pub(crate) fn unauthorized() -> HttpResponse {
    HttpResponse::text(StatusCode::UNAUTHORIZED, "an access key and its secret are needed")
        .with_header(WWW_AUTHENTICATE, "Basic realm=\"firstbyte\", charset=\"UTF-8\"")
}

/// 429: too many wrong secrets came for a key.
pub(crate) fn too_many_attempts(wait: Duration) -> HttpResponse {
    let seconds = wait.as_secs() + 1;
    let line = format!("too many wrong secrets of this key came from your address; try again in {seconds} s");
    HttpResponse::text(StatusCode::TOO_MANY_REQUESTS, line).with_header(RETRY_AFTER, seconds.to_string())
}

/// Returns the reason for which a request for `host` is refused, with the remedy.
pub(crate) fn unknown_host_line(host: &str) -> String {
    // The value comes from outside, so only a valid name is repeated.
    let name = host.split(':').next().unwrap_or_default();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let name = if !name.is_empty() && name.bytes().all(is_name) { name } else { "NAME" };
    format!(
        "this server is not called {name}: if clients or a proxy in front call it so, start it with --host-style \
         {name}, without the bucket if one stands in front of it; otherwise ask by an address or as localhost, with \
         path-style addressing"
    )
}

/// 403: the host is not one of the server's names.
pub(crate) fn unknown_host(host: &str) -> HttpResponse {
    HttpResponse::text(StatusCode::FORBIDDEN, unknown_host_line(host))
}

/// 403: the rights of the key do not cover the request.
pub(crate) fn forbidden() -> HttpResponse {
    HttpResponse::text(StatusCode::FORBIDDEN, "this key gives no right to do so")
}

/// 404: not found.
pub(crate) fn not_found() -> HttpResponse {
    HttpResponse::text(StatusCode::NOT_FOUND, "there is no such file or directory")
}

/// Makes the response to a failed file operation. A link that leads outside gives the same response
/// as a missing file.
pub(crate) fn of_io_error(error: &io::Error) -> HttpResponse {
    let (status, line) = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::CrossesDevices => return not_found(),
        io::ErrorKind::NotADirectory => return not_found(),
        io::ErrorKind::InvalidInput => (StatusCode::FORBIDDEN, "this is not a regular file"),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            (StatusCode::FORBIDDEN, "the server may not do that to this file")
        }
        io::ErrorKind::AlreadyExists => (StatusCode::PRECONDITION_FAILED, "the file is there already"),
        io::ErrorKind::IsADirectory => (StatusCode::CONFLICT, "a directory has this name"),
        io::ErrorKind::InvalidFilename => (
            StatusCode::URI_TOO_LONG,
            "the path, or a part of it, is too long a name for the server's file system",
        ),
        io::ErrorKind::DirectoryNotEmpty => (StatusCode::CONFLICT, "the directory is not empty"),
        _ if is_full(error) => (StatusCode::INSUFFICIENT_STORAGE, "the disk is full"),
        io::ErrorKind::TimedOut => (StatusCode::REQUEST_TIMEOUT, "the request's body stopped coming"),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => {
            (StatusCode::BAD_REQUEST, "the request's body is cut short or malformed")
        }
        _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => return not_found(),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "the server's file system failed"),
    };
    if status == StatusCode::INTERNAL_SERVER_ERROR {
        tracing::error!(%error, "a file operation failed");
    }
    HttpResponse::text(status, line)
}
