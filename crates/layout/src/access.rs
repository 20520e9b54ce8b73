//! Gives new directories and the layout file the owner and the permissions of the root. Users must
//! still reach every file that they could reach in the root, whatever the umask and the user of the
//! process that converts it.

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
    /// that this process has made. Attributes that the process may not change stay as they are.
    pub(crate) fn give(self, made: impl AsFd, mask: u32) -> Result<()> {
        let found = Self::of(&made)?;
        if found.owner != rustix::process::geteuid().as_raw() {
            // A process of another user has made the entry, or has replaced it.
            return Ok(());
        }
        if (found.owner, found.group) != (self.owner, self.group) {
            let chown = |owner| std::os::unix::fs::fchown(&made, owner, Some(self.group));
            // Only the superuser can change the owner. The owner can change the group to one of the
            // user's own groups.
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
