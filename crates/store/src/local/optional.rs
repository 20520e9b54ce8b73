//! Makes the system calls that only improve a copy: locks, times, modes, syncs. If a file system or
//! a sandbox refuses one of them, the copy continues without it.
//!
//! A call is tried on each file system until that file system refuses it for the first time. Each
//! refusal is remembered, and shown to the user as one line ([`refused_calls`]). The other modules
//! of [`local`](super) use this module. Writes over SFTP report refusing hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix_futex_sync::Mutex;

use crate::syscall_refusal::is_refusal;

/// The property of a copy that an optional call improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Improvement {
    /// A single writer per file, by `flock`. Resuming a copy requires it.
    Lock,
    /// The modification time, by `utimensat`.
    Time,
    /// The permission bits, by `fchmod`.
    Mode,
    /// Content on stable storage, by `fsync` or `fdatasync`.
    Sync,
    /// Names on stable storage, by `fsync` of a directory.
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

/// The refused calls, each with the device of the file system that refused it.
static REFUSED: Mutex<BTreeMap<(Improvement, u64), Errno>> = Mutex::new(BTreeMap::new());
/// True if any call was refused. While it is false, calls need no lookup in [`REFUSED`].
static ANY_REFUSED: AtomicBool = AtomicBool::new(false);

/// The hosts that have refused to set the mode and time of a file over SFTP.
static REFUSING_HOSTS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Remembers that a host keeps neither modes nor times.
pub(crate) fn add_refusing_host(host: &str) {
    let mut hosts = REFUSING_HOSTS.lock();
    if !hosts.contains(host) {
        hosts.insert(host.to_owned());
    }
}

/// Runs `call` on an open file, unless the file system of this file has refused the same call
/// before. Returns `None` if the call is refused.
///
/// # Errors
/// Any error that is not a refusal.
pub(crate) fn attempt<T>(
    improvement: Improvement,
    file: impl AsFd,
    call: impl FnOnce() -> Result<T, Errno>,
) -> Result<Option<T>, Errno> {
    let key = || rustix::fs::fstat(&file).map(|found| (improvement, found.st_dev));
    if ANY_REFUSED.load(Ordering::Relaxed) && REFUSED.lock().contains_key(&key()?) {
        return Ok(None);
    }
    match call() {
        Ok(done) => Ok(Some(done)),
        Err(error) if is_refusal(error) => {
            REFUSED.lock().insert(key()?, error);
            ANY_REFUSED.store(true, Ordering::Relaxed);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Returns the calls that the file systems and hosts of this process's destinations have refused,
/// one line per call.
#[must_use]
pub fn refused_calls() -> Vec<String> {
    let lines = REFUSED
        .lock()
        .iter()
        .map(|((improvement, _), error)| (improvement.line(), *error))
        .collect::<BTreeMap<_, _>>();
    let lines = lines
        .into_iter()
        .map(|(line, error)| format!("the file system {line} ({})", std::io::Error::from(error)));
    let hosts = REFUSING_HOSTS.lock().clone();
    let hosts = hosts
        .into_iter()
        .map(|host| format!("{host} keeps no modes and times: the next run may copy the same files again"));
    lines.chain(hosts).collect()
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
