//! One run: jobs in, pieces moved by workers, a summary out.
//!
//! Workers take pieces of objects already begun before they begin another object, so few large objects are open at
//! once and a tree of any size needs the memory of its workers. Worker `i` takes part while `i` is below the level:
//! raising or lowering the level starts and parks threads without asking them.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Scope;
use std::time::{Duration, Instant};

use firstbyte_location::{Location, S3Object};
use firstbyte_store::{Cancel, Durability, Error as StoreError, LocalFile, Metadata, Over, Privacy, Store};

use crate::engine::{Batch, Engine, Route, Throttles};
use crate::flight::Flights;
use crate::pieces::{Begun, Done, Finish, Pieces};
use crate::queue::{Open, Queue, Taken, Task};
use crate::tree::Copying;
use crate::worker::Worker;
use crate::{Error, Failure, Job, Observer, Result, Settings, Summary};

/// Jobs read ahead of the workers: enough that a page of a listing (1,000 names) is fetched while the one before moves.
const QUEUED: usize = 1_024;
/// A worker's stack. TLS and signing need some 100 KiB; pages not touched cost nothing.
const STACK: usize = 512 << 10;

/// What the workers count. Bytes of a resumed object that were there before are not moved.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    pub(crate) moved: AtomicU64,
    /// Objects and pieces finished: for work made of many small requests, the measure of throughput.
    pub(crate) steps: AtomicU64,
    pub(crate) resumed: AtomicU64,
    pub(crate) reread: AtomicU64,
    pub(crate) hedged: AtomicU64,
    pub(crate) slowdowns: AtomicU64,
    /// Microseconds from the start to the first byte; 0: none yet.
    pub(crate) first_byte: AtomicU64,
    /// Microseconds workers waited for heads, and were busy in all.
    pub(crate) head_wait: AtomicU64,
    pub(crate) busy: AtomicU64,
}

