//! Changes a name in the served tree: moves a finished file to it, or removes its entry.
//!
//! One lock ([`ServedRoot::lock_name`]) is held while the current version is read, the request's
//! condition is evaluated and the name is changed. All writers take the lock: PUT and DELETE of S3
//! and of plain HTTP, copies, and completed uploads. So of two conditional writers the second sees
//! the first one's change. Readers take no lock, because a rename shows either the old file or the
//! new one.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use firstbyte_listing::{flush, rename_exclusively};
use firstbyte_location::ByteRange;
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Uid};
use rustix::io::Errno;

use crate::http::condition::{Condition, UnmetCondition};
use crate::http::etag::EtagIdentity;
use crate::object::copying::copy_range;
use crate::object::metadata;
use crate::object::root::{ServedRoot, is_refused};
use crate::object::staging::{self, PartNote, TemporaryFile};
use crate::path::EntryPath;

/// Maximum number of attempts at a change if other threads keep removing its directory.
const CHANGE_ATTEMPTS: u32 = 100;

/// The reason for which a name did not change.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The request's condition does not hold.
    #[error(transparent)]
    Unmet(#[from] UnmetCondition),
    /// A system call fails.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<Errno> for Error {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

impl From<io::ErrorKind> for Error {
    fn from(kind: io::ErrorKind) -> Self {
        Self::Io(kind.into())
    }
}

/// A result with this module's error.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// A complete file under a temporary name, which publishing replaces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FinishedFile<'a> {
    pub(crate) directory: BorrowedFd<'a>,
    pub(crate) name: &'a OsStr,
    pub(crate) file: &'a File,
}

/// The version of a name after publishing, and the version that it replaced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PublishedVersion {
    /// The new version.
    pub(crate) identity: EtagIdentity,
    /// The version that was replaced, if any.
    pub(crate) replaced: Option<EtagIdentity>,
}

/// The kind of entry to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RemovedKind {
    /// A file or a link.
    File,
    /// An empty directory.
    Directory,
    /// The object of a key that ends in `/`. A directory with entries stays, because they are keys
    /// of their own.
    DirectoryObject,
}

/// Moves `finished` to the name `to` if `condition` holds. Makes missing directories below `base`;
/// `base` itself must exist. Blocking.
///
/// # Errors
/// The condition does not hold. `NotFound`: `base` is missing. `IsADirectory`: `to` is a directory.
pub(crate) fn publish(
    root: &ServedRoot,
    finished: FinishedFile<'_>,
    base: &EntryPath,
    to: &EntryPath,
    condition: &Condition,
) -> Result<PublishedVersion> {
    let change = |parent: &OwnedFd, name: &OsStr| {
        let _alone = root.lock_name(parent, name)?;
        let replaced = current(root, parent, to)?;
        condition.judge(replaced.as_ref())?;
        keep_rights(parent, name, finished.file)?;
        flush(finished.file)?;
        let (from, file) = (finished.name, finished.file);
        let flags = if condition.expects_absence() { RenameFlags::NOREPLACE } else { RenameFlags::empty() };
        let identity = match rename(finished.directory, from, parent, name, flags) {
            Ok(()) => record_final_name(file)?,
            Err(Errno::EXIST) => return Err(UnmetCondition::Different.into()),
            Err(Errno::XDEV) => {
                let note = PartNote::create(root, base, &to.parent())?;
                copy_across(finished, parent, &note.part(), name, flags)?
            }
            Err(error) => return Err(error.into()),
        };
        Ok(PublishedVersion { identity, replaced })
    };
    in_parent(root, base, to, change)
}

/// Moves a temporary file to the name `to` below `base`, as [`publish`] does. Blocking.
pub(crate) fn publish_temporary(
    root: &ServedRoot,
    temporary: TemporaryFile,
    base: &EntryPath,
    to: &EntryPath,
    condition: &Condition,
) -> Result<PublishedVersion> {
    let (directory, name) = temporary.place();
    let finished = FinishedFile { directory, name, file: temporary.file() };
    let published = publish(root, finished, base, to, condition)?;
    temporary.forget_moved();
    Ok(published)
}

