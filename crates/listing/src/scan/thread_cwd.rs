//! The working directory of one thread, which it sets to the directory whose entries it examines.
//!
//! For a name relative to a descriptor, the kernel takes a reference to the open file and releases
//! it, for every name, because another thread might close it meanwhile. A name relative to the
//! working directory needs neither, which saves 2 to 7 % of the time of `du`. The threads of a
//! process share one working directory, so each thread that the listing started gets one of its
//! own; other threads keep the shared one. Visitors do not notice it: they are called in the
//! process's working directory.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, OFlags};
use rustix::process::fchdir;
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::open::{DirectoryHandle, open_at};
use crate::options::Symlinks;

/// Opens the current working directory of the calling thread, to which workers return. `None` if it
/// cannot be opened.
pub(super) fn here() -> Option<OwnedFd> {
    open_at(CWD, c".", Symlinks::Report, OFlags::PATH).ok()
}

/// A thread's working directory.
pub(super) struct ThreadCwd<'a> {
    /// The process's working directory at the start, if this thread has one of its own.
    home: Option<&'a OwnedFd>,
}

impl<'a> ThreadCwd<'a> {
    /// The working directory that all threads share. It is never changed.
    pub(super) fn shared() -> Self {
        Self { home: None }
    }

    /// Gives the calling thread a working directory of its own until it ends, and sets it to
    /// `home`, since the thread that started this one may have changed its own. If the kernel
    /// refuses, the thread keeps the shared one; the kernel refuses all threads or none.
    pub(super) fn own(home: &'a OwnedFd) -> Self {
        // SAFETY: file descriptors stay shared. The thread gets its own working directory, root and
        // umask, and only the first is ever set.
        let own = unsafe { unshare_unsafe(UnshareFlags::FS) };
        let thread_cwd = Self { home: own.is_ok().then_some(home) };
        thread_cwd.back();
        thread_cwd
    }

    /// Changes to a directory. Returns the descriptor against which names in it are resolved.
    pub(super) fn go<'b>(&self, directory: &'b DirectoryHandle) -> BorrowedFd<'b> {
        if self.home.is_none() || fchdir(directory).is_err() {
            return directory.as_fd();
        }
        CWD
    }

    /// Changes back to the process's working directory.
    pub(super) fn back(&self) {
        if let Some(home) = self.home {
            // Fails if that directory may not be entered any more. Relative paths would fail there
            // too.
            let _ = fchdir(home);
        }
    }
}
