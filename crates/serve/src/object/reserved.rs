//! Opens the directory `.firstbyte` of a bucket and its subdirectories. No other module opens them.
//!
//! From the bucket to `.firstbyte` and below, no symbolic link is followed: sweeps remove entries
//! there, and a link would lead them to other files. [`ServedRoot`] refuses every path with such a
//! name. Called by the modules that stage, assemble and delete. All functions block.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::path::{EntryPath, RESERVED};

use crate::object::root::ServedRoot;

/// A subdirectory of `.firstbyte`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Area {
    /// Entries that single requests are writing.
    Temporary,
    /// Multipart uploads.
    Uploads,
    /// Entries that were deleted from the page.
    Trash,
}

impl Area {
    const ALL: [Self; 3] = [Self::Temporary, Self::Uploads, Self::Trash];

    fn name(self) -> &'static str {
        match self {
            Self::Temporary => "tmp",
            Self::Uploads => "uploads",
            Self::Trash => "trash",
        }
    }
}

/// True if `name`, an entry of a bucket, is the reserved directory.
pub(crate) fn is_reserved(name: &[u8]) -> bool {
    name == RESERVED.as_bytes()
}

/// Opens `area` of `bucket`.
///
/// # Errors
/// `NotFound`: the area is missing. `PermissionDenied`: a component is a link or a file.
pub(crate) fn open(root: &ServedRoot, bucket: &EntryPath, area: Area) -> io::Result<OwnedFd> {
    let reserved = open_in(&root.open_directory(bucket)?, RESERVED.as_ref())?;
    open_in(&reserved, area.name().as_ref())
}

/// Opens the directory `name` in `area` of `bucket`.
///
/// # Errors
/// The same as for [`open`].
pub(crate) fn open_entry(
    root: &ServedRoot,
    bucket: &EntryPath,
    area: Area,
    name: &str,
) -> io::Result<OwnedFd> {
    open_in(&open(root, bucket, area)?, name.as_ref())
}

/// Opens `area` of `bucket`. The bucket must exist; missing directories in it are made.
///
/// # Errors
/// `NotFound`: the bucket is missing, or another thread removed an empty directory meanwhile.
/// Otherwise the same as for [`open`].
pub(crate) fn make(root: &ServedRoot, bucket: &EntryPath, area: Area) -> io::Result<OwnedFd> {
    let reserved = make_in(&root.open_directory(bucket)?, RESERVED)?;
    make_in(&reserved, area.name())
}

fn make_in(parent: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    match open_in(parent, name.as_ref()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        done => return done,
    }
    match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    open_in(parent, name.as_ref())
}

/// Opens the directory `name` in `parent`, a directory in `.firstbyte`, unless it is a link.
///
/// # Errors
/// The same as for [`open`].
pub(crate) fn open_in(parent: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Err(Errno::LOOP | Errno::NOTDIR) => {
            tracing::warn!(?name, "{RESERVED} or a directory in it is a link or a file: remove it");
            Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("{name:?} is a link or a file")))
        }
        done => Ok(done?),
    }
}

/// Removes the empty subdirectories of `.firstbyte` in `bucket`, then `.firstbyte` itself.
pub(crate) fn tidy(root: &ServedRoot, bucket: &EntryPath) {
    let Ok(directory) = root.open_directory(bucket) else { return };
    if let Ok(reserved) = open_in(&directory, RESERVED.as_ref()) {
        for area in Area::ALL {
            // The call fails for a directory that is in use, because it is not empty.
            let _ = rustix::fs::unlinkat(&reserved, area.name(), AtFlags::REMOVEDIR);
        }
        let _ = rustix::fs::unlinkat(&directory, RESERVED, AtFlags::REMOVEDIR);
    }
}
