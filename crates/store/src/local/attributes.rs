//! Copies the owner, mode and times of a file, directory or link to another, and makes links.
//! Copies that preserve everything (`cp -a`) call this module after the content is in place.
//!
//! No link is followed, neither at the destination nor at the source: each entry itself is opened,
//! and changed through its descriptor. If another user owns a directory on the path, that user may
//! have put another file there. So a file gets attributes only if it is certainly a copy of the
//! present source, or if no other user can write to the directories above it.

use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::SystemTime;

use firstbyte_location::shown;
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Timespec, Uid};
use rustix::io::Errno;

use super::beneath::{Beneath, MissingDirectories};
use super::file_times::{self, both_times};
use super::name;
use super::resolve::{readable, stat_at};
use super::spelling::{is_often_changed, other_spelling, stored_otherwise};
use crate::error::{Error, Result};
use crate::syscall_refusal::is_refusal;

/// The set-user-ID and set-group-ID bits, which run a program with the rights of the file's owner.
const SET_ID: u32 = 0o6000;

/// Whether the files that get attributes are known to be copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyState {
    /// Each file was just copied, or was found to be a copy.
    Complete,
    /// The run may have skipped a file, so the file may differ from its source.
    Perhaps,
}

impl Beneath {
    /// Copies the owner, mode and times of `from` beneath `source` to `name`. An empty name is the
    /// directory itself. If this process may not set the owner, it clears the set-ID bits. Leaves
    /// the entry unchanged if it is missing, is of another kind, or is a file that is not
    /// [complete](CopyState).
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::InvalidName`] if a component of a path is a link, or if another user
    /// may have replaced the copy.
    pub fn take_attributes(&self, name: &Path, source: &Self, from: &Path, state: CopyState) -> Result<()> {
        let wanted = source.entry(from).and_then(rustix::fs::fstat);
        let wanted = wanted.map_err(|error| source.explain(from, error))?;
        let explained = |error| self.explain(name, error);
        let entry = match self.entry(name) {
            Err(Errno::NOENT) => return Ok(()),
            other => other.map_err(explained)?,
        };
        let there = rustix::fs::fstat(&entry).map_err(explained)?;
        match AttributeAction::of(&there, &wanted, state, || self.is_private(name)) {
            AttributeAction::Keep => Ok(()),
            AttributeAction::Set => {
                let reopened = || self.reopened(name, &there);
                set_attributes(&entry, &there, &wanted, reopened).map_err(explained)
            }
            AttributeAction::Refuse => Err(Error::InvalidName {
                location: shown(&self.shown(name)).to_string(),
                why: "keeps its owner and mode: another user can write to its directory, and may have replaced it; \
                      remove it and copy it again"
                    .into(),
            }),
        }
    }

    /// Sets the modification time of a directory. An empty name is the directory itself.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::InvalidName`] if a component of the path is a link.
    pub fn set_directory_time(&self, name: &Path, modified: SystemTime) -> Result<()> {
        let modified = file_times::timespec(modified);
        let set = || {
            if name.as_os_str().is_empty() {
                return file_times::set_time(readable(&self.reopen_root()?)?, modified);
            }
            // The directory itself may not be readable for this process.
            let (above, last) = self.parent(name, MissingDirectories::Refuse)?;
            let times = both_times(&stat_at(&above, last)?, modified);
            rustix::fs::utimensat(&above, last, &times, AtFlags::SYMLINK_NOFOLLOW)
        };
        set().map_err(|error| self.explain(name, error))
    }

    /// Returns true if no user but this one and root can change the directories from the root of
    /// this tree to `name`.
    fn is_private(&self, name: &Path) -> bool {
        let user = rustix::process::geteuid();
        let is_own = |directory: std::result::Result<OwnedFd, Errno>| {
            directory.and_then(rustix::fs::fstat).is_ok_and(|found| {
                let owner = Uid::from_raw(found.st_uid);
                (owner == user || owner.is_root()) && found.st_mode & 0o022 == 0
            })
        };
        name.ancestors().skip(1).all(|above| is_own(self.entry(above)))
    }

    /// Opens for reading the entry whose attributes are `there`.
    fn reopened(&self, name: &Path, there: &Stat) -> std::result::Result<OwnedFd, Errno> {
        let entry = self.entry(name)?;
        if FileType::from_raw_mode(there.st_mode) == FileType::Directory {
            return readable(&entry);
        }
        let (directory, last) = self.parent(name, MissingDirectories::Refuse)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&directory, last, flags, Mode::empty())?;
        let found = rustix::fs::fstat(&file)?;
        // The name may have been replaced by another entry since it was opened.
        let is_it = (found.st_dev, found.st_ino) == (there.st_dev, there.st_ino);
        if is_it { Ok(file) } else { Err(Errno::STALE) }
    }

    /// Opens the entry itself, even a link or a file that this process may not read. An empty name
    /// opens the directory.
    fn entry(&self, name: &Path) -> std::result::Result<OwnedFd, Errno> {
        if name.as_os_str().is_empty() {
            return self.reopen_root();
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
            return Err(self.spelling_error(name, &other));
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
                // An error of the removal is ignored, so that the error of the rename is reported.
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

/// Treatment of the attributes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AttributeAction {
    Set,
    Keep,
    /// The attributes differ, and the entry may be another user's file and not the copy.
    Refuse,
}

impl AttributeAction {
    fn of(there: &Stat, wanted: &Stat, state: CopyState, is_private: impl FnOnce() -> bool) -> Self {
        let kind = FileType::from_raw_mode(wanted.st_mode);
        if FileType::from_raw_mode(there.st_mode) != kind {
            return Self::Keep;
        }
        if kind != FileType::RegularFile || is_copy(there, wanted) {
            return Self::Set;
        }
        let attributes = |stat: &Stat| (stat.st_uid, stat.st_gid, stat.st_mode);
        let has_time = there.st_mtime == wanted.st_mtime;
        if there.st_size != wanted.st_size || (state == CopyState::Perhaps && !has_time) {
            return Self::Keep;
        }
        match is_private() {
            true => Self::Set,
            false if attributes(there) == attributes(wanted) => Self::Keep,
            false => Self::Refuse,
        }
    }
}

/// Sets the attributes of an open entry that has the attributes `there`. `reopened` opens the entry
/// for reading.
fn set_attributes(
    entry: &OwnedFd,
    there: &Stat,
    wanted: &Stat,
    reopened: impl Fn() -> std::result::Result<OwnedFd, Errno>,
) -> std::result::Result<(), Errno> {
    let kind = FileType::from_raw_mode(wanted.st_mode);
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
    // Where /proc is not mounted, the entry is opened once more.
    let path = format!("/proc/self/fd/{}", entry.as_raw_fd());
    let mode = Mode::from_raw_mode(wanted.st_mode & 0o7777 & if is_given { 0o7777 } else { !SET_ID });
    allowed(match rustix::fs::chmod(path.as_str(), mode) {
        Err(Errno::NOENT) => rustix::fs::fchmod(reopened()?, mode),
        other => other,
    })?;
    if kind == FileType::RegularFile {
        // The copy of a file's content has already set the time.
        return Ok(());
    }
    let modified =
        Timespec { tv_sec: wanted.st_mtime, tv_nsec: i64::try_from(wanted.st_mtime_nsec).unwrap_or(0) };
    let times = both_times(there, modified);
    let set = match rustix::fs::utimensat(CWD, path.as_str(), &times, AtFlags::empty()) {
        Err(Errno::NOENT) => rustix::fs::futimens(reopened()?, &times),
        other => other,
    };
    allowed(set).map(drop)
}

/// Returns true if a file is certainly a copy of the present source, even if other users can write
/// to its directory: it has the source's length and time, belongs to this user or to the source's
/// owner, and has no other name.
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
