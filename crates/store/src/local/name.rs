//! Converts object keys to file names, and derives the names of partial files.
//!
//! A key may be any string, but a path may not. A key that is not a valid path below the root is
//! refused with a reason. A key is never skipped, nor changed to a name that another key may have.
//! Every copy of a tree derives its file names here.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::{fmt, io};

use firstbyte_location::{
    Algorithm, DestinationName, Escaped, Hasher, Location, NameFault, PARTIAL_SUFFIX, is_partial_name, shown,
};

use crate::error::{Error, Result};

/// Maximum length of a name, in bytes, that every file system accepts. The lowest limit is that of
/// eCryptfs, whose names are encrypted (`ECRYPTFS_NAME_MAX` is 143 in the headers of the kernel's
/// `fs/ecryptfs`, read on 2026-11-28). Most others accept 255.
const PORTABLE_NAME_MAX: usize = 143;

/// Longest path of a system call, in bytes, including the terminating NUL (`PATH_MAX`).
const PATH_MAX: usize = 4096;

/// Returns the path of the object `name` below the directory `root`.
///
/// # Errors
/// [`Error::InvalidName`], like [`location_below`].
pub fn local_path(root: &Path, name: &[u8]) -> Result<PathBuf> {
    check(&shown(root), root.as_os_str().as_bytes(), name)?;
    Ok(root.join(OsStr::from_bytes(name)))
}

/// Returns the location of the object `name` below `root`. Object stores allow any name as a key.
/// File systems do not; web servers do not either, because they resolve `..` in paths.
///
/// # Errors
/// [`Error::InvalidName`] outside object stores, if one of these holds: the name is empty or has an
/// empty, `.` or `..` component; it begins or ends with `/`; it has a NUL; a component is longer
/// than 255 bytes; the resulting path is longer than 4,095 bytes; it is the name of a partial file.
pub fn location_below(root: &Location, name: &[u8]) -> Result<Location> {
    match root {
        Location::Local(path) => local_path(path, name).map(Location::Local),
        Location::Sftp(place) => {
            check(place, &place.path, name)?;
            Ok(root.join(name))
        }
        Location::Http(url) => {
            check(root, url.target.as_bytes(), name)?;
            Ok(root.join(name))
        }
        Location::Object(_) => Ok(root.join(name)),
    }
}

/// Checks that a file below the directory `root` can have this name.
fn check(shown: &dyn fmt::Display, root: &[u8], name: &[u8]) -> Result<()> {
    let refuse = |why: String| {
        let location = format!("{}/{}", shown.to_string().trim_end_matches('/'), Escaped(name));
        Err(Error::InvalidName { location, why: format!("not a valid file name: {why}") })
    };
    match DestinationName::check_path(name) {
        Err(NameFault::Empty) if name.is_empty() => return refuse("it is empty".into()),
        Err(NameFault::Empty) => return refuse("it begins or ends with /, or has two in a row".into()),
        Err(fault) => return refuse(fault.to_string()),
        Ok(()) => {}
    }
    if name.split(|byte| *byte == b'/').any(is_partial_name) {
        return refuse("it is reserved for unfinished copies".into());
    }
    let length = root.len() + usize::from(!root.ends_with(b"/")) + name.len();
    if length >= PATH_MAX {
        return refuse(format!("a path of {length} bytes, more than {}", PATH_MAX - 1));
    }
    Ok(())
}

/// Returns the name of the partial file of `name`: `.NAME.firstbyte-part`, as
/// [`unfinished_name`].
pub(crate) fn partial_name(name: &OsStr) -> OsString {
    unfinished_name(name, PARTIAL_SUFFIX)
}

/// Returns `.NAME` followed by `suffix`: the name of a temporary file that belongs to the file
/// `name`. If it would be too long for some file system, `NAME` is cut at a character boundary,
/// because some file systems accept only UTF-8, and its checksum is appended.
#[must_use]
pub fn unfinished_name(name: &OsStr, suffix: &str) -> OsString {
    let name = name.as_bytes();
    let room = PORTABLE_NAME_MAX - 1 - suffix.len();
    let mut partial = b".".to_vec();
    if name.len() <= room {
        partial.extend_from_slice(name);
    } else {
        let mark = format!("~{}", Hasher::of(Algorithm::Crc64Nvme, name).to_hex());
        let mut cut = room - mark.len();
        while cut > 0 && name[cut] & 0xC0 == 0x80 {
            cut -= 1;
        }
        partial.extend_from_slice(&name[..cut]);
        partial.extend_from_slice(mark.as_bytes());
    }
    partial.extend_from_slice(suffix.as_bytes());
    OsString::from_vec(partial)
}

/// Returns a random variant of `name`, from which the name of a partial file is made.
pub(super) fn random_name(name: &OsStr) -> io::Result<OsString> {
    let mut random = [0; 4];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    let own = [name.as_bytes(), b"~", hex::encode(random).as_bytes()].concat();
    Ok(OsString::from_vec(own))
}
