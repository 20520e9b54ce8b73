//! Opens the root directory of a layout, and defines the file operations on paths below it. All
//! other modules use these operations.
//!
//! Paths are bytes relative to an open descriptor, so the root may be renamed while it is in use.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use firstbyte_listing::{Batch, DirectoryReader, FileSystemReach};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, Stat, StatxFlags, statx};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::access::RootAccess;
use crate::error::{Error, Result};
use crate::protocol::MoveResult;

/// Permissions of new directories and files, before the umask is applied.
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o777);
const FILE_MODE: Mode = Mode::from_raw_mode(0o666);

/// Maximum number of attempts if the directories above a file are removed again and again. A
/// program that follows the rules removes no directory while a file needs it.
pub(crate) const ATTEMPTS: u32 = 8;

/// Bytes of names read at once to find a name in its directory.
const SPELLING_BATCH: usize = 256 << 10;

/// An open root.
#[derive(Debug)]
pub(crate) struct LayoutRoot {
    fd: OwnedFd,
    path: PathBuf,
    /// True if other machines may change the directory while this machine has its names cached.
    is_shared: bool,
    /// Set once the file system has refused to rename without replacing. Files are then moved by
    /// links.
    links_only: AtomicBool,
    /// Owner and permissions of the root, which new directories get.
    access: RootAccess,
}

