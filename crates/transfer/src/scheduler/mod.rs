//! Runs jobs to their end: a feeder fills the queue, workers move objects, and a supervisor decides
//! how many workers are active. The engine calls this.
//!
//! Workers take pieces of started objects before they start another object. So only a few large
//! objects are open at the same time, and memory depends on the number of workers and not on the
//! size of the tree.

mod limits;
mod queue;
mod supervisor;
mod workers;

use std::sync::OnceLock;

use firstbyte_location::{Location, shown};
use firstbyte_pacing::PartLimit;
use firstbyte_store::{Durability, Error as StoreError, PAGE};
use rustix_futex_sync::{Condvar, Mutex};

use crate::bottleneck::Baseline;
use crate::context::{CallScope, Context, RunKind, load_relaxed};
use crate::error::{Error, Failure, Result};
use crate::job::ObjectCount;
use crate::job::{CopyJob, CopyJobs};
use crate::report::CompletedObject;
use crate::report::{Observer, Summary};
use crate::settings::Concurrency;
use crate::stream;

use limits::RunLimits;
use queue::Queue;

/// Maximum number of jobs in the queue: a page. While the objects of one page of a listing move,
/// the next page is fetched.
const MAX_QUEUED_JOBS: usize = PAGE;

/// The jobs of one run and the threads that work on them.
pub(crate) struct Scheduler<'a> {
    context: Context<'a>,
    limits: RunLimits,
    /// True if access to the whole bucket is denied. Not set until the bucket was asked.
    denied: OnceLock<bool>,
    queue: Mutex<Queue>,
    /// Signalled when there is a task, or when no more tasks will come.
    work: Condvar,
    /// Signalled when more workers may be active.
    raised: Condvar,
    /// Signalled when the number of queued jobs drops below its limit.
    room: Condvar,
    /// Signalled when the supervisor should check the run before its next tick.
    attention: Condvar,
}

impl<'a> Scheduler<'a> {
    /// Creates a run of jobs.
    pub(crate) fn new(scope: &'a CallScope<'a>, observer: &'a dyn Observer, run_kind: RunKind<'a>) -> Self {
        Self::with_limits(scope, observer, run_kind, RunLimits::of_jobs(scope, run_kind))
    }

    /// Creates a run without jobs. A stream uses it, and starts its own threads.
    pub(crate) fn of_stream(
        scope: &'a CallScope<'a>,
        observer: &'a dyn Observer,
        run_kind: RunKind<'a>,
    ) -> Self {
        Self::with_limits(scope, observer, run_kind, RunLimits::fixed(stream::workers(scope.settings)))
    }

    fn with_limits(
        scope: &'a CallScope<'a>,
        observer: &'a dyn Observer,
        run_kind: RunKind<'a>,
        limits: RunLimits,
    ) -> Self {
        let parts = match scope.settings.concurrency {
            Concurrency::Auto => PartLimit::measuring(),
            Concurrency::Fixed(_) => PartLimit::none(),
        };
        Self {
            context: Context::new(scope, observer, run_kind, limits.workers),
            denied: OnceLock::new(),
            queue: Mutex::new(Queue::feeding(limits.max_pieces, parts)),
            limits,
            work: Condvar::new(),
            raised: Condvar::new(),
            room: Condvar::new(),
            attention: Condvar::new(),
        }
    }

    pub(crate) fn run(self, jobs: &mut CopyJobs<'_>) -> Result<Summary> {
        let baseline = Baseline::now();
        let capped = std::thread::scope(|scope| {
            let run = &self;
            if run.context.run_kind.batch == ObjectCount::One {
                run.feed_all(jobs);
            } else {
                let feeder = std::thread::Builder::new().name("feeder".into());
                let fed = feeder.spawn_scoped(scope, move || run.feed_all(jobs));
                fed.map_err(Error::io("starting a thread"))?;
            }
            supervisor::supervise(run, scope).inspect_err(|_| run.end(Error::Interrupted))
        })?;
        self.sync_file_system()?;
        let bound_by = baseline.judge(&self.context, capped && self.limits.is_limited_by_memory);
        Ok(Summary { bound_by, ..self.into_summary() })
    }

    /// Runs a stream to its end.
    pub(crate) fn run_stream(
        self,
        stream: impl FnOnce(&Context<'_>) -> Result<CompletedObject> + Send,
    ) -> Result<Summary> {
        let baseline = Baseline::now();
        let (result, supervised) = std::thread::scope(|scope| {
            let run = &self;
            let started = std::thread::Builder::new().name("stream".into()).spawn_scoped(scope, move || {
                let _guard = PanicGuard(run, Role::Feeder);
                let result = stream(&run.context);
                run.all_jobs_added();
                result
            });
            let thread = match started {
                Ok(thread) => thread,
                Err(error) => return (Err(Error::io("starting a thread")(error)), Ok(false)),
            };
            let supervised = supervisor::supervise(run, scope);
            (thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), supervised)
        });
        if result.is_err() {
            // The error may be a consequence of a stop that was not noticed yet. This call notices
            // it.
            self.context.is_ended();
        }
        let bound_by = baseline.judge(&self.context, false);
        let mut summary = Summary { bound_by, ..self.into_summary() };
        if let Some(ended) = summary.ended.take() {
            return Err(ended);
        }
        supervised?;
        summary.add_completed(result?);
        Ok(summary)
    }

