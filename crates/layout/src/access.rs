//! Gives new directories and the layout file the owner and the permissions of the root. They stand
//! between a user and files that the user could reach in the root, so the umask and the user of the
//! process that makes them must not decide who still can.

use std::os::fd::AsFd;

use rustix::fs::{Mode, fchmod, fstat};
use rustix::io::{Errno, Result};

/// Owner and permissions of a root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RootAccess {
    owner: u32,
    group: u32,
    mode: u32,
}

impl RootAccess {
    /// Returns those of an open file or directory.
    pub(crate) fn of(file: impl AsFd) -> Result<Self> {
        let stat = fstat(file)?;
        Ok(Self { owner: stat.st_uid, group: stat.st_gid, mode: stat.st_mode & 0o7777 })
    }

    /// Gives a file or directory that this process has made this owner and group, and those of the
    /// permissions that are in `mask`. A process without the right to give files away keeps them.
    pub(crate) fn give(self, made: impl AsFd, mask: u32) -> Result<()> {
        let found = Self::of(&made)?;
        if found.owner != rustix::process::geteuid().as_raw() {
            // Another process has made it, or has put something else in its place.
            return Ok(());
        }
        if (found.owner, found.group) != (self.owner, self.group) {
            let chown = |owner| std::os::unix::fs::fchown(&made, owner, Some(self.group));
            // Only the superuser gives files away. Members of a group give them to the group.
            let _ = chown(Some(self.owner)).or_else(|_| chown(None));
        }
        // The bits beside the mask come from the directory above, such as that of the group.
        let mode = (found.mode & !mask) | (self.mode & mask);
        if mode == found.mode {
            return Ok(());
        }
        match fchmod(&made, Mode::from_raw_mode(mode)) {
            // The file system has permissions of its own.
            Err(Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => Ok(()),
            changed => changed,
        }
    }
}
