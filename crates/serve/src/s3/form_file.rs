//! Passes on the file of an HTML form as a stream, and makes the placeholder that s3s gets in its
//! place.
//!
//! s3s would keep the whole file in memory. It compares the file's length with the policy, so the
//! placeholder has the smallest length that the policy allows. [`FormFile`] compares the length of
//! the file itself. Made by [`super::posted`]; the operation takes the file from the request's
//! extensions.

use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use firstbyte_location::to_usize;
use futures::Stream;
use http::Extensions;
use rustix_futex_sync::Mutex;
use s3s::dto::StreamingBlob;
use s3s::post_policy::{PostPolicy, PostPolicyCondition};
use s3s::stream::{ByteStream, RemainingLength};
use s3s::{S3Result, s3_error};

use super::error::from_body;
use crate::http::request::RequestBody;

/// Zero bytes, of which placeholders consist.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// Returns the lengths that `policy`, in base64, allows for the file. s3s refuses a form whose
/// policy cannot be parsed.
pub(super) fn allowed_lengths(policy: Option<&str>) -> RangeInclusive<u64> {
    let policy = policy.and_then(|policy| PostPolicy::from_base64(policy).ok());
    let conditions = policy.map(|policy| policy.conditions).unwrap_or_default();
    conditions.iter().fold(0..=u64::MAX, |allowed, condition| match condition {
        PostPolicyCondition::ContentLengthRange { min, max } => {
            *allowed.start().max(min)..=*allowed.end().min(max)
        }
        _ => allowed,
    })
}

/// The file of a form: the bytes up to the next boundary.
#[derive(Debug)]
pub(super) struct FormFile {
    /// Bytes that arrived and were not passed on.
    buffer: BytesMut,
    rest: RequestBody,
    /// The line break and the boundary that end the file.
    end: Vec<u8>,
    is_over: bool,
    passed: u64,
    allowed: RangeInclusive<u64>,
}

impl FormFile {
    /// Makes the file that begins with `begun` and continues with `rest`, up to `boundary`.
    pub(super) fn new(
        begun: BytesMut,
        rest: RequestBody,
        boundary: &str,
        allowed: RangeInclusive<u64>,
    ) -> Self {
        let end = format!("\r\n--{boundary}").into_bytes();
        Self { buffer: begun, rest, end, is_over: false, passed: 0, allowed }
    }

    /// Returns the smallest length that the policy allows.
    pub(super) fn smallest(&self) -> u64 {
        *self.allowed.start()
    }

    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<S3Result<Bytes>>> {
        while !self.is_over {
            let end = find(&self.buffer, &self.end);
            self.is_over = end.is_some();
            // The last bytes may be the beginning of the boundary, so they stay in the buffer.
            let count = end.unwrap_or((self.buffer.len() + 1).saturating_sub(self.end.len()));
            if count > 0 || self.is_over {
                let piece = self.buffer.split_to(count).freeze();
                return Poll::Ready(self.check_piece(piece).transpose());
            }
            match ready!(Pin::new(&mut self.rest).poll_next(context)) {
                Some(Ok(piece)) => self.buffer.extend_from_slice(&piece),
                Some(Err(error)) => return Poll::Ready(Some(Err(from_body(error)))),
                None => {
                    let error = s3_error!(IncompleteBody, "the form ends before the end of its file");
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
        Poll::Ready(None)
    }

    /// Counts `piece`, and compares the length of the file so far with the policy. `None` for the
    /// end of the file.
    fn check_piece(&mut self, piece: Bytes) -> S3Result<Option<Bytes>> {
        self.passed += piece.len() as u64;
        if self.passed > *self.allowed.end() {
            return Err(s3_error!(
                EntityTooLarge,
                "Your proposed upload exceeds the maximum allowed object size."
            ));
        }
        if self.is_over && self.passed < *self.allowed.start() {
            return Err(s3_error!(
                EntityTooSmall,
                "Your proposed upload is smaller than the minimum allowed object size."
            ));
        }
        Ok((!piece.is_empty()).then_some(piece))
    }
}

impl Stream for FormFile {
    type Item = S3Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_piece(context)
    }
}

/// Returns the position of `end`, which begins with a carriage return, in `bytes`.
fn find(bytes: &[u8], end: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|byte| *byte == b'\r') {
        if bytes[from + at..].starts_with(end) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

/// A file on its way to the operation, in the extensions of a request. Extensions are cloned, so
/// the file is shared.
#[derive(Clone)]
pub(super) struct PassedFile(Arc<Mutex<Option<FormFile>>>);

impl PassedFile {
    pub(super) fn new(file: FormFile) -> Self {
        Self(Arc::new(Mutex::new(Some(file))))
    }

    /// Returns the file in `extensions`.
    ///
    /// # Errors
    /// There is none, or it was taken before.
    pub(super) fn take(extensions: &Extensions) -> S3Result<StreamingBlob> {
        let file = extensions.get::<Self>().and_then(|passed| passed.0.lock().take());
        let file = file.ok_or_else(|| s3_error!(InternalError, "the form has lost its file"))?;
        Ok(StreamingBlob::wrap(file))
    }
}

/// The body of a form whose file consists of zero bytes.
#[derive(Debug)]
pub(super) struct Placeholder {
    fields: Option<Bytes>,
    zeros: u64,
    end: Option<Bytes>,
    /// True if the body has yielded to other tasks since the last piece of zeros. There may be many
    /// such pieces, and they never wait for the network.
    has_yielded: bool,
}

impl Placeholder {
    /// Makes the body that begins with `fields`, has `zeros` zero bytes as its file, and ends with
    /// `end`.
    pub(super) fn new(fields: Bytes, zeros: u64, end: Bytes) -> Self {
        Self { fields: Some(fields), zeros, end: Some(end), has_yielded: false }
    }
}

impl Stream for Placeholder {
    type Item = Result<Bytes, s3s::StdError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(fields) = self.fields.take() {
            return Poll::Ready(Some(Ok(fields)));
        }
        if self.zeros == 0 {
            return Poll::Ready(self.end.take().map(Ok));
        }
        self.has_yielded = !self.has_yielded;
        if self.has_yielded {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let piece = &ZEROS[..to_usize(self.zeros).min(ZEROS.len())];
        self.zeros -= piece.len() as u64;
        Poll::Ready(Some(Ok(Bytes::from_static(piece))))
    }
}

impl ByteStream for Placeholder {
    fn remaining_length(&self) -> RemainingLength {
        RemainingLength::unknown()
    }
}
