//! The operations of a store on local files.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use firstbyte_listing as listing;
use firstbyte_location::{ByteRange, Entry, FileIdentity, Kind, Version, shown};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::beneath::KEPT;
use super::{LocalFile, Privacy, empty, io_error, name};
use crate::{
    Body, Cancel, Directories, Durability, Error, Get, Links, ListOptions, Metadata, Payload, PutOptions,
    Result, Stat, Written,
};

/// What passes through memory where the kernel cannot copy between two files itself.
const COPY_BUFFER: usize = 128 << 10;

/// Describes the file or directory at `path`; a link is followed.
pub(crate) fn stat(path: &Path) -> Result<Stat> {
    fs::metadata(path).map(|metadata| describe(&metadata)).map_err(|error| missing(path, error))
}

/// Opens a file for reading the range asked for.
pub(crate) fn get(path: &Path, get: &Get, cancel: Cancel) -> Result<Body> {
    if cancel.is_cancelled() {
        return Err(Error::Cancelled);
    }
    let (file, metadata) = open_regular(path)?;
    let stat = describe(&metadata);
    if let Some(expected) = get.version.as_ref().filter(|expected| !stat.version.agrees_with(expected)) {
        return Err(Error::Changed {
            location: shown(path).to_string(),
            expected: Box::new(expected.clone()),
            found: Box::new(stat.version),
        });
    }
    let range = within(path, get.range, metadata.size())?;
    Ok(Body::from_file(shown(path).to_string(), stat, range, file, cancel))
}

/// Opens a file for reading. Never waits, as opening a pipe without a writer would.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::InvalidName`] for a device, socket or pipe; [`Error::Io`], for a directory too.
pub fn open_regular(path: &Path) -> Result<(File, fs::Metadata)> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let special = || {
        let why = "a device, socket or pipe has no length or ranges to read; use - for standard input";
        Error::InvalidName { location: shown(path).to_string(), why: why.into() }
    };
    let file = opened.map_err(|error| match Errno::from_io_error(&error) {
        // What opening a socket says.
        Some(Errno::NXIO) => special(),
        _ => missing(path, error),
    })?;
    let metadata = file.metadata().map_err(|error| io_error(path, error))?;
    if metadata.is_dir() {
        return Err(io_error(path, io::ErrorKind::IsADirectory));
    }
    if metadata.is_file() { Ok((file, metadata)) } else { Err(special()) }
}

/// The part of the range asked for that a file of `size` bytes has. As for a server, one that starts past the end is a
/// mistake, except that of an empty file every range from its start is empty.
fn within(path: &Path, asked: Option<ByteRange>, size: u64) -> Result<ByteRange> {
    let whole = ByteRange::new(0, size);
    let Some(asked) = asked else { return Ok(whole) };
    if asked.start > 0 && asked.start >= size {
        let detail = format!("byte {} was asked of a file of {size} bytes", asked.start);
        return Err(Error::Protocol { location: shown(path).to_string(), detail });
    }
    Ok(whole.intersect(asked))
}

/// Writes a whole file beside its destination and puts it in place.
pub(crate) fn put(path: &Path, payload: Payload<'_>, options: &PutOptions) -> Result<Written> {
    if options.sending.cancel.is_cancelled() {
        return Err(Error::Cancelled);
    }
    let partial = LocalFile::open(path, Privacy::of(&options.metadata))?;
    let committed = fill(partial.file(), payload)
        .map_err(|error| io_error(path, error))
        .and_then(|()| partial.commit_if(&options.metadata, Durability::None, &options.precondition))
        .and_then(|()| partial.file().metadata().map_err(|error| io_error(path, error)));
    match committed {
        Ok(metadata) => Ok(Written { version: describe(&metadata).version, verified: None }),
        Err(error) => {
            // A write of one piece has nothing to resume, and a full disk wants its space back. Should the removal
            // fail too, the first error is the one to tell.
            let _ = partial.discard();
            Err(error)
        }
    }
}

/// Lists what is below the directory `path`; unfinished copies are not shown.
pub(crate) fn list(path: &Path, options: &ListOptions, cancel: Cancel) -> Result<LocalListing> {
    let depth = if options.recursive { listing::Depth::Recursive } else { listing::Depth::OneLevel };
    let asked = listing::Options {
        depth,
        symlinks: match options.links {
            Links::Follow => listing::Symlinks::Follow,
            Links::Report => listing::Symlinks::Report,
        },
        detail: listing::Detail::Size,
        ..listing::Options::default()
    };
    let walk = listing::walk(path, options.order, &asked).map_err(from_listing)?;
    Ok(LocalListing { walk, options: options.clone(), cancel: Some(cancel) })
}

