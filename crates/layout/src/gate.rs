//! Implements the gate, a lock that keeps a conversion from changing its direction. A thread holds
//! the gate while it writes or removes a file, or while it decides that a name does not exist.
//!
//! The gate is a shared lock on the layout file and costs six system calls. A conversion takes the
//! lock exclusively for the moment in which it changes the layout file. A second lock, the
//! turnstile, keeps a stream of short shared locks from starving the conversion.
//!
//! If there is no layout file, processes lock the directory itself instead, and the process that
//! creates the layout file locks it exclusively. On network file systems such a lock is valid on
//! one machine only. So a writer on another machine may miss the start of a conversion, like a
//! program that does not use this crate.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::lock::{self, LockRange, LockShare};
use crate::protocol::MoveResult;
use crate::record::LayoutRecord;
use crate::reserved;
use crate::root::LayoutRoot;
use crate::stage;

/// Maximum wait while another process holds an exclusive lock on the root. A process that follows
/// the rules holds that lock only while it writes the layout file.
const MAX_LOCK_WAIT: Duration = if cfg!(test) { Duration::from_millis(300) } else { Duration::from_secs(10) };
/// Pause between two attempts to lock the root.
const LOCK_RETRY_PAUSE: Duration = Duration::from_millis(1);

/// A guard. While it is held, the layout file does not change.
pub(crate) struct LayoutGate {
    /// The locked descriptor. Closing it releases the lock.
    _lock: OwnedFd,
    /// The content of the layout file. `None` if there is no layout file, so the directory is flat.
    pub(crate) record: Option<LayoutRecord>,
}

impl LayoutGate {
    /// Locks the gate and reads the layout file.
    pub(crate) fn enter(root: &LayoutRoot) -> Result<Self> {
        let path = root.join(reserved::NAME.as_bytes());
        let at = |error| Error::io(&path, error);
        let open = || root.file(reserved::NAME.as_bytes(), OFlags::RDONLY);
        loop {
            let Some(file) = open()? else {
                let lock = lock_root(root, LockShare::Shared)?;
                root.refresh_above(reserved::NAME.as_bytes());
                match open()? {
                    None => return Ok(Self { _lock: lock, record: None }),
                    Some(_) => continue,
                }
            };
            lock::acquire(&file, LockRange::TURNSTILE_AND_GATE, LockShare::Shared).map_err(at)?;
            lock::release(&file, LockRange::TURNSTILE).map_err(at)?;
            if is_there(&file).map_err(at)? {
                let record = Some(LayoutRecord::read(&file, &path)?);
                return Ok(Self { _lock: file.into(), record });
            }
        }
    }

    /// Returns the current content of the layout file.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is no layout file.
    pub(crate) fn layout(root: &LayoutRoot) -> Result<LayoutRecord> {
        Self::enter(root)?.record.ok_or_else(|| Error::Missing { root: root.path().to_owned() })
    }
}

/// Locks the root itself, until the returned descriptor is closed.
///
/// # Errors
/// [`Error::Locked`] if another process holds an exclusive lock for too long. Any process can do
/// so.
fn lock_root(root: &LayoutRoot, share: LockShare) -> Result<OwnedFd> {
    let at = |error| root.error(b"", error);
    let fd = root.directory(b"").map_err(at)?;
    let began = Instant::now();
    loop {
        match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockShared) {
            Ok(()) => break,
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if began.elapsed() < MAX_LOCK_WAIT => std::thread::sleep(LOCK_RETRY_PAUSE),
            Err(Errno::WOULDBLOCK) => return Err(Error::Locked { root: root.path().to_owned() }),
            Err(error) => return Err(at(error)),
        }
    }
    if share == LockShare::Exclusive {
        // The lock was not held exclusively a moment ago, and each process that shares the lock
        // releases it soon. With many writers that may take a while, so this wait has no limit.
        rustix::fs::flock(&fd, FlockOperation::LockExclusive).map_err(at)?;
    }
    Ok(fd)
}

/// The layout file, locked against conversions by other processes. Only one process converts or
/// mends at a time.
pub(crate) struct Conversion {
    file: File,
    path: PathBuf,
    pub(crate) record: LayoutRecord,
}

