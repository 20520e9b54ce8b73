//! Request bodies for s3s. Decodes the `aws-chunked` coding if no signature has to be checked.
//!
//! With keys, s3s decodes the coding itself and checks each chunk's signature. But it accepts a
//! body without its last chunk as complete, so [`Watch`] looks for that chunk as the body passes.
//! Without keys s3s would refuse every signed request, so signatures are removed before it sees the
//! request, and the coding has to be decoded here.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use firstbyte_location::to_usize;
use futures::Stream;
use http::{HeaderMap, HeaderName, HeaderValue};
use s3s::stream::{ByteStream, RemainingLength};

use crate::chunks::{ChunkDialect, Chunks, Next};
use crate::request::RequestBody;

/// The trailers of a body, there once it was read to its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trailers(Arc<Mutex<HeaderMap>>);

impl Trailers {
    /// The trailers that have arrived.
    pub(crate) fn get(&self) -> HeaderMap {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn keep(&self, name: &[u8], value: &[u8]) {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name, value);
        }
    }
}

/// A body as s3s wants it.
#[derive(Debug)]
pub(crate) struct S3Body {
    body: RequestBody,
    /// The decoder of a coding beyond HTTP's own framing; `None` without such a coding.
    chunks: Option<Chunks>,
    buffer: BytesMut,
    left: Option<u64>,
    trailers: Trailers,
    watch: Option<Watch>,
}

/// Follows the `aws-chunked` coding of a body that passes unchanged, to know whether its empty last
/// chunk came.
#[derive(Debug)]
struct Watch {
    chunks: Chunks,
    /// The beginning of a line whose end has not come.
    line: BytesMut,
    has_ended: bool,
}

impl Watch {
    fn new() -> Self {
        Self { chunks: Chunks::new(ChunkDialect::Aws), line: BytesMut::new(), has_ended: false }
    }

    fn pass(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        loop {
            let next = self.chunks.next(&mut self.line, |_, _| ())?;
            let count = match next {
                _ if bytes.is_empty() => 0,
                Next::End => 0,
                Next::Data(left) => {
                    let count = to_usize(left).min(bytes.len());
                    self.chunks.took(count as u64);
                    count
                }
                Next::More => {
                    let end = bytes.iter().position(|byte| *byte == b'\n');
                    let count = end.map_or(bytes.len(), |end| end + 1);
                    self.line.extend_from_slice(&bytes[..count]);
                    count
                }
            };
            if count == 0 {
                self.has_ended = next == Next::End || self.chunks.may_end_here();
                return Ok(());
            }
            bytes = &bytes[count..];
        }
    }
}

impl S3Body {
    /// The body as it comes.
    pub(crate) fn plain(body: RequestBody) -> Self {
        let left = body.length();
        Self { body, chunks: None, buffer: BytesMut::new(), left, trailers: Trailers::default(), watch: None }
    }

    /// The body as it comes. s3s refuses an unsigned payload whose length is not announced, but
    /// does not compare that length with the bytes. So for an unknown length, one that no body can
    /// have is announced.
    pub(crate) fn of_any_length(body: RequestBody) -> Self {
        Self { left: Some(u64::MAX >> 1), ..Self::plain(body) }
    }

    /// The body as it comes, which must not end before its last `aws-chunked` chunk.
    pub(crate) fn watched(body: RequestBody) -> Self {
        Self { watch: Some(Watch::new()), ..Self::plain(body) }
    }

    /// The body freed of `aws-chunked`; `length` is its announced length after that.
    pub(crate) fn decoding(body: RequestBody, length: Option<u64>, trailers: Trailers) -> Self {
        let chunks = Some(Chunks::new(ChunkDialect::Aws));
        Self { body, chunks, buffer: BytesMut::new(), left: length, trailers, watch: None }
    }

    fn poll_decoded(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        loop {
            let trailers = &self.trailers;
            let Some(chunks) = &mut self.chunks else {
                let piece = ready!(Pin::new(&mut self.body).poll_next(context)).transpose()?;
                match (&piece, &mut self.watch) {
                    (Some(piece), Some(watch)) => watch.pass(piece)?,
                    (None, Some(watch)) if !watch.has_ended => {
                        return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
                    }
                    _ => {}
                }
                return Poll::Ready(Ok(piece));
            };
            match chunks.next(&mut self.buffer, |name, value| trailers.keep(name, value))? {
                Next::End => return Poll::Ready(Ok(None)),
                Next::Data(left) if !self.buffer.is_empty() => {
                    let count = to_usize(left).min(self.buffer.len());
                    chunks.took(count as u64);
                    return Poll::Ready(Ok(Some(self.buffer.split_to(count).freeze())));
                }
                Next::Data(_) | Next::More => {
                    let may_end = self.buffer.is_empty() && chunks.may_end_here();
                    match ready!(self.poll_more(context)) {
                        Err(error) if may_end && error.kind() == io::ErrorKind::UnexpectedEof => {
                            return Poll::Ready(Ok(None));
                        }
                        done => done?,
                    }
                }
            }
        }
    }

    fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match ready!(Pin::new(&mut self.body).poll_next(context)) {
            Some(piece) => {
                let piece = piece?;
                if self.buffer.is_empty() {
                    // Usually the only owner: no copy.
                    self.buffer = BytesMut::from(piece);
                } else {
                    self.buffer.extend_from_slice(&piece);
                }
                Poll::Ready(Ok(()))
            }
            None => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

impl Stream for S3Body {
    type Item = Result<Bytes, s3s::StdError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let piece = ready!(self.poll_decoded(context));
        if let (Ok(Some(piece)), Some(left)) = (&piece, self.left) {
            self.left = Some(left.saturating_sub(piece.len() as u64));
        }
        Poll::Ready(piece.map_err(Into::into).transpose())
    }
}

impl ByteStream for S3Body {
    fn remaining_length(&self) -> RemainingLength {
        let exact = self.left.and_then(|left| usize::try_from(left).ok());
        exact.map_or_else(RemainingLength::unknown, RemainingLength::new_exact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(pieces: &[&[u8]]) -> bool {
        let mut watch = Watch::new();
        pieces.iter().all(|piece| watch.pass(piece).is_ok()) && watch.has_ended
    }

    #[test]
    fn the_last_chunk_is_found_however_the_body_is_cut() {
        let last = b"0;chunk-signature=cd\r\n\r\n";
        let body = [&b"5;chunk-signature=ab\r\n0\r\n\r\n\r\n"[..], last].concat();
        let cut = body.len() - last.len();
        assert!(ended(&[&body]));
        assert!(!ended(&[&body[..cut]]));
        for at in 0..body.len() {
            assert!(ended(&[&body[..at], &body[at..]]), "cut at {at}");
        }
        let bytes: Vec<&[u8]> = body.chunks(1).collect();
        assert!(ended(&bytes));
        assert!(!ended(&bytes[..cut]));
        assert!(ended(&[last]));
        assert!(!ended(&[b"ffffffffffffffff\r\n", b"0\r\n\r\n"]));
    }
}
