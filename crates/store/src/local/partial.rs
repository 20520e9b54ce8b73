//! Writes files atomically: under a temporary name, which is then renamed to the destination. All
//! downloads and copies use this module. A later run finds an interrupted write by the name of its
//! temporary file, and resumes it.

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

use super::beneath::{self, Beneath, PRESERVED_BITS};
use super::destination::{PartialDestination, ReplaceKind};
use super::file_times::set_and_check;
use super::optional::{self, Improvement, attempt};
use super::resolve::stat_at;
use super::spelling::{is_refused_name, refused_name};
use super::{errno, io_error, name};
use crate::error::{Error, Result};
use crate::object::Metadata;
use crate::sink::Sink;
use crate::upload::Precondition;

/// Data that is on stable storage when a write is reported as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: no fsync (the default). After a power failure, a file just written may be missing,
    /// empty or incomplete, even if its name, length and time look right. A file is never a mixture
    /// of old and new.
    #[default]
    None,
    /// The content. A large file is synced by `fdatasync` before its rename, small files by one
    /// `syncfs` per batch.
    Data,
    /// Content, names and metadata: as with `Data`, and the directory is synced too.
    Full,
}

/// The permissions of a file while it is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartialPermissions {
    /// For the owner only, because the permission bits of the source are not known yet.
    Owner,
    /// For all users who may read the source. The value is the source's permission bits.
    Source(u32),
    /// For all users who may read any new file: 0666 without the bits of the umask.
    Usual,
}

impl PartialPermissions {
    /// Returns the permissions for a copy with this metadata.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        metadata.mode.map_or(Self::Usual, Self::Source)
    }

    /// Returns the permission bits of the partial file. The owner can always resume the write.
    /// Other users get only the rights that both the source and the file to be replaced (`before`)
    /// grant.
    fn bits(self, before: Option<u32>) -> u32 {
        let others = match self {
            Self::Owner => 0,
            Self::Source(mode) => mode,
            Self::Usual => 0o666,
        };
        0o600 | (others & before.unwrap_or(PRESERVED_BITS) & PRESERVED_BITS)
    }
}

/// A file that is being written next to its destination, as `.NAME.firstbyte-part`.
///
/// The file is locked exclusively while open, so two writers cannot mix their data. If the value is
/// dropped without commit or discard, the file remains, and a later run resumes it. On a file
/// system without locks, and beside another user's partial file, the file has a random name, and no
/// run resumes it.
#[derive(Debug)]
pub struct LocalFile {
    sink: Arc<Sink>,
    place: PartialDestination,
    /// The name from which the names of the partial file and its journal are derived.
    stem: OsString,
    partial: OsString,
    path: PathBuf,
    /// The permission bits that the partial file had when it was opened.
    mode: u32,
    /// True if the kernel chose the permission bits, as it does for any new file without an
    /// explicit mode.
    has_usual_mode: bool,
}

impl LocalFile {
    /// Opens or creates the partial file for `destination`. Keeps the content that an interrupted
    /// writer left. Creates missing parent directories. If the destination is a symbolic link to a
    /// file, the file is replaced, and the link stays.
    ///
    /// # Errors
    /// [`Io`](crate::Error::Io): no permission, the destination is a directory, or another writer
    /// has the lock (`WouldBlock`). [`InvalidName`](crate::Error::InvalidName): no file name, or
    /// the destination is neither a file nor a directory.
    pub fn open(destination: &Path, privacy: PartialPermissions) -> Result<Self> {
        Self::begin(PartialDestination::named(destination)?, privacy)
    }

