//! Writes files atomically, under a temporary name that is renamed to the destination. All
//! downloads and copies use this module. An interrupted write is resumed by the name of its
//! temporary file.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firstbyte_listing::flush;
use firstbyte_location::shown;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::beneath::{self, Beneath, KEPT};
use super::destination::{PartialDestination, ReplaceKind};
use super::optional::{self, Improvement, attempt};
use super::resolve::stat_at;
use super::spelling::{is_refused_name, refused_name};
use super::{errno, io_error, name};
use crate::error::{Error, Result};
use crate::object::Metadata;
use crate::sink::Sink;
use crate::upload::Precondition;

/// The data on stable storage when a write is reported as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// None: no fsync. A power failure may lose files just written, but never leaves an old file
    /// torn (the default).
    #[default]
    None,
    /// The content: `fdatasync` before the rename (large files), or one `syncfs` per batch (small
    /// files).
    Data,
    /// Content, names and metadata: like `Data`, and the directory is synced too.
    Full,
}

/// The permissions of a file while it is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartialPermissions {
    /// For its owner only, because the permission bits of the source are not known yet.
    Owner,
    /// For those who may read the source, which has these permission bits.
    Source(u32),
    /// For those who may read any new file: 0666 without the bits of the umask.
    Usual,
}

impl PartialPermissions {
    /// Returns the permissions for a copy with this metadata.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        metadata.mode.map_or(Self::Usual, Self::Source)
    }

    /// Returns the permission bits of the partial file. The owner can always resume it, and other
    /// users get only rights that both the source and the file to be replaced (`before`) give them.
    fn bits(self, before: Option<u32>) -> u32 {
        let others = match self {
            Self::Owner => 0,
            Self::Source(mode) => mode,
            Self::Usual => 0o666,
        };
        0o600 | (others & before.unwrap_or(KEPT) & KEPT)
    }
}

/// A file being written next to its destination, as `.NAME.firstbyte-part`. It is locked
/// exclusively while open, so two writers cannot mix their data. If it is dropped without commit or
/// discard, it stays for a later run to resume. Where the file system has no locks, its name is
/// random, and no run resumes.
#[derive(Debug)]
pub struct LocalFile {
    sink: Arc<Sink>,
    place: PartialDestination,
    /// The name from which the names of the partial file and the journal are made.
    stem: OsString,
    partial: OsString,
    path: PathBuf,
    /// The permission bits of the partial file since it was opened.
    mode: u32,
    /// True if the kernel chose the permission bits, as for any new file.
    usual: bool,
}

impl LocalFile {
    /// Opens or creates the partial file for `destination`, with the content of an interrupted
    /// writer. Creates missing parent directories. If the destination is a symbolic link to a file,
    /// that file is replaced rather than the link.
    ///
    /// # Errors
    /// [`Io`](crate::Error::Io): no permission, a directory has the name, or another writer has the
    /// lock (`WouldBlock`). [`InvalidName`](crate::Error::InvalidName): no file name, or the
    /// destination is neither file nor directory.
    pub fn open(destination: &Path, privacy: PartialPermissions) -> Result<Self> {
        Self::begin(PartialDestination::named(destination)?, privacy)
    }

    /// Opens a partial file like [`open`](Self::open), for a name beneath a directory. Follows no
    /// link: a link at the destination is replaced. If `over` allows it, a directory is replaced
    /// too, which the caller must remove before the commit.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open); [`InvalidName`](crate::Error::InvalidName) also if a
    /// component of the path is a link.
    pub fn open_beneath(
        root: &Beneath,
        name: &Path,
        over: ReplaceKind,
        privacy: PartialPermissions,
    ) -> Result<Self> {
        Self::begin(PartialDestination::beneath(root, name, over)?, privacy)
    }

