//! Holds the values that the movers of one run (`download`, `upload`, `relay`, `spool`, `stream`)
//! share: store, settings, meters, rate limits and the request tracker.
//!
//! A mover uses the context, and never the scheduler that called the mover. The context also has
//! the reason why the run has ended early. Once [`Context::is_ended`] returns true, it returns true
//! forever, and every request stops.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use firstbyte_location::shown;
use firstbyte_pacing::{RequestTracker, Throttle};
use firstbyte_store::{
    Cancel, Durability, Error as StoreError, LocalFile, Metadata, POLL_INTERVAL, PartialPermissions,
    ReplaceKind, SHORT_WAIT, Stat, Store,
};
use rustix_futex_sync::Mutex;

use crate::error::{Error, Result};
use crate::job::CopyJob;
use crate::job::{ObjectCount, TransferRoute};
use crate::local_root::LocalRoot;
use crate::report::Observer;
use crate::settings::TransferSettings;
use crate::sources::MovedSources;

/// Counters that all workers of a run share.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    /// Number of bytes that have arrived in this run.
    pub(crate) moved: AtomicU64,
    /// Number of bytes of files sent in this run, counted while they are sent. Bytes of repeated
    /// requests count again.
    pub(crate) sent: AtomicU64,
    /// Number of objects and pieces that are complete. If requests are small, this number measures
    /// the throughput, and not the number of bytes.
    pub(crate) steps: AtomicU64,
    /// Number of bytes that an interrupted run had moved and this run could use.
    pub(crate) resumed_bytes: AtomicU64,
    /// Number of bytes fetched or sent a second time.
    pub(crate) reread_bytes: AtomicU64,
    pub(crate) hedged: AtomicU64,
    pub(crate) slowdowns: AtomicU64,
    /// Number of files deleted: files in replaced directories, and sources of moves.
    pub(crate) deleted: AtomicU64,
    /// Microseconds from the start to the first byte; 0 until then.
    pub(crate) first_byte: AtomicU64,
    /// Microseconds in which workers waited for the heads of responses.
    pub(crate) head_wait: AtomicU64,
    /// Microseconds in which workers had work.
    pub(crate) busy: AtomicU64,
}

pub(crate) fn add_relaxed(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

pub(crate) fn load_relaxed(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// The rate limits that an engine's runs share, one for each direction. Relayed bytes count in both
/// directions.
#[derive(Clone, Debug)]
pub(crate) struct Throttles {
    pub(crate) reading: Throttle,
    pub(crate) writing: Throttle,
}

/// The parts of an engine that one call uses.
pub(crate) struct CallScope<'a> {
    /// The engine's store. Its requests end when the run of this call ends.
    pub(crate) store: Store,
    pub(crate) cancel: Cancel,
    pub(crate) settings: &'a TransferSettings,
    pub(crate) throttles: &'a Throttles,
}

/// Kind of a run: the number of objects, the kinds of locations, and the local root.
#[derive(Clone, Copy)]
pub(crate) struct RunKind<'a> {
    pub(crate) batch: ObjectCount,
    pub(crate) route: TransferRoute,
    /// The destination of a tree, if the destination is local.
    pub(crate) root: Option<&'a LocalRoot<'a>>,
    /// Deletes the sources of a move. `None` for copies.
    pub(crate) sources: Option<&'a MovedSources<'a>>,
    pub(crate) unchanged: Unchanged,
}

/// Treatment of a job whose destination is already complete. Jobs of a tree were compared when
/// they were listed, so they are always copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unchanged {
    Copied,
    Skipped,
}

impl RunKind<'_> {
    /// Returns the kind of a run that copies one object.
    pub(crate) fn of_one(route: TransferRoute) -> Self {
        Self { batch: ObjectCount::One, route, root: None, sources: None, unchanged: Unchanged::Copied }
    }
}

