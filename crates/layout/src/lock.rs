//! Locks byte ranges of the layout file. The locks work between processes, threads and the clients
//! of a network file system.
//!
//! The locks are open-file-description locks instead of flock, because one small file then serves
//! several locks, and because NFS supports them. The kernel releases a lock when its descriptor is
//! closed, so a killed process leaves no lock behind. A locked range need not exist in the file.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// A lock: a byte range of the layout file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LockRange {
    start: i64,
    length: i64,
}

impl LockRange {
    /// Held exclusively by a process while it converts or mends, and shared by a check that changes
    /// nothing.
    pub(crate) const CONVERSION: Self = Self { start: 0, length: 1 };
    /// Held exclusively by the process that waits until no other process holds the gate. Processes
    /// that want the gate later wait for this lock first.
    pub(crate) const TURNSTILE: Self = Self { start: 1, length: 1 };
    /// Held shared during work in which the direction must not change, and exclusively while the
    /// layout file changes.
    pub(crate) const GATE: Self = Self { start: 2, length: 1 };
    /// Turnstile and gate, which are locked in one step.
    pub(crate) const TURNSTILE_AND_GATE: Self = Self { start: 1, length: 2 };
}

/// Other holders that a lock admits at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockShare {
    /// Other shared holders.
    Shared,
    /// No other holder.
    Exclusive,
}

/// Waits for a lock.
pub(crate) fn acquire(file: &File, part: LockRange, share: LockShare) -> io::Result<()> {
    control(file, libc::F_OFD_SETLKW, part, kind(share))
}

/// Acquires a lock if it is free. Returns false if it is not.
pub(crate) fn try_acquire(file: &File, part: LockRange, share: LockShare) -> io::Result<bool> {
    match control(file, libc::F_OFD_SETLK, part, kind(share)) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Releases a lock before its descriptor is closed.
pub(crate) fn release(file: &File, part: LockRange) -> io::Result<()> {
    control(file, libc::F_OFD_SETLK, part, libc::F_UNLCK)
}

fn kind(share: LockShare) -> i32 {
    match share {
        LockShare::Shared => libc::F_RDLCK,
        LockShare::Exclusive => libc::F_WRLCK,
    }
}

fn control(file: &File, command: i32, part: LockRange, kind: i32) -> io::Result<()> {
    let lock = libc::flock {
        // POSIX requires narrow fields. The constants are small, so the conversions cannot fail.
        l_type: i16::try_from(kind).unwrap_or_default(),
        l_whence: i16::try_from(libc::SEEK_SET).unwrap_or_default(),
        l_start: part.start,
        l_len: part.length,
        l_pid: 0,
    };
    loop {
        // SAFETY: the descriptor is open while `file` lives, and the kernel only reads the
        // structure.
        if unsafe { libc::fcntl(file.as_raw_fd(), command, &raw const lock) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_held_by_sharers_or_by_one_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let open =
            || File::options().create(true).truncate(false).read(true).write(true).open(&path).unwrap();
        let (first, second, third) = (open(), open(), open());
        acquire(&first, LockRange::TURNSTILE_AND_GATE, LockShare::Shared).unwrap();
        assert!(try_acquire(&second, LockRange::GATE, LockShare::Shared).unwrap());
        assert!(!try_acquire(&third, LockRange::GATE, LockShare::Exclusive).unwrap());
        assert!(try_acquire(&third, LockRange::CONVERSION, LockShare::Exclusive).unwrap());
        release(&first, LockRange::TURNSTILE).unwrap();
        assert!(try_acquire(&third, LockRange::TURNSTILE, LockShare::Exclusive).unwrap());
        drop((first, second));
        assert!(try_acquire(&third, LockRange::GATE, LockShare::Exclusive).unwrap());
    }
}
