//! Finds the mount that a path is on. The path need not exist yet.
//!
//! Called by `machine` for results and `--expect-fs`, by `cgroup` to find the controllers, by
//! `cache` to know which files can be evicted, by `cost` to know which service bills a path, by
//! `stage` and the functions' sandbox to find mounts to remove, and by `firstbyte doctor`.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub use firstbyte_mount::mount_table::{MountTableEntry, Mounts};

/// Returns the absolute path with links resolved. A part that does not exist yet is unchanged.
#[must_use]
pub fn real(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for ancestor in absolute.ancestors() {
        if let Ok(real) = std::fs::canonicalize(ancestor) {
            let rest = absolute.strip_prefix(ancestor).unwrap_or(Path::new(""));
            return if rest.as_os_str().as_bytes().is_empty() { real } else { real.join(rest) };
        }
    }
    absolute
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_missing_end_of_a_path_is_kept() {
        let place = tempfile::tempdir().unwrap();
        let real_place = std::fs::canonicalize(place.path()).unwrap();
        std::os::unix::fs::symlink(&real_place, place.path().join("link")).unwrap();
        assert_eq!(real(&place.path().join("link/no/file")), real_place.join("no/file"));
        assert_eq!(real(&place.path().join("link")), real_place);
    }
}
