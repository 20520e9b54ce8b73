//! Locks names in the served tree while they change. `root` owns the table of locks.
//!
//! A name consists of its directory (device and inode, so that all paths to the directory count as
//! one) and its last component. Names share a fixed number of locks. Changes of two names with the
//! same lock wait for each other, for as long as a rename takes.

use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::OwnedFd;

use firstbyte_location::to_usize;
use rustix_futex_sync::{Mutex, MutexGuard};

/// Number of locks: many more than there are threads that change names at once.
const LOCK_COUNT: usize = 256;

/// A fixed set of locks for names.
#[derive(Debug)]
pub(crate) struct NameLocks {
    locks: Vec<Mutex<()>>,
    hasher: RandomState,
}

impl Default for NameLocks {
    fn default() -> Self {
        let locks = std::iter::repeat_with(Mutex::default).take(LOCK_COUNT).collect();
        Self { locks, hasher: RandomState::new() }
    }
}

impl NameLocks {
    /// Waits for the lock of `name` in the open directory `parent`.
    pub(crate) fn lock(&self, parent: &OwnedFd, name: &OsStr) -> io::Result<MutexGuard<'_, ()>> {
        let stat = rustix::fs::fstat(parent)?;
        let hash = self.hasher.hash_one((stat.st_dev, stat.st_ino, name));
        let index = to_usize(hash % LOCK_COUNT as u64);
        Ok(self.locks[index].lock())
    }
}
