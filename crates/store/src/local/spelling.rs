//! Finds names that a file system stores or finds in another spelling, and makes the errors for
//! such names. `beneath`, `partial` and `attributes` call this module.
//!
//! No rule of a particular file system is assumed. If a lookup finds a name that the directory does
//! not list, the entry has another name.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use firstbyte_location::shown;
use rustix::fs::{Dir, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::errno;
use super::resolve::{LOOKUP, entries, readable, stat_at};
use crate::error::Error;

/// Names that Windows reserves for devices, with any extension ("Naming Files, Paths, and
/// Namespaces", Microsoft).
const DEVICE_NAMES: [&str; 4] = ["con", "prn", "aux", "nul"];
/// Reserved device names that a digit follows.
const NUMBERED_DEVICE_NAMES: [&str; 2] = ["com", "lpt"];

/// Returns true for names that some file systems store as other names instead of refusing them. FAT
/// and exFAT drop dots at the end (`vfat_striptail_len` in Linux's `fs/fat/namei_vfat.c`). SMB
/// servers list device names in a mangled form (`mangled names`, smb.conf). Such names are rare, so
/// it costs little to list the directory for each of them.
pub(super) fn is_often_changed(name: &OsStr) -> bool {
    let name = name.as_bytes();
    let stem = name.split(|byte| *byte == b'.').next().unwrap_or(name).trim_ascii_end();
    let is_device = |device: &str| stem.eq_ignore_ascii_case(device.as_bytes());
    let is_numbered = || match stem.split_last() {
        Some((last, kind)) if last.is_ascii_digit() => {
            NUMBERED_DEVICE_NAMES.iter().any(|device| kind.eq_ignore_ascii_case(device.as_bytes()))
        }
        _ => false,
    };
    name.ends_with(b".") || name.ends_with(b" ") || DEVICE_NAMES.into_iter().any(is_device) || is_numbered()
}

/// Returns the name that the directory lists for the entry found as `name`, if it differs from
/// `name`. `None` if it is equal, or if there is no such entry.
pub(super) fn other_spelling(directory: &OwnedFd, name: &OsStr) -> Result<Option<OsString>, Errno> {
    if let Err(error) = stat_at(directory, name) {
        return if error == Errno::NOENT { Ok(None) } else { Err(error) };
    }
    for entry in Dir::new(readable(directory)?)? {
        if entry?.file_name().to_bytes() == name.as_bytes() {
            return Ok(None);
        }
    }
    // The entry may have been removed meanwhile.
    match stat_at(directory, name) {
        Err(Errno::NOENT) => Ok(None),
        found => similar_name(directory, name, Some(found?)).map(Some),
    }
}

/// Returns the first component of `name` that exists in another spelling: its path from `root`, and
/// that spelling.
pub(super) fn other_part(root: &OwnedFd, name: &Path) -> Result<Option<(PathBuf, OsString)>, Errno> {
    let mut directory = root.try_clone().map_err(|error| errno(&error))?;
    let mut reached = PathBuf::new();
    for part in name {
        reached.push(part);
        if let Some(other) = other_spelling(&directory, part)? {
            return Ok(Some((reached, other)));
        }
        let flags = LOOKUP | OFlags::NOFOLLOW;
        directory = match rustix::fs::openat(&directory, part, flags, Mode::empty()) {
            // The component is a file or missing, so there is nothing to check below it.
            Err(Errno::NOENT | Errno::NOTDIR) => break,
            opened => opened?,
        };
    }
    Ok(None)
}

/// Returns the listed name of the entry that the file system finds as `name`. This is the name of
/// the inode that a lookup has found (`found`), or else a name with the same letters in another
/// case. The second rule is needed because file systems may derive inode numbers from names, so
/// that one entry has two numbers.
pub(super) fn similar_name(
    directory: &OwnedFd,
    name: &OsStr,
    found: Option<Stat>,
) -> Result<OsString, Errno> {
    let is_found = |part: &OsStr| {
        let (Some(found), Ok(it)) = (&found, stat_at(directory, part)) else { return false };
        (it.st_dev, it.st_ino) == (found.st_dev, found.st_ino)
    };
    let folded = |name: &OsStr| name.to_string_lossy().to_lowercase();
    let parts: Vec<OsString> = entries(&readable(directory)?)?.into_iter().map(|(part, _)| part).collect();
    let other = parts.iter().find(|part| is_found(part));
    let other = other.or_else(|| parts.iter().find(|part| folded(part) == folded(name)));
    Ok(other.map_or_else(|| "another name".into(), OsString::clone))
}

/// Returns true for errors that mean that a file system refuses a new name.
pub(super) fn is_refused_name(error: Errno) -> bool {
    matches!(error, Errno::INVAL | Errno::ILSEQ | Errno::OVERFLOW)
}

/// Returns the error for a name that the file system refuses.
pub(super) fn refused_name(path: &Path, error: Errno) -> Error {
    let error = io::Error::from(error);
    invalid(path, format!("the file system refuses this name ({error}); {REMEDY}"))
}

/// Returns the error for a name that the file system would store as `other`.
pub(super) fn stored_otherwise(path: &Path, other: &OsStr) -> Error {
    invalid(path, format!("the file system stores this name as `{}`; {REMEDY}", shown(other)))
}

/// Returns the error for a name that the file system does not distinguish from `other`.
pub(super) fn spelled_otherwise(path: &Path, other: &OsStr) -> Error {
    let why = format!(
        "the file system takes this name for `{}`, which is there already; rename one of the two, or copy to a \
         file system that distinguishes them",
        shown(other)
    );
    invalid(path, why)
}

const REMEDY: &str = "rename the source, or copy to a file system that keeps the name";

fn invalid(path: &Path, why: String) -> Error {
    Error::InvalidName { location: shown(path).to_string(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_windows_file_systems_change_are_known() {
        for name in
            ["dot.", "space ", "nul", "NUL", "nul.txt", "Com1", "com1.tar.gz", "LPT9.x", "aux .x", "..."]
        {
            assert!(is_often_changed(OsStr::new(name)), "{name:?}");
        }
        for name in ["a.b", ".a", "null", "com", "com10", "com1a.txt", "console.log", "a b", "x.nul", "lpt"] {
            assert!(!is_often_changed(OsStr::new(name)), "{name:?}");
        }
    }
}
