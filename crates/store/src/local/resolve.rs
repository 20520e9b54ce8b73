//! Opens names beneath an open directory without following links, and reads directories. `beneath`
//! calls this module for users' trees, and `private` for this program's own files.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, DirEntry, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::syscall_refusal::is_refusal;

/// Flags that open a directory only for lookups.
pub(super) const LOOKUP: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Flags that open a directory to list it.
pub(super) const READ: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens `name` beneath `root`. Follows no links.
pub(super) fn open_beneath(root: &OwnedFd, name: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(root, name, flags, mode, resolve) {
        // Old kernels lack `openat2`, sandboxes refuse it, and it may fail during a concurrent
        // rename. One system call accepts names of at most 4,095 bytes; opening part by part
        // accepts longer ones.
        Err(error) if matches!(error, Errno::AGAIN | Errno::NAMETOOLONG) || is_refusal(error) => {
            open_by_parts(root, name, flags, mode)
        }
        other => other,
    }
}

fn open_by_parts(root: impl AsFd, name: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let mut at = rustix::fs::openat(root, ".", LOOKUP, Mode::empty())?;
    let mut parts = name.iter().peekable();
    while let Some(part) = parts.next() {
        if part == ".." || part == "/" {
            return Err(Errno::INVAL);
        }
        let flags = if parts.peek().is_some() { LOOKUP } else { flags };
        at = rustix::fs::openat(&at, part, flags | OFlags::NOFOLLOW, mode)?;
    }
    Ok(at)
}

/// Returns the names in a directory, with their types.
pub(super) fn entries(directory: &OwnedFd) -> Result<Vec<(OsString, FileType)>, Errno> {
    let mut found = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let part = OsStr::from_bytes(entry.file_name().to_bytes());
        if is_dots(&entry) {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => FileType::from_raw_mode(stat_at(directory, part)?.st_mode),
            known => known,
        };
        found.push((part.to_owned(), kind));
    }
    Ok(found)
}

/// Returns true for the entries `.` and `..`.
pub(super) fn is_dots(entry: &DirEntry) -> bool {
    matches!(entry.file_name().to_bytes(), b"." | b"..")
}

/// Reopens a directory that was opened only for lookups, in order to list or change it.
pub(super) fn readable(directory: &OwnedFd) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(directory, ".", READ, Mode::empty())
}

/// Calls `stat` for a name in a directory, without following a link.
pub(super) fn stat_at(directory: &OwnedFd, name: &OsStr) -> Result<Stat, Errno> {
    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
}