/// Removes a file; one that is not there is no error.
pub(crate) fn delete(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(path, error)),
        _ => Ok(()),
    }
}

/// The entries below a directory as a store lists them: in a recursive listing names of files alone, as of objects.
pub(crate) struct LocalListing {
    walk: listing::Walk,
    options: ListOptions,
    /// Taken once it has ended the listing.
    cancel: Option<Cancel>,
}

impl LocalListing {
    fn shows(&self, entry: &Entry) -> bool {
        let last = entry.name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        self.options.takes(&entry.name)
            && (entry.kind != Kind::Directory
                || !self.options.recursive
                || self.options.directories == Directories::Listed)
            && !name::is_partial_name(last)
    }
}

impl Iterator for LocalListing {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            // At each name: a tree of directories alone, or of names left out, may go on for long.
            if self.cancel.as_ref()?.is_cancelled() {
                self.cancel = None;
                return Some(Err(Error::Cancelled));
            }
            match self.walk.next()? {
                Ok(entry) if !self.shows(&entry) => {}
                other => return Some(other.map_err(from_listing)),
            }
        }
    }
}

/// What pins the content of the file that `metadata` describes.
pub(crate) fn version(metadata: &fs::Metadata) -> Version {
    let nanoseconds = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    let file = FileIdentity {
        device: metadata.dev(),
        inode: metadata.ino(),
        modified_ns: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
        changed_ns: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
    };
    Version { size: metadata.is_file().then(|| metadata.size()), file: Some(file), ..Version::default() }
}

fn describe(metadata: &fs::Metadata) -> Stat {
    let kind = match metadata.file_type() {
        kind if kind.is_dir() => Kind::Directory,
        kind if kind.is_file() => Kind::File,
        _ => Kind::Other,
    };
    let modified = metadata.modified().ok();
    Stat {
        kind,
        version: version(metadata),
        modified,
        metadata: Metadata { modified, mode: Some(metadata.mode() & KEPT), ..Metadata::default() },
        checksum: None,
        ranges: Some(true),
        storage_class: None,
    }
}

/// Writes the payload into a file that may hold what an interrupted writer left.
fn fill(file: &File, payload: Payload<'_>) -> io::Result<()> {
    empty(file)?;
    fill_from_start(file, payload)
}

pub(super) fn fill_from_start(file: &File, payload: Payload<'_>) -> io::Result<()> {
    match payload {
        Payload::Bytes(bytes) => file.write_all_at(bytes, 0),
        Payload::File(source, range) => copy_range(source, range, file),
    }
}

/// Copies in the kernel, by reference where the file system can share blocks, else through a buffer.
fn copy_range(source: &File, range: ByteRange, file: &File) -> io::Result<()> {
    let (mut from, mut to) = (range.start, 0);
    while from < range.end {
        let left = usize::try_from(range.end - from).unwrap_or(usize::MAX);
        let copied = match rustix::fs::copy_file_range(source, Some(&mut from), file, Some(&mut to), left) {
            // Two file systems, or one that cannot.
            Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                let mut buffer = vec![0; COPY_BUFFER];
                let step = left.min(COPY_BUFFER);
                let read = source.read_at(&mut buffer[..step], from)?;
                file.write_all_at(&buffer[..read], to)?;
                from += read as u64;
                to += read as u64;
                read
            }
            other => other?,
        };
        if copied == 0 {
            let missing = range.end - from;
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("the source is {missing} bytes short"),
            ));
        }
    }
    Ok(())
}

fn missing(path: &Path, error: io::Error) -> Error {
    match error.kind() {
        // A path through something that is no directory names nothing, as a key under another key would.
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            Error::NotFound { location: shown(path).to_string() }
        }
        _ => io_error(path, error),
    }
}

fn from_listing(error: listing::Error) -> Error {
    match error {
        listing::Error::Io { path, source } => missing(&path, source),
        listing::Error::Loop { ref path } => {
            io_error(path, io::Error::other("a link back to a directory it lies in"))
        }
        listing::Error::Disordered { ref path } => io_error(path, io::Error::other(error.to_string())),
    }
}
