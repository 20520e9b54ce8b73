//! The values that the movers of one run (`download`, `upload`, `relay`, `spool`, `stream`) share:
//! store, settings, meters, rate limits and the request tracker.
//!
//! A mover uses the context and never the scheduler that called it. The context also holds the
//! reason for which the run ended early. Once [`Context::is_ended`] is true, it stays so, and every
//! request stops.

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

/// Counters of the workers.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    /// Bytes that arrived in this run.
    pub(crate) moved: AtomicU64,
    /// Bytes of files sent in this run, counted while they are sent; those of repeated requests
    /// again.
    pub(crate) sent: AtomicU64,
    /// Objects and pieces finished: the measure of throughput if requests are small.
    pub(crate) steps: AtomicU64,
    pub(crate) resumed: AtomicU64,
    pub(crate) reread: AtomicU64,
    pub(crate) hedged: AtomicU64,
    pub(crate) slowdowns: AtomicU64,
    /// Files deleted: those of replaced directories, and the sources of moves.
    pub(crate) deleted: AtomicU64,
    /// Microseconds from the start to the first byte; 0 before it.
    pub(crate) first_byte: AtomicU64,
    /// Microseconds workers waited for the heads of answers.
    pub(crate) head_wait: AtomicU64,
    /// Microseconds workers had work.
    pub(crate) busy: AtomicU64,
}

pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

pub(crate) fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// The rate limits of an engine's runs, one for each direction. Relayed bytes count in both.
#[derive(Clone, Debug)]
pub(crate) struct Throttles {
    pub(crate) reading: Throttle,
    pub(crate) writing: Throttle,
}

/// The parts of an engine that one call uses.
pub(crate) struct CallScope<'a> {
    /// The engine's store, whose requests end with this call's run.
    pub(crate) store: Store,
    pub(crate) cancel: Cancel,
    pub(crate) settings: &'a TransferSettings,
    pub(crate) throttles: &'a Throttles,
}

/// The kind of a run: its scale, its route, and its local root.
#[derive(Clone, Copy)]
pub(crate) struct RunKind<'a> {
    pub(crate) batch: ObjectCount,
    pub(crate) route: TransferRoute,
    /// The destination of a tree, if it is local.
    pub(crate) root: Option<&'a LocalRoot<'a>>,
    /// Deletes the sources of a move.
    pub(crate) sources: Option<&'a MovedSources<'a>>,
    pub(crate) unchanged: Unchanged,
}

/// The treatment of jobs whose destination is already complete. The jobs of a tree were compared
/// when they were listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unchanged {
    Copied,
    Skipped,
}

impl RunKind<'_> {
    /// A run over one object.
    pub(crate) fn of_one(route: TransferRoute) -> Self {
        Self { batch: ObjectCount::One, route, root: None, sources: None, unchanged: Unchanged::Copied }
    }
}

pub(crate) struct Context<'a> {
    pub(crate) store: &'a Store,
    /// The store without its own retries, for requests that the request loop repeats.
    pub(crate) single: Store,
    /// Ends the run's requests, those of its listings included.
    cancel: &'a Cancel,
    pub(crate) settings: &'a TransferSettings,
    pub(crate) throttles: &'a Throttles,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) run_kind: RunKind<'a>,
    pub(crate) meters: Meters,
    pub(crate) tracker: RequestTracker<Cancel>,
    pub(crate) started: Instant,
    /// Device and inode of the files that a run over named objects has written: two sources can
    /// have one destination under different names.
    written: Mutex<HashSet<(u64, u64)>>,
    /// The reason for which the run ended early.
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

    /// Ends the run early. If the run was stopped, that is the reason; `error` only follows from
    /// it.
    pub(crate) fn end(&self, error: Error) {
        let error = self.settings.stop.error().unwrap_or(error);
        // The first reason stays.
        let _ = self.ended.set(error);
        self.cancel.cancel();
        self.tracker.cancel_all();
    }

    /// Whether the run was ended early. A stop takes effect here.
    pub(crate) fn is_ended(&self) -> bool {
        if self.has_ended() {
            return true;
        }
        let stopped = self.settings.stop.error();
        let ended = stopped.is_some();
        stopped.into_iter().for_each(|error| self.end(error));
        ended
    }

    /// As [`is_ended`](Self::is_ended), but does not check for a stop.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.get().is_some()
    }

    /// The reason for which the run ended early.
    pub(crate) fn into_reason(self) -> Option<Error> {
        self.ended.into_inner()
    }

    /// Sleeps, but not past the end of the run.
    pub(crate) fn pause(&self, mut pause: Duration) {
        while !pause.is_zero() && !self.is_ended() {
            let step = pause.min(POLL_INTERVAL);
            std::thread::sleep(step);
            pause -= step;
        }
    }

    /// Opens the partial file of a job's destination `path`; in a tree, beneath its root.
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
            // A killed copy may hold the lock for a moment.
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

    /// Renames a complete file to its destination. A directory in its place is removed just before.
    pub(crate) fn commit(
        &self,
        partial: LocalFile,
        over: ReplaceKind,
        path: &Path,
        stat: &Stat,
        durability: Durability,
    ) -> Result<()> {
        if let (ReplaceKind::Directory, Some(root)) = (over, self.run_kind.root) {
            add(&self.meters.deleted, root.remove_replaced(path)?);
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

    /// Notes a file that was renamed to its destination.
    pub(crate) fn renamed(&self, path: &Path) {
        if self.run_kind.batch == ObjectCount::Many {
            self.written.lock().extend(identity(path));
        }
    }

    /// The durability of a small file by itself. Many files are made durable together, at the end.
    pub(crate) fn durability_of_small(&self) -> Durability {
        match (self.run_kind.batch, self.settings.durability) {
            (ObjectCount::Many | ObjectCount::Tree, Durability::Data) => Durability::None,
            (_, durability) => durability,
        }
    }

    /// Bytes that have moved, those of writes in flight included.
    pub(crate) fn moved_so_far(&self) -> u64 {
        load(&self.meters.moved).max(load(&self.meters.sent))
    }

    /// Counts bytes that an earlier run has moved.
    pub(crate) fn resumed(&self, bytes: u64) {
        add(&self.meters.resumed, bytes);
        self.observer.moved(bytes);
    }

    /// Counts bytes fetched or sent a second time.
    pub(crate) fn reread(&self, bytes: u64) {
        add(&self.meters.reread, bytes);
    }

    /// Counts bytes that arrived.
    pub(crate) fn moved(&self, bytes: u64) {
        add(&self.meters.moved, bytes);
        self.observer.moved(bytes);
        if load(&self.meters.first_byte) == 0 {
            let at = micros(self.started.elapsed()).max(1);
            // If another worker was first, its time stands.
            let _ = self.meters.first_byte.compare_exchange(0, at, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// Device and inode of the entry at `path`, not of a link's target.
fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
