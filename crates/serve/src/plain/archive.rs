//! Archives a directory, or some of its entries, as one tar file that is made while it is sent.
//!
//! An archive that ends with its end mark (two empty blocks) is complete: each file in it has the
//! content of one version, with the length that its head announces. If a file changes while it is
//! read, the response breaks off. Names are relative to the archive's directory. Links to files are
//! stored as files, and links to directories are omitted, as in recursive listings. Whatever its
//! depth, an archive holds one piece in memory and a few open files, and occupies no thread while
//! the client reads.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use firstbyte_location::to_usize;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use rustix::fs::OFlags;

use crate::access::keys::{KeyRights, RequestRights};
use crate::config::Buckets;
use crate::http::refusal::{not_found, of_io_error};
use crate::http::request::{HttpRequest, query_pairs};
use crate::http::response::{HttpResponse, ResponseBody, attachment};
use crate::object::directory::{DirectoryPosition, EntryReader, VisibleKind, is_left_out};
use crate::object::root::ServedRoot;
use crate::path::EntryPath;
use crate::state::DirectoryState;

/// Bytes that are read and sent at once. Each slow client takes this much memory.
const PIECE_BYTES: usize = 64 << 10;

/// Maximum number of open directories, counted from the innermost. Outer directories are closed,
/// and reopened when the archive returns to them.
const MAX_OPEN_LEVELS: usize = 8;

/// The name of a tar entry that contains the next entry's name.
const LONG_NAME: &[u8] = b"././@LongLink";

/// The unit of tar in bytes: a head takes one, and files are padded to a multiple.
const TAR_BLOCK_BYTES: usize = 512;

/// Answers with the archive of the directory `path`, or of the entries of `path` that the query
/// names, within the rights of `access`.
pub(crate) async fn answer(
    state: &Arc<DirectoryState>,
    request: &HttpRequest,
    path: &EntryPath,
    format: &str,
    access: &RequestRights,
) -> HttpResponse {
    if format != "tar" {
        return HttpResponse::text(StatusCode::BAD_REQUEST, "archives are tar files; ask for ?archive=tar");
    }
    let names: Vec<String> =
        query_pairs(&request.query).filter(|(key, _)| key == "name").map(|(_, name)| name).collect();
    let (root, below, reader) = (state.root.clone(), path.clone(), access.clone());
    let open = move || Archive::open(root, &below, &names, reader);
    let archive = match tokio::task::spawn_blocking(open).await.map_err(io::Error::other) {
        Ok(Ok(archive)) => archive,
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => return not_found(),
        Ok(Err(error)) | Err(error) => return of_io_error(&error),
    };
    let stream = futures::stream::try_unfold(archive, |mut archive| async move {
        let next = move || archive.piece().map(|piece| piece.map(|piece| (piece, archive)));
        let next = tokio::task::spawn_blocking(next).await.map_err(io::Error::other)?;
        // The response breaks off, so that the client sees that the archive is incomplete.
        next.inspect_err(|error| tracing::warn!(%error, "an archive ended early"))
    });
    HttpResponse::new(StatusCode::OK)
        .with_header(CONTENT_TYPE, "application/x-tar")
        .with_header(CONTENT_DISPOSITION, attachment(&file_name(path, &state.config.buckets)))
        .with_header(CACHE_CONTROL, "no-store")
        .with_body(ResponseBody::Stream(Box::pin(stream)))
}

fn file_name(path: &EntryPath, buckets: &Buckets) -> Vec<u8> {
    let name = match (path.name(), buckets) {
        (Some(name), _) => name.as_bytes(),
        (None, Buckets::Named(bucket)) => bucket.as_bytes(),
        (None, Buckets::FirstLevel) => b"files",
    };
    [name, b".tar"].concat()
}

/// An archive being made.
struct Archive {
    root: ServedRoot,
    access: RequestRights,
    /// Requested entries that are not written yet.
    requested: VecDeque<Item>,
    /// The directories above the next entry, outermost first.
    levels: Vec<Level>,
    /// The file whose content comes next.
    content: Option<Content>,
    has_end: bool,
}

/// An entry, and its name in the archive.
struct Item {
    path: EntryPath,
    name: Vec<u8>,
}

/// A directory being read, and the prefix of its entries' names.
struct Level {
    path: EntryPath,
    state: LevelState,
    prefix: Vec<u8>,
}

enum LevelState {
    Open(EntryReader),
    Closed(DirectoryPosition),
}

impl Level {
    fn open(
        root: &ServedRoot,
        path: &EntryPath,
        access: &RequestRights,
        prefix: Vec<u8>,
    ) -> io::Result<Self> {
        let state = LevelState::Open(EntryReader::open_for(root, path, access)?);
        Ok(Self { path: path.clone(), state, prefix })
    }