pub(crate) struct Run<'a> {
    pub(crate) store: &'a Store,
    /// Ends the run's requests, those of the listing that feeds it included.
    cancel: &'a Cancel,
    pub(crate) settings: &'a Settings,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) meters: Meters,
    pub(crate) flights: Flights,
    pub(crate) started: Instant,
    pub(crate) batch: Batch,
    pub(crate) route: Route,
    pub(crate) throttles: &'a Throttles,
    /// The tree that is copied, if it is one.
    tree: Option<&'a Copying<'a>>,
    /// Whether a bucket refuses everything, once that has been asked.
    shut_out: OnceLock<bool>,
    queue: Mutex<Queue>,
    /// Something to take, or nothing ever more.
    work: Condvar,
    /// The level rose.
    raised: Condvar,
    /// The queue of jobs has room.
    room: Condvar,
    /// The supervisor should look.
    pub(crate) attention: Condvar,
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        (store, cancel): (&'a Store, &'a Cancel),
        engine: &'a Engine,
        observer: &'a dyn Observer,
        most_workers: usize,
        batch: Batch,
        route: Route,
    ) -> Self {
        Self {
            store,
            cancel,
            settings: engine.settings(),
            observer,
            meters: Meters::default(),
            flights: Flights::new(most_workers),
            started: Instant::now(),
            batch,
            route,
            throttles: engine.throttles(),
            tree: None,
            shut_out: OnceLock::new(),
            queue: Mutex::default(),
            work: Condvar::new(),
            raised: Condvar::new(),
            room: Condvar::new(),
            attention: Condvar::new(),
        }
    }

    /// The same, over a tree.
    pub(crate) fn over(self, tree: Option<&'a Copying<'a>>) -> Self {
        Self { tree, ..self }
    }

    /// Opens the partial file of a job: in a tree beneath its root.
    pub(crate) fn open_partial(&self, job: &Job, path: &Path) -> firstbyte_store::Result<LocalFile> {
        let privacy = match job.source {
            Location::Local(_) => Privacy::Owner,
            _ => Privacy::Usual,
        };
        match self.tree.and_then(|tree| tree.beneath_of(path)) {
            Some((root, name)) => LocalFile::open_beneath(root, name, job.over, privacy),
            None => LocalFile::open(path, privacy),
        }
    }

    /// Puts a complete file in its place; a directory that it is to replace is removed just before.
    pub(crate) fn commit(
        &self,
        partial: LocalFile,
        over: Over,
        path: &Path,
        metadata: &Metadata,
        durability: Durability,
    ) -> Result<()> {
        if let (Over::Directory, Some(tree)) = (over, self.tree) {
            tree.make_way(path)?;
        }
        Ok(partial.commit(metadata, durability)?)
    }

    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that jobs are going to be fed; the run does not end before [`fed`](Self::fed).
    pub(crate) fn feeding(&self) {
        self.queue().feeding = true;
    }

    /// Adds a job, waiting for room. False once the run has ended: feed no more.
    pub(crate) fn feed(&self, job: Job) -> bool {
        let mut queue = self.queue();
        while queue.jobs() >= QUEUED && queue.ended.is_none() {
            queue = self.room.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        if queue.ended.is_some() {
            return false;
        }
        queue.add(job);
        drop(queue);
        self.work.notify_one();
        true
    }

    /// All jobs have been fed.
    pub(crate) fn fed(&self) {
        self.queue().feeding = false;
        self.work.notify_all();
        self.attention.notify_one();
    }

    /// Counts a failure; one that all the others would share ends the run.
    pub(crate) fn failed(&self, failure: Failure) {
        if failure.error.ends_run() {
            return self.end(failure.error);
        }
        if self.is_general(&failure.error) {
            return self.end(failure.error);
        }
        self.observer.failed(&failure);
        let summary = &mut self.queue().summary;
        summary.failures += 1;
        if summary.failed.len() < Summary::LISTED_FAILURES {
            summary.failed.push(failure);
        }
    }

    fn is_general(&self, error: &Error) -> bool {
        let Error::Store(error) = error else { return false };
        self.batch == Batch::Tree && (error.concerns_store() || self.is_shut_out(error))
    }

    /// Whether nothing was done so far, and who was refused one object may not even look at its bucket. That is one
    /// request more, once a run: of an object alone S3 does not tell how much else is refused.
    fn is_shut_out(&self, error: &StoreError) -> bool {
        let StoreError::Denied { location, .. } = error else { return false };
        let Ok(Location::S3(object)) = Location::parse(location.as_ref()) else { return false };
        if self.queue().summary.objects > 0 {
            return false;
        }
        let bucket = Location::S3(S3Object { key: String::new(), ..object });
        let denied = || matches!(self.store.stat(&bucket), Err(StoreError::Denied { .. }));
        *self.shut_out.get_or_init(denied)
    }

    /// Ends the run before its time. Where it has been stopped, that is the reason, not what follows from it.
    pub(crate) fn end(&self, error: Error) {
        let error = self.settings.stop.error().unwrap_or(error);
        self.queue().ended.get_or_insert(error);
        self.cancel.cancel();
        self.flights.cancel_all();
        self.work.notify_all();
        self.raised.notify_all();
        self.room.notify_all();
    }

    /// Whether the run was ended before its time; a stop asked for meanwhile ends it here.
    pub(crate) fn is_ended(&self) -> bool {
        let ended = self.queue().ended.is_some();
        match self.settings.stop.error() {
            Some(error) if !ended => {
                self.end(error);
                true
            }
            _ => ended,
        }
    }

    /// Changes the level.
    pub(crate) fn set_level(&self, level: usize) {
        self.queue().level = level;
        self.raised.notify_all();
        self.work.notify_all();
    }

    /// A part of an upload took so long: that tells how many there may be at once.
    pub(crate) fn part_sent(&self, took: Duration) {
        let mut queue = self.queue();
        let (before, under_way) = (queue.parts.most(), queue.parts_under_way());
        queue.parts.observe(under_way, took);
        let raised = queue.parts.most() > before;
        drop(queue);
        // Workers that found the limit reached wait for this.
        if raised {
            self.work.notify_all();
        } else {
            self.work.notify_one();
        }
    }

    /// Starts worker `index`.
    pub(crate) fn spawn<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, index: usize) -> Result<()> {
        std::thread::Builder::new()
            .name(format!("worker-{index}"))
            .stack_size(STACK)
            .spawn_scoped(scope, move || self.work(index))
            .map(drop)
            .map_err(Error::io("starting a thread"))
    }

    fn work(&self, index: usize) {
        let _guard = Unwinding(self, Role::Worker);
        let mut worker = Worker::new(self, index);
        while let Some(task) = self.next_task(index) {
            let began = Instant::now();
            match task {
                Task::Begin(job) => self.begin(&mut worker, job),
                Task::Move(taken) => self.move_pieces(&mut worker, taken),
            }
            self.meters.busy.fetch_add(micros(began.elapsed()), Ordering::Relaxed);
            self.task_done();
        }
    }

    fn next_task(&self, index: usize) -> Option<Task> {
        let mut queue = self.queue();
        loop {
            if queue.is_over() || queue.ended.is_some() {
                drop(queue);
                self.work.notify_all();
                self.raised.notify_all();
                return None;
            }
            let below = index < queue.level;
            if below && let Some(task) = queue.take(self.flights.distance()) {
                queue.busy += 1;
                let room = queue.jobs() == QUEUED / 2;
                drop(queue);
                if room {
                    self.room.notify_one();
                }
                return Some(task);
            }
            let bell = if below { &self.work } else { &self.raised };
            queue = bell.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn task_done(&self) {
        self.meters.steps.fetch_add(1, Ordering::Relaxed);
        let mut queue = self.queue();
        queue.busy -= 1;
        if queue.is_over() {
            drop(queue);
            self.work.notify_all();
            self.raised.notify_all();
            self.attention.notify_one();
        }
    }

    fn begin(&self, worker: &mut Worker<'_>, job: Job) {
        match worker.begin(&job) {
            Ok(Begun::Done(done)) => self.completed(&job, done),
            Ok(Begun::Split { object, pending, own }) => {
                let id = self.open(job, Arc::clone(&object), pending, u32::from(own.is_some()));
                match own {
                    Some(index) => self.move_pieces(worker, Taken { id, object, pieces: index..index + 1 }),
                    None => self.finish_if_last(worker, id),
                }
            }
            Err(error) => self.object_failed(&job, error),
        }
    }

    fn open(&self, job: Job, object: Arc<dyn Pieces>, pending: VecDeque<u32>, running: u32) -> u64 {
        let mut queue = self.queue();
        let id = queue.next_id;
        queue.next_id += 1;
        queue.open.push_back(Open { id, job, object, pending, running, error: None });
        drop(queue);
        self.work.notify_all();
        self.attention.notify_one();
        id
    }

    fn move_pieces(&self, worker: &mut Worker<'_>, taken: Taken) {
        let result = taken.object.move_pieces(worker, taken.pieces);
        {
            let mut queue = self.queue();
            let Some(open) = queue.open.iter_mut().find(|open| open.id == taken.id) else { return };
            open.running -= 1;
            if let Err(error) = result {
                open.pending.clear();
                // The first failure is the cause; others follow from it, as those do that it interrupted.
                if open.error.as_ref().is_none_or(Error::ends_run) {
                    open.error = Some(error);
                }
            }
        }
        self.finish_if_last(worker, taken.id);
    }

    /// Ends an object that has no pieces left. The last worker to leave it gets to do it.
    fn finish_if_last(&self, worker: &mut Worker<'_>, id: u64) {
        let (object, error) = {
            let mut queue = self.queue();
            let ended = queue.ended.is_some();
            let Some(open) = queue.open.iter_mut().find(|open| open.id == id) else { return };
            if open.running > 0 || !(open.pending.is_empty() || ended) {
                return;
            }
            if ended {
                open.error.get_or_insert(Error::Interrupted);
            }
            // It stays listed, with nothing to take, so that pieces to be moved again find it.
            open.running = 1;
            (Arc::clone(&open.object), open.error.take())
        };
        let outcome = match error {
            Some(error) => Err(error),
            None => object.finish(worker),
        };
        let mut queue = self.queue();
        let Some(place) = queue.open.iter().position(|open| open.id == id) else { return };
        if let Ok(Finish::Again(pieces)) = outcome {
            queue.open[place].pending = pieces;
            queue.open[place].running = 0;
            drop(queue);
            self.work.notify_all();
            return;
        }
        let Some(open) = queue.open.remove(place) else { return };
        drop(queue);
        match outcome {
            Ok(Finish::Done(done)) => self.completed(&open.job, done),
            Ok(Finish::Again(_)) => {}
            Err(error) => {
                object.abandon(self.store, &error);
                self.object_failed(&open.job, error);
            }
        }
    }

    fn completed(&self, job: &Job, done: Done) {
        self.observer.finished(&job.source, &job.destination, done.bytes);
        let mut queue = self.queue();
        if let (Batch::Many | Batch::Tree, Some(path)) = (self.batch, job.destination.as_local()) {
            queue.wrote.get_or_insert_with(|| path.to_owned());
        }
        queue.summary.complete(done);
    }

    /// Counts an object that was streamed.
    pub(crate) fn streamed(&self, done: Done) {
        self.queue().summary.complete(done);
    }

    /// A file that the batch has written.
    pub(crate) fn wrote(&self) -> Option<PathBuf> {
        self.queue().wrote.clone()
    }

    fn object_failed(&self, job: &Job, error: Error) {
        self.failed(Failure { location: job.source.to_string(), error });
    }

    /// Counts bytes found there from an earlier run.
    pub(crate) fn resumed(&self, bytes: u64) {
        self.meters.resumed.fetch_add(bytes, Ordering::Relaxed);
        self.observer.moved(bytes);
    }

    /// Counts bytes fetched or sent a second time.
    pub(crate) fn reread(&self, bytes: u64) {
        self.meters.reread.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that arrived.
    pub(crate) fn moved(&self, bytes: u64) {
        self.meters.moved.fetch_add(bytes, Ordering::Relaxed);
        self.observer.moved(bytes);
        if self.meters.first_byte.load(Ordering::Relaxed) == 0 {
            let at = micros(self.started.elapsed()).max(1);
            // Another worker may have been first: its time stands.
            let _ = self.meters.first_byte.compare_exchange(0, at, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Whether a rate is kept to: then silence may be ours.
    pub(crate) fn is_throttled(&self) -> bool {
        !self.throttles.reading.is_unlimited()
    }

    /// What was done; taken once, at the end. An object left over by the end of the run is abandoned.
    pub(crate) fn into_summary(self) -> Summary {
        let mut queue = self.queue.into_inner().unwrap_or_else(PoisonError::into_inner);
        for open in queue.open.drain(..) {
            open.object.abandon(self.store, &Error::Interrupted);
        }
        let first_byte = self.meters.first_byte.load(Ordering::Relaxed);
        Summary {
            seconds: self.started.elapsed().as_secs_f64(),
            first_byte_seconds: (first_byte > 0).then_some(first_byte as f64 / 1e6),
            hedged: self.meters.hedged.load(Ordering::Relaxed),
            resumed_bytes: self.meters.resumed.load(Ordering::Relaxed),
            reread_bytes: self.meters.reread.load(Ordering::Relaxed),
            ended: queue.ended,
            ..queue.summary
        }
    }
}

/// Ends the run of a thread that panics: the others would wait for it for ever, and the panic would never be seen.
pub(crate) struct Unwinding<'r, 'a>(pub(crate) &'r Run<'a>, pub(crate) Role);

/// What a thread does for its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Worker,
    Feeder,
}

impl Drop for Unwinding<'_, '_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        self.0.end(Error::Interrupted);
        match self.1 {
            Role::Worker => {
                let mut queue = self.0.queue();
                queue.busy = queue.busy.saturating_sub(1);
            }
            Role::Feeder => self.0.fed(),
        }
    }
}

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
