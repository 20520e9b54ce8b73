//! Describes the file system of a directory for errors and answers.

use std::path::Path;

use firstbyte_location::shown;
use firstbyte_mount::mount_table::{MountTableEntry, Mounts};

/// Finds the mount that contains `path`. `None` if the table of mounts has no such mount.
pub(crate) fn find_mount(path: &Path) -> Option<MountTableEntry> {
    let real = path.ancestors().find_map(|path| path.canonicalize().ok())?;
    Mounts::current().ok()?.of(&real).cloned()
}

/// Formats a mount as `nfs4 (fs-1.efs:/ at /mnt/efs)`.
pub(crate) fn describe(mount: &MountTableEntry) -> String {
    format!("{} ({} at {})", mount.kind, shown(&mount.device), shown(&mount.at))
}

/// Lists all mounts except those of the operating system, for users who look for their own mount.
pub(crate) fn describe_all() -> String {
    let table = Mounts::current().unwrap_or_default();
    let own =
        |mount: &MountTableEntry| ["/proc", "/sys", "/dev", "/run"].iter().any(|at| mount.at.starts_with(at));
    let mounts: Vec<String> = table.iter().filter(|mount| !own(mount)).map(describe).collect();
    if mounts.is_empty() { "nothing".into() } else { mounts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_of_a_path_is_the_deepest_above_it() {
        let table = Mounts::parse(
            b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
              2 1 0:5 / /mnt/efs rw shared:1 - nfs4 fs-1.efs:/ rw\n\
              3 1 0:6 / /mnt/a\\040b rw - fuse.firstbyte s3://b rw\n",
        );
        let mount = |path: &str| table.of(Path::new(path)).unwrap();
        assert_eq!((mount("/mnt/efs/x").kind.as_str(), mount("/mnt/efsx").kind.as_str()), ("nfs4", "ext4"));
        assert_eq!(mount("/mnt/a b").kind, "fuse.firstbyte");
        assert_eq!(describe(mount("/mnt/efs")), "nfs4 (fs-1.efs:/ at /mnt/efs)");
        assert!(find_mount(Path::new("/proc/self")).unwrap().kind == "proc");
    }
}
