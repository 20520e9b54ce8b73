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

use crate::access::keys::Access;
use crate::http::etag::Identity;
use crate::http::refusal::{failure, not_found};
use crate::http::request::Request;
use crate::http::response::{Body, Response};
use crate::object::directory::{Kind, Reader, is_left_out};
use crate::object::root::Root;
use crate::page::html::{escape, url_path, visible};
use crate::path::EntryPath;
use crate::state::ServerState;

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

/// Streams what `access` may see of the listing of `path`. No thread waits for the client.
pub(crate) async fn answer(
    state: &Arc<ServerState>,
    request: &Request,
    path: &EntryPath,
    format: Format,
    access: &Access,
) -> Response {
    let recursive = request.query("recursive").is_some();
    let (root, path, access) = (state.root.clone(), path.clone(), access.clone());
    let links = format!("{}/{}", request.prefix, url_path(&path.as_directory()));
    let open = move || Rows::open(root, &path, access, format, links, recursive);
    let rows = match tokio::task::spawn_blocking(open).await.map_err(io::Error::other) {
        Ok(Ok(rows)) => rows,
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => return not_found(),
        Ok(Err(error)) | Err(error) => return failure(&error),
    };
    let stream = futures::stream::try_unfold(rows, |mut rows| async move {
        // An error breaks the answer off, so that the client does not take it for whole.
        let next = move || rows.piece().map(|piece| piece.map(|piece| (piece, rows)));
        let next = tokio::task::spawn_blocking(next).await.map_err(io::Error::other)?;
        next.inspect_err(|error| tracing::warn!(%error, "a list ended early"))
    });
    Response::new(StatusCode::OK)
        .with_header(CONTENT_TYPE, format.content_type())
        .with_body(Body::Stream(Box::pin(stream)))
}

/// A listing being made: the entries of each directory, then those of the directories in it.
struct Rows {
    buffer: Vec<u8>,
    format: Format,
    /// The beginning of every link: the path of the directory.
    links: String,
    rows: u64,
    root: Root,
    /// The rights of the request. If they do not cover a whole directory, only what they cover is
    /// listed.
    access: Access,
    recursive: bool,
    /// The directory being read, if any is left.
    level: Option<Level>,
    /// Directories to read after it, the next one last.
    left: Vec<Directory>,
}

/// A directory of a listing, and the beginning of its entries' names.
struct Directory {
    path: EntryPath,
    prefix: Vec<u8>,
}

/// A directory that is being read.
struct Level {
    directory: Directory,
    reader: Reader,
    /// The directories found in it, in order.
    below: Vec<Directory>,
}

impl Rows {
    /// Blocking, as is [`piece`](Self::piece).
    fn open(
        root: Root,
        path: &EntryPath,
        access: Access,
        format: Format,
        links: String,
        recursive: bool,
    ) -> io::Result<Self> {
        let reader = Reader::open_for(&root, path, &access)?;
        let directory = Directory { path: path.clone(), prefix: Vec::new() };
        let level = Some(Level { directory, reader, below: Vec::new() });
        let start = if format == Format::Links { LINKS[0] } else { "" };
        let buffer = start.as_bytes().to_vec();
        Ok(Self { buffer, format, links, rows: 0, root, access, recursive, level, left: Vec::new() })
    }

    /// The next lines, at least [`PIECE`] bytes unless they are the last. `None` after those.
    fn piece(&mut self) -> io::Result<Option<Bytes>> {
        while self.buffer.len() < PIECE && self.level.is_some() {
            self.advance()?;
            if self.level.is_none() {
                self.end();
            }
        }
        let piece = std::mem::take(&mut self.buffer);
        Ok((!piece.is_empty()).then(|| piece.into()))
    }

    /// Adds the row of the next entry, or continues with the next directory.
    fn advance(&mut self) -> io::Result<()> {
        let Some(mut level) = self.level.take() else { return Ok(()) };
        let Some(entry) = level.reader.next() else {
            self.left.extend(level.below.into_iter().rev());
            return self.descend();
        };
        let entry = entry?;
        if let Some(identity) = level.reader.identity(&entry) {
            let mut name = level.directory.prefix.clone();
            name.extend_from_slice(entry.name.as_bytes());
            self.row(&name, entry.kind, &identity)?;
            if self.recursive && entry.kind == Kind::Directory {
                name.push(b'/');
                let path = self.access.entering(level.directory.path.join(&entry.name));
                level.below.push(Directory { path, prefix: name });
            }
        }
        self.level = Some(level);
        Ok(())
    }

    /// Opens the next directory that is still there and may be read.
    fn descend(&mut self) -> io::Result<()> {
        while let Some(directory) = self.left.pop() {
            match Reader::open_for(&self.root, &directory.path, &self.access) {
                Err(error) if is_left_out(&directory.path, &error) => {}
                Err(error) => return Err(error),
                Ok(reader) => {
                    self.level = Some(Level { directory, reader, below: Vec::new() });
                    return Ok(());
                }
            }
        }
        Ok(())
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
        Ok(())
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

    fn end(&mut self) {
        let end: &[u8] = match self.format {
            Format::Json if self.rows == 0 => b"[]\n",
            Format::Json => b"\n]\n",
            Format::Links => LINKS[1].as_bytes(),
            Format::Ndjson | Format::Text => b"",
        };
        self.buffer.extend_from_slice(end);
    }
}
