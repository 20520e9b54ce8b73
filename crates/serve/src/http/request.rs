//! A request as handlers get it: the parsed head, and a body that is still to be read from the
//! connection.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Method};

use crate::http::wire::WireBody;

/// A request, its target relative to the base path and, by plain HTTP, to the name of the one
/// bucket.
#[derive(Debug)]
pub(crate) struct Request {
    /// The method.
    pub(crate) method: Method,
    /// The beginning of the path that was removed from `path`: the base path, and the name of the
    /// one bucket if the request named it. Links and redirections begin with it.
    pub(crate) prefix: String,
    /// The path as sent, still percent-encoded, starting with `/`.
    pub(crate) path: String,
    /// What stands after `?`, still percent-encoded; empty for none.
    pub(crate) query: String,
    /// The headers.
    pub(crate) headers: HeaderMap,
    /// Who asks.
    pub(crate) peer: SocketAddr,
    /// The body; read it with [`RequestBody::next`] or as a stream.
    pub(crate) body: RequestBody,
}

impl Request {
    /// The value of header `name`, when present and text.
    #[must_use]
    pub(crate) fn header(&self, name: impl http::header::AsHeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The decoded value of query parameter `name`; an empty string when it stands without a value.
    #[must_use]
    pub(crate) fn query(&self, name: &str) -> Option<String> {
        query_pairs(&self.query).find(|(key, _)| key == name).map(|(_, value)| value)
    }
}

/// The decoded pairs of a query string, in order; `+` means a space, as browsers send it.
pub(crate) fn query_pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    let decode = |text: &str| {
        let spaced = text.replace('+', " ");
        percent_encoding::percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
    };
    query.split('&').filter(|pair| !pair.is_empty()).map(move |pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name), decode(value))
    })
}

/// A request's body: bytes as they come off the wire, in pieces of at most
/// [`crate::http::wire::BODY_PIECE`].
#[derive(Debug)]
pub(crate) enum RequestBody {
    /// None was sent.
    Empty,
    /// Still on the wire.
    Wire(WireBody),
}

impl RequestBody {
    /// The next piece; none at the end.
    ///
    /// # Errors
    /// When the peer leaves, stalls, or breaks the framing.
    pub(crate) async fn next(&mut self) -> Option<io::Result<Bytes>> {
        std::future::poll_fn(|context| self.poll_next_piece(context)).await
    }

    /// The whole body, when it has at most `limit` bytes.
    ///
    /// # Errors
    /// As [`Self::next`]; `InvalidData` past the limit.
    pub(crate) async fn collect(&mut self, limit: usize) -> io::Result<Vec<u8>> {
        let mut whole = Vec::new();
        while let Some(piece) = self.next().await {
            let piece = piece?;
            if whole.len() + piece.len() > limit {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the request body is too large"));
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole)
    }

    /// The body's length in bytes, where it was announced.
    #[must_use]
    pub(crate) fn length(&self) -> Option<u64> {
        match self {
            Self::Empty => Some(0),
            Self::Wire(wire) => wire.length(),
        }
    }

    fn poll_next_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        match self {
            Self::Empty => Poll::Ready(None),
            Self::Wire(wire) => wire.poll_piece(context),
        }
    }
}

impl futures::Stream for RequestBody {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_next_piece(context)
    }
}
