//! Renames files without replacing others. Works also on file systems and kernels that lack
//! `RENAME_NOREPLACE`, such as NFS. Called by moves of local files and by `serve`.

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;

use rustix::fs::{
    AtFlags, FileType, Mode, RenameFlags, linkat, mkdirat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::{Errno, Result};

/// Renames `old` in one open directory to `new` in another, unless `new` exists. If the file system
/// does not support such a rename, a file or a link first gets the second name `new`, and a
/// directory replaces a new empty directory.
///
/// # Errors
/// `EXIST` if `new` exists. Otherwise the error of `renameat2`, or of `linkat` on a file system
/// that has no hard links either. After any error, `old` still exists.
pub fn rename_exclusively(from: BorrowedFd<'_>, old: &OsStr, to: BorrowedFd<'_>, new: &OsStr) -> Result<()> {
    match renameat_with(from, old, to, new, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM) => {}
        done => return done,
    }
    let stat = statat(from, old, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        mkdirat(to, new, Mode::RWXU)?;
        // The error of the rename is reported; an error of the removal is ignored.
        return renameat(from, old, to, new).inspect_err(|_| _ = unlinkat(to, new, AtFlags::REMOVEDIR));
    }
    linkat(from, old, to, new, AtFlags::empty())?;
    unlinkat(from, old, AtFlags::empty()).inspect_err(|_| _ = unlinkat(to, new, AtFlags::empty()))
}
