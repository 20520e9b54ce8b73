//! Opens local files for reading, and describes them. The version of a file is its identity.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use firstbyte_location::{EntryKind, FileIdentity, Version, shown};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::beneath::PRESERVED_BITS;
use super::io_error;
use crate::error::{Error, Result};
use crate::object::{Metadata, Stat};

/// Describes the file or directory at `path`, following links. If a file has content although its
/// stated length is 0, its length is unknown.
pub(crate) fn stat(path: &Path) -> Result<Stat> {
    let metadata = fs::metadata(path).map_err(|error| lookup_error(path, error))?;
    let is_empty = metadata.is_file() && metadata.size() == 0;
    // A file that cannot be opened keeps its reported length of 0.
    if is_empty && open_regular(path).is_ok_and(|(file, _)| has_byte_at(&file, 0)) {
        return Ok(describe_unmeasured(&metadata));
    }
    Ok(describe(&metadata))
}

/// Returns true if the file has a readable byte at `offset`.
pub(crate) fn has_byte_at(file: &File, offset: u64) -> bool {
    file.read_at(&mut [0], offset).is_ok_and(|read| read > 0)
}

/// Opens a file for reading. Does not block, even for a pipe without a writer.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::InvalidName`] for a device, socket or pipe; [`Error::Io`], also
/// for a directory.
pub fn open_regular(path: &Path) -> Result<(File, fs::Metadata)> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let special = || {
        let why = "a device, socket or pipe has no length or ranges to read; use - for standard input";
        Error::InvalidName { location: shown(path).to_string(), why: why.into() }
    };
    let file = opened.map_err(|error| match Errno::from_io_error(&error) {
        // For a socket, `open` fails with `ENXIO`.
        Some(Errno::NXIO) => special(),
        _ => lookup_error(path, error),
    })?;
    let metadata = file.metadata().map_err(|error| io_error(path, error))?;
    if metadata.is_dir() {
        return Err(io_error(path, io::ErrorKind::IsADirectory));
    }
    if metadata.is_file() { Ok((file, metadata)) } else { Err(special()) }
}

/// Returns the version of the file that `metadata` describes.
pub(crate) fn version(metadata: &fs::Metadata) -> Version {
    let file = FileIdentity::new(
        (metadata.dev(), metadata.ino()),
        (metadata.mtime(), metadata.mtime_nsec()),
        (metadata.ctime(), metadata.ctime_nsec()),
    );
    Version { size: metadata.is_file().then(|| metadata.size()), file: Some(file), ..Version::default() }
}

pub(super) fn describe(metadata: &fs::Metadata) -> Stat {
    let kind = match metadata.file_type() {
        kind if kind.is_dir() => EntryKind::Directory,
        kind if kind.is_file() => EntryKind::File,
        _ => EntryKind::Other,
    };
    let modified = metadata.modified().ok();
    Stat {
        kind,
        version: version(metadata),
        modified,
        metadata: Metadata {
            modified,
            mode: Some(metadata.mode() & PRESERVED_BITS),
            owner: Some((metadata.uid(), metadata.gid())),
            ..Metadata::default()
        },
        checksum: None,
        ranges: Some(true),
        storage_class: None,
        tag_count: None,
    }
}

/// Describes a file like [`describe`], but without a length, because the length that the file
/// system reports is wrong.
pub(super) fn describe_unmeasured(metadata: &fs::Metadata) -> Stat {
    let mut stat = describe(metadata);
    stat.version.size = None;
    stat
}

/// Converts the error of a look-up of `path` to this crate's error.
pub(super) fn lookup_error(path: &Path, error: io::Error) -> Error {
    match error.kind() {
        // `NotADirectory` means that a component of the path is a file. The named file then does
        // not exist, as with object keys.
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            Error::NotFound { location: shown(path).to_string(), trace: None }
        }
        _ => io_error(path, error),
    }
}