    fn begin(place: PartialDestination, privacy: PartialPermissions) -> Result<Self> {
        place.refuse_changed_name()?;
        let mut stem = place.name.clone();
        let mut partial = name::partial_name(&stem);
        let bits = privacy.bits(place.mode);
        let opened = open_locked(&place.directory, &partial, bits).and_then(|locked| match locked {
            Some(opened) => Ok(opened),
            None => {
                stem = name::random_name(&place.name)?;
                partial = name::partial_name(&stem);
                create(&place.directory, &partial, bits)
            }
        });
        let path = place.path.with_file_name(&partial);
        let is_text = place.name.to_str().is_some();
        let opened = opened.map_err(|error| match error.kind() {
            // The missing name is not the directory, which is open.
            io::ErrorKind::NotFound if is_text => Error::InvalidName {
                location: shown(&place.path).to_string(),
                why: "no file can be created in this directory; name another destination".into(),
            },
            _ if is_refused_name(errno(&error)) || !is_text => refused_name(&place.path, errno(&error)),
            _ => io_error(&place.path, error),
        })?;
        let usual = opened.new && privacy == PartialPermissions::Usual && place.mode.is_none();
        let sink = Arc::new(Sink::new(opened.file));
        Ok(Self { sink, place, stem, partial, path, mode: opened.mode, usual })
    }

    /// Returns the file for writes by several threads.
    #[must_use]
    pub fn sink(&self) -> &Arc<Sink> {
        &self.sink
    }

    /// Returns the open file.
    #[must_use]
    pub fn file(&self) -> &File {
        self.sink.file()
    }

    /// Returns the path of the partial file.
    #[must_use]
    pub fn path(&self) -> &PathBuf {
        &self.path
    }

    /// Returns whether a later run can resume an interrupted write.
    #[must_use]
    pub fn is_resumable(&self) -> bool {
        self.stem == self.place.name
    }

    /// Returns the path from which the name of the journal is made: the destination, if the write
    /// can be resumed.
    #[must_use]
    pub fn journaled_path(&self) -> PathBuf {
        self.place.path.with_file_name(&self.stem)
    }

    /// Returns the path of the partial file of `destination`.
    #[must_use]
    pub fn partial_path(destination: &Path) -> PathBuf {
        destination.with_file_name(name::partial_name(destination.file_name().unwrap_or_default()))
    }

    /// Returns the directory of the file, for lookups.
    #[must_use]
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.place.directory.as_fd()
    }

    /// Sets the modification time and permission bits of `metadata`, syncs as `durability` says,
    /// and renames the file to the destination.
    ///
    /// # Errors
    /// [`Io`](crate::Error::Io). The destination is then unchanged.
    pub fn commit(self, metadata: &Metadata, durability: Durability) -> Result<()> {
        self.commit_if(metadata, durability, &Precondition::None)
    }

    /// Commits like [`commit`](Self::commit), if `precondition` holds. The rename itself ensures
    /// that the destination does not exist. A version is compared just before the rename; a writer
    /// that takes no lock may change it in between.
    ///
    /// # Errors
    /// The errors of [`commit`](Self::commit), and [`Precondition`](crate::Error::Precondition).
    pub fn commit_if(
        &self,
        metadata: &Metadata,
        durability: Durability,
        precondition: &Precondition,
    ) -> Result<()> {
        let at_destination = |error: io::Error| io_error(&self.place.path, error);
        if let Some(modified) = metadata.modified {
            let set = || self.file().set_modified(modified).map_err(|error| errno(&error));
            attempt(Improvement::Time, self.file(), set).map_err(|error| at_destination(error.into()))?;
        }
        self.settle_mode(metadata.mode).map_err(|error| at_destination(error.into()))?;
        flush(self.file()).map_err(at_destination)?;
        let synced = match durability {
            Durability::None => Ok(None),
            Durability::Data => {
                attempt(Improvement::Sync, self.file(), || rustix::fs::fdatasync(self.file()))
            }
            Durability::Full => attempt(Improvement::Sync, self.file(), || rustix::fs::fsync(self.file())),
        };
        synced.map_err(|error| at_destination(error.into()))?;
        self.place.publish(&self.partial, self.file(), precondition).inspect_err(|error| {
            if matches!(error, Error::InvalidName { .. }) {
                // The file can never get this name. If the removal fails, listings omit it.
                let _ = rustix::fs::unlinkat(&self.place.directory, &self.partial, AtFlags::empty());
            }
        })?;
        if durability == Durability::Full {
            let directory = rustix::fs::openat(
                &self.place.directory,
                ".",
                OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
                Mode::empty(),
            );
            let sync = |directory: OwnedFd| {
                attempt(Improvement::SyncDirectory, &directory, || rustix::fs::fsync(&directory))
            };
            directory.and_then(sync).map_err(|error| at_destination(error.into()))?;
        }
        Ok(())
    }

    /// Sets the final permission bits: those of the source. If the file replaces another, it gets
    /// only bits that both have, so that neither a private source nor a private destination becomes
    /// readable.
    fn settle_mode(&self, source: Option<u32>) -> std::result::Result<(), Errno> {
        let mode = match (source, self.place.mode) {
            (Some(source), Some(before)) => source & before,
            (Some(mode), None) | (None, Some(mode)) => mode,
            (None, None) if self.usual => return Ok(()),
            (None, None) => usual_mode(&self.place.directory, self.file())?,
        };
        if mode & KEPT == self.mode { Ok(()) } else { beneath::change_mode(self.file(), mode & KEPT) }
    }

    /// Discards the content of an interrupted writer.
    ///
    /// # Errors
    /// [`Io`](crate::Error::Io).
    pub fn empty(&self) -> Result<()> {
        empty(self.file()).map_err(|error| io_error(&self.path, error))
    }

    /// Removes the partial file.
    ///
    /// # Errors
    /// [`Io`](crate::Error::Io).
    pub fn discard(self) -> Result<()> {
        rustix::fs::unlinkat(&self.place.directory, &self.partial, AtFlags::empty())
            .map_err(|error| io_error(&self.path, error))
    }
}

