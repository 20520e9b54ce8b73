//! Writes temporary files: new content is written to a file beside its destination, which is then
//! renamed, so that no reader sees incomplete content.
//!
//! The writer holds a lock on its file. A temporary file without a lock was left by a killed writer
//! and may be removed. A conversion to a flat directory moves the temporary files of running
//! writers to the root. A writer that does not find its file looks there.

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
use crate::root::{ATTEMPTS, LayoutRoot};

/// A temporary file. Dropping this value removes the file, unless the file has got its final name.
pub(crate) struct StagedFile<'a> {
    root: &'a LayoutRoot,
    file: File,
    path: Vec<u8>,
    /// The destination, for error messages. The temporary name would not help a user.
    destination: Vec<u8>,
    has_final_name: Cell<bool>,
}

impl<'a> StagedFile<'a> {
    /// Makes and locks a temporary file in the directory of `to`.
    pub(crate) fn create(root: &'a LayoutRoot, to: &[u8]) -> Result<Self> {
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
            // Until the file was locked, another process may have taken it for the file of a killed
            // writer and removed it.
            if rustix::fs::fstat(&file).map_err(at)?.st_nlink > 0 {
                return Ok(Self {
                    root,
                    file,
                    path,
                    destination: to.to_vec(),
                    has_final_name: Cell::new(false),
                });
            }
        }
        // The directory cannot be made, so an entry of another kind must be in its place.
        Err(at(Errno::NOTDIR))
    }

    /// Appends bytes to the file.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| self.root.error(&self.destination, error))
    }

    /// Syncs the content to disk.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync_all().map_err(|error| self.root.error(&self.destination, error))
    }

    /// Hands the content to the file system, as `close` does, and reports errors. On NFS, this call
    /// is the first to report that the server's disk is full.
    pub(crate) fn flush(&self) -> Result<()> {
        firstbyte_listing::flush(&self.file).map_err(|error| self.root.error(&self.destination, error))
    }

    /// Gives the file its final name, replacing any file of that name. False if the directory is
    /// missing.
    pub(crate) fn rename(&self, to: &[u8]) -> Result<bool> {
        let renamed = self.root.rename(&self.path, to)? || self.root.rename(self.name(), to)?;
        self.has_final_name.set(renamed);
        Ok(renamed)
    }

    /// Returns the temporary name without its directory.
    fn name(&self) -> &[u8] {
        self.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
    }
}

impl Drop for StagedFile<'_> {
    fn drop(&mut self) {
        if self.has_final_name.get() {
            return;
        }
        // If this fails, the file is later recognised as abandoned.
        let _ = self.root.remove(&self.path);
        let _ = self.root.remove(self.name());
    }
}

/// Removes the temporary file of a killed writer. False if the writer lives, or if the file no
/// longer exists.
pub(crate) fn remove_abandoned(root: &LayoutRoot, path: &[u8]) -> Result<bool> {
    if !is_abandoned(root, path)? {
        return Ok(false);
    }
    root.remove(path)
}

/// True if the file at `path` exists and no writer holds the lock on it any more.
pub(crate) fn is_abandoned(root: &LayoutRoot, path: &[u8]) -> Result<bool> {
    // NFS implements this lock as a record lock, and an exclusive record lock needs a descriptor
    // that is open for writing.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = root.file(path, flags | OFlags::RDWR).or_else(|_| root.file(path, flags | OFlags::RDONLY));
    let Some(file) = opened? else { return Ok(false) };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        // The lock is held by the writer, or on NFS the descriptor is not open for writing.
        Err(Errno::WOULDBLOCK | Errno::BADF) => Ok(false),
        Err(error) => Err(root.error(path, error)),
    }
}

/// Returns a number that no other writer uses. In each process the numbers start at random and
/// count up.
pub(crate) fn number() -> u64 {
    static START: OnceLock<u64> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let start = *START.get_or_init(|| {
        let mut bytes = [0; 8];
        // Without randomness, the temporary name is more likely to exist already. The write then
        // fails.
        let _ = rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty());
        u64::from_ne_bytes(bytes)
    });
    start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed))
}
