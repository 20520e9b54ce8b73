//! Renames files without replacing others, also on file systems and kernels that lack
//! `RENAME_NOREPLACE`, such as NFS. Called by moves of local files and by `serve`.

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;

use rustix::fs::{
    AtFlags, FileType, Mode, RenameFlags, linkat, mkdirat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::{Errno, Result};

/// Renames `old` in one open directory to `new` in another. Where the file system cannot refuse to
/// replace, a file or a link gets a second name first, and a directory is renamed over an empty
/// one.
///
/// # Errors
/// `EXIST` if the new name exists. Else the error of `renameat2`, or of `linkat` on a file system
/// that has no hard links either. The old name remains in each case.
pub fn rename_exclusively(from: BorrowedFd<'_>, old: &OsStr, to: BorrowedFd<'_>, new: &OsStr) -> Result<()> {
    match renameat_with(from, old, to, new, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM) => {}
        done => return done,
    }
    let stat = statat(from, old, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        mkdirat(to, new, Mode::RWXU)?;
        // The rename's error is reported, not that of the removal.
        return renameat(from, old, to, new).inspect_err(|_| _ = unlinkat(to, new, AtFlags::REMOVEDIR));
    }
    linkat(from, old, to, new, AtFlags::empty())?;
    unlinkat(from, old, AtFlags::empty()).inspect_err(|_| _ = unlinkat(to, new, AtFlags::empty()))
}
