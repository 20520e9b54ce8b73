//! Implements the operations of a store for local files. [`Store`](crate::Store) calls them for
//! local locations.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use firstbyte_listing as listing;
use firstbyte_location::{ByteRange, Entry, EntryKind, is_partial_name, shown, to_usize};

use super::io_error;
use super::partial::{Durability, LocalFile, PartialPermissions, truncate};
use super::removal::is_still;
use super::stat::{describe, describe_unmeasured, has_byte_at, lookup_error, open_regular};
use crate::body::Body;
use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::limits::BUFFER;
use crate::query::{Directories, Get, Links, ListOptions, Partials, StatedLength};
use crate::syscall_refusal::cannot_copy_in_kernel;
use crate::upload::{Payload, PutOptions, Written};

/// Opens a file in order to read the requested range.
pub(crate) fn get(path: &Path, get: &Get, cancel: Cancel) -> Result<Body> {
    if cancel.is_cancelled() {
        return Err(Error::Cancelled);
    }
    let (file, metadata) = open_regular(path)?;
    let unmeasured = get.length == StatedLength::Ignored || (metadata.size() == 0 && has_byte_at(&file, 0));
    let stat = if unmeasured { describe_unmeasured(&metadata) } else { describe(&metadata) };
    if let Some(expected) = get.version.as_ref().filter(|expected| !is_still(&stat.version, expected)) {
        return Err(Error::Changed {
            location: shown(path).to_string(),
            expected: Box::new(expected.clone()),
            found: Box::new(stat.version),
            trace: None,
        });
    }
    let place = shown(path).to_string();
    if unmeasured {
        let asked = get.range.unwrap_or(ByteRange::new(0, u64::MAX));
        return Ok(Body::from_unmeasured_file(place, stat, asked, file, cancel));
    }
    let range = clamped(path, get.range, metadata.size())?;
    Ok(Body::from_file(place, stat, range, file, cancel))
}

/// Limits the requested range to a file of `size` bytes. A range that starts at or after the end is
/// an error, as in HTTP, except that a range from byte 0 of an empty file is empty.
fn clamped(path: &Path, asked: Option<ByteRange>, size: u64) -> Result<ByteRange> {
    let whole = ByteRange::new(0, size);
    let Some(asked) = asked else { return Ok(whole) };
    if asked.start > 0 && asked.start >= size {
        let location = shown(path).to_string();
        return Err(Error::PastEnd { location, start: asked.start, size: Some(size), trace: None });
    }
    Ok(whole.intersect(asked))
}

/// Writes a whole file under a temporary name, and renames it.
pub(crate) fn put(path: &Path, payload: Payload<'_>, options: &PutOptions) -> Result<Written> {
    if options.sending.cancel.is_cancelled() {
        return Err(Error::Cancelled);
    }
    let partial = LocalFile::open(path, PartialPermissions::of(&options.metadata))?;
    let committed = fill(partial.file(), payload)
        .map_err(|error| io_error(path, error))
        .and_then(|()| partial.commit_if(&options.metadata, Durability::None, &options.precondition))
        .and_then(|()| partial.file().metadata().map_err(|error| io_error(path, error)));
    match committed {
        Ok(metadata) => Ok(Written { version: describe(&metadata).version, verified: None }),
        Err(error) => {
            // The file is removed: it is useless for resuming, and the disk may be full. If the
            // removal fails too, the first error is returned.
            let _ = partial.discard();
            Err(error)
        }
    }
}

/// Lists the directory `path`. Omits partial files and, on NFS, files that were deleted while open.
pub(crate) fn list(path: &Path, options: &ListOptions, cancel: Cancel) -> Result<LocalListing> {
    let depth = if options.recursive { listing::Depth::Recursive } else { listing::Depth::OneLevel };
    let asked = listing::ListingOptions {
        depth,
        symlinks: match options.links {
            Links::Follow | Links::FollowExisting => listing::Symlinks::Follow,
            Links::Report => listing::Symlinks::Report,
        },
        detail: listing::Detail::Size,
        ..listing::ListingOptions::default()
    };
    let bounds = options.bounds.clone();
    let walk = listing::walk_within(path, options.order, &asked, bounds).map_err(from_listing)?;
    Ok(LocalListing { walk, root: path.to_owned(), options: options.clone(), cancel: Some(cancel) })
}

