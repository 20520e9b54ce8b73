//! Decodes the bodies of all S3 requests. No other module reads S3's own coding (`aws-chunked`).
//!
//! s3s gets the decoded content without its signature. [`RequestPayload::new`] removes the headers
//! of the coding. The stream returns the content piece by piece, whatever the length of a chunk. It
//! ends without an error only if the body is complete: the announced length, the last chunk, every
//! announced trailer, and, with keys, every signature of a chunk. [`StatedChecksums::check`]
//! compares checksums where the content is written or parsed.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use firstbyte_location::to_usize;
use futures::Stream;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use s3s::stream::{ByteStream, RemainingLength};
use s3s::{S3Error, S3ErrorCode, S3Result, s3_error};

use crate::http::chunks::{BodyElement, ChunkDialect, ChunkLine, Chunks};
use crate::http::request::RequestBody;
use crate::object::stated::{StatedChecksums, Trailers};
use crate::s3::chunk_signatures::ChunkSignatures;
use crate::s3::error::{custom, from_body};

/// The header that states how the request's signature covers the body.
const PAYLOAD_HASH: HeaderName = HeaderName::from_static("x-amz-content-sha256");

const DECODED_LENGTH: HeaderName = HeaderName::from_static("x-amz-decoded-content-length");
const TRAILER: HeaderName = HeaderName::from_static("x-amz-trailer");
const TRAILER_SIGNATURE: &[u8] = b"x-amz-trailer-signature";

/// The content of a request's body.
#[derive(Debug)]
pub(crate) struct RequestPayload {
    body: RequestBody,
    frames: Option<Frames>,
    /// Bytes of content that have not arrived yet, if the request announces the length.
    left: Option<u64>,
}

/// The `aws-chunked` coding of a body.
#[derive(Debug)]
struct Frames {
    chunks: Chunks,
    buffer: BytesMut,
    lines: Lines,
}

/// State of the lines between the data: signatures and trailers.
#[derive(Debug)]
struct Lines {
    signatures: Option<ChunkSignatures>,
    /// Names of the trailers that must arrive.
    announced: Vec<HeaderName>,
    trailers: Trailers,
    trailer_signature: Option<String>,
}

/// The coding of a body, according to `x-amz-content-sha256` and `Content-Encoding`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    Whole,
    Chunked { is_signed: bool, has_trailer: bool },
}

