//! Hydration in the background: files, or parts of them, brought here in order.
//!
//! A job has one thread, which feeds fetches to the crew as fast as they are taken and sees what became of them; the
//! fetches are the crew's, and give way to readers. What is here already is not fetched, so a job that was ended goes on
//! where it was when it is given again.

mod work;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use firstbyte_location::Location;
use firstbyte_pacing::{RateLimit, Throttle};

use crate::cache::{Moment, Spare};
use crate::{Error, Hydrator, Result};

pub(crate) use work::Portion;

use crate::wanted::WantedList;

/// An object that was not brought here.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The object.
    pub location: Location,
    /// Why.
    pub error: Error,
}

/// How far a job is.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Files found so far.
    pub files: u64,
    /// Of those, files that are done.
    pub files_done: u64,
    /// Bytes wanted of the files found so far.
    pub bytes: u64,
    /// Of those, bytes that are here.
    pub bytes_here: u64,
    /// Of those, bytes that this job fetched.
    pub fetched: u64,
    /// Whether everything wanted has been found, so that the totals are final.
    pub is_counted: bool,
    /// Files that could not be brought here, and why.
    pub failed: Vec<Failure>,
    /// Time since the start, up to the end.
    pub elapsed: Duration,
    /// Whether it is over: done, failed or cancelled.
    pub is_over: bool,
}

/// A hydration under way, or over. Clones are the same job; dropping it does not end it.
#[derive(Clone)]
pub struct Job {
    pub(crate) state: Arc<JobState>,
}

/// What a job and its fetches share.
pub(crate) struct JobState {
    cancelled: AtomicBool,
    fetched: AtomicU64,
    started: Instant,
    /// What was used before may be evicted for the job, and what was used since not: so it never evicts what it has brought.
    spare: Spare,
    /// The limits on its rate: its own, and the engine's for all background work.
    throttle: Throttle,
    /// Fetches under way.
    running: AtomicUsize,
    progress: Mutex<Progress>,
    /// Something has ended.
    changed: Condvar,
}

impl Job {
    /// Begins to bring here what is `wanted`, in order, at `rate` bytes a second at most.
    pub(crate) fn start(hydrator: &Hydrator, wanted: WantedList, rate: Option<u64>) -> Result<Self> {
        let own = rate.map(|rate| Arc::new(RateLimit::new(rate)));
        let state = Arc::new(JobState {
            cancelled: AtomicBool::new(false),
            fetched: AtomicU64::new(0),
            started: Instant::now(),
            spare: Spare::UsedSince(Moment::now()),
            throttle: own.into_iter().chain(hydrator.background_limit()).collect(),
            running: AtomicUsize::new(0),
            progress: Mutex::default(),
            changed: Condvar::new(),
        });
        let job = Self { state: Arc::clone(&state) };
        let hydrator = hydrator.clone();
        let work = move || work::run(&hydrator, &state, wanted);
        let spawned = std::thread::Builder::new().name("hydrate".into()).spawn(work);
        spawned.map_err(|source| Error::Thread { source: Arc::new(source) })?;
        Ok(job)
    }

    /// How far it is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let progress = self.state.lock();
        let elapsed = if progress.is_over { progress.elapsed } else { self.state.started.elapsed() };
        Progress { fetched: self.state.fetched.load(Relaxed), elapsed, ..progress.clone() }
    }

    /// Ends it soon; what is here stays.
    pub fn cancel(&self) {
        self.state.cancelled.store(true, Relaxed);
        self.state.changed.notify_all();
    }

    /// Waits until it is over, `timeout` at most; returns how far it is.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> Progress {
        let until = Instant::now() + timeout;
        let mut progress = self.state.lock();
        while !progress.is_over {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            progress = self.state.wait(progress, left);
        }
        drop(progress);
        self.progress()
    }

    /// Waits until one of its fetches has ended, or it is over, `timeout` at most; returns how far it is. What ended a moment
    /// before the call is not waited for, so look yourself from time to time.
    #[must_use]
    pub fn wait_for_more(&self, timeout: Duration) -> Progress {
        let progress = self.state.lock();
        if !progress.is_over {
            drop(self.state.wait(progress, timeout));
        }
        self.progress()
    }
}

impl JobState {
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Relaxed)
    }

    /// Takes note of bytes fetched.
    fn fetched(&self, bytes: u64) {
        self.fetched.fetch_add(bytes, Relaxed);
        self.lock().bytes_here += bytes;
    }

    /// Whether another fetch may go out: under a limit no more connections than it needs, since each holds some bytes.
    fn has_room(&self) -> bool {
        self.throttle.connections().is_none_or(|enough| self.running.load(Relaxed) < enough)
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, progress: MutexGuard<'a, Progress>, most: Duration) -> MutexGuard<'a, Progress> {
        self.changed.wait_timeout(progress, most).unwrap_or_else(PoisonError::into_inner).0
    }
}
