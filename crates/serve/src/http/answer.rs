//! Writes a response to the connection: the head, then the body with its framing. Called by the
//! connection loop.

use std::fmt::Write as _;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

use firstbyte_location::to_usize;
use firstbyte_pacing::Throttle;
use firstbyte_store::format_http_date;
use futures::StreamExt;
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, TRANSFER_ENCODING};
use http::{HeaderMap, Method, StatusCode};

use crate::http::connections::{self, Connections};
use crate::http::head::Persistence;
use crate::http::response::{HttpResponse, ResponseBody};
use crate::http::sendfile::{FollowingBytes, send_bytes, send_file, send_pieces, send_throttled};
use crate::http::wire::Transport;

/// Maximum length in bytes of a body that is copied behind the head and sent in the same call.
const SMALL_BODY: usize = 16 << 10;

/// The parts of a request that decide how its response is framed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseFraming<'a> {
    pub(crate) method: &'a Method,
    pub(crate) minor_version: u8,
    pub(crate) persistence: Persistence,
}

/// The result of sending a response.
#[derive(Debug)]
pub(crate) struct SentResponse {
    pub(crate) persistence: Persistence,
    pub(crate) body_bytes: u64,
}

/// The mark of the end of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyEnd {
    /// The status or method allows no body.
    Bodiless,
    Length(u64),
    Chunked,
    Close,
}

pub(crate) async fn send(
    transport: &mut Transport,
    response: HttpResponse,
    framing: ResponseFraming<'_>,
    connections: &Connections,
    throttle: &Throttle,
) -> io::Result<SentResponse> {
    let end = end(&response, framing);
    let persistence = if end == BodyEnd::Close { Persistence::Close } else { framing.persistence };
    let mut head = render_head(&response, end, persistence, framing);
    let stall = connections.limits.stall;
    let bodiless = framing.method == Method::HEAD || end == BodyEnd::Bodiless;
    let mut body_bytes = 0;
    connections::wait_for_all(throttle, head.len()).await;
    match response.body {
        _ if bodiless => send_bytes(transport, &head, FollowingBytes::Nothing, stall).await?,
        ResponseBody::Empty => send_bytes(transport, &head, FollowingBytes::Nothing, stall).await?,
        ResponseBody::Bytes(bytes) => {
            body_bytes = bytes.len() as u64;
            connections.metrics.copied_bytes.fetch_add(body_bytes, Relaxed);
            if bytes.len() <= SMALL_BODY && throttle.is_unlimited() {
                head.extend_from_slice(&bytes);
                send_bytes(transport, &head, FollowingBytes::Nothing, stall).await?;
            } else {
                send_bytes(transport, &head, FollowingBytes::More, stall).await?;
                send_throttled(transport, &bytes, stall, throttle).await?;
            }
        }
        ResponseBody::File(content) => {
            body_bytes = content.range.len();
            send_file(transport, head, &content, connections, throttle).await?;
            if let Transport::Tls(stream) = transport {
                tokio::io::AsyncWriteExt::flush(stream).await?;
            }
        }
        ResponseBody::Pieces(pieces) => {
            body_bytes = pieces.length();
            send_pieces(transport, head, pieces, connections, throttle).await?;
        }
        ResponseBody::Stream(mut pieces) => {
            send_bytes(transport, &head, FollowingBytes::More, stall).await?;
            while let Some(piece) = pieces.next().await {
                let piece = piece.inspect_err(|_| {
                    if end == BodyEnd::Close {
                        transport.reset_when_closed();
                    }
                })?;
                if piece.is_empty() {
                    continue;
                }
                body_bytes += piece.len() as u64;
                connections.metrics.copied_bytes.fetch_add(piece.len() as u64, Relaxed);
                let mut rest = &piece[..];
                while !rest.is_empty() {
                    let allowed = connections::wait_for(throttle, rest.len() as u64).await;
                    let (part, behind) = rest.split_at(to_usize(allowed));
                    send_piece(transport, part, end, stall).await?;
                    rest = behind;
                }
            }
            if end == BodyEnd::Chunked {
                send_bytes(transport, b"0\r\n\r\n", FollowingBytes::Nothing, stall).await?;
            }
        }
    }
    Ok(SentResponse { persistence, body_bytes })
}