impl Conversion {
    /// Locks the layout for a process that converts or mends. `None` if there is no layout file.
    ///
    /// # Errors
    /// [`Error::Busy`] if another process holds the lock.
    pub(crate) fn begin(root: &LayoutRoot) -> Result<Option<Self>> {
        Self::open_locked(root, OFlags::RDWR, LockShare::Exclusive)
    }

    /// Locks the layout against conversions, for a caller that changes nothing. `None` if there is
    /// no layout file.
    pub(crate) fn watch(root: &LayoutRoot) -> Result<Option<Self>> {
        Self::open_locked(root, OFlags::RDONLY, LockShare::Shared)
    }

    fn open_locked(root: &LayoutRoot, flags: OFlags, share: LockShare) -> Result<Option<Self>> {
        let path = root.join(reserved::NAME.as_bytes());
        let at = |error| Error::io(&path, error);
        let Some(file) = root.file(reserved::NAME.as_bytes(), flags)? else { return Ok(None) };
        // The layout file has just been removed, so it is unknown what the directory is now. The
        // layout counts as busy.
        if !lock::try_acquire(&file, LockRange::CONVERSION, share).map_err(at)?
            || !is_there(&file).map_err(at)?
        {
            return Err(Error::Busy { root: root.path().to_owned() });
        }
        let record = LayoutRecord::read(&file, &path)?;
        Ok(Some(Self { file, path, record }))
    }

    /// Changes the layout file while no other process holds the gate.
    pub(crate) fn set(&mut self, record: LayoutRecord) -> Result<()> {
        if record == self.record {
            return Ok(());
        }
        self.run_alone(|this| record.write(&this.file, &this.path))?;
        self.record = record;
        Ok(())
    }

    /// Runs `work` while no other process holds the gate.
    pub(crate) fn run_alone<T>(&self, work: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        let at = |error| Error::io(&self.path, error);
        lock::acquire(&self.file, LockRange::TURNSTILE, LockShare::Exclusive).map_err(at)?;
        lock::acquire(&self.file, LockRange::GATE, LockShare::Exclusive).map_err(at)?;
        let done = work(self);
        lock::release(&self.file, LockRange::TURNSTILE_AND_GATE).map_err(at)?;
        done
    }
}

/// Returns whether an open file still has a name. `ESTALE` means that another machine has removed
/// it.
fn is_there(file: &File) -> io::Result<bool> {
    match rustix::fs::fstat(file) {
        Ok(stat) => Ok(stat.st_nlink > 0),
        Err(Errno::STALE) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Writes a new layout file and locks the layout for a conversion.
///
/// # Errors
/// [`Error::Busy`] if another process was first.
pub(crate) fn establish(root: &LayoutRoot, record: LayoutRecord) -> Result<Conversion> {
    let draft = reserved::staged_name(stage::number());
    let path = root.join(reserved::NAME.as_bytes());
    let name = reserved::NAME.as_bytes();
    // Errors name the layout file, because the draft's name means nothing to the user.
    let at_layout_file = |error: Error| error.at(&root.join(name));
    let _lock = lock_root(root, LockShare::Exclusive)?;
    let file = root.file(&draft, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL).map_err(at_layout_file)?;
    let file = file.ok_or_else(|| root.error(b"", Errno::NOENT))?;
    let given = root.access().give(&file, 0o666).map_err(|error| Error::io(&path, error));
    let named = given
        .and_then(|()| record.write(&file, &path))
        .and_then(|()| root.move_exclusively(record.scheme, &draft, name));
    match named {
        Ok(MoveResult::Done) => {}
        Ok(_) => {
            root.remove(&draft)?;
            return Err(Error::Busy { root: root.path().to_owned() });
        }
        Err(error) => {
            // The error of the removal is ignored: the first error is reported, and the draft is
            // later recognised as a temporary file.
            let _ = root.remove(&draft);
            return Err(error);
        }
    }
    root.sync_directory(b"")?;
    drop(file);
    Conversion::begin(root)?.ok_or_else(|| Error::Busy { root: root.path().to_owned() })
}
