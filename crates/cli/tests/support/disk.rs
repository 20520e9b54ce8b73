//! A separate file system that is too small or read-only.

use std::path::Path;
use std::process::Command;

use firstbyte_testkit::lacks_root;

/// A tmpfs with these options, unmounted on drop.
pub struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// Mounts one. Returns `None` without root, and then the test is listed as not run.
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