    /// Opens a partial file like [`open`](Self::open), for a name beneath a directory. Follows no
    /// links: a link at the destination is replaced. If `over` allows it, a directory is replaced
    /// too; the caller must remove that directory before the commit.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open). [`InvalidName`](crate::Error::InvalidName) also if a
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
            // The directory is open, so it exists. The error means that the file system refuses to
            // create a file of this name.
            io::ErrorKind::NotFound if is_text => Error::InvalidName {
                location: shown(&place.path).to_string(),
                why: "no file can be created in this directory; name another destination".into(),
            },
            _ if is_refused_name(errno(&error)) || !is_text => refused_name(&place.path, errno(&error)),
            _ => io_error(&place.path, error),
        })?;
        let has_usual_mode = opened.is_new && privacy == PartialPermissions::Usual && place.mode.is_none();
        let sink = Arc::new(Sink::new(opened.file));
        Ok(Self { sink, place, stem, partial, path, mode: opened.mode, has_usual_mode })
    }

    /// Returns the file, for writes by several threads.
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

    /// Returns true if a later run can resume this write after an interruption.
    #[must_use]
    pub fn is_resumable(&self) -> bool {
        self.stem == self.place.name
    }

    /// Returns the path from which the name of the journal is derived: the destination if the write
    /// can be resumed, otherwise a path with the random name of the partial file.
    #[must_use]
    pub fn journaled_path(&self) -> PathBuf {
        self.place.path.with_file_name(&self.stem)
    }

    /// Returns the path of the partial file of `destination`.
    #[must_use]
    pub fn partial_path(destination: &Path) -> PathBuf {
        destination.with_file_name(name::partial_name(destination.file_name().unwrap_or_default()))
    }

    /// Returns the directory of the file, in which names can be looked up.
    #[must_use]
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.place.directory.as_fd()
    }

    /// Sets the modification time and the permission bits of `metadata`, syncs as `durability`
    /// requires, and renames the file to the destination.
    ///
    /// # Errors
    /// [`Io`](crate::Error::Io). The destination is then unchanged.
    pub fn commit(self, metadata: &Metadata, durability: Durability) -> Result<()> {
        self.commit_if(metadata, durability, &Precondition::None)
    }

    /// Commits like [`commit`](Self::commit), if `precondition` holds. The rename itself ensures
    /// that the destination does not exist. A version is compared just before the rename, so a
    /// writer that takes no lock may still change the destination in between.
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
            let set = || set_and_check(self.file(), modified);
            attempt(Improvement::Time, self.file(), set).map_err(|error| at_destination(error.into()))?;
        }
        self.set_final_mode(metadata.mode).map_err(|error| at_destination(error.into()))?;
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
            if error.is_fixed_name() {
                // The file cannot get this name, so it is removed. If the removal fails, listings
                // omit the file.
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

    /// Sets the final permission bits, which are the bits of the source. A file that replaces
    /// another gets only the bits that both have. So neither a private source nor a private
    /// destination becomes readable.
    fn set_final_mode(&self, source: Option<u32>) -> std::result::Result<(), Errno> {
        let mode = match (source, self.place.mode) {
            (Some(source), Some(before)) => source & before,
            (Some(mode), None) | (None, Some(mode)) => mode,
            (None, None) if self.has_usual_mode => return Ok(()),
            (None, None) => usual_mode(&self.place.directory, self.file())?,
        };
        if mode & PRESERVED_BITS == self.mode {
            Ok(())
        } else {
            beneath::change_mode(self.file(), mode & PRESERVED_BITS)
        }
    }

    /// Truncates the partial file, in which an interrupted writer may have left content.
    ///
    /// # Errors
    /// [`Io`](crate::Error::Io).
    pub fn truncate(&self) -> Result<()> {
        truncate(self.file()).map_err(|error| io_error(&self.path, error))
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

/// Truncates a file, unless it is already empty: ext4 takes any truncation as the start of a
/// replacement in place, and writes the file to disk on close, which doubles the time for a small
/// file.
///
/// # Errors
/// The errors of the system call.
pub fn truncate(file: &File) -> io::Result<()> {
    if file.metadata()?.len() > 0 { file.set_len(0) } else { Ok(()) }
}

struct OpenedPartial {
    file: File,
    mode: u32,
    /// True if the file was created, false if an interrupted writer left it.
    is_new: bool,
}

/// Opens and locks the partial file, and ensures that its permission bits do not exceed `bits`.
/// Starts over if another writer renames the file between open and lock. Returns `None` if the file
/// system cannot lock files, or if another user's file has the name and cannot be removed.
fn open_locked(directory: &OwnedFd, name: &OsStr, bits: u32) -> io::Result<Option<OpenedPartial>> {
    // With these flags, `open` does not wait if a pipe or device has this name.
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(bits);
    loop {
        let made = rustix::fs::openat(directory, name, flags | OFlags::CREATE | OFlags::EXCL, mode);
        let is_new = made.is_ok();
        let file = match made {
            Err(Errno::EXIST) => match rustix::fs::openat(directory, name, flags, mode) {
                Err(Errno::NOENT) => continue,
                // The file is the partial file of another user.
                Err(Errno::ACCESS | Errno::PERM) => return Ok(None),
                other => other?,
            },
            other => other?,
        };
        if !is_new && FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) != FileType::RegularFile {
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
                if is_new {
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
        if !is_new && others_reach(&ours, bits) {
            match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
                // The directory is sticky, like `/tmp`, and the partial file is another user's.
                Err(Errno::ACCESS | Errno::PERM) => return Ok(None),
                other => other?,
            }
            continue;
        }
        return Ok(Some(OpenedPartial {
            file: File::from(file),
            mode: ours.st_mode & PRESERVED_BITS,
            is_new,
        }));
    }
}

/// Creates a file with the permission bits `bits`, under a name that no other writer has.
fn create(directory: &OwnedFd, name: &OsStr, bits: u32) -> io::Result<OpenedPartial> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL;
    let file = rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(bits))?;
    let mode = rustix::fs::fstat(&file)?.st_mode & PRESERVED_BITS;
    Ok(OpenedPartial { file: File::from(file), mode, is_new: true })
}

/// Returns true if other users can read or change an existing partial file: it grants them more
/// rights than `bits`, another user created it, or it has a second name.
fn others_reach(file: &Stat, bits: u32) -> bool {
    let strange = file.st_uid != rustix::process::geteuid().as_raw() || file.st_nlink != 1;
    strange || file.st_mode & 0o077 & !bits != 0
}

/// Returns the permission bits of a new file: 0666 without the bits of the umask, or the bits from
/// the access control list of the directory. Only the kernel knows both rules, so this function
/// creates a file and reads its bits.
fn usual_mode(directory: &OwnedFd, partial: &File) -> std::result::Result<u32, Errno> {
    // The name is unique, because it contains the inode number of the partial file. Listings omit
    // the name.
    let probe = name::partial_name(format!("{:x}", rustix::fs::fstat(partial)?.st_ino).as_ref());
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, &probe, flags, Mode::from_raw_mode(0o666))?;
    rustix::fs::unlinkat(directory, &probe, AtFlags::empty())?;
    Ok(rustix::fs::fstat(&file)?.st_mode)
}
