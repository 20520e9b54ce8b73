//! Request bodies for s3s, and the `aws-chunked` coding undone where no signature is to be read.
//!
//! With keys, s3s undoes the coding itself and checks each chunk's signature. Without keys it would refuse every signed
//! request, so signatures are taken off before it sees the request, and the coding has to be undone here.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use futures::Stream;
use http::{HeaderMap, HeaderName, HeaderValue};
use s3s::stream::{ByteStream, RemainingLength};

use crate::chunks::{ChunkDialect, Chunks, Next};
use crate::request::RequestBody;

/// The trailers of a body, there once it was read to its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trailers(Arc<Mutex<HeaderMap>>);

impl Trailers {
    /// What has come.
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
    /// How the body is coded beyond HTTP's own framing; none for not at all.
    chunks: Option<Chunks>,
    buffer: BytesMut,
    left: Option<u64>,
    trailers: Trailers,
}

impl S3Body {
    /// The body as it comes.
    pub(crate) fn plain(body: RequestBody) -> Self {
        let left = body.length();
        Self { body, chunks: None, buffer: BytesMut::new(), left, trailers: Trailers::default() }
    }

    /// The body freed of `aws-chunked`; `length` is its announced length after that.
    pub(crate) fn decoding(body: RequestBody, length: Option<u64>, trailers: Trailers) -> Self {
        let chunks = Some(Chunks::new(ChunkDialect::Aws));
        Self { body, chunks, buffer: BytesMut::new(), left: length, trailers }
    }

    fn poll_decoded(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        loop {
            let trailers = &self.trailers;
            let Some(chunks) = &mut self.chunks else {
                let piece = ready!(Pin::new(&mut self.body).poll_next(context)).transpose()?;
                return Poll::Ready(Ok(piece));
            };
            match chunks.next(&mut self.buffer, |name, value| trailers.keep(name, value))? {
                Next::End => return Poll::Ready(Ok(None)),
                Next::Data(left) if !self.buffer.is_empty() => {
                    let count = usize::try_from(left).unwrap_or(usize::MAX).min(self.buffer.len());
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