    fn feed_all(&self, jobs: &mut CopyJobs<'_>) {
        let _guard = PanicGuard(self, Role::Feeder);
        for job in jobs {
            let goes_on = match job {
                Ok(job) => self.feed(job),
                Err(failure) => {
                    self.record_failure(failure);
                    !self.context.is_ended()
                }
            };
            if !goes_on {
                break;
            }
        }
        self.all_jobs_added();
    }

    /// Adds a job as soon as the queue has room. Returns false if the run has ended.
    fn feed(&self, job: CopyJob) -> bool {
        let mut queue = self.queue.lock();
        while queue.jobs() >= MAX_QUEUED_JOBS && !self.context.has_ended() {
            queue = self.room.wait(queue);
        }
        if self.context.has_ended() {
            return false;
        }
        queue.add(job);
        drop(queue);
        self.work.notify_one();
        true
    }

    /// Records that all jobs have been added.
    fn all_jobs_added(&self) {
        self.queue.lock().is_feeding = false;
        self.context.observer.listed();
        self.work.notify_all();
        self.attention.notify_one();
    }

    /// Returns whether no worker has a task and none will get one.
    fn is_over(&self, queue: &Queue) -> bool {
        queue.busy == 0 && (self.context.has_ended() || queue.is_exhausted())
    }

    /// Wakes every thread of the run, so that it sees that the run has ended.
    fn wake_all(&self) {
        // A thread that has just found the run unfinished under the lock may not be waiting yet.
        // Taking the lock here ensures that it waits, and is woken.
        let _queue = self.queue.lock();
        self.work.notify_all();
        self.raised.notify_all();
        self.room.notify_all();
    }

    fn end(&self, error: Error) {
        self.context.end(error);
        self.wake_all();
    }

    /// Counts a failure. If the same failure would affect all other objects, ends the run instead.
    fn record_failure(&self, failure: Failure) {
        if failure.error.ends_run() || self.is_general(&failure.error) {
            return self.end(failure.error);
        }
        self.context.observer.failed(&failure);
        self.queue.lock().summary.fail(failure);
    }

    fn is_general(&self, error: &Error) -> bool {
        let is_tree = self.context.run_kind.batch == ObjectCount::Tree;
        if error.is_full() && self.context.run_kind.batch != ObjectCount::One {
            return true;
        }
        let Error::Store(error) = error else { return is_tree && error.concerns_places() };
        is_tree && (error.concerns_store() || self.is_bucket_denied(error))
    }

    /// Returns whether the denial of one object means that access to its whole bucket is denied. S3
    /// does not say so, so the bucket is asked once per run, and only if no object has been copied.
    fn is_bucket_denied(&self, error: &StoreError) -> bool {
        let StoreError::Denied { location, .. } = error else { return false };
        let Ok(Location::Object(object)) = Location::parse(location.as_ref()) else { return false };
        if self.queue.lock().summary.objects > 0 {
            return false;
        }
        let bucket = Location::Object(object.with_key(""));
        let denied = || matches!(self.context.store.stat(&bucket), Err(StoreError::Denied { .. }));
        *self.denied.get_or_init(denied)
    }

    /// Makes the files of a run durable. One `syncfs` takes less time than an `fsync` of each file.
    fn sync_file_system(&self) -> Result<()> {
        if self.context.settings.durability == Durability::None {
            return Ok(());
        }
        let Some(path) = self.queue.lock().written.take() else { return Ok(()) };
        let file = std::fs::File::open(&path).map_err(Error::io(shown(&path)))?;
        match rustix::fs::syncfs(&file).map_err(std::io::Error::from) {
            // The older call syncs all file systems.
            Err(error) if firstbyte_store::is_refused(&error) => {
                rustix::fs::sync();
                Ok(())
            }
            synced => synced.map_err(Error::io("syncing the file system")),
        }
    }

    /// Creates the summary, and abandons the objects that the early end of the run has left open.
    fn into_summary(self) -> Summary {
        let mut queue = self.queue.into_inner();
        for open in queue.open.drain(..) {
            open.object.abandon(self.context.store, &Error::Interrupted);
            queue.summary.kept_bytes += open.object.resumable_bytes();
        }
        let meters = &self.context.meters;
        let first_byte = load_relaxed(&meters.first_byte);
        // A stop that comes after the only object is complete has stopped nothing.
        let is_done = self.context.run_kind.batch == ObjectCount::One && queue.summary.objects > 0;
        Summary {
            seconds: self.context.started.elapsed().as_secs_f64(),
            first_byte_seconds: (first_byte > 0).then_some(first_byte as f64 / 1e6),
            hedged: load_relaxed(&meters.hedged),
            resumed_bytes: load_relaxed(&meters.resumed_bytes),
            reread_bytes: load_relaxed(&meters.reread_bytes),
            deleted: load_relaxed(&meters.deleted),
            ended: self.context.into_reason().filter(|_| !is_done),
            ..queue.summary
        }
    }
}

/// A guard that ends the run if its thread panics, so that the other threads do not wait for it.
struct PanicGuard<'r, 'a>(&'r Scheduler<'a>, Role);

/// The role of a thread in its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Worker,
    Feeder,
}

impl Drop for PanicGuard<'_, '_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        self.0.end(Error::Interrupted);
        match self.1 {
            Role::Worker => {
                let mut queue = self.0.queue.lock();
                queue.busy = queue.busy.saturating_sub(1);
            }
            Role::Feeder => self.0.all_jobs_added(),
        }
    }
}
