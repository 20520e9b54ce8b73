//! Formats the lines of a listing for programs: one object per entry in JSON or NDJSON, one name
//! per line as plain text, or one link for programs that follow links.
//!
//! An object is `{"name", "kind", "size", "modified", "etag"}`. If a name is not UTF-8, its invalid
//! bytes are replaced, and `"name_hex"` has the exact bytes. Plain text escapes invalid bytes and
//! line breaks, as the page does.

use std::io::{self, Write};

use bytes::Bytes;
use http::header::{ACCEPT, USER_AGENT};
use serde::Serialize;

use crate::http::request::HttpRequest;
use crate::page::html::{escape, url_path, visible};

/// Bytes of lines sent at once: so many that few system calls are needed, but little memory.
const PIECE_BYTES: usize = 64 << 10;

/// User agents of programs that read a directory by following the links of its page. `aiohttp/` is
/// fsspec's HTTP file system. These programs accept any content type, so only their user agent
/// identifies them.
const LINK_FOLLOWERS: [&str; 4] = ["Wget/", "rclone/", "lftp/", "aiohttp/"];

/// The beginning and the end of a page of links.
const LINKS: [&str; 2] = [
    "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Files</title>\n<ul>\n",
    "</ul>\n</html>\n",
];

/// The form of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListingFormat {
    /// A JSON array.
    Json,
    /// One JSON object per line.
    Ndjson,
    /// One name per line. Directory names end in `/`.
    Text,
    /// A page of links.
    Links,
}

impl ListingFormat {
    /// Returns the form that `request` asks for by `?format=`, `Accept` or its `User-Agent`. `None`
    /// means the page for browsers.
    pub(crate) fn requested_by(request: &HttpRequest) -> Option<Self> {
        let accept = request.header(ACCEPT).unwrap_or_default();
        let agent = request.header(USER_AGENT).unwrap_or_default();
        match request.query("format").as_deref() {
            Some("json") => Some(Self::Json),
            Some("ndjson") => Some(Self::Ndjson),
            Some("text") => Some(Self::Text),
            _ if accept.contains("application/x-ndjson") => Some(Self::Ndjson),
            _ if LINK_FOLLOWERS.iter().any(|name| agent.contains(name)) => Some(Self::Links),
            _ if accept.contains("text/html") => None,
            _ if accept.contains("application/json") => Some(Self::Json),
            _ => Some(Self::Text),
        }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Ndjson => "application/x-ndjson",
            Self::Text => "text/plain; charset=utf-8",
            Self::Links => "text/html; charset=utf-8",
        }
    }
}

#[derive(Serialize)]
struct Row<'a> {
    name: std::borrow::Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name_hex: Option<String>,
    kind: &'static str,
    /// `None` if the origin of a gateway does not state the length.
    size: Option<u64>,
    modified: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<&'a str>,
}

/// An entry of a listing.
pub(crate) struct ListingLine<'a> {
    /// The name, or the path below the listed directory.
    pub(crate) name: &'a [u8],
    pub(crate) is_file: bool,
    /// The length of a file in bytes. `None` if the origin of a gateway does not state it.
    pub(crate) size: Option<u64>,
    /// The time in RFC 3339; empty if unknown.
    pub(crate) modified: String,
    pub(crate) etag: Option<String>,
}

/// Formatted lines that wait to be sent.
pub(crate) struct Lines {
    buffer: Vec<u8>,
    format: ListingFormat,
    /// Prefix of every link: the path of the directory.
    links: String,
    rows: u64,
}

impl Lines {
    /// Starts a listing without entries.
    pub(crate) fn new(format: ListingFormat, links: String) -> Self {
        let start = if format == ListingFormat::Links { LINKS[0] } else { "" };
        Self { buffer: start.as_bytes().to_vec(), format, links, rows: 0 }
    }

    /// True if enough lines have been collected to send them.
    pub(crate) fn is_full(&self) -> bool {
        self.buffer.len() >= PIECE_BYTES
    }

    /// Returns the lines added since the last call. `None` if no lines were added.
    pub(crate) fn take(&mut self) -> Option<Bytes> {
        let piece = std::mem::take(&mut self.buffer);
        (!piece.is_empty()).then(|| piece.into())
    }

    pub(crate) fn add(&mut self, line: &ListingLine<'_>) -> io::Result<()> {
        let slash = if line.is_file { "" } else { "/" };
        match self.format {
            ListingFormat::Json | ListingFormat::Ndjson => self.add_object(line)?,
            ListingFormat::Text => writeln!(self.buffer, "{}{slash}", visible(line.name))?,
            ListingFormat::Links => {
                let (href, text) = (url_path(line.name), escape(&visible(line.name)));
                let links = &self.links;
                writeln!(self.buffer, "<li><a href=\"{links}{href}{slash}\">{text}{slash}</a></li>")?;
            }
        }
        Ok(())
    }

    fn add_object(&mut self, line: &ListingLine<'_>) -> io::Result<()> {
        let text = String::from_utf8_lossy(line.name);
        let row = Row {
            name_hex: (text.as_bytes() != line.name).then(|| hex::encode(line.name)),
            name: text,
            kind: if line.is_file { "file" } else { "directory" },
            size: if line.is_file { line.size } else { Some(0) },
            modified: &line.modified,
            etag: line.etag.as_deref().filter(|_| line.is_file),
        };
        if self.format == ListingFormat::Json {
            self.buffer.extend_from_slice(if self.rows == 0 { b"[\n" } else { b",\n" });
        }
        self.rows += 1;
        serde_json::to_writer(&mut self.buffer, &row).map_err(io::Error::from)?;
        if self.format == ListingFormat::Ndjson {
            self.buffer.push(b'\n');
        }
        Ok(())
    }

    /// Adds the text that ends the listing.
    pub(crate) fn end(&mut self) {
        let end: &[u8] = match self.format {
            ListingFormat::Json if self.rows == 0 => b"[]\n",
            ListingFormat::Json => b"\n]\n",
            ListingFormat::Links => LINKS[1].as_bytes(),
            ListingFormat::Ndjson | ListingFormat::Text => b"",
        };
        self.buffer.extend_from_slice(end);
    }
}