    /// Returns the reader, reopened at its position if it was closed.
    fn reader(&mut self, root: &ServedRoot, access: &RequestRights) -> io::Result<&mut EntryReader> {
        if let LevelState::Closed(position) = self.state {
            self.state = LevelState::Open(EntryReader::resume(root, &self.path, access, position)?);
        }
        match &mut self.state {
            LevelState::Open(reader) => Ok(reader),
            LevelState::Closed(_) => unreachable!("it was opened above"),
        }
    }

    fn close(&mut self) -> io::Result<()> {
        if let LevelState::Open(reader) = &self.state {
            self.state = LevelState::Closed(reader.position()?);
        }
        Ok(())
    }
}

impl Archive {
    /// Makes an archive of the directory `path`, or of its entries `names`, which are
    /// percent-encoded. Blocking.
    fn open(root: ServedRoot, path: &EntryPath, names: &[String], access: RequestRights) -> io::Result<Self> {
        let mut requested = VecDeque::new();
        for name in names {
            let name: Vec<u8> = percent_encoding::percent_decode_str(name).collect();
            let entry = EntryPath::parse(&name).map_err(|_| io::ErrorKind::NotFound)?;
            if entry.is_root() || entry.parent() != EntryPath::default() {
                return Err(io::ErrorKind::NotFound.into());
            }
            let path = access.fenced_directory(path.join(OsStr::from_bytes(entry.as_bytes())));
            let is_shown =
                access.allows(KeyRights::Read, path.as_bytes()) || access.reaches(&path.as_directory());
            if !is_shown {
                return Err(io::ErrorKind::NotFound.into());
            }
            // An entry that was requested by name is never omitted, so it must open, and be of a
            // kind that archives contain.
            let metadata = root.open_blocking(&path, OFlags::RDONLY | OFlags::NONBLOCK)?.metadata()?;
            if !metadata.is_file() && !metadata.is_dir() {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            requested.push_back(Item { path, name: entry.as_bytes().to_vec() });
        }
        let mut levels = Vec::new();
        root.open_directory(path)?;
        match path.name() {
            _ if !names.is_empty() => {}
            Some(name) => requested.push_back(Item { path: path.clone(), name: name.as_bytes().to_vec() }),
            None => {
                levels.push(Level::open(&root, path, &access, Vec::new())?);
            }
        }
        Ok(Self { root, access, requested, levels, content: None, has_end: false })
    }

    /// Returns the next bytes. `None` after the end. Blocking.
    fn piece(&mut self) -> io::Result<Option<Bytes>> {
        let mut buffer = Vec::with_capacity(PIECE_BYTES);
        while buffer.len() < PIECE_BYTES && !self.has_end {
            match &mut self.content {
                Some(content) => {
                    if content.read(&mut buffer)? {
                        self.content = None;
                    }
                }
                None => match self.next_item()? {
                    Some(item) => self.begin(item, &mut buffer)?,
                    None => {
                        buffer.resize(buffer.len() + 2 * TAR_BLOCK_BYTES, 0);
                        self.has_end = true;
                    }
                },
            }
        }
        Ok((!buffer.is_empty()).then(|| buffer.into()))
    }

    fn next_item(&mut self) -> io::Result<Option<Item>> {
        while let Some(level) = self.levels.last_mut() {
            let reader = match level.reader(&self.root, &self.access) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.levels.pop();
                    continue;
                }
                reader => reader?,
            };
            let Some(entry) = reader.next() else {
                self.levels.pop();
                continue;
            };
            let entry = entry?;
            if entry.kind != VisibleKind::LinkedDirectory {
                let path = self.access.fenced_directory(reader.path_of(&entry.name));
                let name = [level.prefix.as_slice(), entry.name.as_bytes()].concat();
                return Ok(Some(Item { path, name }));
            }
        }
        Ok(self.requested.pop_front())
    }

    /// Writes the head of `item`. The content of a file, or the entries of a directory, come next.
    /// An entry that no longer exists, or may not be read, is omitted.
    fn begin(&mut self, item: Item, buffer: &mut Vec<u8>) -> io::Result<()> {
        let Item { path, name } = item;
        // Non-blocking, so that a FIFO in the tree cannot block the thread.
        let file = match self.root.open_blocking(&path, OFlags::RDONLY | OFlags::NONBLOCK) {
            Err(error) if is_left_out(&path, &error) => return Ok(()),
            done => done?,
        };
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            if self.access.reaches(&path.as_directory()) {
                let prefix = [name.as_slice(), b"/"].concat();
                let level = Level::open(&self.root, &path, &self.access, prefix)?;
                write_head(buffer, &name, &metadata)?;
                self.levels.push(level);
                if let Some(above) = self.levels.len().checked_sub(MAX_OPEN_LEVELS + 1) {
                    self.levels[above].close()?;
                }
            }
        } else if metadata.is_file() && self.access.allows(KeyRights::Read, path.as_bytes()) {
            write_head(buffer, &name, &metadata)?;
            self.content = Some(Content::new(file, path, &metadata)?);
        }
        Ok(())
    }
}

