//! Opens names beneath an open directory without following links. Called by `beneath` for the trees
//! of users and by `private` for this program's own files.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::syscall_refusal::is_refusal;

/// Flags that open a directory only for lookups.
pub(super) const LOOKUP: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens `name` beneath `root`, following no link.
pub(super) fn open_beneath(root: &OwnedFd, name: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(root, name, flags, mode, resolve) {
        // Old kernels lack the call, sandboxes refuse it, and it may fail during a concurrent
        // rename.
        Err(error) if error == Errno::AGAIN || is_refusal(error) => open_by_parts(root, name, flags, mode),
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
