//! A file that appears whole or not at all.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firstbyte_location::shown;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::beneath::{self, Beneath, KEPT, Missing};
use super::{io_error, name};
use crate::{Error, Metadata, Precondition, Result, Sink};

/// What is on stable storage when a write is reported done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Nothing yet: the kernel writes back in its own time. A power cut may lose files just written, never tear one that
    /// was there (the default).
    #[default]
    None,
    /// The bytes: `fdatasync` before the rename (large files), one `syncfs` per batch (many small ones).
    Data,
    /// Bytes, names and metadata: as `Data`, and the directory too.
    Full,
}

/// Who may read a file while it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privacy {
    /// Its owner alone: its source has permission bits, and they are set when it is complete.
    Owner,
    /// Those who may read it in the end: a new file with the usual permission bits, 0666 less the umask.
    Usual,
}

impl Privacy {
    /// Of a copy of what `metadata` describes.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        if metadata.mode.is_some() { Self::Owner } else { Self::Usual }
    }
}

/// Where a file is put: a directory held open, and the name in it.
#[derive(Debug)]
struct Place {
    directory: OwnedFd,
    name: OsString,
    /// For messages.
    path: PathBuf,
    /// Permission bits of the file about to be replaced.
    mode: Option<u32>,
}

/// A file being written beside its destination, under `.NAME.firstbyte-part`. It is exclusively locked while open, so
/// two writers of one destination do not mix; it stays there when dropped uncommitted, to be resumed, unless discarded.
#[derive(Debug)]
pub struct LocalFile {
    sink: Arc<Sink>,
    place: Place,
    partial: OsString,
    path: PathBuf,
    /// Whether its permission bits are still those it is to have in the end.
    usual: bool,
}

impl LocalFile {
    /// Opens or creates the partial file for `destination`, with what an interrupted writer left in it; directories
    /// that are missing above it are made. A destination that is a symbolic link to a file stays one: the file it
    /// points to is replaced.
    ///
    /// # Errors
    /// [`Io`](crate::Error::Io): read-only, a directory is there, another writer holds it (`WouldBlock`).
    /// [`InvalidName`](crate::Error::InvalidName): no file name, or something that is neither file nor directory is there.
    pub fn open(destination: &Path, privacy: Privacy) -> Result<Self> {
        Self::begin(Place::named(destination)?, privacy)
    }

    /// As [`open`](Self::open), for a name beneath a directory: no link is followed, and one in the file's own place is
    /// replaced. Where `over` allows it, so is a directory, which the caller removes before the commit.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`InvalidName`](crate::Error::InvalidName) also where a link is in a directory's place.
    pub fn open_beneath(root: &Beneath, name: &Path, over: Over, privacy: Privacy) -> Result<Self> {
        Self::begin(Place::beneath(root, name, over)?, privacy)
    }

    fn begin(place: Place, privacy: Privacy) -> Result<Self> {
        let partial = name::partial_name(&place.name);
        let path = place.path.with_file_name(&partial);
        let private = privacy == Privacy::Owner || place.mode.is_some();
        let (file, usual) =
            open_locked(&place.directory, &partial, private).map_err(|error| io_error(&place.path, error))?;
        Ok(Self { sink: Arc::new(Sink::new(file)), place, partial, path, usual })
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

    /// Where the partial file of `destination` lies.
    #[must_use]
    pub fn partial_path(destination: &Path) -> PathBuf {
        destination.with_file_name(name::partial_name(destination.file_name().unwrap_or_default()))
    }

    /// The directory it lies in, to look names up.
    #[must_use]
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.place.directory.as_fd()
    }

    /// Sets mtime, permission bits and what else of `metadata` a file can carry, makes it durable as asked and renames it
    /// over the destination.
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
        let at_destination = |error: io::Error| io_error(&self.place.path, error);
        if let Some(modified) = metadata.modified {
            self.file().set_modified(modified).map_err(at_destination)?;
        }
        self.settle_mode(metadata.mode).map_err(|error| at_destination(error.into()))?;
        match durability {
            Durability::None => {}
            Durability::Data => self.file().sync_data().map_err(at_destination)?,
            Durability::Full => self.file().sync_all().map_err(at_destination)?,
        }
        self.rename(precondition)?;
        if durability == Durability::Full {
            let directory = rustix::fs::openat(
                &self.place.directory,
                ".",
                OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
                Mode::empty(),
            );
            directory.and_then(rustix::fs::fsync).map_err(|error| at_destination(error.into()))?;
        }
        Ok(())
    }

    /// Gives the file its last permission bits: its source's. One that replaces another gets none that either lacks, so
    /// that neither what was private at the source nor what was private here is opened.
    fn settle_mode(&self, source: Option<u32>) -> std::result::Result<(), Errno> {
        let mode = match (source, self.place.mode) {
            (Some(source), Some(before)) => source & before,
            (Some(mode), None) | (None, Some(mode)) => mode,
            (None, None) if self.usual => return Ok(()),
            (None, None) => usual_mode(&self.place.directory, self.file())?,
        };
        beneath::change_mode(self.file(), mode & KEPT)
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
        rustix::fs::unlinkat(&self.place.directory, &self.partial, AtFlags::empty())
            .map_err(|error| io_error(&self.path, error))
    }

    fn rename(&self, precondition: &Precondition) -> Result<()> {
        let refused = || Error::Precondition { location: shown(&self.place.path).to_string() };
        let flags = match precondition {
            Precondition::None => RenameFlags::empty(),
            Precondition::Absent => RenameFlags::NOREPLACE,
            Precondition::Matches(version) => match super::stat(&self.place.path) {
                Ok(stat) if stat.version.agrees_with(version) => RenameFlags::empty(),
                Ok(_) | Err(Error::NotFound { .. }) => return Err(refused()),
                Err(error) => return Err(error),
            },
        };
        let Place { directory, name, path, .. } = &self.place;
        match rustix::fs::renameat_with(directory, &self.partial, directory, name, flags) {
            Err(Errno::EXIST) if flags == RenameFlags::NOREPLACE => Err(refused()),
            result => result.map_err(|error| io_error(path, error)),
        }
    }
}

