//! Gives new directories and the layout file the owner and the permissions of the root. Users must
//! still reach every file that they could reach in the root, whatever the umask and the user of the
//! process that converts it.

use std::ffi::CStr;
use std::os::fd::AsFd;

use rustix::fs::{Mode, XattrFlags, fchmod, fgetxattr, fsetxattr, fstat};
use rustix::io::{Errno, Result};

/// The extended attribute with the access control list of a file (`acl(5)`).
const ACL_ATTRIBUTE: &CStr = c"system.posix_acl_access";
/// Maximum length of an extended attribute, bytes (`XATTR_SIZE_MAX`).
const MAX_ATTRIBUTE: usize = 64 << 10;

/// Owner and permissions of a root.
#[derive(Clone, Debug)]
pub(crate) struct RootAccess {
    owner: u32,
    group: u32,
    mode: u32,
    acl: Option<AccessList>,
}

impl RootAccess {
    /// Returns the owner and the permissions of an open directory.
    pub(crate) fn of(directory: impl AsFd) -> Result<Self> {
        let stat = fstat(&directory)?;
        let acl = AccessList::of(directory);
        let mode = match &acl {
            // With a list, the bits of the group are those of the list's mask.
            Some(acl) => (stat.st_mode & 0o7707) | acl.owning_group() << 3,
            None => stat.st_mode & 0o7777,
        };
        Ok(Self { owner: stat.st_uid, group: stat.st_gid, mode, acl })
    }

    /// Gives this owner and group, and the permissions that are in `mask`, to a file or directory
    /// that this process has made. Attributes that the process may not change stay as they are.
    pub(crate) fn give(&self, made: impl AsFd, mask: u32) -> Result<()> {
        let found = fstat(&made)?;
        if found.st_uid != rustix::process::geteuid().as_raw() {
            // A process of another user has made the entry, or has replaced it.
            return Ok(());
        }
        if (found.st_uid, found.st_gid) != (self.owner, self.group) {
            let chown = |owner| std::os::unix::fs::fchown(&made, owner, Some(self.group));
            // Only the superuser can change the owner. The owner can change the group to one of the
            // user's own groups.
            let _ = chown(Some(self.owner)).or_else(|_| chown(None));
        }
        // The bits outside the mask stay, such as the set-group-ID bit, which comes from the
        // directory above.
        let before = found.st_mode & 0o7777;
        let mode = (before & !mask) | (self.mode & mask);
        if mode != before {
            match fchmod(&made, Mode::from_raw_mode(mode)) {
                // The file system does not let programs set permissions.
                Err(Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => {}
                changed => changed?,
            }
        }
        if let Some(acl) = &self.acl {
            // Without the list, the users that it names have no access; no user has more than in
            // the root.
            let _ = fsetxattr(&made, ACL_ATTRIBUTE, &acl.within(mask).0, XattrFlags::empty());
        }
        Ok(())
    }
}

/// An access control list, as the kernel passes it (`struct posix_acl_xattr_header`): a version of
/// four bytes, and entries of eight bytes, each with a tag (2), permissions (2) and a user or group
/// (4), in little endian.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AccessList(Vec<u8>);

impl AccessList {
    const HEAD_BYTES: usize = 4;
    const ENTRY_BYTES: usize = 8;
    /// Tags of the owning group, and of the mask.
    const OWNING_GROUP: u16 = 0x04;
    const MASK: u16 = 0x10;

    /// Returns the list of an open file. `None` if it has only permission bits.
    fn of(file: impl AsFd) -> Option<Self> {
        let mut value = vec![0; MAX_ATTRIBUTE];
        let length = fgetxattr(file, ACL_ATTRIBUTE, &mut value[..]).ok()?;
        value.truncate(length);
        Some(Self(value))
    }

    /// Returns the permissions of the owning group, 0 to 7.
    fn owning_group(&self) -> u32 {
        let of_tag = |wanted| self.entries().find(|(tag, _)| *tag == wanted).map(|(_, rights)| rights);
        u32::from(of_tag(Self::OWNING_GROUP).unwrap_or(0) & of_tag(Self::MASK).unwrap_or(7) & 7)
    }

    /// Returns the list with those permissions only that are in `mask`, which has permission bits.
    fn within(&self, mask: u32) -> Self {
        let mut value = self.0.clone();
        for entry in value[Self::HEAD_BYTES.min(self.0.len())..].chunks_exact_mut(Self::ENTRY_BYTES) {
            entry[2] &= (mask & 7) as u8;
        }
        Self(value)
    }

    /// Iterates over the entries: tag and permissions.
    fn entries(&self) -> impl Iterator<Item = (u16, u16)> {
        let entries = self.0.get(Self::HEAD_BYTES..).unwrap_or_default().chunks_exact(Self::ENTRY_BYTES);
        entries
            .map(|entry| (u16::from_le_bytes([entry[0], entry[1]]), u16::from_le_bytes([entry[2], entry[3]])))
    }
}
