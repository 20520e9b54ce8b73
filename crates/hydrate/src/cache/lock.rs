//! Locks on parts of a version, which hold between the threads of a process and between processes.
//!
//! Open-file-description locks on the map, and not flock: one file serves several locks, a lock is changed from shared to
//! exclusive in one step, and the kernel frees them when a process dies. They cover places beyond the map's end. Threads
//! share the description, so the kernel would let two of them have the same lock: hence the table. So does a forked child,
//! whose copy keeps it open after we close ours: hence [`Lockable`].

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Held, shared, while a version is open; exclusively by whoever prepares or removes it.
pub(super) const OPEN: Range<u64> = 0..1;
/// Held by whoever enters, until what is behind is as it should be, and by whoever looks at what nobody has open. Without
/// it one who enters could be kept from preparing by another who only looks, and then find that other gone.
pub(super) const ENTRANCE: Range<u64> = 2..3;
/// Held, shared, while somebody relies on all blocks; exclusively by whoever takes blocks away.
pub(super) const HOLD: Range<u64> = 1..2;
/// From the first byte to the last there can be.
const EVERYTHING: Range<u64> = 0..i64::MAX as u64;
/// Where the locks of those who fetch blocks begin; a byte a block.
const CLAIMS: u64 = 1 << 60;
/// Where the locks of those who write or punch blocks begin; a byte a block. Shared by those who write, since it is the same
/// bytes; who punches has to have it alone.
const BLOCKS: u64 = 1 << 61;

/// Where the locks of those who read blocks from the file itself begin; a byte a block. Shared by them; who punches has to have it alone.
const LENT: u64 = 3 << 60;

/// The lock of those who fetch these blocks.
pub(super) fn claims(blocks: Range<u64>) -> Range<u64> {
    CLAIMS + blocks.start..CLAIMS + blocks.end
}

/// The lock of those who change these blocks.
pub(super) fn blocks(blocks: Range<u64>) -> Range<u64> {
    BLOCKS + blocks.start..BLOCKS + blocks.end
}

/// The lock of those to whom these blocks are lent.
pub(super) fn lent(blocks: Range<u64>) -> Range<u64> {
    LENT + blocks.start..LENT + blocks.end
}

/// A file whose locks end with it. Closing it would not do: a child forked meanwhile has the same description, and others
/// would be locked out for as long as that child lives.
#[derive(Debug)]
pub(super) struct Lockable(File);

impl Lockable {
    pub(super) fn new(file: File) -> Self {
        Self(file)
    }
}