impl LayoutRoot {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let fd = open_directory(CWD, path, OFlags::empty()).map_err(|error| Error::io(path, error))?;
        let is_shared = FileSystemReach::of(&fd) == FileSystemReach::Remote;
        let access = RootAccess::of(&fd).map_err(|error| Error::io(path, error))?;
        Ok(Self { fd, path: path.to_owned(), is_shared, links_only: AtomicBool::new(false), access })
    }

    /// Returns the owner and the permissions of the root.
    pub(crate) fn access(&self) -> &RootAccess {
        &self.access
    }

    /// Refreshes this machine's cached names in the directories above `name`, which other machines
    /// may have changed.
    ///
    /// An NFS client remembers for up to a minute (`acdirmax`) that a name exists or does not
    /// exist. When new attributes show that a directory has changed, the client drops the
    /// directory's cached names.
    pub(crate) fn refresh_above(&self, name: &[u8]) {
        if !self.is_shared {
            return;
        }
        let ends = name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| &name[..end]);
        let _ =
            [b".".as_slice()].into_iter().chain(ends).try_for_each(|directory| refresh(&self.fd, directory));
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of `name` below the root, without a `/` at its end.
    pub(crate) fn join(&self, name: &[u8]) -> PathBuf {
        let name = name.strip_suffix(b"/").unwrap_or(name);
        if name.is_empty() { self.path.clone() } else { self.path.join(OsStr::from_bytes(name)) }
    }

    /// Makes the error of an operation on `name`.
    pub(crate) fn error(&self, name: &[u8], source: impl Into<io::Error>) -> Error {
        Error::io(&self.join(name), source)
    }

    /// Reads the directory `name` from its start, about `size` bytes of entries at once. An empty
    /// name means the root.
    pub(crate) fn read(&self, name: &[u8], size: usize) -> Result<DirectoryBatches<'_>> {
        let fd = self.directory(name).map_err(|error| self.error(name, error))?;
        Ok(DirectoryBatches {
            root: self,
            name: name.to_vec(),
            reader: DirectoryReader::from(fd),
            batch: Batch::new(size),
        })
    }

    /// Opens the directory `name`. An empty name opens the root again.
    pub(crate) fn directory(&self, name: &[u8]) -> rustix::io::Result<OwnedFd> {
        let name = if name.is_empty() { b".".as_slice() } else { name };
        let directory = open_directory(&self.fd, name, OFlags::NOFOLLOW)?;
        if self.is_shared {
            refresh(&directory, b".")?;
        }
        Ok(directory)
    }

    /// Opens a file. `None` if the file, or the directory of a new file, does not exist.
    pub(crate) fn file(&self, name: &[u8], flags: OFlags) -> Result<Option<File>> {
        // Without NONBLOCK, opening a pipe would wait for a writer. Regular files are not affected.
        let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.fd, name, flags, FILE_MODE) {
            Ok(fd) => Ok(Some(File::from(fd))),
            Err(error) if is_absence(error) => Ok(None),
            Err(error) => Err(self.error(name, error)),
        }
    }

    /// Opens a regular file for reading. `None` if `name` does not exist or is not a regular file.
    pub(crate) fn regular(&self, name: &[u8]) -> Result<Option<(File, Stat)>> {
        // Without NONBLOCK, opening a pipe would wait for a writer. Regular files are not affected.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = match rustix::fs::openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            // The entry is a symbolic link, a socket, or a device without a driver.
            Err(Errno::LOOP | Errno::NXIO | Errno::NODEV) => return Ok(None),
            Err(error) if is_absence(error) => return Ok(None),
            Err(error) => return Err(self.error(name, error)),
        };
        let stat = rustix::fs::fstat(&fd).map_err(|error| self.error(name, error))?;
        Ok((file_type(&stat) == FileType::RegularFile).then(|| (File::from(fd), stat)))
    }

    /// True if `name` is a regular file.
    pub(crate) fn has_file(&self, name: &[u8]) -> Result<bool> {
        Ok(self.stat(name)?.is_some_and(|stat| file_type(&stat) == FileType::RegularFile))
    }

    /// Returns the attributes of `name`, without following a link. `None` if it does not exist.
    pub(crate) fn stat(&self, name: &[u8]) -> Result<Option<Stat>> {
        match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(error) if is_absence(error) => Ok(None),
            Err(error) => Err(self.error(name, error)),
        }
    }

    /// True if each part of the path `name` is listed in its directory with exactly these bytes. A
    /// path that is found but not listed is another spelling of a listed one.
    pub(crate) fn is_listed(&self, name: &[u8]) -> Result<bool> {
        let ends = name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
        let mut start = 0;
        for end in ends.chain([name.len()]) {
            let (above, part) = (&name[..start], &name[start..end]);
            let mut pages = self.read(above, SPELLING_BATCH)?;
            let mut found = false;
            while let Some(batch) = pages.next()? {
                found |= batch.entries().any(|entry| entry.name() == part);
            }
            if !found {
                return Ok(false);
            }
            start = end + 1;
        }
        Ok(true)
    }

    /// True if the file system finds the same entry by both paths, of which it lists only `name`:
    /// `other` is another spelling, in letter case or Unicode form.
    pub(crate) fn are_spellings(&self, name: &[u8], other: &[u8]) -> Result<bool> {
        let (Some(first), Some(second)) = (self.stat(name)?, self.stat(other)?) else { return Ok(false) };
        let is_one_file = (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino);
        Ok(is_one_file && !self.is_listed(other)?)
    }

    /// Removes a file. False if it did not exist.
    pub(crate) fn remove(&self, name: &[u8]) -> Result<bool> {
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(error) if is_absence(error) => Ok(false),
            Err(error) => Err(self.error(name, error)),
        }
    }

    /// Renames a file, replacing any file at `to`. False if `from` or the directory of `to` does
    /// not exist.
    pub(crate) fn rename(&self, from: &[u8], to: &[u8]) -> Result<bool> {
        match rustix::fs::renameat(&self.fd, from, &self.fd, to) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(self.error(to, error)),
        }
    }

    /// Renames a file unless `to` exists. [`MoveResult::Absent`] if `from` or the directory of `to`
    /// does not exist; `None` if the file system does not support such a rename.
    pub(crate) fn rename_exclusively<P: Arg + Copy>(
        &self,
        from: P,
        to: P,
    ) -> rustix::io::Result<Option<MoveResult>> {
        if self.links_only.load(Ordering::Relaxed) {
            return Ok(None);
        }
        match rustix::fs::renameat_with(&self.fd, from, &self.fd, to, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(Some(MoveResult::Done)),
            Err(Errno::EXIST) => Ok(Some(MoveResult::Taken)),
            Err(Errno::NOENT) => Ok(Some(MoveResult::Absent)),
            // The file system, the kernel or a sandbox lacks this form of the call.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(self.begin_links()),
            Err(Errno::PERM) if self.is_renaming_forbidden() => Ok(self.begin_links()),
            Err(error) => Err(error),
        }
    }

    /// Makes all later moves use links. Returns `None`, which means that no file was renamed.
    fn begin_links(&self) -> Option<MoveResult> {
        self.links_only.store(true, Ordering::Relaxed);
        None
    }

    /// True if a sandbox refuses this form of the call for every name. Otherwise one file may not
    /// move, and a link to it would be a second name that stays.
    fn is_renaming_forbidden(&self) -> bool {
        let renamed = rustix::fs::renameat_with(&self.fd, "", &self.fd, "", RenameFlags::NOREPLACE);
        renamed == Err(Errno::PERM)
    }

    /// Gives a file a second name, unless that name exists. [`MoveResult::Absent`] if `from` or the
    /// directory of `to` does not exist.
    pub(crate) fn link(&self, from: &[u8], to: &[u8]) -> rustix::io::Result<MoveResult> {
        match rustix::fs::linkat(&self.fd, from, &self.fd, to, AtFlags::empty()) {
            Ok(()) => Ok(MoveResult::Done),
            Err(Errno::EXIST) => Ok(MoveResult::Taken),
            Err(Errno::NOENT) => Ok(MoveResult::Absent),
            Err(error) => Err(error),
        }
    }

    /// Makes the missing directories above `name`. Returns the number of new directories.
    pub(crate) fn make_above(&self, name: &[u8]) -> Result<u64> {
        let ends = name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
        let mut made = 0;
        for end in ends {
            match rustix::fs::mkdirat(&self.fd, &name[..end], DIRECTORY_MODE) {
                Ok(()) => made += 1,
                Err(Errno::EXIST) => continue,
                Err(error) => return Err(self.error(&name[..end], error)),
            }
            let given = self
                .open_without_links(&name[..end])
                .and_then(|directory| self.access.give(directory, 0o1777));
            match given {
                // Another process has removed the empty directory meanwhile.
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(self.error(&name[..end], error)),
            }
        }
        Ok(made)
    }

    /// Opens the directory `name`, one component at a time. None of the components may be a link.
    fn open_without_links(&self, name: &[u8]) -> rustix::io::Result<OwnedFd> {
        let mut parts = name.split(|byte| *byte == b'/');
        let first = open_directory(&self.fd, parts.next().unwrap_or_default(), OFlags::NOFOLLOW)?;
        parts.try_fold(first, |at, part| open_directory(at, part, OFlags::NOFOLLOW))
    }

    /// Removes a directory if it is empty. True if the directory no longer exists.
    pub(crate) fn remove_if_empty(&self, name: &[u8]) -> Result<bool> {
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(true),
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
            Err(error) => Err(self.error(name, error)),
        }
    }

    /// Syncs the names in the directory `name` to disk.
    pub(crate) fn sync_directory(&self, name: &[u8]) -> Result<()> {
        let synced = self.directory(name).and_then(rustix::fs::fsync);
        synced.map_err(|error| self.error(name, error))
    }

    /// Syncs everything on this file system to disk.
    pub(crate) fn sync_all(&self) -> Result<()> {
        rustix::fs::syncfs(&self.fd).map_err(|error| self.error(b"", error))
    }

    /// Makes all later moves use links, as on file systems that cannot rename without replacing.
    #[cfg(test)]
    pub(crate) fn use_links_only(&self) {
        self.begin_links();
    }
}

