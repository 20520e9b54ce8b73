//! Defines a request as handlers get it: the parsed head, and a body that is still to be read from
//! the connection.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Method};

use crate::http::wire::WireBody;

/// A request. `path` has no base path. In a plain HTTP request it has no name of the only bucket
/// either. Both are in `prefix`.
#[derive(Debug)]
pub(crate) struct HttpRequest {
    pub(crate) method: Method,
    /// The beginning that was removed from `path`: the base path, and the name of the only bucket
    /// if the request has it. Links and redirections begin with it.
    pub(crate) prefix: String,
    /// The path as sent, percent-encoded, starting with `/`.
    pub(crate) path: String,
    /// The text after `?`, percent-encoded, or empty.
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    /// The address of the client.
    pub(crate) peer: SocketAddr,
    /// The body; read it with [`RequestBody::next`] or as a stream.
    pub(crate) body: RequestBody,
}

impl HttpRequest {
    /// Returns the value of header `name`. `None` if it is missing or not text.
    #[must_use]
    pub(crate) fn header(&self, name: impl http::header::AsHeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns the decoded value of query parameter `name`; empty if the parameter has no value.
    #[must_use]
    pub(crate) fn query(&self, name: &str) -> Option<String> {
        query_pairs(&self.query).find(|(key, _)| key == name).map(|(_, value)| value)
    }
}

/// Decodes the pairs of a query string, in order; `+` means a space, as browsers send it.
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

/// The body of a request, received in pieces of at most [`crate::http::wire::BODY_PIECE`] bytes.
#[derive(Debug)]
pub(crate) enum RequestBody {
    /// The request has no body.
    Empty,
    /// The body is still to be received.
    Wire(WireBody),
}

impl RequestBody {
    /// Receives the next piece. `None` at the end.
    ///
    /// # Errors
    /// The peer leaves, stalls, or breaks the framing.
    pub(crate) async fn next(&mut self) -> Option<io::Result<Bytes>> {
        std::future::poll_fn(|context| self.poll_next_piece(context)).await
    }

    /// Receives the whole body, up to `limit` bytes.
    ///
    /// # Errors
    /// The same as for [`Self::next`]; `InvalidData` if the body exceeds the limit.
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

    /// Returns the announced length in bytes. `None` if it was not announced.
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
