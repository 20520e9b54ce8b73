//! Mounts file systems of many kinds, made in an image file, for one test. Mounting needs root, so
//! tests begin with [`firstbyte_testkit::lacks_root`].

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A mounted file system. Dropping this value unmounts and deletes it.
pub(crate) struct Mounted {
    pub(crate) name: &'static str,
    at: PathBuf,
    home: TempDir,
}

/// Size of an image in bytes, which is enough for XFS.
const IMAGE_BYTES: u64 = 400 << 20;

impl Mounted {
    /// Makes and mounts a file system in an image: `ext4`, `xfs`, `btrfs`.
    pub(crate) fn image(name: &'static str, make: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let image = home.path().join("image");
        File::create(&image).unwrap().set_len(IMAGE_BYTES).unwrap();
        run(Command::new(make[0]).args(&make[1..]).arg(&image));
        Self::mount(name, home, |command| command.args(["-o", "loop"]).arg(&image))
    }

    pub(crate) fn tmpfs() -> Self {
        Self::mount("tmpfs", tempfile::tempdir().unwrap(), |command| command.args(["-t", "tmpfs", "tmpfs"]))
    }

    /// Mounts an overlay whose upper layer is on its own tmpfs, because one overlay cannot be in
    /// another.
    pub(crate) fn overlay(below: &Mounted) -> Self {
        let part = |name: &str| {
            let path = below.path().join(name);
            std::fs::create_dir(&path).unwrap();
            path
        };
        let (lower, upper, work) = (part("lower"), part("upper"), part("work"));
        std::fs::write(lower.join("from below"), "").unwrap();
        let layers =
            format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
        Self::mount("overlay", tempfile::tempdir().unwrap(), |command| {
            command.args(["-t", "overlay", "-o", &layers, "overlay"])
        })
    }

    fn mount(name: &'static str, home: TempDir, options: impl FnOnce(&mut Command) -> &mut Command) -> Self {
        let at = home.path().join("mounted");
        std::fs::create_dir(&at).unwrap();
        run(options(&mut Command::new("mount")).arg(&at));
        Self { name, at, home }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.at
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // If unmounting failed, removing the directory would fail too, with a less clear error.
        let done = Command::new("umount").arg(&self.at).status();
        if !done.is_ok_and(|status| status.success()) {
            eprintln!("{} below {} is still mounted", self.name, self.home.path().display());
        }
    }
}

fn run(command: &mut Command) {
    let out = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
}
