//! Reports the type and free space of the file systems that transfers use.

use std::io;
use std::path::Path;

use firstbyte::size::human;
use rustix::fs::{statfs, statvfs};

use super::DoctorFinding;

/// Free space below which one large object can fill the disk, bytes.
const LOW_SPACE: u64 = 5 << 30;

/// File systems by the magic number that `statfs` returns (linux/magic.h).
const FILE_SYSTEM_NAMES: [(u64, &str); 13] = [
    (0xEF53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683E, "btrfs"),
    (0x0102_1994, "tmpfs"),
    (0x794C_7630, "overlayfs"),
    (0x6969, "NFS"),
    (0x0BD0_0BD0, "Lustre"),
    (0x6573_5546, "FUSE"),
    (0x2FC1_2FC1, "ZFS"),
    (0xFF53_4D42, "CIFS"),
    (0xFE53_4D42, "CIFS"),
    (0x00C3_6400, "Ceph"),
    (0xF2F5_2010, "f2fs"),
];

pub(super) fn look(cache: &Path) -> Vec<DoctorFinding> {
    vec![warn_if_shared(place("cache directory", cache), cache), place("current directory", Path::new("."))]
}

/// Warns if the cache is on a file system that several machines may use. Each machine maps the
/// files of the cache into memory, and with NFS and SMB one client does not see what another has
/// written to such memory.
fn warn_if_shared(finding: DoctorFinding, cache: &Path) -> DoctorFinding {
    match file_system(nearest_existing(cache)).as_str() {
        "NFS" | "CIFS" => DoctorFinding::warn(
            finding.what,
            finding.found,
            "one machine alone may use a cache there: name a local directory with --cache, or one for each machine",
        ),
        _ => finding,
    }
}

/// Returns the path itself if it exists, else the nearest ancestor that exists.
fn nearest_existing(path: &Path) -> &Path {
    path.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/"))
}

/// Reports the file system at `path`, or at the nearest ancestor that exists.
fn place(what: &'static str, path: &Path) -> DoctorFinding {
    let existing = nearest_existing(path);
    match free_space(existing) {
        Ok(free) => {
            let found = format!("{}: {} free, {}", path.display(), human(free), file_system(existing));
            if free < LOW_SPACE {
                DoctorFinding::warn(
                    what,
                    found,
                    "large objects may not fit: free some space or use another file system",
                )
            } else {
                DoctorFinding::ok(what, found)
            }
        }
        Err(error) => {
            DoctorFinding::warn(what, format!("{}: {error}", path.display()), "choose one that can be read")
        }
    }
}

/// Returns the number of bytes that an ordinary user can still write at `path`.
pub(crate) fn free_space(path: &Path) -> io::Result<u64> {
    let fs = statvfs(path)?;
    Ok(fs.f_frsize * fs.f_bavail)
}

/// Returns the name of the file system at `path`.
pub(crate) fn file_system(path: &Path) -> String {
    let Ok(fs) = statfs(path) else { return "unknown file system".into() };
    // Some magic numbers have their top bit set. The kernel's field is signed, so their sign has
    // been extended.
    let magic = fs.f_type.cast_unsigned() & 0xFFFF_FFFF;
    FILE_SYSTEM_NAMES
        .iter()
        .find(|(number, _)| *number == magic)
        .map_or_else(|| format!("file system {magic:#x}"), |(_, name)| (*name).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_not_there_yet_is_judged_by_its_nearest_parent() {
        let directory = tempfile::tempdir().unwrap();
        let finding = place("cache directory", &directory.path().join("not/there/yet"));
        assert!(finding.found.contains(&file_system(directory.path())), "{}", finding.found);
        assert!(finding.found.contains("free"));
    }
}
