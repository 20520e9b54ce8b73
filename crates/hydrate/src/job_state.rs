//! Holds the progress of a job and of each of its files. The job's thread and its fetches share
//! these values; callers get copies.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use firstbyte_location::Location;
use firstbyte_pacing::Throttle;
use rustix_futex_sync::{Condvar, Mutex, MutexGuard};

use crate::cache::{Exempt, Timestamp};
use crate::error::Error;
use crate::wanted::HydrationFailure;

/// The progress of a job.
#[derive(Clone, Debug, Default)]
pub struct HydrationProgress {
    /// Number of files found so far.
    pub files: u64,
    /// Number of files that are complete.
    pub files_done: u64,
    /// Wanted bytes of the files found so far.
    pub bytes: u64,
    /// Wanted bytes that are cached.
    pub bytes_here: u64,
    /// Number of bytes that this job has fetched.
    pub fetched: u64,
    /// True if all wanted files have been found, so the totals are final.
    pub totals_are_final: bool,
    /// Files that could not be fetched, with their errors.
    pub failed: Vec<HydrationFailure>,
    /// Time since the start of the job; if the job is over, its duration.
    pub elapsed: Duration,
    /// True if the job is over: complete, failed or cancelled.
    pub is_over: bool,
}

/// How fetches of a job continue while readers fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchPace {
    /// Without pauses.
    Steady,
    /// With pauses, until a sequential reader comes near the fetch.
    Yielding,
    /// With pauses, and so slowly that no reader should wait for the fetch.
    Limited,
}

/// The state that a job and its fetches share.
pub(crate) struct JobState {
    pub(crate) started: Instant,
    /// The versions that the job must not evict: pinned versions, and versions used since the job
    /// started, which include those that the job has fetched.
    pub(crate) exempt: Exempt,
    /// The limits on the job's rate: the job's own limit, and the engine's limit for all background
    /// work.
    pub(crate) throttle: Throttle,
    pace: FetchPace,
    is_cancelled: AtomicBool,
    fetched: AtomicU64,
    /// Number of fetches that were submitted and have not ended.
    running: AtomicUsize,
    progress: Mutex<HydrationProgress>,
    /// The object that the job has found last.
    found: Mutex<Option<Location>>,
    changed: Condvar,
}

impl JobState {
    /// Creates the state of a job whose fetches have the given `pace`. If the rate is limited, the
    /// pace is [`FetchPace::Limited`].
    pub(crate) fn new(throttle: Throttle, pace: FetchPace) -> Self {
        let pace = if throttle.is_unlimited() { pace } else { FetchPace::Limited };
        Self {
            started: Instant::now(),
            exempt: Exempt::UsedSince(Timestamp::now()),
            throttle,
            pace,
            is_cancelled: AtomicBool::new(false),
            fetched: AtomicU64::new(0),
            running: AtomicUsize::new(0),
            progress: Mutex::default(),
            found: Mutex::new(None),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn cancel(&self) {
        self.is_cancelled.store(true, Relaxed);
        self.changed.notify_all();
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Relaxed)
    }

    pub(crate) fn snapshot(&self) -> HydrationProgress {
        let progress = self.lock_progress();
        let elapsed = if progress.is_over { progress.elapsed } else { self.started.elapsed() };
        HydrationProgress { fetched: self.fetched.load(Relaxed), elapsed, ..progress.clone() }
    }

    pub(crate) fn fail(&self, failure: HydrationFailure) {
        let failure = HydrationFailure { error: failure.error.of_job(), ..failure };
        tracing::warn!(error = %failure.error, "not hydrated");
        self.lock_progress().failed.push(failure);
    }

    /// Remembers the object that the job has found last.
    pub(crate) fn note_found(&self, location: &Location) {
        *self.found.lock() = Some(location.clone());
    }

    /// Ends the job after its thread has panicked: callers that wait for the job get an error.
    pub(crate) fn end_panicked(&self) {
        self.cancel();
        let location = self.found.lock().take().unwrap_or_else(|| Location::Local(PathBuf::from("/")));
        let error = Error::Panicked { location: location.to_string() };
        self.fail(HydrationFailure { location, error });
        self.end(self.lock_progress());
    }

    pub(crate) fn end(&self, mut progress: MutexGuard<'_, HydrationProgress>) {
        progress.is_over = true;
        progress.elapsed = self.started.elapsed();
        self.changed.notify_all();
    }

    /// Returns whether another fetch may be submitted. With a rate limit, the job uses no more
    /// connections than the rate needs, because each connection receives some bytes before the
    /// limit stops it.
    pub(crate) fn may_submit(&self) -> bool {
        self.throttle.connections().is_none_or(|enough| self.running.load(Relaxed) < enough)
    }

    pub(crate) fn lock_progress(&self) -> MutexGuard<'_, HydrationProgress> {
        self.progress.lock()
    }

