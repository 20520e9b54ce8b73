//! A separate file system that is too small or read-only.

use std::path::Path;
use std::process::Command;

/// A tmpfs with these options, unmounted on drop.
pub struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    pub fn new(options: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        let mounted =
            mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(directory.path()).status().unwrap();
        assert!(mounted.success(), "mounting a tmpfs needs root");
        Self(directory)
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