/// Truncates a file, unless it is already empty: after a truncation ext4 assumes that a file is
/// being replaced in place, and writes it to disk on close, which doubles the time of a small file.
///
/// # Errors
/// The errors of the system call.
pub fn empty(file: &File) -> io::Result<()> {
    if file.metadata()?.len() > 0 { file.set_len(0) } else { Ok(()) }
}

struct Opened {
    file: File,
    mode: u32,
    /// True if the file was created, false if an interrupted writer left it.
    new: bool,
}

/// Opens and locks the partial file, with at most the permission bits `bits`. Starts over if
/// another writer renames the file between open and lock. Returns `None` if the file system cannot
/// lock files.
fn open_locked(directory: &OwnedFd, name: &OsStr, bits: u32) -> io::Result<Option<Opened>> {
    // These flags prevent waiting for a pipe or device of this name.
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(bits);
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
        if !new && FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("a pipe or device has the name of the partial file; remove it"));
        }
        let lock = || rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        match optional::attempt(Improvement::Lock, &file, lock) {
            Err(Errno::WOULDBLOCK) => {
                return Err(io::Error::new(
                    io::ErrorKind::WouldBlock,
                    "another copy is writing it right now",
                ));
            }
            Ok(None) => {
                if new {
                    rustix::fs::unlinkat(directory, name, AtFlags::empty())?;
                }
                return Ok(None);
            }
            other => drop(other?),
        }
        let ours = rustix::fs::fstat(&file)?;
        match stat_at(directory, name) {
            Ok(named) if (named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino) => {}
            Err(error) if error != Errno::NOENT => return Err(error.into()),
            _ => continue,
        }
        if !new && others_reach(&ours, bits) {
            rustix::fs::unlinkat(directory, name, AtFlags::empty())?;
            continue;
        }
        return Ok(Some(Opened { file: File::from(file), mode: ours.st_mode & KEPT, new }));
    }
}

/// Creates a file with the permission bits `bits` under a name that no other writer has.
fn create(directory: &OwnedFd, name: &OsStr, bits: u32) -> io::Result<Opened> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL;
    let file = rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(bits))?;
    let mode = rustix::fs::fstat(&file)?.st_mode & KEPT;
    Ok(Opened { file: File::from(file), mode, new: true })
}

/// Returns true if other users can read or change an existing partial file: it gives them more
/// rights than `bits`, another user created it, or it has a second name.
fn others_reach(file: &Stat, bits: u32) -> bool {
    let strange = file.st_uid != rustix::process::geteuid().as_raw() || file.st_nlink != 1;
    strange || file.st_mode & 0o077 & !bits != 0
}

/// Returns the permission bits of a new file: 0666 without those of the umask, or those of the
/// directory's access control list. Creates a file to find out, because only the kernel knows both.
fn usual_mode(directory: &OwnedFd, partial: &File) -> std::result::Result<u32, Errno> {
    // The name is unique, since the partial file is locked, and listings omit it.
    let probe = name::partial_name(format!("{:x}", rustix::fs::fstat(partial)?.st_ino).as_ref());
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, &probe, flags, Mode::from_raw_mode(0o666))?;
    rustix::fs::unlinkat(directory, &probe, AtFlags::empty())?;
    Ok(rustix::fs::fstat(&file)?.st_mode)
}
