//! Finds local directories that overlap although their paths do not, because a part of a file
//! system can be mounted at several places (bind mounts). [`sync`](crate::sync) calls this before
//! it deletes. Markers ([`apart`](crate::apart)) do not show such overlaps, because the directories
//! above a mount point are not mounted with it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use firstbyte_location::shown;

use crate::error::{Error, Result};

/// A mounted part of a file system, as described by a line of `/proc/self/mountinfo`
/// (proc_pid_mountinfo(5)).
struct Mount {
    /// The device as `major:minor`.
    device: String,
    /// The mounted directory, relative to the root of the file system.
    root: PathBuf,
    point: PathBuf,
}

impl Mount {
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ').skip(2);
        let device = String::from_utf8(fields.next()?.to_vec()).ok()?;
        let mut path = || Some(PathBuf::from(OsString::from_vec(unescaped(fields.next()?))));
        Some(Self { device, root: path()?, point: path()? })
    }
}

/// Returns a field without its escapes: blanks, newlines and backslashes are written as octal codes
/// such as `\040`.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..3).filter(|_| *first == b'\\');
        let code = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 8).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    bytes
}

/// Returns the parts of file systems that a directory shows, each as a device and a path in its
/// file system: the part with the directory itself, and the parts mounted below it.
fn shown_by<'m>(mounts: &'m [Mount], directory: &Path) -> Vec<(&'m str, PathBuf)> {
    // If two mounts have the same mount point, the later one hides the earlier.
    let around = mounts.iter().filter(|mount| directory.starts_with(&mount.point));
    let own = around.max_by_key(|mount| mount.point.as_os_str().len()).map(|mount| {
        let rest = directory.strip_prefix(&mount.point).unwrap_or(directory);
        (mount.device.as_str(), mount.root.join(rest))
    });
    let below = mounts.iter().filter(|mount| mount.point.starts_with(directory) && mount.point != directory);
    own.into_iter().chain(below.map(|mount| (mount.device.as_str(), mount.root.clone()))).collect()
}

/// Returns whether two directories overlap according to `mounts`.
fn overlap(mounts: &[Mount], one: &Path, other: &Path) -> bool {
    let others = shown_by(mounts, other);
    shown_by(mounts, one).iter().any(|(device, path)| {
        let overlaps = |at: &PathBuf| at.starts_with(path) || path.starts_with(at);
        others.iter().any(|(same, at)| same == device && overlaps(at))
    })
}

/// Reads the mounts that this process sees.
fn process_mounts() -> Vec<Mount> {
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    table.split(|byte| *byte == b'\n').filter_map(Mount::parse).collect()
}

/// Returns whether the table of mounts shows every overlap of the two directories. It does if both
/// are on one file system, or on two file systems with block devices. FUSE, NFS and overlays may
/// show files of other file systems.
pub(crate) fn show_overlaps(source: &Path, destination: &Path) -> bool {
    let (Ok(from), Ok(to)) = (source.canonicalize(), destination.canonicalize()) else { return false };
    let mounts = process_mounts();
    let others = shown_by(&mounts, &to);
    let has_block_device = |device: &str| !device.starts_with("0:");
    shown_by(&mounts, &from).iter().all(|(device, _)| {
        let mut others = others.iter().map(|(other, _)| other);
        others.all(|other| device == other || (has_block_device(device) && has_block_device(other)))
    })
}

/// Returns the mount points below a directory.
pub(crate) fn points_below(directory: &Path) -> Vec<PathBuf> {
    let Ok(directory) = directory.canonicalize() else { return Vec::new() };
    let points = process_mounts().into_iter().map(|mount| mount.point);
    points.filter(|point| point.starts_with(&directory) && *point != directory).collect()
}

/// Fails if mounts make two directories the same, or one of them part of the other. Succeeds if
/// this cannot be determined.
pub(crate) fn prove_apart(source: &Path, destination: &Path) -> Result<()> {
    let (Ok(from), Ok(to)) = (source.canonicalize(), destination.canonicalize()) else { return Ok(()) };
    let mounts = process_mounts();
    if from != to && overlap(&mounts, &from, &to) {
        return Err(Error::OnePlace {
            place: shown(destination).to_string(),
            other: shown(source).to_string(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_mounted_twice_overlaps_with_itself_and_with_what_it_holds() {
        let table = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                     30 22 8:1 /data/src /mnt/x rw - ext4 /dev/sda1 rw\n\
                     31 22 8:2 / /mnt/other\\040disk rw - xfs /dev/sdb rw\n\
                     32 22 8:1 /home /far/home rw - ext4 /dev/sda1 rw";
        let mounts: Vec<Mount> =
            table.lines().filter_map(|line| Mount::parse(line.trim().as_bytes())).collect();
        assert_eq!(mounts.len(), 4);
        let overlaps = |one: &str, other: &str| overlap(&mounts, Path::new(one), Path::new(other));
        for (one, other) in [
            ("/mnt/x", "/data"),
            ("/mnt/x", "/data/src"),
            ("/mnt/x/sub", "/data/src"),
            ("/data/src/sub", "/mnt/x"),
            ("/home/me", "/far"),
        ] {
            assert!(overlaps(one, other) && overlaps(other, one), "{one} {other}");
        }
        for (one, other) in [
            ("/mnt/x", "/data/other"),
            ("/mnt/x/a", "/data/src/b"),
            ("/mnt/other disk/data", "/data"),
            ("/var/me", "/far"),
        ] {
            assert!(!overlaps(one, other) && !overlaps(other, one), "{one} {other}");
        }
    }
}
