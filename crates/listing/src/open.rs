//! Counts open directories, and limits how many stay open at once, for any width and depth of the
//! tree.
//!
//! A directory stays open while the directories found in it wait to be opened. Each is opened
//! relative to it: that is one path component, and no link in between can lead elsewhere. Beyond
//! the limit it is closed, and they are opened from the root, one component at a time. That is
//! slower, but as safe, and paths may have any length.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::options::Symlinks;

/// Directories kept open at most, beside the two or so each worker is at. A process may have 1,024
/// by default; this leaves the rest to the caller.
const CAP: usize = 256;

/// An open directory.
#[derive(Debug)]
pub(crate) struct Open {
    fd: OwnedFd,
    count: Arc<AtomicUsize>,
}

impl Open {
    fn new(fd: OwnedFd, count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self { fd, count: Arc::clone(count) }
    }

    /// Opens the root of a listing, by a link too.
    pub(crate) fn root(path: &Path, count: &Arc<AtomicUsize>) -> rustix::io::Result<Self> {
        open_at(CWD, path, Symlinks::Follow, OFlags::RDONLY).map(|fd| Self::new(fd, count))
    }

    /// Opens the directory `name`, of one component, in this one. A link is followed only where the
    /// listing follows.
    pub(crate) fn enter(&self, name: &[u8], symlinks: Symlinks) -> rustix::io::Result<Self> {
        open_at(&self.fd, name, symlinks, OFlags::RDONLY).map(|fd| Self::new(fd, &self.count))
    }

    /// Opens the directory at `path`, of any length, below this one, component by component.
    pub(crate) fn descend(&self, path: &[u8], symlinks: Symlinks) -> rustix::io::Result<Self> {
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let mut parts = path.split(|byte| *byte == b'/').peekable();
        let mut at: Option<OwnedFd> = None;
        while let Some(part) = parts.next() {
            // Only the last directory is read. The others are passed through, which needs no right
            // to read.
            let access = if parts.peek().is_some() { OFlags::PATH } else { OFlags::RDONLY };
            let from = at.as_ref().map_or(self.fd.as_fd(), AsFd::as_fd);
            at = Some(open_at(from, part, symlinks, access)?);
        }
        at.map(|fd| Self::new(fd, &self.count)).ok_or(Errno::NOENT)
    }

    /// The same directory with a position of its own.
    pub(crate) fn again(&self) -> rustix::io::Result<Self> {
        again(&self.fd).map(|fd| Self::new(fd, &self.count))
    }

    /// Whether it may stay open for the directories found in it. False while too many are open.
    pub(crate) fn may_stay(&self) -> bool {
        self.count.load(Ordering::Relaxed) <= CAP
    }
}

impl AsFd for Open {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Opens a directory once more, with a position of its own.
pub(crate) fn again(directory: impl AsFd) -> rustix::io::Result<OwnedFd> {
    open_at(directory, c".", Symlinks::Report, OFlags::RDONLY)
}

/// Opens the directory `name` as seen from `at`.
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
