//! Stages: temporary directories for data, services and destinations, removed when the measurement
//! ends.
//!
//! A stage is locked while it is in use. A new measurement removes stages without a lock, which
//! killed processes left behind, and unmounts everything below them. A process that ends without
//! unwinding calls [`remove_stages`].

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::mounts::Mounts;
use crate::plan::Medium;

/// Prefix of the names of stages.
const STAGE_PREFIX: &str = "firstbyte-bench-";
/// Name of the locked file.
const LOCK_FILE: &str = ".lock";
/// Directory on a file system in memory.
const SHARED_MEMORY: &str = "/dev/shm";

/// Time limit of [`remove_stages`], because other processes may still make files in a stage.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// Directories of this process's stages.
static IN_USE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn in_use() -> MutexGuard<'static, Vec<PathBuf>> {
    IN_USE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The two stages of a measurement, one for each medium. Dropping this value removes both.
#[derive(Debug)]
pub(crate) struct MediumStages {
    memory: LockedDirectory,
    disk: LockedDirectory,
    destinations: u64,
}

/// A locked directory. Dropping this value removes the directory, unless it is kept.
#[derive(Debug)]
struct LockedDirectory {
    path: PathBuf,
    _lock: File,
    is_kept: bool,
}

impl MediumStages {
    /// Makes the stages, after removing those that killed processes left. `disk` is a directory on
    /// a disk.
    pub(crate) fn new(disk: &Path) -> Result<Self> {
        let memory = Path::new(SHARED_MEMORY);
        let memory = if memory.is_dir() { memory } else { disk };
        for root in [memory, disk] {
            remove_stale_stages(root);
        }
        Ok(Self { memory: LockedDirectory::new(memory)?, disk: LockedDirectory::new(disk)?, destinations: 0 })
    }

    /// Returns the directory on a medium.
    pub(crate) fn path(&self, medium: Medium) -> &Path {
        match medium {
            Medium::Memory => &self.memory.path,
            Medium::Disk => &self.disk.path,
        }
    }

    /// Makes a directory for a run. Its name is new, so that no tool finds files of an earlier run.
    pub(crate) fn destination(&mut self, medium: Medium) -> Result<PathBuf> {
        self.destinations += 1;
        self.directory(medium, &format!("out-{}", self.destinations))
    }

    /// Keeps the directory on the disk when the stage ends, and returns it.
    pub(crate) fn keep(&mut self) -> &Path {
        self.disk.is_kept = true;
        in_use().retain(|path| *path != self.disk.path);
        &self.disk.path
    }

    /// Returns a directory below the stage, made if it is missing.
    pub(crate) fn directory(&self, medium: Medium, name: &str) -> Result<PathBuf> {
        let path = self.path(medium).join(name);
        fs::create_dir_all(&path).map_err(Error::file(&path))?;
        Ok(path)
    }
}

impl LockedDirectory {
    fn new(root: &Path) -> Result<Self> {
        let made =
            tempfile::Builder::new().prefix(STAGE_PREFIX).tempdir_in(root).map_err(Error::file(root))?;
        let lock = made.path().join(LOCK_FILE);
        let file = File::create(&lock).map_err(Error::file(&lock))?;
        file.lock().map_err(Error::file(&lock))?;
        let path = made.keep();
        in_use().push(path.clone());
        Ok(Self { path, _lock: file, is_kept: false })
    }
}

impl Drop for LockedDirectory {
    fn drop(&mut self) {
        if self.is_kept {
            // Without its lock file, the directory is no longer a stage, so no later measurement
            // removes it.
            let _ = fs::remove_file(self.path.join(LOCK_FILE));
        } else {
            remove(&self.path);
        }
        in_use().retain(|path| *path != self.path);
    }
}

/// Removes the stages of this process, which is about to end without dropping them.
pub fn remove_stages() {
    let until = Instant::now() + REMOVAL_TIMEOUT;
    for stage in std::mem::take(&mut *in_use()) {
        remove(&stage);
        while stage.exists() && Instant::now() < until {
            std::thread::sleep(RETRY_PAUSE);
            remove(&stage);
        }
    }
}

/// Removes the stages below `root` that are not locked.
fn remove_stale_stages(root: &Path) {
    let Ok(entries) = fs::read_dir(root) else { return };
    for entry in entries.flatten() {
        // Other entries are not opened, because they may be mounts whose server does not answer.
        if !entry.file_name().to_string_lossy().starts_with(STAGE_PREFIX) {
            continue;
        }
        let Ok(lock) = File::open(entry.path().join(LOCK_FILE)) else { continue };
        if !matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
            remove(&entry.path());
        }
    }
}

/// Unmounts everything below a stage, and removes it.
fn remove(stage: &Path) {
    let mounts = Mounts::current().unwrap_or_default();
    for mount in mounts.iter().filter(|mount| mount.at.starts_with(stage)) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&mount.at).status();
    }
    let _ = fs::remove_dir_all(stage);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_of_dead_processes_are_removed_and_those_in_use_stay() {
        let root = tempfile::tempdir().unwrap();
        let used = LockedDirectory::new(root.path()).unwrap();
        let dead = LockedDirectory::new(root.path()).unwrap();
        let left = dead.path.clone();
        // As after a kill: the directory is left, and nothing holds its lock.
        let LockedDirectory { path, _lock, .. } = &dead;
        assert!(path.is_dir());
        _lock.unlock().unwrap();
        let other = root.path().join("firstbyte-bench-notours");
        fs::create_dir(&other).unwrap();
        remove_stale_stages(root.path());
        assert!(!left.exists());
        assert!(used.path.is_dir() && other.is_dir());
    }

    #[test]
    fn an_ending_process_removes_its_stages_while_files_are_made_in_them() {
        let root = tempfile::tempdir().unwrap();
        let mut stage = MediumStages::new(root.path()).unwrap();
        let directory = stage.destination(Medium::Disk).unwrap();
        let makes = std::thread::spawn(move || {
            (0..).take_while(|name| fs::write(directory.join(name.to_string()), "content").is_ok()).count()
        });
        remove_stages();
        assert!(!stage.path(Medium::Disk).exists() && !stage.path(Medium::Memory).exists());
        makes.join().unwrap();
    }

    #[test]
    fn a_stage_that_is_kept_stays_on_the_disk() {
        let root = tempfile::tempdir().unwrap();
        let mut stage = MediumStages::new(root.path()).unwrap();
        fs::write(stage.path(Medium::Disk).join("data"), "content").unwrap();
        let kept = stage.keep().to_owned();
        let memory = stage.path(Medium::Memory).to_owned();
        drop(stage);
        remove_stale_stages(root.path());
        assert!(!memory.exists());
        assert_eq!(fs::read_dir(&kept).unwrap().count(), 1, "the data alone");
    }
}
