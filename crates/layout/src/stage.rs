//! Temporary files: new content is written beside its place, then renamed, so that no reader sees
//! half of it.
//!
//! The writer holds a lock on its file. A temporary file without a lock was left by a killed writer
//! and may be removed. A conversion moves the files of running writers to the root, where a writer
//! looks if its file is gone.

use std::cell::Cell;
use std::fs::File;
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use rustix::rand::GetRandomFlags;

use crate::error::Result;
use crate::reserved;
use crate::root::{ATTEMPTS, Root};

/// A file being written. It is removed when dropped before it has got its name.
pub(crate) struct Staged<'a> {
    root: &'a Root,
    file: File,
    path: Vec<u8>,
    /// Its destination, for error messages. The temporary name would not help a user.
    to: Vec<u8>,
    named: Cell<bool>,
}

impl<'a> Staged<'a> {
    /// Makes one in the directory of `to`.
    pub(crate) fn create(root: &'a Root, to: &[u8]) -> Result<Self> {
        let directory = to.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let at = |error: Errno| root.error(to, error);
        for _ in 0..ATTEMPTS {
            let path = [&to[..directory], &reserved::staged_name(number())].concat();
            let created = root.file(&path, flags).map_err(|error| error.at(&root.join(to)))?;
            let Some(file) = created else {
                root.make_above(&path)?;
                continue;
            };
            rustix::fs::flock(&file, FlockOperation::LockExclusive).map_err(at)?;
            // Until it was locked it could be taken for a dead writer's.
            if rustix::fs::fstat(&file).map_err(at)?.st_nlink > 0 {
                return Ok(Self { root, file, path, to: to.to_vec(), named: Cell::new(false) });
            }
        }
        // A directory that is made and never there is a file.
        Err(at(Errno::NOTDIR))
    }

    /// Appends to it.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| self.root.error(&self.to, error))
    }

    /// Has its content on the disk.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync_all().map_err(|error| self.root.error(&self.to, error))
    }

    /// Gives the content to the file system, as a close does, and learns whether it was taken: NFS
    /// reports only then that the server's disk is full.
    pub(crate) fn flush(&self) -> Result<()> {
        firstbyte_listing::flush(&self.file).map_err(|error| self.root.error(&self.to, error))
    }

    /// Gives it its name, over any file there is; false if the directory for it is missing.
    pub(crate) fn rename(&self, to: &[u8]) -> Result<bool> {
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
        // If this fails, the file is recognised as abandoned later.
        let _ = self.root.remove(&self.path);
        let _ = self.root.remove(self.name());
    }
}

/// Removes what a killed writer left at `path`; false if its writer lives, or it is gone.
pub(crate) fn remove_abandoned(root: &Root, path: &[u8]) -> Result<bool> {
    if !is_abandoned(root, path)? {
        return Ok(false);
    }
    root.remove(path)
}

/// Whether no writer holds the file at `path` any more.
pub(crate) fn is_abandoned(root: &Root, path: &[u8]) -> Result<bool> {
    // NFS makes a record lock of this lock: an exclusive one needs the right to write.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = root.file(path, flags | OFlags::RDWR).or_else(|_| root.file(path, flags | OFlags::RDONLY));
    let Some(file) = opened? else { return Ok(false) };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        // Held, or on NFS without the right to write.
        Err(Errno::WOULDBLOCK | Errno::BADF) => Ok(false),
        Err(error) => Err(root.error(path, error)),
    }
}

/// A number no other writer has: a random start, so that processes and machines do not meet, and
/// one more each time.
pub(crate) fn number() -> u64 {
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
