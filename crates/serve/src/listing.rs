//! Listings for programs, sent while the directory is read, in its own order: one object per entry
//! in JSON or NDJSON, one name a line as plain text, or one link for programs that follow links.
//!
//! An object is `{"name", "kind", "size", "modified", "etag"}`. With `?recursive` the name is the
//! path below the listed directory. In a name that is not UTF-8, invalid bytes are replaced, and
//! `"name_hex"` has the exact bytes. Plain text escapes such bytes and line breaks, as the page
//! does.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::auth::Access;
use crate::directory::{Kind, Reader};
use crate::etag::Identity;
use crate::html::{escape, url_path, visible};
use crate::request::Request;
use crate::response::{Body, Response};
use crate::root::{EntryPath, Root};
use crate::site::Site;

/// Lines are sent in pieces of this size: few system calls, little memory.
const PIECE: usize = 64 << 10;

/// Programs that read a directory by following the links of its page (the last one as fsspec's
/// HTTP file system). They accept anything, so they are known by their name only.
const LINK_FOLLOWERS: [&str; 4] = ["Wget/", "rclone/", "lftp/", "aiohttp/"];

/// The beginning and the end of a page of links.
const LINKS: [&str; 2] = [
    "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Files</title>\n<ul>\n",
    "</ul>\n</html>\n",
];

/// Which form was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// One array.
    Json,
    /// One object a line.
    Ndjson,
    /// One name a line; those of directories end in `/`.
    Text,
    /// A page of links.
    Links,
}

impl Format {
    /// The form `request` asks for by `?format=` or `Accept`; none for the page for browsers.
    pub(crate) fn asked_by(request: &Request) -> Option<Self> {
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

    fn content_type(self) -> &'static str {
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
    size: u64,
    modified: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
}

/// Streams what `access` may see of the listing of `path`.
pub(crate) async fn answer(
    site: &Arc<Site>,
    request: &Request,
    path: &EntryPath,
    format: Format,
    access: &Access,
) -> Response {
    let recursive = request.query("recursive").is_some();
    // Two pieces on their way: one being sent, one being filled.
    let (pieces, receiver) = mpsc::channel(2);
    let (root, path, access) = (site.root.clone(), path.clone(), access.clone());
    let links = format!("{}/{}", request.prefix, url_path(&path.as_directory()));
    tokio::task::spawn_blocking(move || {
        let buffer = Vec::with_capacity(PIECE);
        let mut writer = RowWriter { pieces, buffer, format, links, rows: 0, access };
        writer.begin();
        let walked = writer.walk(&root, &path, &[], recursive).and_then(|()| writer.end());
        if let Err(error) = walked {
            // Breaks the answer off, so that the client does not take it for whole.
            let _ = writer.pieces.blocking_send(Err(error));
        }
    });
    let stream = futures::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|piece| (piece, receiver))
    });
    Response::new(StatusCode::OK)
        .with_header(CONTENT_TYPE, format.content_type())
        .with_body(Body::Stream(Box::pin(stream)))
}

struct RowWriter {
    pieces: mpsc::Sender<io::Result<Bytes>>,
    buffer: Vec<u8>,
    format: Format,
    /// The beginning of every link: the path of the directory.
    links: String,
    rows: u64,
    /// The rights of the request. If they do not cover a whole directory, only what they cover is
    /// listed.
    access: Access,
}

impl RowWriter {
    fn walk(&mut self, root: &Root, path: &EntryPath, prefix: &[u8], recursive: bool) -> io::Result<()> {
        let access = self.access.clone();
        let mut reader = Reader::open_for(root, path, &access)?;
        let mut below = Vec::new();
        while let Some(entry) = reader.next() {
            let entry = entry?;
            let Some(identity) = reader.identity(&entry) else { continue };
            let mut name = prefix.to_vec();
            name.extend_from_slice(entry.name.as_bytes());
            self.row(&name, entry.kind, &identity)?;
            if recursive && entry.kind == Kind::Directory {
                name.push(b'/');
                below.push((access.entering(path.join(&entry.name)), name));
            }
        }
        drop(reader);
        for (path, prefix) in below {
            match self.walk(root, &path, &prefix, recursive) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                done => done?,
            }
        }
        Ok(())
    }

    fn begin(&mut self) {
        if self.format == Format::Links {
            self.buffer.extend_from_slice(LINKS[0].as_bytes());
        }
    }

    fn row(&mut self, name: &[u8], kind: Kind, identity: &Identity) -> io::Result<()> {
        let slash = if kind == Kind::File { "" } else { "/" };
        match self.format {
            Format::Json | Format::Ndjson => self.object(name, kind, identity)?,
            Format::Text => writeln!(self.buffer, "{}{slash}", visible(name))?,
            Format::Links => {
                let (href, text) = (url_path(name), escape(&visible(name)));
                let links = &self.links;
                writeln!(self.buffer, "<li><a href=\"{links}{href}{slash}\">{text}{slash}</a></li>")?;
            }
        }
        if self.buffer.len() < PIECE { Ok(()) } else { self.flush() }
    }

    fn object(&mut self, name: &[u8], kind: Kind, identity: &Identity) -> io::Result<()> {
        let text = String::from_utf8_lossy(name);
        let is_file = kind == Kind::File;
        let row = Row {
            name_hex: (text.as_bytes() != name).then(|| hex::encode(name)),
            name: text,
            kind: if is_file { "file" } else { "directory" },
            size: if is_file { identity.size } else { 0 },
            modified: identity.rfc3339(),
            etag: is_file.then(|| identity.etag()),
        };
        if self.format == Format::Json {
            self.buffer.extend_from_slice(if self.rows == 0 { b"[\n" } else { b",\n" });
        }
        self.rows += 1;
        serde_json::to_writer(&mut self.buffer, &row).map_err(io::Error::from)?;
        if self.format == Format::Ndjson {
            self.buffer.push(b'\n');
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        match self.format {
            Format::Json => self.buffer.extend_from_slice(if self.rows == 0 { b"[]\n" } else { b"\n]\n" }),
            Format::Links => self.buffer.extend_from_slice(LINKS[1].as_bytes()),
            Format::Ndjson | Format::Text => {}
        }
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        let piece = std::mem::replace(&mut self.buffer, Vec::with_capacity(PIECE));
        self.pieces.blocking_send(Ok(piece.into())).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}