/// A directory's entries, batch by batch.
pub(crate) struct DirectoryBatches<'a> {
    root: &'a LayoutRoot,
    name: Vec<u8>,
    reader: DirectoryReader,
    batch: Batch,
}

impl DirectoryBatches<'_> {
    /// Reads the next batch; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<&Batch>> {
        let more = self.reader.read(&mut self.batch).map_err(|error| self.root.error(&self.name, error))?;
        Ok(more.then_some(&self.batch))
    }
}

/// True if an error means that there is no file. This includes a file where a directory is
/// expected, and a file that another machine has removed since the look-up.
fn is_absence(error: Errno) -> bool {
    matches!(error, Errno::NOENT | Errno::NOTDIR | Errno::STALE)
}

/// Requests the current attributes of a directory from the server. Local file systems answer from
/// memory.
fn refresh(at: impl AsFd, name: &[u8]) -> rustix::io::Result<()> {
    let flags = AtFlags::STATX_FORCE_SYNC | AtFlags::SYMLINK_NOFOLLOW;
    statx(at, name, flags, StatxFlags::MTIME | StatxFlags::CTIME).map(drop)
}

/// Returns the type of a file.
pub(crate) fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Makes the root directory unless it exists. A relative `path` is relative to the process's
/// working directory.
pub(crate) fn make_root(path: &Path) -> Result<()> {
    match rustix::fs::mkdirat(CWD, path, DIRECTORY_MODE) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(Error::io(path, error)),
    }
}

/// Opens the directory `name`, relative to the directory `at`.
fn open_directory(at: impl AsFd, name: impl Arg, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(at, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | flags, Mode::empty())
}
