//! Locks parts of a version against other threads and other processes.
//!
//! The locks are open-file-description locks on the map, and not `flock`, for three reasons: one
//! file can have several locks, a lock changes from shared to exclusive in one step, and the kernel
//! frees the locks of a process that dies. The locks cover offsets behind the map's end. Threads
//! share the description, so the kernel would grant the same lock to two threads; [`VersionLocks`]
//! prevents that with a table. A forked child shares the description too, and keeps it open after
//! the parent has closed it; [`LockFile`] therefore frees the locks explicitly.
//!
//! The locks of the cache have an order. A thread that holds a lock never waits for a lock that is
//! earlier in this list:
//!
//! 1. `Shared::evicting`, the mutex of the thread that evicts. `Shared::reserve` takes it.
//! 2. [`ENTRANCE`], then [`OPEN`] of a map. A thread that opens a version waits for both. An
//!    eviction does not wait, and skips a version whose locks are not free ([`LockWait::Never`],
//!    [`lock_out`]).
//! 3. The lock of a process that replaces the table of packs.
//! 4. [`WHOLE`], [`changes`], [`pins`] and [`leases`]. Threads try these locks, but never wait for
//!    them.
//!
//! An open version keeps its shared [`OPEN`] lock while its reads and fills reserve room, which may
//! evict. This cannot cause a deadlock, because an eviction does not wait for that lock: it punches
//! blocks of an open version instead.

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use firstbyte_store::SHORT_WAIT;
use rustix_futex_sync::Mutex;

use crate::limits::POLL_INTERVAL;

/// Lock that is shared while a version is open, and exclusive while a process initializes or
/// removes the version (see the module `open`).
pub(super) const OPEN: Range<u64> = 0..1;
/// Lock that a process holds, exclusively, from before it opens a version until the version is
/// initialized, and while it examines a version that no process has open. Without this lock, a
/// process that only examines a version could keep another from initializing it.
pub(super) const ENTRANCE: Range<u64> = 2..3;
/// Lock that is shared while a caller needs all blocks to stay, and exclusive while blocks are
/// removed.
pub(super) const WHOLE: Range<u64> = 1..2;
/// The range of all locks.
const EVERYTHING: Range<u64> = 0..i64::MAX as u64;
const LEASES: u64 = 1 << 60;
const CHANGES: u64 = 1 << 61;
const PINS: u64 = 3 << 60;

/// Returns the byte range of the lock for fetching these blocks. The lock is always exclusive.
pub(super) fn leases(blocks: Range<u64>) -> Range<u64> {
    LEASES + blocks.start..LEASES + blocks.end
}

/// Returns the byte range of the lock for changing these blocks. It is shared by writers, because
/// they write the same bytes, and exclusive while blocks are punched.
pub(super) fn changes(blocks: Range<u64>) -> Range<u64> {
    CHANGES + blocks.start..CHANGES + blocks.end
}

/// Returns the byte range of the lock for reading these blocks directly from the file. It is shared
/// by readers, and exclusive while blocks are punched.
pub(super) fn pins(blocks: Range<u64>) -> Range<u64> {
    PINS + blocks.start..PINS + blocks.end
}

/// A file that frees its locks when it is dropped. Closing the file would not be enough: a forked
/// child shares the file description, so the locks would last as long as the child.
#[derive(Debug)]
pub(super) struct LockFile(File);

impl LockFile {
    pub(super) fn new(file: File) -> Self {
        Self(file)
    }
}

impl Deref for LockFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl AsFd for LockFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // The call fails only if the kernel is out of memory.
        let _ = unlock(self, &EVERYTHING);
    }
}

/// Mode of a lock: several holders at the same time, or one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockMode {
    Shared,
    Exclusive,
}

