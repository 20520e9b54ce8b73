//! Defines a response as handlers return it. The connection loop adds the framing and sends it.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use firstbyte_location::ByteRange;
use futures::Stream;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::sync::OwnedSemaphorePermit;

use crate::http::etag::EtagIdentity;

/// Status, headers and body. The connection loop sets `content-length` (or chunked framing), `date`
/// and `connection`.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: StatusCode,
    /// The headers, except those for framing. A `content-length` set here is kept only in responses
    /// to HEAD and with status 304.
    pub(crate) headers: HeaderMap,
    pub(crate) body: ResponseBody,
}

/// A range of an open file, in the version that the response's head states.
#[derive(Clone, Debug)]
pub(crate) struct FileContent {
    pub(crate) file: Arc<File>,
    pub(crate) range: ByteRange,
    /// The version of the whole file.
    pub(crate) version: EtagIdentity,
}

impl FileContent {
    /// Checks that the file has not changed since its version was read.
    ///
    /// # Errors
    /// The file has changed, or its metadata cannot be read.
    pub(crate) fn check_unchanged(&self) -> io::Result<()> {
        let now = EtagIdentity::from(&self.file.metadata()?);
        // The change time is not compared, because it also changes when another file takes the
        // name.
        if (now.size, now.modified) == (self.version.size, self.version.modified) {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::StaleNetworkFileHandle, "the file changed while it was read"))
    }
}

/// An open file. Code that puts a file into a body promises that the file's bytes do not change
/// while the value lives; the compiler does not check the promise.
pub(crate) trait FixedFile: AsFd + Send + Sync + 'static {}

impl<F: AsFd + Send + Sync + 'static> FixedFile for F {}

/// The next bytes of a body, in a file or in memory.
pub(crate) enum BodyPiece {
    /// A range of a file, sent by sendfile on plain TCP.
    File(Arc<dyn FixedFile>, ByteRange),
    /// Bytes in memory, with their share of the memory budget. A short piece has no share.
    Bytes(Bytes, Option<OwnedSemaphorePermit>),
}

/// A body that becomes available piece by piece. Its length is known before it is sent.
#[async_trait::async_trait]
pub(crate) trait BodyPieces: Send {
    /// Returns the total length of all pieces in bytes.
    fn length(&self) -> u64;

    /// Returns the next piece. `None` after the last.
    ///
    /// # Errors
    /// The rest cannot be read, so the response must break off.
    async fn next(&mut self) -> io::Result<Option<BodyPiece>>;
}

/// The body of a response.
pub(crate) enum ResponseBody {
    /// No body.
    Empty,
    /// Bytes in memory.
    Bytes(Bytes),
    /// A range of a file, sent by sendfile on plain TCP.
    File(FileContent),
    /// Pieces in files or in memory, of known total length.
    Pieces(Box<dyn BodyPieces>),
    /// Pieces made while sending, of unknown total length.
    Stream(Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>),
}

impl std::fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => f.write_str("Empty"),
            Self::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
            Self::File(content) => write!(f, "File({})", content.range),
            Self::Pieces(pieces) => write!(f, "Pieces({})", pieces.length()),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

impl ResponseBody {
    /// Returns the body of a response to HEAD for an object whose length is unknown. Such a
    /// response has no `Content-Length` (RFC 9110, 8.6).
    pub(crate) fn of_unknown_length() -> Self {
        Self::Stream(Box::pin(futures::stream::empty()))
    }

    /// Returns the length in bytes. `None` if it is unknown before sending.
    #[must_use]
    pub(crate) fn length(&self) -> Option<u64> {
        match self {
            Self::Empty => Some(0),
            Self::Bytes(bytes) => Some(bytes.len() as u64),
            Self::File(content) => Some(content.range.len()),
            Self::Pieces(pieces) => Some(pieces.length()),
            Self::Stream(_) => None,
        }
    }
}

impl HttpResponse {
    /// Makes an empty response.
    #[must_use]
    pub(crate) fn new(status: StatusCode) -> Self {
        Self { status, headers: HeaderMap::new(), body: ResponseBody::Empty }
    }

    /// Makes a response with one line of plain text, for a terminal.
    #[must_use]
    pub(crate) fn text(status: StatusCode, line: impl std::fmt::Display) -> Self {
        Self::new(status)
            .with_header(CONTENT_TYPE, "text/plain; charset=utf-8")
            .with_body(ResponseBody::Bytes(format!("{line}\n").into()))
    }

    /// Makes a response with a document of the given content type.
    #[must_use]
    pub(crate) fn document(content_type: &'static str, bytes: impl Into<Bytes>) -> Self {
        Self::new(StatusCode::OK)
            .with_header(CONTENT_TYPE, content_type)
            .with_body(ResponseBody::Bytes(bytes.into()))
    }

    /// Sets the header `name`. A value that is not valid in a header is omitted.
    #[must_use]
    pub(crate) fn with_header(mut self, name: HeaderName, value: impl AsRef<str>) -> Self {
        if let Ok(value) = HeaderValue::from_str(value.as_ref()) {
            self.headers.insert(name, value);
        }
        self
    }

    #[must_use]
    pub(crate) fn with_body(mut self, body: ResponseBody) -> Self {
        self.body = body;
        self
    }
}

/// Formats `attachment` with a file's name in both forms (RFC 6266, appendix D): browsers read
/// `filename*`, and curl reads only `filename`, where other characters than plain ones are `_`.
pub(crate) fn attachment(name: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b" -._+=,@()".contains(byte);
    let plain: String =
        name.iter().map(|byte| if is_plain(byte) { char::from(*byte) } else { '_' }).collect();
    let name = percent_encoding::percent_encode(name, percent_encoding::NON_ALPHANUMERIC);
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{name}")
}
