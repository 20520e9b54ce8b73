//! Finds local directories that overlap although their paths do not, because a part of a file
//! system can be mounted at several places (bind mounts). The test with markers
//! ([`apart`](crate::apart)) misses such an overlap: it looks in the directories above a mount
//! point, which the other mount does not show. Called by [`sync`](crate::sync),
//! [`sources`](crate::sources) and [`contained`](crate::contained) before names are deleted, and by
//! [`tree`](crate::tree) before a source is listed.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use firstbyte_location::shown;
use firstbyte_store::{NameTest, WalkBounds};
use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags};

use crate::error::{Error, Result};
use crate::job::Extras;

/// The table of mounts (proc_pid_mountinfo(5)).
const TABLE: &str = "/proc/self/mountinfo";

/// A mounted part of a file system, as described by a line of the table.
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

/// The parts of file systems that a directory shows, each as a device and a path in its file
/// system.
struct ShownParts<'m> {
    /// The part that contains the directory itself. `None` if the table has no line for it. That
    /// happens in a chroot, whose table does not show the file system of the root.
    own: Option<(&'m str, PathBuf)>,
    /// The parts mounted below the directory.
    below: Vec<(&'m str, PathBuf)>,
}

impl<'m> ShownParts<'m> {
    fn all(&self) -> impl Iterator<Item = &(&'m str, PathBuf)> {
        self.own.iter().chain(&self.below)
    }
}

fn shown_by<'m>(mounts: &'m [Mount], directory: &Path) -> ShownParts<'m> {
    // If two mounts have the same mount point, the later one hides the earlier.
    let around = mounts.iter().filter(|mount| directory.starts_with(&mount.point));
    let own = around.max_by_key(|mount| mount.point.as_os_str().len()).map(|mount| {
        let rest = directory.strip_prefix(&mount.point).unwrap_or(directory);
        (mount.device.as_str(), mount.root.join(rest))
    });
    let below = mounts.iter().filter(|mount| mount.point.starts_with(directory) && mount.point != directory);
    ShownParts { own, below: below.map(|mount| (mount.device.as_str(), mount.root.clone())).collect() }
}

/// Returns whether two directories overlap according to `mounts`.
fn are_overlapping(mounts: &[Mount], one: &Path, other: &Path) -> bool {
    let (ones, others) = (shown_by(mounts, one), shown_by(mounts, other));
    one.starts_with(other)
        || other.starts_with(one)
        || ones.all().any(|(device, path)| {
            let overlaps = |at: &PathBuf| at.starts_with(path) || path.starts_with(at);
            others.all().any(|(same, at)| same == device && overlaps(at))
        })
}

/// Returns whether `mounts` show every overlap of two directories. That is so if there is a line
/// for each of the directories, and both are on one file system, or on two file systems with block
/// devices. FUSE, NFS and overlays may show files of other file systems.
fn is_every_overlap_listed(mounts: &[Mount], one: &Path, other: &Path) -> bool {
    let (ones, others) = (shown_by(mounts, one), shown_by(mounts, other));
    let has_block_device = |device: &str| !device.starts_with("0:");
    ones.own.is_some()
        && others.own.is_some()
        && ones.all().all(|(device, _)| {
            let mut others = others.all().map(|(other, _)| other);
            others.all(|other| device == other || (has_block_device(device) && has_block_device(other)))
        })
}

/// Reads the mounts that this process sees. Mounts outside of the process's root are not listed.
fn process_mounts() -> io::Result<Vec<Mount>> {
    let table = std::fs::read(TABLE)?;
    Ok(table.split(|byte| *byte == b'\n').filter_map(Mount::parse).collect())
}

/// Returns whether the table of mounts shows every overlap of the two directories.
pub(crate) fn is_every_overlap_in_table(source: &Path, destination: &Path) -> bool {
    let (Ok(from), Ok(to)) = (source.canonicalize(), destination.canonicalize()) else { return false };
    process_mounts().is_ok_and(|mounts| is_every_overlap_listed(&mounts, &from, &to))
}

/// Returns the mount points below a directory. If the table of mounts cannot be read, looks up each
/// directory below.
///
/// # Errors
/// A directory cannot be read, or the kernel does not report mount points.
pub(crate) fn points_below(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let Ok(directory) = directory.canonicalize() else { return Ok(Vec::new()) };
    let Ok(mounts) = process_mounts() else { return mount_points_in(directory) };
    let points = mounts.into_iter().map(|mount| mount.point);
    Ok(points.filter(|point| point.starts_with(&directory) && *point != directory).collect())
}

