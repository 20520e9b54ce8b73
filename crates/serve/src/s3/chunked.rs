//! Request bodies for s3s, and the `aws-chunked` coding undone where no signature is to be read.
//!
//! With keys, s3s undoes the coding itself and checks each chunk's signature. Without keys it would refuse every signed
//! request, so signatures are taken off before it sees the request, and the coding has to be undone here.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use futures::Stream;
use http::{HeaderMap, HeaderName, HeaderValue};
use s3s::stream::{ByteStream, RemainingLength};

use crate::request::RequestBody;
use crate::wire::chunk_size;

/// The longest line between chunks: a size and a signature, or a trailer.
const LONGEST_LINE: usize = 4096;

/// The trailers of a body, there once it was read to its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trailers(Arc<Mutex<HeaderMap>>);

impl Trailers {
    /// What has come.
    pub(crate) fn get(&self) -> HeaderMap {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// How the body is coded, beyond HTTP's own framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Plain,
    Size,
    Data(u64),
    DataEnd,
    Trailers,
    Done,
}

/// A body as s3s wants it.
#[derive(Debug)]
pub(crate) struct S3Body {
    body: RequestBody,
    step: Step,
    buffer: BytesMut,
    left: Option<u64>,
    trailers: Trailers,
}

impl S3Body {
    /// The body as it comes.
    pub(crate) fn plain(body: RequestBody) -> Self {
        let left = body.length();
        Self { body, step: Step::Plain, buffer: BytesMut::new(), left, trailers: Trailers::default() }
    }

    /// The body freed of `aws-chunked`; `length` is its announced length after that.
    pub(crate) fn decoding(body: RequestBody, length: Option<u64>, trailers: Trailers) -> Self {
        Self { body, step: Step::Size, buffer: BytesMut::new(), left: length, trailers }
    }

    fn poll_decoded(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        loop {
            match self.step {
                Step::Done => return Poll::Ready(Ok(None)),
                Step::Plain => {
                    let piece = ready!(Pin::new(&mut self.body).poll_next(context)).transpose()?;
                    return Poll::Ready(Ok(piece));
                }
                Step::Size => {
                    let line = ready!(self.poll_line(context))?;
                    self.step = match chunk_size(&line)? {
                        0 => Step::Trailers,
                        size => Step::Data(size),
                    };
                }
                Step::Data(left) => {
                    if self.buffer.is_empty() {
                        ready!(self.poll_more(context))?;
                    }
                    let count = usize::try_from(left).unwrap_or(usize::MAX).min(self.buffer.len());
                    let left = left - count as u64;
                    self.step = if left == 0 { Step::DataEnd } else { Step::Data(left) };
                    return Poll::Ready(Ok(Some(self.buffer.split_to(count).freeze())));
                }
                Step::DataEnd => {
                    if !ready!(self.poll_line(context))?.is_empty() {
                        return Poll::Ready(Err(io::Error::new(
                            io::ErrorKind::InvalidData,
                            "a chunk is too long",
                        )));
                    }
                    self.step = Step::Size;
                }
                Step::Trailers => match ready!(self.poll_line(context)) {
                    Ok(line) if line.is_empty() => self.step = Step::Done,
                    Ok(line) => self.keep_trailer(&line),
                    // Some clients leave the last empty line out.
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => self.step = Step::Done,
                    Err(error) => return Poll::Ready(Err(error)),
                },
            }
        }
    }

    fn keep_trailer(&mut self, line: &[u8]) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return };
        let name = HeaderName::from_bytes(line[..colon].trim_ascii());
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            self.trailers.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name, value);
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

    fn poll_line(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Vec<u8>>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer[..end].trim_ascii_end().to_vec();
                self.buffer.advance(end + 1);
                return Poll::Ready(Ok(line));
            }
            if self.buffer.len() > LONGEST_LINE {
                return Poll::Ready(Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "a chunk's line is too long",
                )));
            }
            ready!(self.poll_more(context))?;
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
