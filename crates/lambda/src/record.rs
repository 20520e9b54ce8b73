//! Records the paths that this process writes below the function's directory, so that another
//! process can remove them.
//!
//! Lambda ends a process that runs out of memory or of time, and starts a new one in the same
//! sandbox, whose `/tmp` still has the files. Each process has a record, a file that it keeps
//! locked while it lives. `environment` calls this module.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::written::WrittenPath;

/// Beginning of the name of a record. The id of the environment follows.
const PREFIX: &str = ".firstbyte-written-";

/// The record of this process. The file exists while paths are recorded.
#[derive(Debug)]
pub(crate) struct WrittenRecord {
    path: PathBuf,
    /// The file, which is locked.
    file: Option<File>,
    written: Vec<WrittenPath>,
}

impl WrittenRecord {
    /// Makes the empty record of the process `id` with this directory.
    pub(crate) fn new(directory: &Path, id: &str) -> Self {
        Self { path: directory.join(format!("{PREFIX}{id}")), file: None, written: Vec::new() }
    }

    /// Takes over the records of processes that have ended. Returns what they wrote.
    pub(crate) fn adopt(&mut self, directory: &Path) -> Vec<WrittenPath> {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let records = entries.map(|entry| entry.path()).filter(|path| {
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(PREFIX))
        });
        let mut found = Vec::new();
        for path in records {
            let Some(text) = read_abandoned(&path) else { continue };
            found.extend(WrittenPath::parse_all(&text).filter(|written| written.is_below(directory)));
            found.iter().for_each(|written| self.add(written));
            let _ = fs::remove_file(path);
        }
        found
    }

    /// Records a path, before anything is written to it.
    pub(crate) fn add(&mut self, written: &WrittenPath) {
        if !self.written.contains(written) {
            self.written.push(written.clone());
            self.save();
        }
    }

    /// Removes the entries of a path.
    pub(crate) fn forget(&mut self, path: &Path) {
        let before = self.written.len();
        self.written.retain(|written| written.path() != path);
        if self.written.len() < before {
            self.save();
        }
    }

    /// Writes the file. Errors are ignored: without the file, a new process cannot tidy up.
    fn save(&mut self) {
        if self.written.is_empty() {
            if self.file.take().is_some() {
                let _ = fs::remove_file(&self.path);
            }
            return;
        }
        if self.file.is_none() {
            self.file = create_locked(&self.path).ok();
        }
        let text: Vec<u8> = self.written.iter().flat_map(WrittenPath::to_bytes).collect();
        let write = |file: &File| file.set_len(0).and_then(|()| file.write_all_at(&text, 0));
        let _ = self.file.as_ref().map(write);
    }
}

fn create_locked(path: &Path) -> io::Result<File> {
    let file = File::options().write(true).create_new(true).open(path)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

/// Reads a record of this user whose process has ended.
fn read_abandoned(path: &Path) -> Option<Vec<u8>> {
    // A link or a pipe of this name is of another program. Without NONBLOCK, opening a pipe would
    // wait for a writer.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    let is_own = metadata.is_file() && metadata.uid() == rustix::process::geteuid().as_raw();
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok().filter(|()| is_own)?;
    let mut record = Vec::new();
    file.read_to_end(&mut record).ok()?;
    Some(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_a_process_that_has_ended_are_found_and_those_of_a_living_one_are_not() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        let written = |name: &str| WrittenPath::new(path(name));
        let mut dead = WrittenRecord::new(root.path(), "dead");
        for name in ["a", "b\nc", "forgotten"] {
            dead.add(&written(name));
        }
        dead.add(&WrittenPath::new("/elsewhere".into()));
        dead.forget(&path("forgotten"));
        let mut living = WrittenRecord::new(root.path(), "living");
        living.add(&written("d"));
        drop(dead.file.take());
        let pipe = path(".firstbyte-written-pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();

        let mut next = WrittenRecord::new(root.path(), "next");
        let found = next.adopt(root.path());
        assert_eq!(found, [written("a"), written("b\nc")]);
        assert!(path(".firstbyte-written-next").exists() && !path(".firstbyte-written-dead").exists());
        for written in &found {
            next.forget(written.path());
        }
        assert!(!path(".firstbyte-written-next").exists() && pipe.exists());
        assert!(WrittenRecord::new(root.path(), "third").adopt(root.path()).is_empty());
    }
}
