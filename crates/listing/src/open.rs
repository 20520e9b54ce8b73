//! Counts open directories, and limits how many are open at once, for trees of any width and depth.
//!
//! A directory stays open while the directories found in it wait to be opened. Each of these is
//! opened relative to its parent, by one path component, so no link on the way can lead elsewhere.
//! If too many are open, the parent is closed, and its directories are opened from the root, one
//! component at a time. That is slower, but equally safe, and paths may have any length.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::options::Symlinks;

/// Maximum number of directories that are kept open, in addition to about two for each worker. A
/// process may have 1,024 descriptors by default, so most are left to the caller.
const MAX_OPEN_DIRECTORIES: usize = 256;

/// Longest path of a system call, in bytes, including the terminating NUL.
const PATH_MAX: usize = 4_096;

/// An open directory.
#[derive(Debug)]
pub(crate) struct DirectoryHandle {
    fd: OwnedFd,
    count: Arc<AtomicUsize>,
}

impl DirectoryHandle {
    fn new(fd: OwnedFd, count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self { fd, count: Arc::clone(count) }
    }

    /// Opens the root of a listing, which may be a symbolic link.
    pub(crate) fn root(path: &Path, count: &Arc<AtomicUsize>) -> rustix::io::Result<Self> {
        open_root(path).map(|fd| Self::new(fd, count))
    }

    /// Opens the directory `name`, a single component, in this directory. `symlinks` decides
    /// whether a link is followed.
    pub(crate) fn enter(&self, name: &[u8], symlinks: Symlinks) -> rustix::io::Result<Self> {
        open_at(&self.fd, name, symlinks, OFlags::RDONLY).map(|fd| Self::new(fd, &self.count))
    }

    /// Opens the directory at `path` below this directory, component by component, so `path` may
    /// have any length.
    pub(crate) fn descend(&self, path: &[u8], symlinks: Symlinks) -> rustix::io::Result<Self> {
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let mut parts = path.split(|byte| *byte == b'/').peekable();
        let mut at: Option<OwnedFd> = None;
        while let Some(part) = parts.next() {
            // Only the last directory is read. The directories above it are only passed through, so
            // the right to read them is not needed.
            let access = if parts.peek().is_some() { OFlags::PATH } else { OFlags::RDONLY };
            let from = at.as_ref().map_or(self.fd.as_fd(), AsFd::as_fd);
            at = Some(open_at(from, part, symlinks, access)?);
        }
        at.map(|fd| Self::new(fd, &self.count)).ok_or(Errno::NOENT)
    }

    /// Opens the directory once more, with its own read position.
    pub(crate) fn reopen(&self) -> rustix::io::Result<Self> {
        reopen(&self.fd).map(|fd| Self::new(fd, &self.count))
    }

    /// True if the directory may stay open until the directories found in it are opened. False
    /// while too many are open.
    pub(crate) fn may_stay(&self) -> bool {
        self.count.load(Ordering::Relaxed) <= MAX_OPEN_DIRECTORIES
    }
}

impl AsFd for DirectoryHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for DirectoryHandle {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Opens a directory by a path of any length. A system call takes at most [`PATH_MAX`] bytes, so a
/// longer path is opened in pieces.
fn open_root(path: &Path) -> rustix::io::Result<OwnedFd> {
    let mut rest = path.as_os_str().as_bytes();
    let mut at: Option<OwnedFd> = None;
    while rest.len() >= PATH_MAX {
        let cut = rest[..PATH_MAX].iter().rposition(|byte| *byte == b'/').ok_or(Errno::NAMETOOLONG)?;
        let piece = if cut == 0 { &b"/"[..] } else { &rest[..cut] };
        let from = at.as_ref().map_or(CWD, AsFd::as_fd);
        at = Some(open_at(from, piece, Symlinks::Follow, OFlags::PATH)?);
        let slashes = rest[cut..].iter().take_while(|byte| **byte == b'/').count();
        rest = &rest[cut + slashes..];
    }
    let from = at.as_ref().map_or(CWD, AsFd::as_fd);
    open_at(from, if rest.is_empty() { b"." } else { rest }, Symlinks::Follow, OFlags::RDONLY)
}

/// Opens a directory once more, with its own read position.
pub(crate) fn reopen(directory: impl AsFd) -> rustix::io::Result<OwnedFd> {
    open_at(directory, c".", Symlinks::Report, OFlags::RDONLY)
}

/// Opens the directory `name`, relative to the directory `at`.
pub(crate) fn open_at(
    at: impl AsFd,
    name: impl Arg,
    symlinks: Symlinks,
    access: OFlags,
) -> rustix::io::Result<OwnedFd> {
    let mut flags = access | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if symlinks == Symlinks::Report {
        flags |= OFlags::NOFOLLOW;
    }
    rustix::fs::openat(at, name, flags, Mode::empty())
}
