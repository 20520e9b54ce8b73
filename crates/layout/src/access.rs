//! Gives new directories and the layout file the owner and the permissions of the root. Users need
//! them to reach files that they could reach in the root, so neither the umask nor the user of the
//! process that makes them may decide who still can.

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
    /// Returns the owner and the permissions of an open file or directory.
    pub(crate) fn of(file: impl AsFd) -> Result<Self> {
        let stat = fstat(file)?;
        Ok(Self { owner: stat.st_uid, group: stat.st_gid, mode: stat.st_mode & 0o7777 })
    }

    /// Gives this owner and group, and the permissions that are in `mask`, to a file or directory
    /// that this process has made. What the process may not change stays as it is.
    pub(crate) fn give(self, made: impl AsFd, mask: u32) -> Result<()> {
        let found = Self::of(&made)?;
        if found.owner != rustix::process::geteuid().as_raw() {
            // Another user's process has made it, or has put something else in its place.
            return Ok(());
        }
        if (found.owner, found.group) != (self.owner, self.group) {
            let chown = |owner| std::os::unix::fs::fchown(&made, owner, Some(self.group));
            // Only the superuser gives files away. Members of a group give them to the group.
            let _ = chown(Some(self.owner)).or_else(|_| chown(None));
        }
        // The bits outside the mask stay, such as the set-group-ID bit, which comes from the
        // directory above.
        let mode = (found.mode & !mask) | (self.mode & mask);
        if mode == found.mode {
            return Ok(());
        }
        match fchmod(&made, Mode::from_raw_mode(mode)) {
            // The file system does not let programs set permissions.
            Err(Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => Ok(()),
            changed => changed,
        }
    }
}