impl Deref for Lockable {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl AsFd for Lockable {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for Lockable {
    fn drop(&mut self) {
        // It fails for want of memory only, and then closing frees them, unless there is such a child.
        let _ = release(self, &EVERYTHING);
    }
}

/// Who may hold the same part at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// Others who share it.
    Shared,
    /// Nobody.
    Exclusive,
}

/// Takes a lock for this description, or changes the one it has, if nobody else's is in the way; whether it did.
pub(super) fn set(file: &File, part: &Range<u64>, share: Share) -> io::Result<bool> {
    let kind = match share {
        Share::Shared => libc::F_RDLCK,
        Share::Exclusive => libc::F_WRLCK,
    };
    match control(file, part, kind) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Gives a lock back before its description is closed.
pub(super) fn release(file: &File, part: &Range<u64>) -> io::Result<()> {
    control(file, part, libc::F_UNLCK)
}

fn control(file: &File, part: &Range<u64>, kind: i32) -> io::Result<()> {
    let lock = libc::flock {
        // The constants are small; the fields are as narrow as POSIX wants them.
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: part.start.cast_signed(),
        l_len: (part.end - part.start).cast_signed(),
        l_pid: 0,
    };
    loop {
        // SAFETY: the descriptor is open while `file` lives, and the kernel only reads the structure.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// How long others may take to prepare: some system calls, unless a process is stopped in the midst of them.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether nobody else has it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    Yes,
    No,
}

/// Takes the lock that says "open": for itself alone if nobody has it, and then it is to be prepared. Others wait until
/// [`entered`] is called, or `file` dropped.
pub(super) fn enter(file: &Lockable) -> io::Result<First> {
    let started = Instant::now();
    let mut inside = false;
    loop {
        inside = inside || set(file, &ENTRANCE, Share::Exclusive)?;
        // One who leaves has the lock alone for a moment, and leaves nothing to be prepared.
        if inside && set(file, &OPEN, Share::Exclusive)? {
            return Ok(First::Yes);
        }
        if inside && set(file, &OPEN, Share::Shared)? {
            return Ok(First::No);
        }
        if started.elapsed() > PATIENCE {
            return Err(io::ErrorKind::TimedOut.into());
        }
        thread::sleep(Duration::from_micros(100));
    }
}

/// It is prepared: others may enter.
pub(super) fn entered(file: &Lockable) -> io::Result<()> {
    set(file, &OPEN, Share::Shared)?;
    release(file, &ENTRANCE)
}

/// Keeps others out until `file` is dropped, if nobody is in or about to enter; whether that is so.
pub(super) fn shut(file: &Lockable) -> io::Result<bool> {
    Ok(set(file, &ENTRANCE, Share::Exclusive)? && set(file, &OPEN, Share::Exclusive)?)
}

/// The locks of one open version.
#[derive(Debug)]
pub(super) struct Locks {
    file: Arc<Lockable>,
    held: Mutex<Vec<Held>>,
}

#[derive(Debug)]
struct Held {
    part: Range<u64>,
    share: Share,
    /// How many threads share it.
    count: usize,
}

impl Locks {
    pub(super) fn new(file: Arc<Lockable>) -> Self {
        Self { file, held: Mutex::new(Vec::new()) }
    }

    /// What the locks are on.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Takes a lock if it is free; whether it was. What is shared is always shared as the same part.
    pub(super) fn try_take(&self, part: Range<u64>, share: Share) -> bool {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = held.iter_mut().find(|h| h.part.start < part.end && part.start < h.part.end) {
            let shared = other.share == Share::Shared && share == Share::Shared && other.part == part;
            other.count += usize::from(shared);
            return shared;
        }
        // A file system without locks is one on which nothing is claimed, so nothing is kept.
        let taken = set(&self.file, &part, share).unwrap_or(false);
        if taken {
            held.push(Held { part, share, count: 1 });
        }
        taken
    }

    /// Gives back a lock that was taken, or a stretch of it.
    pub(super) fn give_back(&self, part: Range<u64>) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(index) = held.iter().position(|h| h.part.start <= part.start && part.end <= h.part.end)
        else {
            return;
        };
        if held[index].count > 1 {
            held[index].count -= 1;
            return;
        }
        let whole = held.swap_remove(index);
        for rest in [whole.part.start..part.start, part.end..whole.part.end] {
            if !rest.is_empty() {
                held.push(Held { part: rest, share: whole.share, count: 1 });
            }
        }
        // It fails for want of memory only; the lock then stays until the version is closed.
        let _ = release(&self.file, &part);
    }

    /// As [`try_take`](Self::try_take), for the length of a scope.
    pub(super) fn guard(&self, part: Range<u64>, share: Share) -> Option<Guard<'_>> {
        // Not made where there is none to give back.
        self.try_take(part.clone(), share).then(|| Guard { locks: self, part })
    }
}

/// A lock held until it is dropped.
#[derive(Debug)]
pub(super) struct Guard<'a> {
    locks: &'a Locks,
    part: Range<u64>,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.locks.give_back(self.part.clone());
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Two descriptions of one file, whose name is gone already.
    fn pair() -> (Locks, Locks) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let open = || Locks::new(Arc::new(lockable(&path)));
        (open(), open())
    }

    /// A description of its own of the file at `path`.
    fn lockable(path: &Path) -> Lockable {
        let file = File::options().create(true).truncate(false).read(true).write(true).open(path);
        Lockable::new(file.unwrap())
    }

    #[test]
    fn a_part_is_held_by_sharers_or_by_one_alone_among_threads_and_descriptions() {
        let (first, second) = pair();
        let one = first.guard(HOLD, Share::Shared).unwrap();
        let two = first.guard(HOLD, Share::Shared).unwrap();
        assert!(second.guard(HOLD, Share::Shared).is_some());
        drop(one);
        assert!(second.guard(HOLD, Share::Exclusive).is_none(), "one thread of the first still shares it");
        assert!(first.guard(HOLD, Share::Exclusive).is_none());
        assert!(second.guard(HOLD, Share::Exclusive).is_none(), "who asked in vain has given nothing back");
        drop(two);
        assert!(second.guard(HOLD, Share::Exclusive).is_some());
    }

    #[test]
    fn locks_end_with_their_file_though_a_forked_child_still_has_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let looked = lockable(&path);
        let inherited = looked.try_clone().unwrap();
        assert!(shut(&looked).unwrap());
        drop(looked);
        let file = lockable(&path);
        assert_eq!(enter(&file).unwrap(), First::Yes);
        drop((inherited, file));
    }

    #[test]
    fn a_stretch_of_a_claim_is_given_back_by_itself() {
        let (first, second) = pair();
        assert!(first.try_take(claims(0..10), Share::Exclusive));
        assert!(!first.try_take(claims(9..11), Share::Exclusive));
        first.give_back(claims(4..6));
        assert!(second.try_take(claims(4..6), Share::Exclusive));
        assert!(!second.try_take(claims(3..4), Share::Exclusive));
        assert!(!second.try_take(claims(6..7), Share::Exclusive));
        first.give_back(claims(6..10));
        assert!(first.try_take(claims(8..9), Share::Exclusive));
        assert!(second.try_take(claims(6..8), Share::Exclusive));
    }
}