/// The content of one file, and the version that its head describes.
struct Content {
    file: File,
    path: EntryPath,
    left_bytes: u64,
    size: u64,
    modified: SystemTime,
}

impl Content {
    fn new(file: File, path: EntryPath, metadata: &Metadata) -> io::Result<Self> {
        Ok(Self {
            file,
            path,
            left_bytes: metadata.len(),
            size: metadata.len(),
            modified: metadata.modified()?,
        })
    }

    /// Reads until the piece is full. True if the content is complete and is padded to whole
    /// blocks.
    fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<bool> {
        let room = PIECE_BYTES.saturating_sub(buffer.len()) as u64;
        let count = (&mut self.file).take(self.left_bytes.min(room)).read_to_end(buffer)?;
        self.left_bytes -= count as u64;
        if self.left_bytes > 0 {
            return if count > 0 { Ok(false) } else { Err(self.changed_error()) };
        }
        let now = self.file.metadata()?;
        // The change time is not compared, because it also changes when another file takes the
        // name.
        if now.len() != self.size || now.modified()? != self.modified {
            return Err(self.changed_error());
        }
        let used = to_usize(self.size % TAR_BLOCK_BYTES as u64);
        buffer.resize(buffer.len() + (TAR_BLOCK_BYTES - used) % TAR_BLOCK_BYTES, 0);
        Ok(true)
    }

    fn changed_error(&self) -> io::Error {
        io::Error::other(format!("{} changed while it was read", self.path))
    }
}

/// Writes the head of an entry: its name, of any length, and its metadata except the owner.
fn write_head(buffer: &mut Vec<u8>, name: &[u8], metadata: &Metadata) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    let is_directory = metadata.is_dir();
    header.set_entry_type(if is_directory { tar::EntryType::Directory } else { tar::EntryType::Regular });
    header.set_size(if is_directory { 0 } else { metadata.len() });
    header.set_mode(metadata.mode() & 0o777);
    header.set_mtime(u64::try_from(metadata.mtime()).unwrap_or(0));
    header.set_uid(0);
    header.set_gid(0);
    let mut builder = tar::Builder::new(std::mem::take(buffer));
    // The tar crate's own function for long names treats names as text and would shorten them.
    let room = header.as_old().name.len();
    if name.len() > room {
        let mut long = tar::Header::new_gnu();
        long.as_old_mut().name[..LONG_NAME.len()].copy_from_slice(LONG_NAME);
        long.set_entry_type(tar::EntryType::GNULongName);
        long.set_mode(0o644);
        long.set_size(name.len() as u64 + 1);
        long.set_cksum();
        builder.append(&long, name.chain(&b"\0"[..]))?;
    }
    let shown = &name[..name.len().min(room)];
    header.as_old_mut().name[..shown.len()].copy_from_slice(shown);
    header.set_cksum();
    builder.append(&header, io::empty())?;
    *buffer = std::mem::take(builder.get_mut());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deep_directory_is_archived_whole_with_few_open_files() {
        const DEPTH: usize = 60;
        let directory = tempfile::tempdir().unwrap();
        let mut expected = Vec::new();
        let mut below = String::new();
        for _ in 0..DEPTH {
            for name in ["a", "m", "z"] {
                std::fs::write(directory.path().join(format!("{below}{name}")), name).unwrap();
                expected.push(format!("{below}{name}"));
            }
            below.push_str("down/");
            std::fs::create_dir(directory.path().join(&below)).unwrap();
            expected.push(below.trim_end_matches('/').to_owned());
        }
        let root = ServedRoot::open(directory.path()).unwrap();
        let mut archive = Archive::open(root, &EntryPath::default(), &[], RequestRights::Everyone).unwrap();
        let (mut found, mut deepest) = (Vec::new(), 0);
        while let Some(item) = archive.next_item().unwrap() {
            found.push(String::from_utf8(item.name.clone()).unwrap());
            archive.begin(item, &mut Vec::new()).unwrap();
            let open = archive.levels.iter().filter(|level| matches!(level.state, LevelState::Open(_)));
            assert!(open.count() <= MAX_OPEN_LEVELS);
            deepest = deepest.max(archive.levels.len());
        }
        found.sort();
        expected.sort();
        assert_eq!((found, deepest), (expected, DEPTH + 1));
    }
}