/// Takes a lock for the file's description, or changes the mode of a lock, without waiting. Returns
/// whether this succeeded.
pub(super) fn try_lock(file: &File, part: &Range<u64>, mode: LockMode) -> io::Result<bool> {
    let kind = match mode {
        LockMode::Shared => libc::F_RDLCK,
        LockMode::Exclusive => libc::F_WRLCK,
    };
    match control(file, part, kind) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Frees a lock while the description stays open.
pub(super) fn unlock(file: &File, part: &Range<u64>) -> io::Result<()> {
    control(file, part, libc::F_UNLCK)
}

fn control(file: &File, part: &Range<u64>, kind: i32) -> io::Result<()> {
    let lock = libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: part.start.cast_signed(),
        l_len: (part.end - part.start).cast_signed(),
        l_pid: 0,
    };
    loop {
        // SAFETY: the descriptor is open while `file` lives, and the kernel only reads `lock`.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Whether a process is the first that opens a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opener {
    /// No other process has the file open, so this process must initialize it. Other processes wait
    /// until this one calls [`let_others_open`] or drops the file.
    First,
    /// Another process has initialized the file.
    Later,
}

/// Action to take if another process has a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockWait {
    /// Wait for a short time, in which the other process initializes the file.
    Briefly,
    /// Fail at once.
    Never,
}

/// Takes the [`OPEN`] lock, exclusively if no other process has it. Returns whether this process
/// has to initialize the file.
pub(super) fn lock_open(file: &LockFile, waiting: LockWait) -> io::Result<Opener> {
    let started = Instant::now();
    let mut inside = false;
    loop {
        inside = inside || try_lock(file, &ENTRANCE, LockMode::Exclusive)?;
        // A process that closes the file has the lock exclusively for a moment. Then both attempts
        // fail, and the loop tries again.
        if inside && try_lock(file, &OPEN, LockMode::Exclusive)? {
            return Ok(Opener::First);
        }
        if inside && try_lock(file, &OPEN, LockMode::Shared)? {
            return Ok(Opener::Later);
        }
        // Another process initializes the file, which takes a few system calls unless the process
        // was suspended.
        match waiting {
            LockWait::Briefly if started.elapsed() <= SHORT_WAIT => {}
            LockWait::Briefly => return Err(io::ErrorKind::TimedOut.into()),
            LockWait::Never => return Err(io::ErrorKind::WouldBlock.into()),
        }
        #[cfg(test)]
        WAITS.set(WAITS.get() + 1);
        thread::sleep(POLL_INTERVAL);
    }
}

#[cfg(test)]
thread_local! {
    /// Number of times that this thread has waited for a lock.
    pub(super) static WAITS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Lets other processes open the file, which this process has initialized.
pub(super) fn let_others_open(file: &LockFile) -> io::Result<()> {
    try_lock(file, &OPEN, LockMode::Shared)?;
    unlock(file, &ENTRANCE)
}

/// Keeps other processes from opening the file until `file` is dropped. Returns false if another
/// process has the file open or is about to open it.
pub(super) fn lock_out(file: &LockFile) -> io::Result<bool> {
    Ok(try_lock(file, &ENTRANCE, LockMode::Exclusive)? && try_lock(file, &OPEN, LockMode::Exclusive)?)
}

/// The locks of one open version.
#[derive(Debug)]
pub(super) struct VersionLocks {
    file: Arc<LockFile>,
    held: Mutex<Vec<HeldLock>>,
}

#[derive(Debug)]
struct HeldLock {
    part: Range<u64>,
    mode: LockMode,
    /// Number of threads that share the lock.
    count: usize,
}

impl VersionLocks {
    pub(super) fn new(file: Arc<LockFile>) -> Self {
        Self { file, held: Mutex::new(Vec::new()) }
    }

    /// Returns the file that the locks are on.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Takes a lock if it is free. Returns whether the lock was taken. Callers that share a lock
    /// must name the same `part`.
    pub(super) fn try_lock(&self, part: Range<u64>, mode: LockMode) -> bool {
        let mut held = self.held.lock();
        if let Some(other) = held.iter_mut().find(|h| h.part.start < part.end && part.start < h.part.end) {
            let shared = other.mode == LockMode::Shared && mode == LockMode::Shared && other.part == part;
            other.count += usize::from(shared);
            return shared;
        }
        // A file system without locks never grants one, so nothing is cached on it.
        let locked = try_lock(&self.file, &part, mode).unwrap_or(false);
        if locked {
            held.push(HeldLock { part, mode, count: 1 });
        }
        locked
    }

    /// Frees a lock. `part` must be the range for which the lock was taken.
    pub(super) fn unlock(&self, part: Range<u64>) {
        let mut held = self.held.lock();
        let Some(index) = held.iter().position(|held| held.part == part) else { return };
        if held[index].count > 1 {
            held[index].count -= 1;
            return;
        }
        held.swap_remove(index);
        // The call fails only if the kernel is out of memory. The lock is then held until the file
        // is closed.
        let _ = unlock(&self.file, &part);
    }

    /// Takes a lock like [`try_lock`](Self::try_lock), and frees it when the guard is dropped.
    pub(super) fn guard(&self, part: Range<u64>, mode: LockMode) -> Option<Guard<'_>> {
        self.try_lock(part.clone(), mode).then(|| Guard { locks: self, part })
    }
}