pub(crate) struct Context<'a> {
    pub(crate) store: &'a Store,
    /// The store without retries of its own, for requests that the request loop repeats.
    pub(crate) single: Store,
    /// Cancels all requests of the run, including the requests of its listings.
    cancel: &'a Cancel,
    pub(crate) settings: &'a TransferSettings,
    pub(crate) throttles: &'a Throttles,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) run_kind: RunKind<'a>,
    pub(crate) meters: Meters,
    pub(crate) tracker: RequestTracker<Cancel>,
    pub(crate) started: Instant,
    /// Device and inode of each file that a run over named objects has written. They reveal a
    /// second source whose destination is another name of the same file.
    written: Mutex<HashSet<(u64, u64)>>,
    /// The reason why the run has ended early.
    ended: OnceLock<Error>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(
        scope: &'a CallScope<'a>,
        observer: &'a dyn Observer,
        run_kind: RunKind<'a>,
        workers: usize,
    ) -> Self {
        Self {
            store: &scope.store,
            single: scope.store.without_retries(),
            cancel: &scope.cancel,
            settings: scope.settings,
            throttles: scope.throttles,
            observer,
            run_kind,
            meters: Meters::default(),
            tracker: RequestTracker::new(workers, Instant::now()),
            started: Instant::now(),
            written: Mutex::default(),
            ended: OnceLock::new(),
        }
    }

    /// Ends the run early. The reason is `error`, unless the run was stopped: then `error` is only
    /// a consequence of the stop.
    pub(crate) fn end(&self, error: Error) {
        let error = self.settings.stop.error().unwrap_or(error);
        // If a reason is already set, it stays.
        let _ = self.ended.set(error);
        self.cancel.cancel();
        self.tracker.cancel_all();
    }

    /// Returns whether the run has ended early. If a stop was requested, this call ends the run.
    pub(crate) fn is_ended(&self) -> bool {
        if self.has_ended() {
            return true;
        }
        let stopped = self.settings.stop.error();
        let ended = stopped.is_some();
        stopped.into_iter().for_each(|error| self.end(error));
        ended
    }

    /// Returns whether the run has ended early, like [`is_ended`](Self::is_ended), but without
    /// checking for a stop.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.get().is_some()
    }

    /// Returns the reason why the run has ended early.
    pub(crate) fn into_reason(self) -> Option<Error> {
        self.ended.into_inner()
    }

    /// Sleeps for `pause`, but no longer than until the run ends.
    pub(crate) fn pause(&self, mut pause: Duration) {
        while !pause.is_zero() && !self.is_ended() {
            let step = pause.min(POLL_INTERVAL);
            std::thread::sleep(step);
            pause -= step;
        }
    }

    /// Opens the partial file for a job's destination `path`. If the job is part of a tree, opens
    /// it beneath the tree's root.
    pub(crate) fn open_partial(
        &self,
        job: &CopyJob,
        path: &Path,
        privacy: PartialPermissions,
    ) -> Result<LocalFile> {
        let open = || {
            let beneath = self.run_kind.root.and_then(|root| root.open_partial(path, job.over, privacy));
            beneath.unwrap_or_else(|| LocalFile::open(path, privacy))
        };
        let started = Instant::now();
        loop {
            // A copy that was just killed may keep the lock for a moment.
            match open() {
                Err(StoreError::Io { source, .. })
                    if source.kind() == ErrorKind::WouldBlock && started.elapsed() < SHORT_WAIT =>
                {
                    std::thread::sleep(POLL_INTERVAL);
                }
                other => return Ok(other?),
            }
        }
    }

    /// Renames a complete file to its destination. If a directory is in its place, the directory is
    /// removed just before.
    pub(crate) fn commit(
        &self,
        partial: LocalFile,
        over: ReplaceKind,
        path: &Path,
        stat: &Stat,
        durability: Durability,
    ) -> Result<()> {
        if let (ReplaceKind::Directory, Some(root)) = (over, self.run_kind.root) {
            add_relaxed(&self.meters.deleted, root.remove_replaced(path)?);
        }
        let metadata = Metadata { modified: stat.modified, ..stat.metadata.clone() };
        if self.run_kind.batch != ObjectCount::Many {
            return Ok(partial.commit(&metadata, durability)?);
        }
        let mut written = self.written.lock();
        if identity(path).is_some_and(|found| written.contains(&found)) {
            partial.discard()?;
            let why = "this run has written it from another source already; give the two different names";
            return Err(StoreError::InvalidName { location: shown(path).to_string(), why: why.into() }.into());
        }
        partial.commit(&metadata, durability)?;
        written.extend(identity(path));
        Ok(())
    }

    /// Records a file that was renamed to its destination, in a run over named objects.
    pub(crate) fn record_renamed(&self, path: &Path) {
        if self.run_kind.batch == ObjectCount::Many {
            self.written.lock().extend(identity(path));
        }
    }

    /// Returns the durability with which a small file is committed. A run over many files makes
    /// their data durable together, at its end.
    pub(crate) fn durability_of_small(&self) -> Durability {
        match (self.run_kind.batch, self.settings.durability) {
            (ObjectCount::Many | ObjectCount::Tree, Durability::Data) => Durability::None,
            (_, durability) => durability,
        }
    }

    /// Returns the number of bytes that have moved, including the bytes of writes in flight that
    /// were sent.
    pub(crate) fn moved_so_far(&self) -> u64 {
        load_relaxed(&self.meters.moved).max(load_relaxed(&self.meters.sent))
    }

    /// Counts bytes that an earlier run has moved.
    pub(crate) fn count_resumed(&self, bytes: u64) {
        add_relaxed(&self.meters.resumed_bytes, bytes);
        self.observer.moved(bytes);
    }

    /// Counts bytes that are fetched or sent a second time.
    pub(crate) fn count_reread(&self, bytes: u64) {
        add_relaxed(&self.meters.reread_bytes, bytes);
    }

    /// Counts bytes that have arrived, or that a server has accepted.
    pub(crate) fn record_moved(&self, bytes: u64) {
        add_relaxed(&self.meters.moved, bytes);
        self.observer.moved(bytes);
        if load_relaxed(&self.meters.first_byte) == 0 {
            let at = micros(self.started.elapsed()).max(1);
            // If another worker has set the time first, that time stays.
            let _ = self.meters.first_byte.compare_exchange(0, at, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// Returns the device and inode of the entry at `path`. If the entry is a link, describes the link
/// itself.
fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