impl RequestPayload {
    /// Decodes `body`. Also returns the checksums stated for the content. Removes the headers of
    /// the coding, so that `Content-Length` and `Content-Encoding` describe the content.
    /// `signatures` verify the chunks if there are keys.
    ///
    /// # Errors
    /// The coding is unknown or contradicts itself.
    pub(crate) fn new(
        headers: &mut HeaderMap,
        body: RequestBody,
        signatures: Option<ChunkSignatures>,
    ) -> S3Result<(Self, StatedChecksums)> {
        let hash = take_one(headers, &PAYLOAD_HASH)?;
        let names_chunks = take_chunked(headers);
        let is_empty = matches!(body, RequestBody::Empty);
        let (coding, hash) = coding(hash.as_deref(), names_chunks && !is_empty)?;
        let decoded = take_one(headers, &DECODED_LENGTH)?;
        let decoded = decoded.map(|text| length(&text)).transpose()?;
        let announced = announced_trailers(headers)?;
        let left = match coding {
            Coding::Whole => decoded.or_else(|| body.length()),
            Coding::Chunked { .. } => decoded,
        };
        headers.remove(CONTENT_LENGTH);
        if let Some(length) = left {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        let trailers = Trailers::default();
        let stated = StatedChecksums::of_headers(headers, &announced, hash, trailers.clone())?;
        let frames = match coding {
            Coding::Whole if announced.is_empty() => None,
            Coding::Whole => return Err(malformed_trailers("a body that is not chunked has no trailers")),
            Coding::Chunked { has_trailer, .. } if has_trailer == announced.is_empty() => {
                return Err(malformed_trailers(
                    "x-amz-trailer and x-amz-content-sha256 must agree on trailers",
                ));
            }
            Coding::Chunked { is_signed, .. } => {
                let signatures = signatures.filter(|_| is_signed);
                let lines = Lines { signatures, announced, trailers, trailer_signature: None };
                Some(Frames { chunks: Chunks::new(ChunkDialect::Aws), buffer: BytesMut::new(), lines })
            }
        };
        Ok((Self { body, frames, left }, stated))
    }

    /// Reads the whole content, up to `limit` bytes.
    pub(crate) async fn collect(mut self, limit: usize) -> S3Result<Bytes> {
        let mut whole = BytesMut::new();
        while let Some(piece) = std::future::poll_fn(|context| self.poll_content(context)).await {
            let piece = piece?;
            if whole.len() + piece.len() > limit {
                return Err(S3ErrorCode::MaxMessageLengthExceeded.into());
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }

    /// Returns the next piece of the content. `None` at the end of a complete body.
    fn poll_content(&mut self, context: &mut Context<'_>) -> Poll<Option<S3Result<Bytes>>> {
        let piece = match &mut self.frames {
            Some(frames) => ready!(frames.poll_piece(&mut self.body, context)),
            None => ready!(Pin::new(&mut self.body).poll_next(context)).transpose(),
        };
        let counted = piece.map_err(from_body).and_then(|piece| {
            let length = piece.as_ref().map_or(0, |piece| piece.len() as u64);
            match &mut self.left {
                Some(left) if length > *left || (piece.is_none() && *left > 0) => {
                    Err(s3_error!(IncompleteBody, "the body has not the length that was announced"))
                }
                Some(left) => {
                    *left -= length;
                    Ok(piece)
                }
                None => Ok(piece),
            }
        });
        Poll::Ready(counted.transpose())
    }
}

impl Stream for RequestPayload {
    type Item = Result<Bytes, s3s::StdError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_content(context).map_err(Into::into)
    }
}

impl ByteStream for RequestPayload {
    fn remaining_length(&self) -> RemainingLength {
        let exact = self.left.and_then(|left| usize::try_from(left).ok());
        exact.map_or_else(RemainingLength::unknown, RemainingLength::new_exact)
    }
}

impl Frames {
    fn poll_piece(
        &mut self,
        body: &mut RequestBody,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Option<Bytes>>> {
        loop {
            match self.chunks.next(&mut self.buffer, |line| self.lines.add_line(line))? {
                BodyElement::End => {
                    // Bytes after the last chunk are refused, because another program could read
                    // them as content.
                    let rest = match self.buffer.is_empty() {
                        true => ready!(Pin::new(&mut *body).poll_next(context)).transpose()?,
                        false => Some(self.buffer.split().freeze()),
                    };
                    let done = match rest {
                        Some(_) => Err(malformed("bytes follow the last chunk")),
                        None => self.lines.end(),
                    };
                    return Poll::Ready(done.map(|()| None));
                }
                BodyElement::Data(left) if !self.buffer.is_empty() => {
                    let count = to_usize(left).min(self.buffer.len());
                    self.chunks.record_moved(count as u64);
                    let piece = self.buffer.split_to(count).freeze();
                    self.lines.add_data(&piece);
                    return Poll::Ready(Ok(Some(piece)));
                }
                BodyElement::Data(_) | BodyElement::More => {
                    match ready!(Pin::new(&mut *body).poll_next(context)).transpose()? {
                        // The buffer is usually the only owner of the piece, so nothing is copied.
                        Some(piece) if self.buffer.is_empty() => self.buffer = BytesMut::from(piece),
                        Some(piece) => self.buffer.extend_from_slice(&piece),
                        None if self.buffer.is_empty() && self.chunks.may_end_here() => {
                            return Poll::Ready(self.lines.end().map(|()| None));
                        }
                        None => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                    }
                }
            }
        }
    }
}

impl Lines {
    fn add_line(&mut self, line: ChunkLine<'_>) -> io::Result<()> {
        match (line, &mut self.signatures) {
            (ChunkLine::Size { extension }, Some(signatures)) => signatures.begin(extension),
            (ChunkLine::Size { .. }, None) => Ok(()),
            (ChunkLine::Trailer { name, value }, _) => {
                if name.eq_ignore_ascii_case(TRAILER_SIGNATURE) {
                    self.trailer_signature = Some(String::from_utf8_lossy(value).into_owned());
                    return Ok(());
                }
                let name = HeaderName::from_bytes(name).ok().filter(|name| self.announced.contains(name));
                let is_new = match (name, HeaderValue::from_bytes(value)) {
                    (Some(name), Ok(value)) => self.trailers.add(&name, value),
                    _ => false,
                };
                if is_new {
                    return Ok(());
                }
                let error = malformed_trailers("a trailer was not announced, or came twice");
                Err(io::Error::other(error))
            }
        }
    }

    fn add_data(&mut self, bytes: &[u8]) {
        if let Some(signatures) = &mut self.signatures {
            signatures.data(bytes);
        }
    }

    /// Checks the conditions that are known only at the end of the body.
    fn end(&mut self) -> io::Result<()> {
        let arrived = self.trailers.get();
        if let Some(missing) = self.announced.iter().find(|name| !arrived.contains_key(*name)) {
            let error = malformed_trailers(&format!("the trailer {missing} was announced and did not come"));
            return Err(io::Error::other(error));
        }
        match &mut self.signatures {
            Some(signatures) if self.announced.is_empty() => signatures.end_chunk(),
            Some(signatures) => signatures.end(&arrived, self.trailer_signature.as_deref()),
            None => Ok(()),
        }
    }
}

/// True if `x-amz-content-sha256` states the `aws-chunked` coding.
pub(super) fn is_coded(headers: &HeaderMap) -> bool {
    headers.get_all(&PAYLOAD_HASH).iter().any(|value| value.as_bytes().starts_with(b"STREAMING-"))
}

/// True if each chunk of the body is signed.
pub(super) fn is_signed_in_chunks(headers: &HeaderMap) -> bool {
    headers.get_all(&PAYLOAD_HASH).iter().any(|value| value.as_bytes().starts_with(b"STREAMING-AWS4-"))
}

/// Determines the coding, and the SHA-256 of the content in hex, from `x-amz-content-sha256` and
/// from whether `Content-Encoding` names `aws-chunked`.
fn coding(hash: Option<&str>, names_chunks: bool) -> S3Result<(Coding, Option<String>)> {
    let chunked = |is_signed, has_trailer| Ok((Coding::Chunked { is_signed, has_trailer }, None));
    match hash {
        Some("STREAMING-UNSIGNED-PAYLOAD-TRAILER") => chunked(false, true),
        Some("STREAMING-AWS4-HMAC-SHA256-PAYLOAD") => chunked(true, false),
        Some("STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER") => chunked(true, true),
        Some(other) if other.starts_with("STREAMING-") => {
            Err(s3_error!(NotImplemented, "bodies signed by {other} cannot be verified here"))
        }
        None | Some("UNSIGNED-PAYLOAD") if names_chunks => chunked(false, false),
        None | Some("UNSIGNED-PAYLOAD") => Ok((Coding::Whole, None)),
        Some(_) if names_chunks => Err(s3_error!(
            InvalidRequest,
            "a body in aws-chunked coding needs STREAMING-... or UNSIGNED-PAYLOAD in x-amz-content-sha256"
        )),
        Some(hash) if is_sha256(hash) => Ok((Coding::Whole, Some(hash.to_owned()))),
        Some(_) => Err(s3_error!(
            InvalidArgument,
            "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-... or the SHA-256 of the body in hex"
        )),
    }
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn length(text: &str) -> S3Result<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let length = digits.then(|| text.parse().ok()).flatten();
    length.ok_or_else(|| s3_error!(InvalidArgument, "{DECODED_LENGTH} must be a number"))
}

/// Removes the header `name`, which must have at most one value, and returns its value.
fn take_one(headers: &mut HeaderMap, name: &HeaderName) -> S3Result<Option<String>> {
    let mut values = headers.get_all(name).iter();
    let (value, None) = (values.next(), values.next()) else {
        return Err(s3_error!(InvalidArgument, "there must be one {name}"));
    };
    let Some(value) = value else { return Ok(None) };
    let text = value.to_str().map_err(|_| s3_error!(InvalidArgument, "{name} must be ASCII"))?;
    let text = text.trim().to_owned();
    headers.remove(name);
    Ok(Some(text))
}

/// Removes `aws-chunked` from `Content-Encoding`. True if it was there. The other codings belong to
/// the content and are kept.
fn take_chunked(headers: &mut HeaderMap) -> bool {
    let lines = headers.get_all(CONTENT_ENCODING).iter();
    let lines: Vec<String> =
        lines.map(|line| String::from_utf8_lossy(line.as_bytes()).into_owned()).collect();
    let codings = lines.iter().flat_map(|line| line.split(',')).map(str::trim);
    let codings: Vec<&str> = codings.filter(|coding| !coding.is_empty()).collect();
    let is_chunked = |coding: &&str| coding.eq_ignore_ascii_case("aws-chunked");
    if !codings.iter().any(is_chunked) {
        return false;
    }
    let rest: Vec<&str> = codings.into_iter().filter(|coding| !is_chunked(coding)).collect();
    headers.remove(CONTENT_ENCODING);
    if let (false, Ok(value)) = (rest.is_empty(), HeaderValue::from_str(&rest.join(","))) {
        headers.insert(CONTENT_ENCODING, value);
    }
    true
}

/// Returns the names in `x-amz-trailer`. Refuses names other than those of checksums.
fn announced_trailers(headers: &mut HeaderMap) -> S3Result<Vec<HeaderName>> {
    let Some(text) = take_one(headers, &TRAILER)? else { return Ok(Vec::new()) };
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    let known = |name: &str| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok();
        let checksum = name.filter(|name| StatedChecksums::algorithm_of(name).is_some());
        checksum.ok_or_else(|| {
            s3_error!(InvalidRequest, "the trailer that x-amz-trailer announces is not supported")
        })
    };
    names.map(known).collect()
}

fn malformed_trailers(why: &str) -> S3Error {
    custom("MalformedTrailerError", StatusCode::BAD_REQUEST, why)
}

fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
