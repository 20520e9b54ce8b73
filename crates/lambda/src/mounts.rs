//! The file system that a directory is on, from the mount table.

use std::path::Path;

use firstbyte_location::shown;

const MOUNT_TABLE: &str = "/proc/self/mountinfo";

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Where it is mounted.
    pub(crate) at: String,
    /// Its type, as `nfs4`.
    pub(crate) kind: String,
    /// Its device or server.
    pub(crate) device: String,
}

impl std::fmt::Display for Mount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} at {})", self.kind, shown(&self.device), shown(&self.at))
    }
}

/// The file system that `path` is on; `None` if the table does not say.
pub(crate) fn of(path: &Path) -> Option<Mount> {
    let real = path.ancestors().find_map(|path| path.canonicalize().ok())?;
    among(&std::fs::read_to_string(MOUNT_TABLE).ok()?, &real)
}

/// Every mount but those of the system itself, for people who look for theirs.
pub(crate) fn all() -> String {
    let table = std::fs::read_to_string(MOUNT_TABLE).unwrap_or_default();
    let own = |mount: &Mount| {
        ["/proc", "/sys", "/dev", "/run"].iter().any(|at| Path::new(&mount.at).starts_with(at))
    };
    let mounts: Vec<String> =
        table.lines().filter_map(parse).filter(|mount| !own(mount)).map(|mount| mount.to_string()).collect();
    if mounts.is_empty() { "nothing".into() } else { mounts.join(", ") }
}

/// The mount with the longest directory above `path`; of several at one place the last.
fn among(table: &str, path: &Path) -> Option<Mount> {
    let above = table.lines().filter_map(parse).filter(|mount| path.starts_with(&mount.at));
    above.max_by_key(|mount| mount.at.len())
}

/// `ID PARENT DEV ROOT AT OPTIONS [TAGS...] - TYPE DEVICE OPTIONS`, as proc(5) has it.
fn parse(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let at = before.split(' ').nth(4)?;
    let mut after = after.split(' ');
    Some(Mount { at: unescape(at), kind: after.next()?.to_owned(), device: unescape(after.next()?) })
}

/// The table writes space, tab, newline and backslash in octal.
fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (code, symbol)| text.replace(code, symbol))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_of_a_path_is_the_deepest_above_it() {
        let table = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
                     2 1 0:5 / /mnt/efs rw shared:1 - nfs4 fs-1.efs:/ rw\n\
                     3 1 0:6 / /mnt/a\\040b rw - fuse.firstbyte s3://b rw\n";
        let kind = |path: &str| among(table, Path::new(path)).unwrap().kind;
        assert_eq!((kind("/mnt/efs/x").as_str(), kind("/mnt/efsx").as_str()), ("nfs4", "ext4"));
        assert_eq!(kind("/mnt/a b"), "fuse.firstbyte");
        assert_eq!(among(table, Path::new("/mnt/efs")).unwrap().to_string(), "nfs4 (fs-1.efs:/ at /mnt/efs)");
        assert!(of(Path::new("/proc/self")).unwrap().kind == "proc");
    }
}
