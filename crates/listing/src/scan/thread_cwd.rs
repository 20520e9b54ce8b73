//! Gives a thread its own working directory, which the thread sets to the directory whose entries
//! it examines.
//!
//! For every name that is relative to a descriptor, the kernel takes and releases a reference to
//! the open file, because another thread might close the file. For a name relative to the working
//! directory this is not needed, which saves 2 to 7 % of the time of `du`. The threads of a process
//! share one working directory. So each thread that the listing started gets a working directory of
//! its own, and other threads keep the shared one. Visitors are not affected: they are called in
//! the process's working directory.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, OFlags};
use rustix::process::fchdir;
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::open::{DirectoryHandle, open_at};
use crate::options::Symlinks;

/// Opens the current working directory of the calling thread, to which workers return. `None` if it
/// cannot be opened.
pub(super) fn current() -> Option<OwnedFd> {
    open_at(CWD, c".", Symlinks::Report, OFlags::PATH).ok()
}

/// The working directory of a thread.
pub(super) struct ThreadCwd<'a> {
    /// The process's working directory when the listing began. `None` if this thread uses the
    /// shared working directory.
    home: Option<&'a OwnedFd>,
}

impl<'a> ThreadCwd<'a> {
    /// Uses the working directory that all threads share. It is never changed.
    pub(super) fn shared() -> Self {
        Self { home: None }
    }

    /// Gives the calling thread a working directory of its own until the thread ends. Sets it to
    /// `home`, because the thread that started this one may have changed its own. If the kernel
    /// refuses, the thread uses the shared working directory. The kernel refuses for all threads or
    /// for none.
    pub(super) fn own(home: &'a OwnedFd) -> Self {
        // SAFETY: file descriptors stay shared. The thread gets its own working directory, root and
        // umask, of which only the working directory is ever set.
        let own = unsafe { unshare_unsafe(UnshareFlags::FS) };
        let thread_cwd = Self { home: own.is_ok().then_some(home) };
        thread_cwd.change_back();
        thread_cwd
    }

    /// Changes to a directory. Returns the descriptor to which names in the directory are relative.
    pub(super) fn change_to<'b>(&self, directory: &'b DirectoryHandle) -> BorrowedFd<'b> {
        if self.home.is_none() || fchdir(directory).is_err() {
            return directory.as_fd();
        }
        CWD
    }

    /// Changes back to the process's working directory.
    pub(super) fn change_back(&self) {
        if let Some(home) = self.home {
            // The call fails if the directory may no longer be entered. Relative paths would fail
            // there too.
            let _ = fchdir(home);
        }
    }
}
