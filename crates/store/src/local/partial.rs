//! A file that appears whole or not at all.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firstbyte_location::shown;
use rustix::fs::{CWD, FlockOperation, OFlags, RenameFlags};

use super::{io_error, name};
use crate::{Error, Metadata, Precondition, Result, Sink};

/// What is on stable storage when a write is reported done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// What the kernel likes: a power cut may lose files just written, never tear one that was there (the default).
    #[default]
    None,
    /// The bytes: `fdatasync` before the rename (large files), one `syncfs` per batch (many small ones).
    Data,
    /// Bytes, names and metadata: as `Data`, and the directory too.
    Full,
}

/// A file being written beside its destination, under `.NAME.firstbyte-part`. It is exclusively locked while open, so
/// two writers of one destination do not mix; it stays there when dropped uncommitted, to be resumed, unless discarded.
#[derive(Debug)]
pub struct LocalFile {
    sink: Arc<Sink>,
    path: PathBuf,
    destination: PathBuf,
    /// Permission bits of the file about to be replaced: a private file stays private.
    mode: Option<u32>,
}

impl LocalFile {
    /// Opens or creates the partial file for `destination`, with what an interrupted writer left in it; directories
    /// that are missing above it are made. A destination that is a symbolic link to a file stays one: the file it
    /// points to is replaced.
    ///
    /// # Errors
    /// [`Io`](crate::Error::Io): read-only, a directory is there, another writer holds it (`WouldBlock`).
    /// [`InvalidName`](crate::Error::InvalidName): no file name, or something that is neither file nor directory is there.
    pub fn open(destination: &Path) -> Result<Self> {
        let (destination, mode) = resolve(destination)?;
        let name = destination.file_name().ok_or_else(|| Error::InvalidName {
            location: shown(&destination).to_string(),
            why: "not the name of a file".into(),
        })?;
        let path = destination.with_file_name(name::partial_name(name));
        let file = match open_locked(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let parent = path.parent().unwrap_or(Path::new("/"));
                std::fs::create_dir_all(parent).map_err(|error| io_error(parent, error))?;
                open_locked(&path)
            }
            other => other,
        };
        let file = file.map_err(|error| io_error(&destination, error))?;
        Ok(Self { sink: Arc::new(Sink::new(file)), path, destination, mode })
    }

    /// The file, to be written into by several threads.
    #[must_use]
    pub fn sink(&self) -> &Arc<Sink> {
        &self.sink
    }

    /// The file itself.
    #[must_use]
    pub fn file(&self) -> &File {
        self.sink.file()
    }

    /// Where the partial file lies.
    #[must_use]
    pub fn path(&self) -> &PathBuf {
        &self.path
    }

    /// Sets mtime and what else of `metadata` a file can carry, makes it durable as asked and renames it over the
    /// destination.
    ///
    /// # Errors
    /// [`Io`](crate::Error::Io); the destination is then as it was.
    pub fn commit(self, metadata: &Metadata, durability: Durability) -> Result<()> {
        self.commit_if(metadata, durability, &Precondition::None)
    }

    /// As [`commit`](Self::commit), if the destination still is what `precondition` says. Absence is ensured by the rename itself;
    /// a version is compared just before it, which leaves a gap to writers that take no lock.
    pub(super) fn commit_if(
        &self,
        metadata: &Metadata,
        durability: Durability,
        precondition: &Precondition,
    ) -> Result<()> {
        let at_destination = |error: io::Error| io_error(&self.destination, error);
        if let Some(mode) = self.mode {
            self.file().set_permissions(Permissions::from_mode(mode)).map_err(at_destination)?;
        }
        if let Some(modified) = metadata.modified {
            self.file().set_modified(modified).map_err(at_destination)?;
        }
        match durability {
            Durability::None => {}
            Durability::Data => self.file().sync_data().map_err(at_destination)?,
            Durability::Full => self.file().sync_all().map_err(at_destination)?,
        }
        self.rename(precondition)?;
        if durability == Durability::Full {
            let parent = self.destination.parent().filter(|parent| !parent.as_os_str().is_empty());
            File::open(parent.unwrap_or(Path::new(".")))
                .and_then(|dir| dir.sync_all())
                .map_err(at_destination)?;
        }
        Ok(())
    }

    /// Forgets what an interrupted writer left in it.
    ///
    /// # Errors
    /// [`Io`](crate::Error::Io).
    pub fn empty(&self) -> Result<()> {
        empty(self.file()).map_err(|error| io_error(&self.path, error))
    }

    /// Removes it.
    ///
    /// # Errors
    /// [`Io`](crate::Error::Io).
    pub fn discard(self) -> Result<()> {
        std::fs::remove_file(&self.path).map_err(|error| io_error(&self.path, error))
    }

    fn rename(&self, precondition: &Precondition) -> Result<()> {
        let refused = || Error::Precondition { location: shown(&self.destination).to_string() };
        let flags = match precondition {
            Precondition::None => RenameFlags::empty(),
            Precondition::Absent => RenameFlags::NOREPLACE,
            Precondition::Matches(version) => match super::stat(&self.destination) {
                Ok(stat) if stat.version.agrees_with(version) => RenameFlags::empty(),
                Ok(_) | Err(Error::NotFound { .. }) => return Err(refused()),
                Err(error) => return Err(error),
            },
        };
        match rustix::fs::renameat_with(CWD, &self.path, CWD, &self.destination, flags) {
            Err(rustix::io::Errno::EXIST) if flags == RenameFlags::NOREPLACE => Err(refused()),
            result => result.map_err(|error| io_error(&self.destination, error)),
        }
    }
}

/// Cuts a file to nothing. One that is empty is left alone: ext4 takes the cut for the first half of replacing a file in
/// place, and writes all of it to the disk when it is closed, which takes as long as everything else about a small one.
///
/// # Errors
/// The operating system's.
pub fn empty(file: &File) -> io::Result<()> {
    if file.metadata()?.len() > 0 { file.set_len(0) } else { Ok(()) }
}

/// Where a rename has to go so that only a regular file is ever replaced, and that file's permission bits.
fn resolve(destination: &Path) -> Result<(PathBuf, Option<u32>)> {
    let fail = |error: io::Error| io_error(destination, error);
    let link = match std::fs::symlink_metadata(destination) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((destination.to_owned(), None)),
        other => other.map_err(fail)?,
    };
    let path = if link.is_symlink() {
        std::fs::canonicalize(destination).map_err(fail)?
    } else {
        destination.to_owned()
    };
    let target = if link.is_symlink() { std::fs::metadata(&path).map_err(fail)? } else { link };
    if target.is_dir() {
        return Err(fail(io::Error::from(io::ErrorKind::IsADirectory)));
    }
    if !target.is_file() {
        // Renaming over /dev/null would turn the device into a file.
        let why =
            "a device, socket or pipe is there, which a copy cannot replace; `firstbyte cat` writes into one";
        return Err(Error::InvalidName { location: shown(destination).to_string(), why: why.into() });
    }
    Ok((path, Some(target.mode() & 0o7777)))
}

/// Opens the partial file and locks it. A writer that finished in between has renamed the very file we opened: then
/// the name is free, or new, and we start over.
fn open_locked(path: &Path) -> io::Result<File> {
    loop {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(io::Error::new(
                    io::ErrorKind::WouldBlock,
                    "another copy is writing it right now",
                ));
            }
            other => other?,
        }
        let ours = file.metadata()?;
        match std::fs::symlink_metadata(path) {
            Ok(named) if (named.dev(), named.ino()) == (ours.dev(), ours.ino()) => return Ok(file),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
}
