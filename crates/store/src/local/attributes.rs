//! Copies the owner, mode and times of a file, directory or link to another, and makes links.
//! Copies that preserve everything (`cp -a`) call this module after the content is in place.
//!
//! No link is followed, neither at the destination nor at the source: each entry is opened itself,
//! and changed through its descriptor. A file gets attributes only if it is a copy of the present
//! source, because another user may own a directory on the path and may have put another file
//! there.

use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use firstbyte_location::shown;
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, Uid};
use rustix::io::Errno;

use super::beneath::{Beneath, MissingDirectories};
use super::name;
use super::spelling::{is_often_changed, other_spelling, stored_otherwise};
use crate::error::{Error, Result};
use crate::syscall_refusal::is_refusal;

/// The set-user-ID and set-group-ID bits, which run a program with the rights of the file's owner.
const SET_ID: u32 = 0o6000;

impl Beneath {
    /// Gives `name` the owner, mode and times of `from` beneath `source`. An empty name is the
    /// directory itself. If this process may not set the owner, it clears the set-ID bits. Leaves
    /// the entry unchanged if it is missing, is of another kind, or is a file but not a copy of the
    /// source.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::InvalidName`] if a component of a path is a link.
    pub fn take_attributes(&self, name: &Path, source: &Self, from: &Path) -> Result<()> {
        let wanted = source.entry(from).and_then(rustix::fs::fstat);
        let wanted = wanted.map_err(|error| source.explain(from, error))?;
        match self.entry(name).and_then(|entry| set_attributes(&entry, &wanted)) {
            Err(Errno::NOENT) | Ok(()) => Ok(()),
            Err(error) => Err(self.explain(name, error)),
        }
    }

    /// Opens the entry itself, even a link or a file that this process may not read. An empty name
    /// opens the directory.
    fn entry(&self, name: &Path) -> std::result::Result<OwnedFd, Errno> {
        if name.as_os_str().is_empty() {
            return self.opened();
        }
        let (directory, last) = self.parent(name, MissingDirectories::Refuse)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&directory, last, flags, Mode::empty())
    }

    /// Makes a symbolic link to `target`. Replaces a file or another link of this name, and creates
    /// the directories of `name`. Returns false if the same link exists already.
    ///
    /// # Errors
    /// [`Error::Io`], also if `name` is a directory; [`Error::InvalidName`] if a component of the
    /// path is a link.
    pub fn make_link(&self, name: &Path, target: &Path) -> Result<bool> {
        let (directory, last) = self
            .parent(name, MissingDirectories::Create)
            .map_err(|error| self.explain_parent(name, error))?;
        let other = || other_spelling(&directory, last).map_err(|error| self.explain(name, error));
        if let Some(other) = other()? {
            return Err(self.is_spelled_otherwise(name, &other));
        }
        let make = || {
            if is_link_to(&directory, last, target) {
                return Ok(false);
            }
            // The link is made under the name of a partial file first. Listings omit that name, and
            // the next copy removes it.
            let partial = name::partial_name(last);
            match rustix::fs::unlinkat(&directory, &partial, AtFlags::empty()) {
                Err(error) if error != Errno::NOENT => return Err(error),
                _ => rustix::fs::symlinkat(target, &directory, &partial)?,
            }
            rustix::fs::renameat(&directory, &partial, &directory, last).inspect_err(|_| {
                // Reports the error of the rename, not that of the removal.
                let _ = rustix::fs::unlinkat(&directory, &partial, AtFlags::empty());
            })?;
            Ok(true)
        };
        let made = make().map_err(|error| match error {
            Errno::ISDIR | Errno::EXIST => {
                let location = shown(&self.shown(name)).to_string();
                Error::InvalidName { location, why: "a directory is in the link's place".into() }
            }
            other => self.explain(name, other),
        })?;
        match if made && is_often_changed(last) { other()? } else { None } {
            Some(other) => {
                self.remove_file(name)?;
                Err(stored_otherwise(&self.shown(name), &other))
            }
            None => Ok(made),
        }
    }
}

fn is_link_to(directory: &OwnedFd, name: &OsStr, target: &Path) -> bool {
    let there = rustix::fs::readlinkat(directory, name, Vec::new());
    there.is_ok_and(|there| there.as_bytes() == target.as_os_str().as_encoded_bytes())
}

fn set_attributes(entry: &OwnedFd, wanted: &Stat) -> std::result::Result<(), Errno> {
    let there = rustix::fs::fstat(entry)?;
    let kind = FileType::from_raw_mode(wanted.st_mode);
    if FileType::from_raw_mode(there.st_mode) != kind
        || (kind == FileType::RegularFile && !is_copy(&there, wanted))
    {
        return Ok(());
    }
    let (owner, group) = (Uid::from_raw(wanted.st_uid), Gid::from_raw(wanted.st_gid));
    let own = (there.st_uid, there.st_gid) == (wanted.st_uid, wanted.st_gid);
    let is_given = own || {
        let given = rustix::fs::chownat(entry, "", Some(owner), Some(group), AtFlags::EMPTY_PATH);
        allowed(given)?
    };
    if kind == FileType::Symlink {
        // Links have no mode, and the times of a link can be set only by its name.
        return Ok(());
    }
    // `fchmod` and `futimens` do not accept an `O_PATH` descriptor, but its path in /proc works.
    let path = format!("/proc/self/fd/{}", entry.as_raw_fd());
    let mode = wanted.st_mode & 0o7777 & if is_given { 0o7777 } else { !SET_ID };
    allowed(rustix::fs::chmod(path.as_str(), Mode::from_raw_mode(mode)))?;
    if kind == FileType::RegularFile {
        // The copy of a file's content has already set the time.
        return Ok(());
    }
    let modified =
        Timespec { tv_sec: wanted.st_mtime, tv_nsec: i64::try_from(wanted.st_mtime_nsec).unwrap_or(0) };
    let kept = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let times = Timestamps { last_access: kept, last_modification: modified };
    allowed(rustix::fs::utimensat(CWD, path.as_str(), &times, AtFlags::empty())).map(drop)
}

/// Returns true if a file is a copy of the present source: it has the source's length and time,
/// belongs to this user or to the source's owner, and has no other name.
fn is_copy(there: &Stat, wanted: &Stat) -> bool {
    let by = [rustix::process::geteuid().as_raw(), wanted.st_uid];
    (there.st_size, there.st_mtime) == (wanted.st_size, wanted.st_mtime)
        && by.contains(&there.st_uid)
        && there.st_nlink == 1
}

/// Returns true if the change was made, and false if this user or the file system cannot make it.
fn allowed(change: std::result::Result<(), Errno>) -> std::result::Result<bool, Errno> {
    match change {
        Ok(()) => Ok(true),
        Err(error) if is_refusal(error) => Ok(false),
        Err(error) => Err(error),
    }
}