/// A lock that is freed when this value is dropped.
#[derive(Debug)]
pub(super) struct Guard<'a> {
    locks: &'a VersionLocks,
    part: Range<u64>,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.locks.unlock(self.part.clone());
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Returns the locks of two open file descriptions of one file.
    fn pair() -> (VersionLocks, VersionLocks) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let open = || VersionLocks::new(Arc::new(lock_file(&path)));
        (open(), open())
    }

    /// Opens the file at `path` with a new file description.
    fn lock_file(path: &Path) -> LockFile {
        let file = File::options().create(true).truncate(false).read(true).write(true).open(path);
        LockFile::new(file.unwrap())
    }

    #[test]
    fn a_part_is_shared_or_exclusive_among_threads_and_descriptions() {
        let (first, second) = pair();
        let one = first.guard(WHOLE, LockMode::Shared).unwrap();
        let two = first.guard(WHOLE, LockMode::Shared).unwrap();
        assert!(second.guard(WHOLE, LockMode::Shared).is_some());
        drop(one);
        assert!(
            second.guard(WHOLE, LockMode::Exclusive).is_none(),
            "one thread of the first still shares it"
        );
        assert!(first.guard(WHOLE, LockMode::Exclusive).is_none());
        assert!(second.guard(WHOLE, LockMode::Exclusive).is_none(), "a refused request frees nothing");
        drop(two);
        assert!(second.guard(WHOLE, LockMode::Exclusive).is_some());
    }

    #[test]
    fn dropping_a_file_frees_its_locks_although_a_forked_child_still_has_it_open() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let looked = lock_file(&path);
        let inherited = looked.try_clone().unwrap();
        assert!(lock_out(&looked).unwrap());
        drop(looked);
        let file = lock_file(&path);
        assert_eq!(lock_open(&file, LockWait::Briefly).unwrap(), Opener::First);
        drop((inherited, file));
    }

    #[test]
    fn overlapping_leases_exclude_each_other() {
        let (first, second) = pair();
        assert!(first.try_lock(leases(0..10), LockMode::Exclusive));
        assert!(!first.try_lock(leases(9..11), LockMode::Exclusive));
        assert!(!second.try_lock(leases(3..4), LockMode::Exclusive));
        assert!(second.try_lock(leases(10..12), LockMode::Exclusive));
        first.unlock(leases(0..10));
        assert!(second.try_lock(leases(0..10), LockMode::Exclusive));
        assert!(!first.try_lock(leases(8..9), LockMode::Exclusive));
    }
}
