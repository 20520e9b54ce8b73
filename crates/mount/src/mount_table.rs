//! Reads the mount table of this process, which says on which file system a path is.
//!
//! Only `/proc/self/mountinfo` is read, and never the directories, so a dead mount cannot block the
//! caller. Called by `mountpoint`, and by benchmarks to identify the file system that they measure.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The file that contains the kernel's mount table.
pub(crate) const MOUNT_TABLE: &str = "/proc/self/mountinfo";

/// A mounted file system.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MountTableEntry {
    /// The directory of the file system that is mounted. It is `/`, except for bind mounts and
    /// cgroups.
    pub root: PathBuf,
    /// The mount point.
    pub at: PathBuf,
    /// The type of the file system, for example `ext4`.
    pub kind: String,
    /// The device or source, as the kernel prints it.
    pub device: String,
    /// The device number of the file system, `MAJOR:MINOR`. Mounts of the same file system share
    /// it.
    pub number: String,
    /// The options of the mount, then those of the file system, separated by commas.
    pub options: String,
}

/// The mounts of this process, in the order in which they were mounted.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Mounts(Vec<MountTableEntry>);

impl Mounts {
    /// Reads the current mount table.
    ///
    /// # Errors
    /// `/proc/self/mountinfo` cannot be read.
    pub fn current() -> io::Result<Self> {
        std::fs::read(MOUNT_TABLE)
            .map(|text| Self::parse(&text))
            .map_err(|error| io::Error::new(error.kind(), format!("{MOUNT_TABLE}: {error}")))
    }

    /// Parses the text of a mount table. Malformed lines are left out.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        Self(text.split(|byte| *byte == b'\n').filter_map(MountTableEntry::parse).collect())
    }

    /// Returns all mounts.
    pub fn iter(&self) -> impl Iterator<Item = &MountTableEntry> {
        self.0.iter()
    }

    /// Returns the mount that contains `path`, which must be absolute and without links. This is
    /// the mount with the longest mount point above the path, and if several have the same mount
    /// point, the uppermost.
    #[must_use]
    pub fn of(&self, path: &Path) -> Option<&MountTableEntry> {
        let depth = |mount: &MountTableEntry| mount.at.components().count();
        self.0.iter().filter(|mount| path.starts_with(&mount.at)).max_by_key(|mount| depth(mount))
    }

    /// Returns the mount exactly at `path`. If there are several, returns the uppermost.
    #[must_use]
    pub fn at(&self, path: &Path) -> Option<&MountTableEntry> {
        self.0.iter().rev().find(|mount| mount.at == path)
    }
}

impl MountTableEntry {
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let number = text(fields.nth(2)?);
        let (root, at) = (PathBuf::from(unescape(fields.next()?)), PathBuf::from(unescape(fields.next()?)));
        let options = text(fields.next()?);
        let mut behind = fields.skip_while(|field| *field != b"-").skip(1);
        let (kind, device) = (text(behind.next()?), text(behind.next()?));
        let own = behind.next().map(text).unwrap_or_default();
        Some(Self { root, at, kind, device, number, options: merged(&options, &own) })
    }
}

/// Merges two lists of options without duplicates.
fn merged(first: &str, second: &str) -> String {
    let mut all: Vec<&str> = Vec::new();
    for option in first.split(',').chain(second.split(',')).filter(|option| !option.is_empty()) {
        if !all.contains(&option) {
            all.push(option);
        }
    }
    all.join(",")
}

fn text(field: &[u8]) -> String {
    unescape(field).to_string_lossy().into_owned()
}

/// Decodes a field. The kernel writes blanks, tabs, newlines and backslashes as a backslash with
/// three octal digits.
fn unescape(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, behind)) = rest.split_first() {
        let digits = behind.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(escaped) if byte == b'\\' => {
                bytes.push(escaped);
                rest = &behind[3..];
            }
            _ => {
                bytes.push(byte);
                rest = behind;
            }
        }
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,discard\n\
        30 22 0:40 / /mnt/a\\040b rw - fuse.firstbyte s3://bucket\\134c ro\n\
        31 22 0:41 /sub /mnt/x rw - ext4 /dev/sdb rw\n\
        malformed\n\
        32 31 0:42 / /mnt/x ro,nosuid shared:5 master:2 - lustre 10.0.0.1@tcp:/fsx ro,flock\n";

    #[test]
    fn a_path_is_on_the_longest_and_uppermost_mount_above_it() {
        let mounts = Mounts::parse(TABLE);
        let of = |path: &str| mounts.of(Path::new(path)).unwrap().clone();
        assert_eq!(of("/mnt/xy").kind, "ext4");
        assert_eq!(of("/mnt/xy").options, "rw,relatime,discard");
        assert_eq!((of("/mnt/x/y").kind, of("/mnt/x").options), ("lustre".into(), "ro,nosuid,flock".into()));
        assert_eq!(of("/mnt/a b/c").device, "s3://bucket\\c");
        assert_eq!(mounts.at(Path::new("/mnt")), None);
        assert_eq!(mounts.at(Path::new("/mnt/x/y")), None);
        assert_eq!(mounts.at(Path::new("/mnt/x")).unwrap().kind, "lustre");
        assert_eq!(mounts.iter().nth(2).unwrap().root, Path::new("/sub"));
        assert_eq!(mounts.iter().count(), 4);
    }
}
