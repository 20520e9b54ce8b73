//! Names in the destination directory: which are allowed, and putting a finished file under one.

use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno;
use serde::Deserialize;

use super::{Error, Occupant, Result};
use crate::root::EntryPath;

/// Most names tried for "keep both" before giving up.
const MOST_COPIES: u32 = 10_000;

/// What to do where a file of that name is there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Existing {
    /// Leave both as they are and say so.
    #[default]
    Refuse,
    /// Put the new one in its place.
    Replace,
    /// Put the new one beside it, as `NAME (1)`.
    KeepBoth,
}

/// Refuses what is not one plain component, or would be hidden or reserved.
pub(super) fn check_name(name: &str) -> Result<()> {
    let fits = EntryPath::parse(name.as_bytes())
        .is_ok_and(|path| path.as_bytes() == name.as_bytes() && !path.is_root());
    if fits && !name.contains('/') { Ok(()) } else { Err(Error::Name(name.into())) }
}

/// What stands under `name`, where something does; a link is not followed.
pub(super) fn occupant(directory: BorrowedFd<'_>, name: &str) -> Result<Option<Occupant>> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(Occupant {
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mtime: stat.st_mtime.saturating_mul(1000)
                + i64::try_from(stat.st_mtime_nsec / 1_000_000).unwrap_or(0),
        })),
        Err(Errno::NOENT) => Ok(None),
        Err(e) => Err(Error::io(name, e)),
    }
}

/// Renames `from` to `name`, both in `directory`, as `existing` says; gives the name it got.
pub(super) fn put_in_place(
    directory: BorrowedFd<'_>,
    from: &str,
    name: &str,
    existing: Existing,
) -> Result<String> {
    match existing {
        Existing::Replace => {
            rustix::fs::renameat(directory, from, directory, name).map_err(|e| Error::io(name, e))?;
            Ok(name.into())
        }
        Existing::Refuse => match rename_new(directory, from, name) {
            Err(Errno::EXIST) => Err(Error::Exists(name.into())),
            done => done.map(|()| name.into()).map_err(|e| Error::io(name, e)),
        },
        Existing::KeepBoth => {
            for copy in 0..MOST_COPIES {
                let candidate = copy_name(name, copy);
                match rename_new(directory, from, &candidate) {
                    Err(Errno::EXIST) => {}
                    done => return done.map(|()| candidate).map_err(|e| Error::io(name, e)),
                }
            }
            Err(Error::Exists(name.into()))
        }
    }
}

/// Renames unless the name is taken, in one step; by a hard link where the file system has no such rename.
fn rename_new(directory: BorrowedFd<'_>, from: &str, to: &str) -> rustix::io::Result<()> {
    match rustix::fs::renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            rustix::fs::linkat(directory, from, directory, to, AtFlags::empty())?;
            rustix::fs::unlinkat(directory, from, AtFlags::empty())
        }
        done => done,
    }
}

/// `a.tar` becomes `a (1).tar`; shortened where it would pass the 255 bytes of a file name.
fn copy_name(name: &str, copy: u32) -> String {
    if copy == 0 {
        return name.into();
    }
    let dot = name.rfind('.').filter(|at| *at > 0).unwrap_or(name.len());
    let (stem, extension) = name.split_at(dot);
    let (extension, stem) = if extension.len() > 32 { ("", name) } else { (extension, stem) };
    let suffix = format!(" ({copy}){extension}");
    let mut end = stem.len().min(255 - suffix.len());
    while !stem.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{suffix}", &stem[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_keeps_its_extension_and_fits_a_file_name() {
        assert_eq!(copy_name("a.tar.gz", 2), "a.tar (2).gz");
        assert_eq!(copy_name(".profile", 1), ".profile (1)");
        let long = "é".repeat(127);
        assert!(copy_name(&long, 9_999).len() <= 255);
    }

    #[test]
    fn names_that_leave_the_directory_or_hide_are_refused() {
        for name in ["", ".", "..", "a/b", "a\0", ".firstbyte", ".x.firstbyte-part", &"n".repeat(256)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        for name in ["...", ".hidden", "a\nb", "javascript:alert(1)", "x.firstbyte-part"] {
            assert!(check_name(name).is_ok(), "{name:?}");
        }
    }
}
