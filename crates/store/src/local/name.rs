//! Which names a file can have, and what an unfinished one is called.
//!
//! An object's key is any string; a file's path is not. A key that no file can be named after, or that would land
//! somewhere else than its own place below the root, is refused with the reason: it is neither dropped nor bent into
//! a name that another key may have too.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use firstbyte_location::{Escaped, shown};

use crate::{Algorithm, Error, Hasher, Result};

/// Longest name of one directory entry on Linux, in bytes (`NAME_MAX`).
const NAME_MAX: usize = 255;

/// Longest path a system call takes, in bytes, its terminating NUL included (`PATH_MAX`).
const PATH_MAX: usize = 4096;

/// Ends the name of every unfinished file.
const PARTIAL_SUFFIX: &[u8] = b".firstbyte-part";

/// The path of the object `name` below the directory `root`.
///
/// # Errors
/// [`Error::InvalidName`] where no file below `root` can have that name: an empty, `.` or `..` component, an absolute
/// name, a NUL, a component over 255 or a path over 4,095 bytes, a trailing `/`, or the name of an unfinished copy.
pub fn local_path(root: &Path, name: &[u8]) -> Result<PathBuf> {
    let refuse = |why: String| {
        let location = format!("{}/{}", shown(root), Escaped(name));
        Err(Error::InvalidName { location, why: format!("no file can have this name: {why}") })
    };
    if name.is_empty() {
        return refuse("it is empty".into());
    }
    if name.starts_with(b"/") || name.ends_with(b"/") {
        return refuse("it begins or ends with /".into());
    }
    for component in name.split(|byte| *byte == b'/') {
        match component {
            b"" => return refuse("two / in a row".into()),
            b"." | b".." => {
                return refuse(format!("{} would lead elsewhere", String::from_utf8_lossy(component)));
            }
            _ if component.contains(&0) => return refuse("a NUL byte".into()),
            _ if component.len() > NAME_MAX => {
                return refuse(format!("a part of {} bytes, more than {NAME_MAX}", component.len()));
            }
            _ if is_partial_name(component) => return refuse("unfinished copies are called so".into()),
            _ => {}
        }
    }
    let mut path = root.as_os_str().as_bytes().to_vec();
    if !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    if path.len() >= PATH_MAX {
        return refuse(format!("a path of {} bytes, more than {}", path.len(), PATH_MAX - 1));
    }
    Ok(PathBuf::from(OsString::from_vec(path)))
}

/// What the unfinished file of `name` is called: `.NAME.firstbyte-part`. A name too long for that is cut, at a character's
/// start, and told apart by its checksum.
pub(super) fn partial_name(name: &OsStr) -> OsString {
    let name = name.as_bytes();
    let room = NAME_MAX - 1 - PARTIAL_SUFFIX.len();
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
    partial.extend_from_slice(PARTIAL_SUFFIX);
    OsString::from_vec(partial)
}

/// Whether a directory entry is an unfinished file: no listing shows it.
pub(super) fn is_partial_name(name: &[u8]) -> bool {
    name.starts_with(b".") && name.ends_with(PARTIAL_SUFFIX)
}
