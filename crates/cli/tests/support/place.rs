//! A mount point that is used as a user would.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use firstbyte_testkit::holds_within;
use serde_json::Value;

use super::{Ran, World};

/// A world with a directory `mnt`. Dropping it unmounts the directory, even if the daemon has died.
pub struct Place {
    pub world: World,
    pub directory: PathBuf,
}

impl Place {
    pub fn new(mut world: World) -> Self {
        let directory = world.path("mnt");
        fs::create_dir_all(&directory).unwrap();
        world.set("XDG_RUNTIME_DIR", &runtime(&directory));
        Self { world, directory }
    }

    /// Mounts `source` and returns the receipt.
    pub fn mount(&self, source: &str, options: &[&str]) -> Value {
        let args = [&["--json", "mount", source, "mnt"], options].concat();
        self.world.run(&args).ok().receipt()
    }

    /// Unmounts, and retries if the mount is in use. That happens for a moment when another test of
    /// this process starts a program: until the program is executed, it has all open files of this
    /// process open.
    pub fn unmount(&self) -> Ran {
        let mut ran = None;
        holds_within(Duration::from_secs(1), || {
            let again = self.world.run(&["unmount", "mnt"]);
            let is_free = !again.stderr.contains("in use");
            ran = Some(again);
            is_free
        });
        ran.unwrap()
    }

    pub fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        fs::read(self.directory.join(name))
    }

    pub fn is_mounted(&self) -> bool {
        fs::read_to_string("/proc/self/mountinfo").unwrap().contains(self.directory.to_str().unwrap())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        while self.is_mounted() {
            let done = detach(&self.directory);
            // Does not panic again, because a second panic would abort the whole test program.
            if !done && std::thread::panicking() {
                return;
            }
            assert!(done, "{} stays mounted", self.directory.display());
        }
    }
}

pub fn runtime(directory: &Path) -> String {
    let runtime = directory.parent().unwrap().parent().unwrap().join("run");
    fs::create_dir_all(&runtime).unwrap();
    runtime.to_str().unwrap().to_owned()
}

/// Unmounts lazily, even if files are open. Returns whether this succeeded.
pub fn detach(directory: &Path) -> bool {
    let (program, options) = match rustix::process::geteuid().is_root() {
        true => ("umount", &["-l"][..]),
        false => ("fusermount3", &["-u", "-z"][..]),
    };
    Command::new(program).args(options).arg(directory).status().unwrap().success()
}