fn mount_points_in(directory: PathBuf) -> io::Result<Vec<PathBuf>> {
    let (mut points, mut left) = (Vec::new(), vec![directory]);
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(&directory)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                continue;
            }
            let path = entry.path();
            let found = rustix::fs::statx(CWD, &path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE)?;
            if !found.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT) {
                return Err(io::Error::new(io::ErrorKind::Unsupported, format!("{TABLE} cannot be read")));
            }
            if found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
                points.push(path.clone());
            }
            left.push(path);
        }
    }
    Ok(points)
}

/// Fails if mounts make two directories the same, or one of them part of the other. Succeeds if
/// this cannot be determined.
pub(crate) fn prove_apart(source: &Path, destination: &Path) -> Result<()> {
    let (Ok(from), Ok(to)) = (source.canonicalize(), destination.canonicalize()) else { return Ok(()) };
    let mounts = process_mounts().unwrap_or_default();
    if from != to && are_overlapping(&mounts, &from, &to) {
        return Err(Error::OnePlace {
            place: shown(destination).to_string(),
            other: shown(source).to_string(),
        });
    }
    Ok(())
}

/// Returns which links and mount points of a local source the listing must not enter, because they
/// lead to the run's own destination. A copy would otherwise find its own copies, and grow with
/// each run. A sync that deletes extras would delete the files that it copies.
pub(crate) fn source_bounds(source: &Path, destination: &Path, extras: Extras) -> WalkBounds {
    let outside = destination.metadata().ok().map(|found| (found.dev(), found.ino()));
    let places = source.canonicalize().ok().zip(resolved(destination));
    let refused = places.map(|(from, to)| {
        let mounts = process_mounts().unwrap_or_default();
        NameTest::new(move |name| {
            let name = Path::new(OsStr::from_bytes(name));
            // If the link cannot be resolved, the listing reports it.
            let target = from.join(name).canonicalize();
            target.is_ok_and(|target| is_harmful(&mounts, &target, &to, &to.join(name), extras))
        })
    });
    WalkBounds { refused, outside, ..WalkBounds::default() }
}

/// Returns whether following a link of the source harms a run. If the link's target contains the
/// copy of the link, the run would copy its own copies. If the target and the destination overlap,
/// a run that deletes extras could delete the target. A link to its own copy is harmless, because
/// both listings show the same names there.
fn is_harmful(mounts: &[Mount], target: &Path, destination: &Path, copy: &Path, extras: Extras) -> bool {
    let contains_copy = || {
        let (shown, copies) = (shown_by(mounts, target), shown_by(mounts, copy));
        let own = copies.own.as_ref();
        copy.starts_with(target)
            || own.is_some_and(|(device, at)| {
                shown.all().any(|(same, path)| same == device && at.starts_with(path))
            })
    };
    target != copy
        && (contains_copy() || (extras != Extras::Keep && are_overlapping(mounts, target, destination)))
}

/// Returns the path without links. Components that do not exist are kept.
fn resolved(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    path.ancestors().find_map(|part| {
        let rest = path.strip_prefix(part).ok()?;
        Some(part.canonicalize().ok()?.join(rest))
    })
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
        let overlaps = |one: &str, other: &str| are_overlapping(&mounts, Path::new(one), Path::new(other));
        for (one, other) in [
            ("/mnt/x", "/data"),
            ("/mnt/x", "/data/src"),
            ("/mnt/x/sub", "/data/src"),
            ("/data/src/sub", "/mnt/x"),
            ("/home/me", "/far"),
        ] {
            assert!(overlaps(one, other) && overlaps(other, one), "{one} {other}");
        }
        // In a chroot, the table does not show the file system of the root, which `/mnt/x` may be
        // on too.
        let shown = |mounts: &[Mount], one: &str, other: &str| {
            is_every_overlap_listed(mounts, Path::new(one), Path::new(other))
        };
        assert!(shown(&mounts, "/mnt/x", "/data") && shown(&mounts, "/mnt/x", "/far"));
        for (one, other) in [("/mnt/x", "/data"), ("/data", "/mnt/x"), ("/data", "/var")] {
            assert!(!shown(&mounts[1..], one, other), "{one} {other}");
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
