//! Sends listings for programs while the directory is read, in the directory's own order. With
//! `?recursive`, a name is the path below the listed directory. [`lines`](super::lines) formats the
//! entries.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use http::header::CONTENT_TYPE;

use super::lines::{Lines, ListingFormat, ListingLine};
use crate::access::keys::RequestRights;
use crate::http::etag::EtagIdentity;
use crate::http::refusal::{not_found, of_io_error};
use crate::http::request::HttpRequest;
use crate::http::response::{HttpResponse, ResponseBody};
use crate::object::directory::{EntryReader, VisibleKind, is_left_out};
use crate::object::root::ServedRoot;
use crate::page::html::url_path;
use crate::path::EntryPath;
use crate::state::DirectoryState;

/// Streams the listing of `path`, within the rights of `access`. No thread waits for the client.
pub(crate) async fn answer(
    state: &Arc<DirectoryState>,
    request: &HttpRequest,
    path: &EntryPath,
    format: ListingFormat,
    access: &RequestRights,
) -> HttpResponse {
    let recursive = request.query("recursive").is_some();
    let (root, path, access) = (state.root.clone(), path.clone(), access.clone());
    let links = format!("{}/{}", request.prefix, url_path(&path.as_directory()));
    let open = move || Rows::open(root, &path, access, format, links, recursive);
    let rows = match tokio::task::spawn_blocking(open).await.map_err(io::Error::other) {
        Ok(Ok(rows)) => rows,
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => return not_found(),
        Ok(Err(error)) | Err(error) => return of_io_error(&error),
    };
    let stream = futures::stream::try_unfold(rows, |mut rows| async move {
        // An error breaks off the response, so that the client sees that the list is incomplete.
        let next = move || rows.piece().map(|piece| piece.map(|piece| (piece, rows)));
        let next = tokio::task::spawn_blocking(next).await.map_err(io::Error::other)?;
        next.inspect_err(|error| tracing::warn!(%error, "a list ended early"))
    });
    HttpResponse::new(StatusCode::OK)
        .with_header(CONTENT_TYPE, format.content_type())
        .with_body(ResponseBody::Stream(Box::pin(stream)))
}

/// A listing in progress: first the entries of each directory, then the entries of its
/// subdirectories.
struct Rows {
    lines: Lines,
    root: ServedRoot,
    /// The rights of the request. Entries outside these rights are omitted.
    access: RequestRights,
    recursive: bool,
    /// The directory being read. `None` at the end.
    level: Option<Level>,
    /// The directories that are still to be read. The next one is at the end.
    left: Vec<Directory>,
}

/// A directory of a listing, and the prefix of its entries' names.
struct Directory {
    path: EntryPath,
    prefix: Vec<u8>,
}

/// A directory that is being read.
struct Level {
    directory: Directory,
    reader: EntryReader,
    /// The subdirectories found so far, in order.
    subdirectories: Vec<Directory>,
}

impl Rows {
    /// Opens a listing of `path`. Blocking, as is [`piece`](Self::piece).
    fn open(
        root: ServedRoot,
        path: &EntryPath,
        access: RequestRights,
        format: ListingFormat,
        links: String,
        recursive: bool,
    ) -> io::Result<Self> {
        let reader = EntryReader::open_for(&root, path, &access)?;
        let directory = Directory { path: path.clone(), prefix: Vec::new() };
        let level = Some(Level { directory, reader, subdirectories: Vec::new() });
        Ok(Self { lines: Lines::new(format, links), root, access, recursive, level, left: Vec::new() })
    }

    /// Returns the next lines. `None` after the last.
    fn piece(&mut self) -> io::Result<Option<Bytes>> {
        while !self.lines.is_full() && self.level.is_some() {
            self.advance()?;
            if self.level.is_none() {
                self.lines.end();
            }
        }
        Ok(self.lines.take())
    }

    /// Adds the row of the next entry, or continues with the next directory.
    fn advance(&mut self) -> io::Result<()> {
        let Some(mut level) = self.level.take() else { return Ok(()) };
        let Some(entry) = level.reader.next() else {
            self.left.extend(level.subdirectories.into_iter().rev());
            return self.descend();
        };
        let entry = entry?;
        if let Some(identity) = level.reader.identity(&entry) {
            let mut name = level.directory.prefix.clone();
            name.extend_from_slice(entry.name.as_bytes());
            self.add_row(&name, entry.kind, &identity)?;
            if self.recursive && entry.kind == VisibleKind::Directory {
                name.push(b'/');
                let path = self.access.fenced_directory(level.directory.path.join(&entry.name));
                level.subdirectories.push(Directory { path, prefix: name });
            }
        }
        self.level = Some(level);
        Ok(())
    }

    /// Opens the next directory that exists and may be read.
    fn descend(&mut self) -> io::Result<()> {
        while let Some(directory) = self.left.pop() {
            match EntryReader::open_for(&self.root, &directory.path, &self.access) {
                Err(error) if is_left_out(&directory.path, &error) => {}
                Err(error) => return Err(error),
                Ok(reader) => {
                    self.level = Some(Level { directory, reader, subdirectories: Vec::new() });
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn add_row(&mut self, name: &[u8], kind: VisibleKind, identity: &EtagIdentity) -> io::Result<()> {
        self.lines.add(&ListingLine {
            name,
            is_file: kind == VisibleKind::File,
            size: Some(identity.size),
            modified: identity.rfc3339(),
            etag: Some(identity.etag()),
        })
    }
}