/// Removes a file. A missing file is not an error.
pub(crate) fn delete(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(path, error)),
        _ => Ok(()),
    }
}

/// The entries below a directory, as an object store would list them: by default, a recursive
/// listing has only files.
pub(crate) struct LocalListing {
    walk: listing::Walk,
    root: PathBuf,
    options: ListOptions,
    /// The handle that cancels the listing; `None` once the listing has been cancelled.
    cancel: Option<Cancel>,
}

impl LocalListing {
    fn shows(&self, entry: &Entry) -> bool {
        let last = entry.name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        self.options.includes(&entry.name)
            && (entry.kind != EntryKind::Directory
                || !self.options.recursive
                || self.options.directories == Directories::Listed)
            && (self.options.partials == Partials::Listed || !is_partial_name(last))
            && !self.is_gone_but_open(last)
    }

    /// Returns true if an error means that a name below the root, or the target of a link, does not
    /// exist, and if the options allow that.
    fn is_missing_name(&self, path: &Path, error: &io::Error) -> bool {
        self.options.links == Links::FollowExisting
            && error.kind() == io::ErrorKind::NotFound
            && path != self.root
    }

    /// Describes the link at `path`. Returns `None` if there is no link.
    fn link(&self, path: &Path) -> Option<Entry> {
        let metadata = path.symlink_metadata().ok().filter(fs::Metadata::is_symlink)?;
        let name = path.strip_prefix(&self.root).ok()?.as_os_str().as_bytes().to_vec();
        Some(Entry { modified: metadata.modified().ok(), ..Entry::named(name, EntryKind::Symlink) })
    }

    /// Returns true if the root is on NFS and `name` is one that the NFS client gives to a file
    /// deleted while open.
    fn is_gone_but_open(&self, name: &[u8]) -> bool {
        listing::is_silly_name(name)
            && listing::FileSystemKind::of(&self.root).is_ok_and(|found| found.is_nfs())
    }
}

impl Iterator for LocalListing {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            // Checked for each name, because many names in a row may be skipped.
            if self.cancel.as_ref()?.is_cancelled() {
                self.cancel = None;
                return Some(Err(Error::Cancelled));
            }
            match self.walk.next()? {
                Ok(entry) if !self.shows(&entry) => {}
                Err(listing::Error::Io { path, source }) if self.is_missing_name(&path, &source) => {
                    if let Some(link) = self.link(&path).filter(|link| self.shows(link)) {
                        return Some(Ok(link));
                    }
                }
                other => return Some(other.map_err(from_listing)),
            }
        }
    }
}

/// Writes the payload to a file, which may have content from an interrupted writer.
fn fill(file: &File, payload: Payload<'_>) -> io::Result<()> {
    truncate(file)?;
    fill_from_start(file, payload)
}

pub(super) fn fill_from_start(file: &File, payload: Payload<'_>) -> io::Result<()> {
    match payload {
        Payload::Bytes(bytes) => file.write_all_at(bytes, 0),
        Payload::File(source, range) => copy_range(source, range, file),
        Payload::Source(source, range, _) => {
            copy_range(source, range, file).and_then(|()| payload.check_unchanged())
        }
    }
}

/// Copies within the kernel, by reference if the file system can share blocks, otherwise through a
/// buffer.
fn copy_range(source: &File, range: ByteRange, file: &File) -> io::Result<()> {
    let (mut from, mut to) = (range.start, 0);
    while from < range.end {
        let left = to_usize(range.end - from);
        let copied = match rustix::fs::copy_file_range(source, Some(&mut from), file, Some(&mut to), left) {
            Err(error) if cannot_copy_in_kernel(error) => {
                let mut buffer = vec![0; BUFFER];
                let step = left.min(BUFFER);
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

fn from_listing(error: listing::Error) -> Error {
    match error {
        listing::Error::Io { path, source } => lookup_error(&path, source),
        listing::Error::Loop { ref path } => {
            io_error(path, io::Error::other("a symbolic link to a directory above it"))
        }
        listing::Error::Refused { path } => Error::leads_to_destination(shown(&path).to_string()),
        listing::Error::Disordered { ref path } => io_error(path, io::Error::other(error.to_string())),
    }
}
