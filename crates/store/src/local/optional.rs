//! Calls that only improve a copy: locks, times, modes, syncs. File systems and sandboxes may
//! refuse them, and the copy goes on without.
//!
//! A call is tried until a file system refuses it, and not again there. Each refusal is kept as one
//! line for the user ([`refused_calls`]). The other modules of [`local`](super) call this.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix_futex_sync::Mutex;

use crate::syscall_refusal::is_refusal;

/// The gain of a call for a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Improvement {
    /// `flock`: resuming, which must be the only writer.
    Lock,
    /// `utimensat`.
    Time,
    /// `fchmod`.
    Mode,
    /// `fsync`, `fdatasync`.
    Sync,
    /// `fsync` of a directory.
    SyncDirectory,
}

impl Improvement {
    fn line(self) -> &'static str {
        match self {
            Self::Lock => "has no locks: an interrupted copy starts over there",
            Self::Time => "keeps no modification times: the next run may copy the same files again",
            Self::Mode => "keeps no permission bits",
            Self::Sync => "cannot sync files: a power failure may lose what was written last",
            Self::SyncDirectory => "cannot sync directories: a power failure may lose new names",
        }
    }
}

/// Refusals of file systems, by device.
static REFUSED: Mutex<BTreeMap<(Improvement, u64), Errno>> = Mutex::new(BTreeMap::new());
/// Whether anything has been refused: most runs look no further.
static ANY: AtomicBool = AtomicBool::new(false);

/// Calls `call` on an open file, unless its file system has refused that before. Returns `None` if
/// it does.
///
/// # Errors
/// Any error that is no refusal.
pub(crate) fn attempt<T>(
    improvement: Improvement,
    file: impl AsFd,
    call: impl FnOnce() -> Result<T, Errno>,
) -> Result<Option<T>, Errno> {
    let key = || rustix::fs::fstat(&file).map(|found| (improvement, found.st_dev));
    if ANY.load(Ordering::Relaxed) && REFUSED.lock().contains_key(&key()?) {
        return Ok(None);
    }
    match call() {
        Ok(done) => Ok(Some(done)),
        Err(error) if is_refusal(error) => {
            REFUSED.lock().insert(key()?, error);
            ANY.store(true, Ordering::Relaxed);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// What the file systems of this process's destinations have refused so far, a line each.
#[must_use]
pub fn refused_calls() -> Vec<String> {
    let lines = REFUSED
        .lock()
        .iter()
        .map(|((improvement, _), error)| (improvement.line(), *error))
        .collect::<BTreeMap<_, _>>();
    lines
        .into_iter()
        .map(|(line, error)| format!("the file system {line} ({})", std::io::Error::from(error)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_call_is_tried_once_and_other_errors_are_errors() {
        let file = tempfile::tempfile().unwrap();
        let mut tries = 0;
        for _ in 0..3 {
            let refused = attempt(Improvement::SyncDirectory, &file, || {
                tries += 1;
                Err::<(), _>(Errno::OPNOTSUPP)
            });
            assert_eq!(refused, Ok(None));
        }
        assert_eq!(tries, 1);
        assert_eq!(attempt(Improvement::Time, &file, || Ok(7)), Ok(Some(7)));
        assert_eq!(attempt(Improvement::Time, &file, || Err::<(), _>(Errno::IO)), Err(Errno::IO));
        let lines = refused_calls();
        assert!(lines.iter().any(|line| line.contains("cannot sync directories")), "{lines:?}");
    }
}