/// Checks that `condition` holds now, before a long write begins. It is evaluated again when the
/// result is published. Blocking.
///
/// # Errors
/// The condition does not hold.
pub(crate) fn check(root: &ServedRoot, to: &EntryPath, condition: &Condition) -> Result<()> {
    match root.open_directory(&to.parent()) {
        Ok(parent) => condition.judge(current(root, &parent, to)?.as_ref())?,
        Err(error) if is_missing(&error) => condition.judge(None)?,
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Makes the directory `to`, and missing directories between `base` and `to`, if `condition` holds.
/// `describe` writes the metadata. An existing directory is kept. Blocking.
pub(crate) fn publish_directory(
    root: &ServedRoot,
    base: &EntryPath,
    to: &EntryPath,
    condition: &Condition,
    describe: impl Fn(&File) -> io::Result<()>,
) -> Result<EtagIdentity> {
    if to == base {
        return Ok(EtagIdentity::of_directory(&File::from(root.open_directory(to)?).metadata()?));
    }
    let change = |parent: &OwnedFd, name: &OsStr| {
        let _alone = root.lock_name(parent, name)?;
        let existing = root.open_directory(to).ok().map(File::from);
        let metadata = existing.map(|directory| directory.metadata()).transpose()?;
        condition.judge(metadata.as_ref().map(EtagIdentity::of_directory).as_ref())?;
        let is_new = match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(error.into()),
        };
        let directory = File::from(root.open_directory(to)?);
        if let Err(error) = describe(&directory) {
            if is_new {
                // The error of this removal is ignored: the first error is reported.
                let _ = rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR);
            }
            return Err(error.into());
        }
        Ok(EtagIdentity::of_directory(&directory.metadata()?))
    };
    in_parent(root, base, to, change)
}

/// Calls `change` with the parent directory of `to` and the last component of `to`. A DELETE also
/// removes emptied directories, so the call is repeated if another thread removed the parent in
/// between.
fn in_parent<T>(
    root: &ServedRoot,
    base: &EntryPath,
    to: &EntryPath,
    change: impl Fn(&OwnedFd, &OsStr) -> Result<T>,
) -> Result<T> {
    let name = to.name().ok_or(io::ErrorKind::IsADirectory)?;
    let mut attempt = 0;
    loop {
        let done = match root.make_directory_below(base, &to.parent()) {
            Ok(parent) => change(&parent, name),
            Err(error) => Err(error.into()),
        };
        match done {
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::NotFound && attempt < CHANGE_ATTEMPTS => {
                root.open_directory(base)?;
                attempt += 1;
                std::thread::yield_now();
            }
            done => return done,
        }
    }
}

/// Removes `path`, an entry of this kind, if `condition` holds. Returns whether it existed.
/// Blocking.
pub(crate) fn remove(
    root: &ServedRoot,
    path: &EntryPath,
    kind: RemovedKind,
    condition: &Condition,
) -> Result<bool> {
    let name = path.name().ok_or(io::ErrorKind::PermissionDenied)?;
    let parent = match root.open_directory(&path.parent()) {
        Err(error) if is_missing(&error) => {
            condition.judge(None)?;
            return Ok(false);
        }
        done => done?,
    };
    let _alone = root.lock_name(&parent, name)?;
    let found = match (current(root, &parent, path), kind) {
        (Ok(found), RemovedKind::File) => found,
        (Ok(_), _) => None,
        (Err(error), RemovedKind::File) if error.kind() == io::ErrorKind::IsADirectory => None,
        (Err(error), _) if error.kind() == io::ErrorKind::IsADirectory => {
            Some(EtagIdentity::of_directory(&File::from(root.open_directory(path)?).metadata()?))
        }
        (Err(error), _) => return Err(error.into()),
    };
    condition.judge(found.as_ref())?;
    let flags = if kind == RemovedKind::File { AtFlags::empty() } else { AtFlags::REMOVEDIR };
    match rustix::fs::unlinkat(&parent, name, flags) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT | Errno::ISDIR | Errno::NOTDIR) => Ok(false),
        Err(Errno::NOTEMPTY | Errno::EXIST) if kind == RemovedKind::DirectoryObject => {
            metadata::remove_object(root.open_directory(path)?)?;
            Ok(true)
        }
        Err(error) => Err(error.into()),
    }
}

/// Removes the entry `path` of any kind, with all its content. Blocking.
///
/// # Errors
/// `NotFound`: there is no entry. `CrossesDevices`: another file system is mounted in the entry.
pub(crate) fn remove_all(root: &ServedRoot, path: &EntryPath) -> Result<()> {
    let name = path.name().ok_or(io::ErrorKind::PermissionDenied)?;
    let parent = root.open_directory(&path.parent())?;
    let _alone = root.lock_name(&parent, name)?;
    rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(staging::remove_tree(&parent, name)?)
}

/// Moves the entry `path` of any kind to the name `new` in the open directory `to`. Blocking.
///
/// # Errors
/// `new` exists and `flags` has `NOREPLACE`. `CrossesDevices`: `to` is on another file system.
pub(crate) fn move_entry(
    root: &ServedRoot,
    path: &EntryPath,
    to: &OwnedFd,
    new: &OsStr,
    flags: RenameFlags,
) -> Result<()> {
    let name = path.name().ok_or(io::ErrorKind::PermissionDenied)?;
    let parent = root.open_directory(&path.parent())?;
    let _alone = root.lock_name(&parent, name)?;
    match rename(parent.as_fd(), name, to, new, flags) {
        Err(Errno::EXIST) => Err(UnmetCondition::Different.into()),
        done => Ok(done?),
    }
}

