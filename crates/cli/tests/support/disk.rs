//! File systems of their own, for tests that need one that is too small or read-only.

use std::path::Path;
use std::process::Command;

use firstbyte_testkit::lacks_root;

/// A tmpfs with given options. Dropping it unmounts it.
pub struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// Mounts a tmpfs. Returns `None` if the user is not root; the test is then listed as not run.
    pub fn new(options: &str) -> Option<Self> {
        if lacks_root() {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        let mounted =
            mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(directory.path()).status().unwrap();
        assert!(mounted.success(), "no tmpfs was mounted");
        Some(Self(directory))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}
