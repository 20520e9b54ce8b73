//! New files on their way in: written beside their place under a name of their own, then renamed, so that nobody sees
//! half of one.
//!
//! The writer holds a lock on its file. A file of such a name that nobody has locked was left by a writer that was
//! killed, and may go. A conversion takes the files of living writers along to the root, which is where a writer looks
//! when its file is gone.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use rustix::rand::GetRandomFlags;

use super::error::Result;
use super::record;
use super::root::Root;

/// A file being written. It is removed when dropped before it has got its name.
pub(super) struct Staged<'a> {
    root: &'a Root,
    file: File,
    path: Vec<u8>,
    named: Cell<bool>,
}

impl<'a> Staged<'a> {
    /// Makes one in the directory of `beside`.
    pub(super) fn create(root: &'a Root, beside: &[u8]) -> Result<Self> {
        let directory = beside.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        loop {
            let path = [&beside[..directory], &record::staged_name(number())].concat();
            let Some(file) = root.file(&path, flags)? else {
                root.make_above(&path)?;
                continue;
            };
            let at = |error| root.error(&path, error);
            rustix::fs::flock(&file, FlockOperation::LockExclusive).map_err(at)?;
            // Until it was locked it could be taken for a dead writer's.
            if rustix::fs::fstat(&file).map_err(at)?.st_nlink > 0 {
                return Ok(Self { root, file, path, named: Cell::new(false) });
            }
        }
    }

    pub(super) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// An error in writing it.
    pub(super) fn error(&self, error: io::Error) -> super::Error {
        self.root.error(&self.path, error)
    }

    /// Gives it its name, over any file there is; false if the directory for it is missing.
    pub(super) fn rename(&self, to: &[u8]) -> Result<bool> {
        let renamed = self.root.rename(&self.path, to)? || self.root.rename(self.name(), to)?;
        self.named.set(renamed);
        Ok(renamed)
    }

    /// Its name in whatever directory it is.
    fn name(&self) -> &[u8] {
        self.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        if self.named.get() {
            return;
        }
        // What cannot be removed now is recognised as abandoned later.
        let _ = self.root.remove(&self.path);
        let _ = self.root.remove(self.name());
    }
}

/// Removes what a killed writer left at `path`; false if its writer lives, or it is gone.
pub(super) fn remove_abandoned(root: &Root, path: &[u8]) -> Result<bool> {
    if !is_abandoned(root, path)? {
        return Ok(false);
    }
    root.remove(path)
}

/// Whether no writer holds the file at `path` any more.
pub(super) fn is_abandoned(root: &Root, path: &[u8]) -> Result<bool> {
    let Some(file) = root.file(path, OFlags::RDONLY | OFlags::NOFOLLOW)? else { return Ok(false) };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(root.error(path, error)),
    }
}

/// A number no other writer has: a random start, so that processes and machines do not meet, and one more each time.
pub(super) fn number() -> u64 {
    static START: OnceLock<u64> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let start = *START.get_or_init(|| {
        let mut bytes = [0; 8];
        // Without randomness the name is merely taken sooner, and then the next one is tried.
        let _ = rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty());
        u64::from_ne_bytes(bytes)
    });
    start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed))
}