async fn send_piece(
    transport: &mut Transport,
    piece: &[u8],
    end: BodyEnd,
    stall: std::time::Duration,
) -> io::Result<()> {
    if end != BodyEnd::Chunked {
        return send_bytes(transport, piece, FollowingBytes::Nothing, stall).await;
    }
    let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
    chunk.extend_from_slice(piece);
    chunk.extend_from_slice(b"\r\n");
    send_bytes(transport, &chunk, FollowingBytes::Nothing, stall).await
}

fn end(response: &HttpResponse, framing: ResponseFraming<'_>) -> BodyEnd {
    let status = response.status;
    if status.is_informational() || status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED {
        return BodyEnd::Bodiless;
    }
    let announced = response.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    match (response.body.length(), announced) {
        // A response to HEAD has no body, so the length that the handler stated is used.
        (Some(0), Some(length)) if framing.method == Method::HEAD => BodyEnd::Length(length),
        (Some(length), _) => BodyEnd::Length(length),
        (None, _) if framing.minor_version >= 1 => BodyEnd::Chunked,
        (None, _) => BodyEnd::Close,
    }
}

fn render_head(
    response: &HttpResponse,
    end: BodyEnd,
    persistence: Persistence,
    framing: ResponseFraming<'_>,
) -> Vec<u8> {
    let status = response.status;
    let mut head = String::with_capacity(512);
    let _ =
        write!(head, "HTTP/1.1 {} {}\r\n", status.as_u16(), status.canonical_reason().unwrap_or("Status"));
    let _ = write!(head, "date: {}\r\n", format_http_date(SystemTime::now()));
    match end {
        BodyEnd::Length(length) => drop(write!(head, "content-length: {length}\r\n")),
        BodyEnd::Chunked => head.push_str("transfer-encoding: chunked\r\n"),
        BodyEnd::Bodiless | BodyEnd::Close => {}
    }
    match (persistence, framing.minor_version) {
        (Persistence::Close, _) => head.push_str("connection: close\r\n"),
        (Persistence::KeepAlive, 0) => head.push_str("connection: keep-alive\r\n"),
        (Persistence::KeepAlive, _) => {}
    }
    let mut head = head.into_bytes();
    append_headers(&mut head, &response.headers);
    head.extend_from_slice(b"\r\n");
    head
}

fn append_headers(head: &mut Vec<u8>, headers: &HeaderMap) {
    for (name, value) in headers {
        if matches!(*name, CONTENT_LENGTH | TRANSFER_ENCODING | CONNECTION | DATE) {
            continue;
        }
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: ResponseFraming<'_> =
        ResponseFraming { method: &Method::GET, minor_version: 1, persistence: Persistence::KeepAlive };

    #[test]
    fn handlers_cannot_break_the_framing() {
        let response = HttpResponse::text(StatusCode::OK, "four").with_header(CONTENT_LENGTH, "9999");
        assert_eq!(end(&response, GET), BodyEnd::Length(5));
        let head = render_head(&response, BodyEnd::Length(5), Persistence::KeepAlive, GET);
        let head = String::from_utf8(head).unwrap();
        assert_eq!(head.matches("content-length").count(), 1, "{head}");
    }

    #[test]
    fn a_response_to_head_has_the_given_length() {
        let response = HttpResponse::new(StatusCode::OK).with_header(CONTENT_LENGTH, "9999");
        let head = ResponseFraming { method: &Method::HEAD, ..GET };
        assert_eq!(end(&response, head), BodyEnd::Length(9999));
        assert_eq!(end(&response, GET), BodyEnd::Length(0));
        assert_eq!(end(&HttpResponse::new(StatusCode::NO_CONTENT), GET), BodyEnd::Bodiless);
    }
}