/// What a file may take the place of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Over {
    /// A file or a link.
    #[default]
    File,
    /// A directory too: it is removed once the file is complete.
    Directory,
}

/// Cuts a file to nothing. One that is empty is left alone: ext4 takes the cut for the first half of replacing a file in
/// place, and writes all of it to the disk when it is closed, which takes as long as everything else about a small one.
///
/// # Errors
/// The operating system's.
pub fn empty(file: &File) -> io::Result<()> {
    if file.metadata()?.len() > 0 { file.set_len(0) } else { Ok(()) }
}

impl Place {
    /// The place a path names: links on the way are followed, and so is one to a file.
    fn named(destination: &Path) -> Result<Self> {
        let fail = |error: io::Error| io_error(destination, error);
        let mut path = destination.to_owned();
        let mut there = std::fs::symlink_metadata(destination);
        if there.as_ref().is_ok_and(std::fs::Metadata::is_symlink) {
            path = std::fs::canonicalize(destination).map_err(fail)?;
            there = std::fs::symlink_metadata(&path);
        }
        let mode = match there {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            other => {
                let there = other.map_err(fail)?;
                let kind = FileType::from_raw_mode(there.mode());
                Some(replaceable(destination, kind, there.mode(), Over::File)?).flatten()
            }
        };
        let name = path.file_name().ok_or_else(|| Error::InvalidName {
            location: shown(&path).to_string(),
            why: "not the name of a file".into(),
        })?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let open =
            || rustix::fs::open(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let directory = match open() {
            Err(Errno::NOENT) => {
                std::fs::create_dir_all(parent).map_err(|error| io_error(parent, error))?;
                open()
            }
            other => other,
        };
        let directory = directory.map_err(|error| io_error(destination, error))?;
        Ok(Self { directory, name: name.to_owned(), mode, path })
    }

    /// The place of a name beneath a directory: no link is followed.
    fn beneath(root: &Beneath, name: &Path, over: Over) -> Result<Self> {
        let path = root.shown(name);
        let (directory, last) =
            root.parent(name, Missing::Create).map_err(|error| root.explain(name, error))?;
        let mode = match beneath::stat_at(&directory, last) {
            Err(Errno::NOENT) => None,
            other => {
                let stat = other.map_err(|error| io_error(&path, error))?;
                replaceable(&path, FileType::from_raw_mode(stat.st_mode), stat.st_mode, over)?
            }
        };
        Ok(Self { directory, name: last.to_owned(), path, mode })
    }
}

/// Refuses to replace anything but what may be replaced. The permission bits of a file that is.
fn replaceable(path: &Path, kind: FileType, mode: u32, over: Over) -> Result<Option<u32>> {
    match kind {
        FileType::RegularFile => Ok(Some(mode)),
        FileType::Symlink => Ok(None),
        FileType::Directory if over == Over::Directory => Ok(None),
        FileType::Directory => Err(io_error(path, io::Error::from(io::ErrorKind::IsADirectory))),
        // Renaming over /dev/null would turn the device into a file.
        _ => {
            let why = "a device, socket or pipe is there, which a copy cannot replace; \
                       `firstbyte cat` writes into one";
            Err(Error::InvalidName { location: shown(path).to_string(), why: why.into() })
        }
    }
}

/// Opens the partial file and locks it; `true` if it was made with the usual permission bits. A writer that finished in
/// between has renamed the very file we opened: then the name is free, or new, and we start over.
fn open_locked(directory: &OwnedFd, name: &OsStr, private: bool) -> io::Result<(File, bool)> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(if private { 0o600 } else { 0o666 });
    loop {
        let made = rustix::fs::openat(directory, name, flags | OFlags::CREATE | OFlags::EXCL, mode);
        let new = made.is_ok();
        let file = match made {
            Err(Errno::EXIST) => match rustix::fs::openat(directory, name, flags, mode) {
                Err(Errno::NOENT) => continue,
                other => other?,
            },
            other => other?,
        };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => {
                return Err(io::Error::new(
                    io::ErrorKind::WouldBlock,
                    "another copy is writing it right now",
                ));
            }
            other => other?,
        }
        let ours = rustix::fs::fstat(&file)?;
        match beneath::stat_at(directory, name) {
            Ok(named) if (named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino) => {}
            Err(error) if error != Errno::NOENT => return Err(error.into()),
            _ => continue,
        }
        if !new && private && ours.st_mode & 0o077 != 0 {
            // Others may have opened what an interrupted copy left: what is private goes into a new file.
            rustix::fs::unlinkat(directory, name, AtFlags::empty())?;
            continue;
        }
        return Ok((File::from(file), new && !private));
    }
}

/// The permission bits a new file gets here: 0666 less the umask, or what the directory's access list says. Only the kernel
/// knows both, so it is asked by making a file.
fn usual_mode(directory: &OwnedFd, partial: &File) -> std::result::Result<u32, Errno> {
    // Of its own for each partial file, which is locked, and of a form that no listing shows.
    let probe = format!(".{:x}.firstbyte-part", rustix::fs::fstat(partial)?.st_ino);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, &probe, flags, Mode::from_raw_mode(0o666))?;
    rustix::fs::unlinkat(directory, &probe, AtFlags::empty())?;
    Ok(rustix::fs::fstat(&file)?.st_mode)
}
