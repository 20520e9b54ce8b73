//! Removes files and directories beneath a directory. Names are resolved as for writes: no link is
//! followed. Copies that replace, mirror or move call this module.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use firstbyte_location::{FileIdentity, Version, shown};
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix_futex_sync::Mutex;

use super::beneath::{Beneath, MissingDirectories, version_of};
use super::io_error;
use super::resolve::{READ, entries, stat_at};
use crate::error::{Error, Result};

/// Inodes of which this process has removed one of several names. Removing a name sets the change
/// time, which is part of the version by which the other names are read and removed.
static UNLINKED: Mutex<BTreeSet<(u64, u64)>> = Mutex::new(BTreeSet::new());

/// Returns true if a file still has the version `expected`, except for a change time that this
/// process has changed by removing another name of the file.
pub(crate) fn is_still(found: &Version, expected: &Version) -> bool {
    if found.agrees_with(expected) {
        return true;
    }
    let (Some(ours), Some(theirs)) = (found.file, expected.file) else { return false };
    let as_before = FileIdentity { changed_ns: theirs.changed_ns, ..ours };
    UNLINKED.lock().contains(&(ours.device, ours.inode))
        && Version { file: Some(as_before), ..found.clone() }.agrees_with(expected)
}

impl Beneath {
    /// Removes a file or a link. Succeeds if it is missing.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::InvalidName`] if a component of the path is a link.
    pub fn remove_file(&self, name: &Path) -> Result<()> {
        self.remove(name, AtFlags::empty())
    }

    /// Removes a file if it still has this version. Succeeds if the file is missing.
    ///
    /// # Errors
    /// [`Error::Changed`], and the errors of [`remove_file`](Self::remove_file).
    pub fn remove_version(&self, name: &Path, version: &Version) -> Result<()> {
        let removed = self.parent(name, MissingDirectories::Refuse).and_then(|(directory, last)| {
            let stat = stat_at(&directory, last)?;
            let found = version_of(&stat);
            if found.file.zip(version.file).is_none() || !is_still(&found, version) {
                return Ok(Some(found));
            }
            if stat.st_nlink > 1 {
                UNLINKED.lock().insert((stat.st_dev, stat.st_ino));
            }
            rustix::fs::unlinkat(&directory, last, AtFlags::empty()).map(|()| None)
        });
        match removed {
            Ok(None) | Err(Errno::NOENT) => Ok(()),
            Ok(Some(found)) => Err(Error::Changed {
                location: shown(&self.shown(name)).to_string(),
                expected: Box::new(version.clone()),
                found: Box::new(found),
                trace: None,
            }),
            Err(error) => Err(self.explain(name, error)),
        }
    }

    /// Removes `name` if `other` beneath another directory is a hard link to the same file. Returns
    /// false if it is not. The caller must know that the names are not two paths to one entry.
    ///
    /// # Errors
    /// The errors of [`remove_file`](Self::remove_file).
    pub fn remove_other_name(&self, name: &Path, target: &Self, other: &Path) -> Result<bool> {
        let found = |beneath: &Self, name: &Path| {
            let (directory, last) = beneath.parent(name, MissingDirectories::Refuse)?;
            stat_at(&directory, last)
        };
        let (Ok(here), Ok(there)) = (found(self, name), found(target, other)) else { return Ok(false) };
        let is_file = FileType::from_raw_mode(here.st_mode) == FileType::RegularFile;
        let is_same = (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino);
        if !is_file || !is_same || here.st_nlink < 2 {
            return Ok(false);
        }
        self.remove_version(name, &version_of(&here)).map(|()| true)
    }