    /// Waits until the progress changes or `timeout` has passed.
    pub(crate) fn wait<'a>(
        &self,
        progress: MutexGuard<'a, HydrationProgress>,
        timeout: Duration,
    ) -> MutexGuard<'a, HydrationProgress> {
        self.changed.wait_timeout(progress, timeout).0
    }
}

/// The state that the fetches of one file of a job share.
pub(crate) struct JobFile {
    job: Arc<JobState>,
    /// Number of fetches that were submitted and have not ended.
    running: AtomicUsize,
    /// Number of bytes of the file that the job has counted as cached.
    counted: AtomicU64,
    error: Mutex<Option<Error>>,
    /// True if `error` is set.
    has_failed: AtomicBool,
    /// True if the first fetch should request the checksum of the whole object.
    is_checksum_wanted: AtomicBool,
}

impl JobFile {
    /// Creates the state of a file of which `cached` bytes are already cached.
    pub(crate) fn new(job: Arc<JobState>, cached: u64, is_checksum_wanted: bool) -> Self {
        Self {
            job,
            running: AtomicUsize::new(0),
            counted: AtomicU64::new(cached),
            error: Mutex::default(),
            has_failed: AtomicBool::new(false),
            is_checksum_wanted: AtomicBool::new(is_checksum_wanted),
        }
    }

    /// Returns whether the rest of the file is no longer wanted: the job was cancelled, or the file
    /// has failed.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.has_failed() || self.job.is_cancelled()
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Relaxed)
    }

    /// Returns the versions that are not evicted to make room for the file.
    pub(crate) fn exempt(&self) -> Exempt {
        self.job.exempt
    }

    /// Returns the limits on the rate of the file's fetches.
    pub(crate) fn throttle(&self) -> &Throttle {
        &self.job.throttle
    }

    /// Returns how fast the file's fetches continue while readers fetch.
    pub(crate) fn pace(&self) -> FetchPace {
        self.job.pace
    }

    /// Returns whether the job may submit another fetch.
    pub(crate) fn may_submit(&self) -> bool {
        self.job.may_submit()
    }

    /// Returns whether the calling fetch should request the checksum of the whole object. Returns
    /// true only once; the other fetches do not wait for that request.
    pub(crate) fn take_checksum_request(&self) -> bool {
        self.is_checksum_wanted.swap(false, Relaxed)
    }

    /// Returns the number of bytes of the file that the job has counted as cached.
    pub(crate) fn counted(&self) -> u64 {
        self.counted.load(Relaxed)
    }

    /// Counts a submitted fetch.
    pub(crate) fn count_submission(&self) {
        self.running.fetch_add(1, Relaxed);
        self.job.running.fetch_add(1, Relaxed);
    }

    /// Counts the bytes of a block that a fetch has brought.
    pub(crate) fn count_received(&self, bytes: u64) {
        self.counted.fetch_add(bytes, Relaxed);
        self.job.fetched.fetch_add(bytes, Relaxed);
        self.job.lock_progress().bytes_here += bytes;
    }

    /// Fails the file because the cache had no room for a block. Further blocks of the file would
    /// be discarded too.
    pub(crate) fn fail_without_room(&self, location: &Location, capacity: Option<u64>) {
        self.fail(Error::NoRoom { location: location.to_string(), capacity });
    }

    /// Counts a fetch that has ended.
    pub(crate) fn count_end(&self, error: Option<Error>) {
        if let Some(error) = error {
            self.fail(error);
        }
        let _progress = self.job.lock_progress();
        self.running.fetch_sub(1, Relaxed);
        self.job.running.fetch_sub(1, Relaxed);
        self.job.changed.notify_all();
    }

    /// Returns whether no fetch is running.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.load(Relaxed) == 0
    }

    /// Clears the error before the file is tried again.
    pub(crate) fn forget_error(&self) {
        *self.error.lock() = None;
        self.has_failed.store(false, Relaxed);
    }

    pub(crate) fn error(&self) -> Option<Error> {
        self.error.lock().clone()
    }

    fn fail(&self, error: Error) {
        self.error.lock().get_or_insert(error);
        self.has_failed.store(true, Relaxed);
    }
}