/// Moves the entry `old` of the open directory `from` to `path`, which must not exist. Blocking.
///
/// # Errors
/// `path` exists, or its directory does not exist.
pub(crate) fn move_back(root: &ServedRoot, from: &OwnedFd, old: &OsStr, path: &EntryPath) -> Result<()> {
    let name = path.name().ok_or(io::ErrorKind::PermissionDenied)?;
    let parent = root.open_directory(&path.parent())?;
    let _alone = root.lock_name(&parent, name)?;
    match rename(from.as_fd(), old, &parent, name, RenameFlags::NOREPLACE) {
        Err(Errno::EXIST) => Err(UnmetCondition::Different.into()),
        done => Ok(done?),
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Returns the version that readers see under `path`, whose directory is open as `parent`. `None`
/// for a missing entry and for a link that leads nowhere, which can be replaced and removed.
/// `IsADirectory` for a directory.
fn current(root: &ServedRoot, parent: &OwnedFd, path: &EntryPath) -> io::Result<Option<EtagIdentity>> {
    let name = path.name().unwrap_or_default();
    let stat = match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Err(io::ErrorKind::IsADirectory.into()),
        FileType::Symlink => {
            let target = root.open_blocking(path, OFlags::PATH).and_then(|file| file.metadata());
            Ok(target.ok().map(|metadata| EtagIdentity::from(&metadata)))
        }
        _ => Ok(Some(EtagIdentity::from(&stat))),
    }
}

/// Renames an entry. Works without `renameat2` too, which old kernels lack.
fn rename(
    from: BorrowedFd<'_>,
    old: &OsStr,
    to: &OwnedFd,
    new: &OsStr,
    flags: RenameFlags,
) -> rustix::io::Result<()> {
    if flags == RenameFlags::NOREPLACE {
        return rename_exclusively(from, old, to.as_fd(), new);
    }
    match rustix::fs::renameat_with(from, old, to, new, flags) {
        Err(error) if is_refused(error) => rustix::fs::renameat(from, old, to, new),
        done => done,
    }
}

/// Publishes to a file system that is mounted below the bucket. The file is copied into the
/// destination directory under the name `beside`, and renamed when it is complete.
fn copy_across(
    finished: FinishedFile<'_>,
    parent: &OwnedFd,
    beside: &str,
    name: &OsStr,
    flags: RenameFlags,
) -> Result<EtagIdentity> {
    let create = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = File::from(rustix::fs::openat(parent, beside, create, Mode::from_raw_mode(0o666))?);
    let copy = || -> Result<EtagIdentity> {
        let size = finished.file.metadata()?.len();
        copy_range(finished.file, ByteRange::new(0, size), &file, 0)?;
        metadata::carry_over(finished.file, &file)?;
        keep_rights(parent, name, &file)?;
        flush(&file)?;
        match rename(parent.as_fd(), beside.as_ref(), parent, name, flags) {
            Err(Errno::EXIST) => Err(UnmetCondition::Different.into()),
            Err(error) => Err(error.into()),
            Ok(()) => Ok(record_final_name(&file)?),
        }
    };
    let done = copy();
    if done.is_err() {
        rustix::fs::unlinkat(parent, beside, AtFlags::empty())?;
    } else {
        rustix::fs::unlinkat(finished.directory, finished.name, AtFlags::empty())?;
    }
    done
}

/// Records that `file` has its final name. Returns its version.
fn record_final_name(file: &File) -> io::Result<EtagIdentity> {
    let identity = EtagIdentity::from(&file.metadata()?);
    metadata::record_published(file, &identity);
    Ok(identity)
}

/// Gives `file` the owner, group and permissions of the file `name` that it replaces. A new file
/// gets the group of its directory if the directory has the set-group-ID bit, as files created
/// there do. The server may have no right to give a file away, and the file system may have no
/// permissions; then the file keeps what it has.
fn keep_rights(parent: &OwnedFd, name: &OsStr, file: &File) -> io::Result<()> {
    let own = rustix::fs::fstat(file)?;
    let replaced = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).ok();
    let replaced = replaced.filter(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
    let Some(replaced) = replaced else {
        let Stat { st_mode, st_gid, .. } = rustix::fs::fstat(parent)?;
        if Mode::from_raw_mode(st_mode).contains(Mode::SGID) && own.st_gid != st_gid {
            let _ = rustix::fs::fchown(file, None, Some(Gid::from_raw(st_gid)));
        }
        return Ok(());
    };
    if own.st_gid != replaced.st_gid {
        let _ = rustix::fs::fchown(file, None, Some(Gid::from_raw(replaced.st_gid)));
    }
    if own.st_uid != replaced.st_uid {
        let _ = rustix::fs::fchown(file, Some(Uid::from_raw(replaced.st_uid)), None);
    }
    let rights = |stat: &Stat| Mode::from_raw_mode(stat.st_mode) & (Mode::RWXU | Mode::RWXG | Mode::RWXO);
    if rights(&own) != rights(&replaced) {
        let _ = rustix::fs::fchmod(file, rights(&replaced));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