    /// Removes `name`, which an interrupted copy has left together with the partial file `partial`.
    /// The two names may be equal. Leaves it if a running copy has locked the partial file, or if
    /// that cannot be determined.
    ///
    /// # Errors
    /// The errors of [`remove_file`](Self::remove_file).
    pub fn remove_leftover(&self, name: &Path, partial: &Path) -> Result<()> {
        let opened = self.parent(partial, MissingDirectories::Refuse).and_then(|(directory, last)| {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            rustix::fs::openat(&directory, last, flags, Mode::empty())
        });
        let lock = |file: &OwnedFd| rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive);
        // The lock on the partial file is held until the name is removed.
        let is_free = match &opened {
            Ok(file) => lock(file).is_ok(),
            Err(error) => *error == Errno::NOENT,
        };
        if is_free { self.remove_file(name) } else { Ok(()) }
    }

    /// Removes a directory if it is empty. Succeeds, without removing it, if it is missing or not
    /// empty.
    ///
    /// # Errors
    /// The errors of [`remove_file`](Self::remove_file).
    pub fn remove_empty_directory(&self, name: &Path) -> Result<()> {
        match self.remove(name, AtFlags::REMOVEDIR) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            other => other,
        }
    }

    /// Removes a directory with its contents, if it contains only directories, and files and links
    /// for which `may_remove` is true; otherwise removes nothing. Returns the number of files and
    /// links removed.
    ///
    /// # Errors
    /// [`Error::InvalidName`] if `may_remove` is false for a name, or if there is a device, socket
    /// or pipe; [`Error::Io`].
    pub fn remove_tree(&self, name: &Path, may_remove: &dyn Fn(&[u8]) -> bool) -> Result<u64> {
        let directory =
            self.parent(name, MissingDirectories::Refuse).and_then(|(above, last)| enter(&above, last));
        let directory = directory.map_err(|error| self.explain(name, error))?;
        self.check_may_be_removed(&directory, name, may_remove)?;
        let mut removed = 0;
        self.remove_contents(&directory, name, &mut removed)?;
        self.remove(name, AtFlags::REMOVEDIR)?;
        Ok(removed)
    }

    fn remove(&self, name: &Path, how: AtFlags) -> Result<()> {
        let removed = self
            .parent(name, MissingDirectories::Refuse)
            .and_then(|(directory, last)| rustix::fs::unlinkat(&directory, last, how));
        match removed {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(self.explain(name, error)),
        }
    }

    /// Checks that every name below a directory may be removed.
    fn check_may_be_removed(
        &self,
        directory: &OwnedFd,
        name: &Path,
        may_remove: &dyn Fn(&[u8]) -> bool,
    ) -> Result<()> {
        let fail = |error: Errno| io_error(&self.shown(name), error);
        for (part, kind) in entries(directory).map_err(fail)? {
            let below = name.join(&part);
            let stays = match kind {
                FileType::Directory => {
                    let inner = enter(directory, &part).map_err(fail)?;
                    self.check_may_be_removed(&inner, &below, may_remove)?;
                    false
                }
                FileType::RegularFile | FileType::Symlink => !may_remove(below.as_os_str().as_bytes()),
                _ => true,
            };
            if stays {
                let location = shown(&self.shown(&below)).to_string();
                let why = "must be kept, so its directory cannot be replaced by a file";
                return Err(Error::InvalidName { location, why: why.into() });
            }
        }
        Ok(())
    }

    fn remove_contents(&self, directory: &OwnedFd, name: &Path, removed: &mut u64) -> Result<()> {
        let fail = |error: Errno| io_error(&self.shown(name), error);
        for (part, kind) in entries(directory).map_err(fail)? {
            if kind == FileType::Directory {
                let below = enter(directory, &part).map_err(fail)?;
                self.remove_contents(&below, &name.join(&part), removed)?;
                rustix::fs::unlinkat(directory, &part, AtFlags::REMOVEDIR).map_err(fail)?;
            } else {
                rustix::fs::unlinkat(directory, &part, AtFlags::empty()).map_err(fail)?;
                *removed += 1;
            }
        }
        Ok(())
    }
}

fn enter(directory: &OwnedFd, part: &OsStr) -> std::result::Result<OwnedFd, Errno> {
    rustix::fs::openat(directory, part, READ | OFlags::NOFOLLOW, Mode::empty())
}
