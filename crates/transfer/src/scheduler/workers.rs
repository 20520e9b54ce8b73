//! Runs the worker threads. Each worker claims a task, calls the mover for the task's direction,
//! and reports the outcome.
//!
//! Worker `i` is active while `i` is below the limit. So changing the limit is enough to start or
//! pause workers.

use std::sync::Arc;
use std::thread::Scope;
use std::time::{Duration, Instant};

use firstbyte_location::{Location, Version, directory_of};
use firstbyte_pacing::Proximity;
use firstbyte_store::{STACK, StatedLength};

use super::queue::{ClaimedPiece, StartedObject, WorkerTask};
use super::{MAX_QUEUED_JOBS, PanicGuard, Role, Scheduler};
use crate::context::{Context, RunKind, Unchanged, add_relaxed, micros};
use crate::error::{Error, Failure, Result};
use crate::job::CopyJob;
use crate::job::ObjectCount;
use crate::pieces::{FinishOutcome, ObjectPieces, PendingPieces, StartOutcome};
use crate::report::{CompletedObject, OBJECTS};
use crate::request::Requester;
use crate::sources::MovedSources;
use crate::{download, named, relay, spool, upload};

impl Scheduler<'_> {
    /// Changes how many workers are active.
    pub(super) fn set_limit(&self, limit: usize) {
        if std::mem::replace(&mut self.queue.lock().limit, limit) != limit {
            self.raised.notify_all();
            self.work.notify_all();
        }
    }

    /// Starts worker `index`.
    pub(super) fn spawn<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, index: usize) -> Result<()> {
        std::thread::Builder::new()
            .name(format!("worker-{index}"))
            .stack_size(STACK)
            .spawn_scoped(scope, move || self.work(index))
            .map(drop)
            .map_err(Error::io("starting a thread"))
    }

    fn work(&self, index: usize) {
        let _guard = PanicGuard(self, Role::Worker);
        let mut requester = Requester::new(&self.context, index);
        while let Some(task) = self.next_task(index) {
            let began = Instant::now();
            match task {
                WorkerTask::Start(job) => self.start(&mut requester, *job),
                WorkerTask::Move(claimed) => self.move_piece(&mut requester, claimed),
            }
            add_relaxed(&self.context.meters.busy, micros(began.elapsed()));
            self.task_done();
        }
    }

    fn next_task(&self, index: usize) -> Option<WorkerTask> {
        let mut queue = self.queue.lock();
        loop {
            if self.context.has_ended() || self.is_over(&queue) {
                drop(queue);
                self.work.notify_all();
                self.raised.notify_all();
                return None;
            }
            let takes_part = index < queue.limit;
            let tracker = &self.context.tracker;
            let near = tracker.server() == Proximity::Near;
            if takes_part && let Some(task) = queue.claim(near, tracker.longest_request()) {
                queue.busy += 1;
                let room = queue.jobs() == MAX_QUEUED_JOBS / 2;
                drop(queue);
                if room {
                    self.room.notify_one();
                }
                return Some(task);
            }
            let signal = if takes_part { &self.work } else { &self.raised };
            queue = signal.wait(queue);
        }
    }

    fn task_done(&self) {
        add_relaxed(&self.context.meters.steps, 1);
        let mut queue = self.queue.lock();
        queue.busy -= 1;
        if self.is_over(&queue) {
            drop(queue);
            self.work.notify_all();
            self.raised.notify_all();
            self.attention.notify_one();
        }
    }

    fn start(&self, requester: &mut Requester<'_>, job: CopyJob) {
        self.context.observer.began(&job.source);
        let RunKind { sources, root, .. } = self.context.run_kind;
        let moved = sources.map_or(Ok(None), |sources| match sources.rename(&job, root)? {
            None => sources.prove_apart(&job).and_then(|()| sources.remove_other_name(&job, root)),
            done => Ok(done),
        });
        match moved {
            Ok(None) => {}
            Ok(Some(done)) => {
                job.destination.as_local().into_iter().for_each(|path| self.context.record_renamed(path));
                return self.count_completed(&job, done);
            }
            Err(error) => return self.record_object_failure(&job, error),
        }
        match self.is_skipped(&job) {
            Ok(false) => {}
            Ok(true) => {
                self.context.observer.skipped(&job.source);
                self.queue.lock().summary.skipped += 1;
                return;
            }
            Err(error) => return self.record_object_failure(&job, error),
        }
        let started = match (&job.source, &job.destination) {
            (_, Location::Local(path)) => download::start(requester, &job, path),
            (Location::Local(path), _) => upload::start(requester, &job, path),
            _ => relay::start(requester, &job),
        };
        self.handle_start(requester, job, started);
    }

    /// Returns whether the job of an object that was named by itself has to be skipped.
    fn is_skipped(&self, job: &CopyJob) -> Result<bool> {
        let Context { store, single, settings, run_kind, .. } = &self.context;
        let CopyJob { source, destination, .. } = job;
        Ok(run_kind.unchanged == Unchanged::Skipped
            && (!named::is_wanted(store, settings, source, destination)?
                || named::is_unchanged(single, settings, source, destination)?))
    }

    /// Copies an object up to the end of its bytes, because the source states a false length.
    fn start_to_end(&self, requester: &mut Requester<'_>, job: CopyJob) {
        let started = match &job.destination {
            Location::Local(path) => download::to_end(requester, &job, path),
            _ => spool::copy(requester, &job, StatedLength::Ignored),
        };
        match started {
            // This error is final. `handle_start` would make the same attempt again.
            Err(error) => self.record_object_failure(&job, error),
            started => self.handle_start(requester, job, started),
        }
    }

    fn handle_start(&self, requester: &mut Requester<'_>, job: CopyJob, started: Result<StartOutcome>) {
        match started {
            Err(error) if error.is_false_length() => self.start_to_end(requester, job),
            Ok(StartOutcome::Done(done)) => self.handle_completion(&job, done),
            Ok(StartOutcome::Split { object, pending, first }) => {
                let id = self.add_open(job, Arc::clone(&object), pending, u32::from(first.is_some()));
                match first {
                    Some(piece) => self.move_piece(requester, ClaimedPiece { id, object, piece }),
                    None => self.finish_if_last(requester, id),
                }
            }
            Err(error) => self.record_object_failure(&job, error),
        }
    }

    fn add_open(
        &self,
        job: CopyJob,
        object: Arc<dyn ObjectPieces>,
        pending: PendingPieces,
        running: u32,
    ) -> u64 {
        self.context.observer.started(&job.source, job.listed_size().unwrap_or(0));
        let mut queue = self.queue.lock();
        let id = queue.next_id;
        queue.next_id += 1;
        queue.open.push_back(StartedObject { id, job, object, pending, running, error: None });
        drop(queue);
        self.work.notify_all();
        self.attention.notify_one();
        id
    }

    fn move_piece(&self, requester: &mut Requester<'_>, claimed: ClaimedPiece) {
        let began = Instant::now();
        let result = claimed.object.move_piece(requester, claimed.piece);
        if result.is_ok() && claimed.object.part_length().is_some() {
            self.part_sent(began.elapsed());
        }
        {
            let mut queue = self.queue.lock();
            let Some(open) = queue.open.iter_mut().find(|open| open.id == claimed.id) else { return };
            open.running -= 1;
            if let Err(error) = result {
                open.pending = PendingPieces::default();
                // A failure of the object itself takes precedence over an interruption. Of several
                // failures, the first is reported, because the others follow from it.
                if open.error.as_ref().is_none_or(Error::ends_run) {
                    open.error = Some(error);
                }
            }
        }
        self.finish_if_last(requester, claimed.id);
    }

    /// Adjusts the limit on upload parts in flight to the time that one part took.
    fn part_sent(&self, took: Duration) {
        let mut queue = self.queue.lock();
        let parts = queue.parts_in_flight();
        let raised = queue.parts.finished(took, parts);
        drop(queue);
        // Workers that found no free part are waiting for this signal.
        if raised {
            self.work.notify_all();
        } else {
            self.work.notify_one();
        }
    }

    /// Finishes or abandons an object that no worker moves any more, once all of its pieces have
    /// been moved or the run has ended.
    fn finish_if_last(&self, requester: &mut Requester<'_>, id: u64) {
        let (object, error) = {
            let mut queue = self.queue.lock();
            let ended = self.context.has_ended();
            let Some(open) = queue.open.iter_mut().find(|open| open.id == id) else { return };
            if open.running > 0 || !(open.pending.is_empty() || ended) {
                return;
            }
            if ended {
                open.error.get_or_insert(Error::Interrupted);
            }
            // The object stays in the list, because `finish` may return pieces that have to be
            // moved again.
            open.running = 1;
            (Arc::clone(&open.object), open.error.take())
        };
        let outcome = match error {
            Some(error) => Err(error),
            None => object.finish(requester),
        };
        let mut queue = self.queue.lock();
        let Some(place) = queue.open.iter().position(|open| open.id == id) else { return };
        if let Ok(FinishOutcome::Again(pieces)) = outcome {
            queue.open[place].pending = pieces;
            queue.open[place].running = 0;
            drop(queue);
            self.work.notify_all();
            return;
        }
        let Some(open) = queue.open.remove(place) else { return };
        drop(queue);
        match outcome {
            Ok(FinishOutcome::Done(done)) => self.handle_completion(&open.job, done),
            Ok(FinishOutcome::Again(_)) => {}
            Err(error) => {
                object.abandon(self.context.store, &error);
                if error.is_false_length() {
                    return self.start_to_end(requester, open.job);
                }
                if error.ends_run() {
                    self.queue.lock().summary.kept_bytes += object.resumable_bytes();
                }
                self.record_object_failure(&open.job, error);
            }
        }
    }

    fn handle_completion(&self, job: &CopyJob, done: CompletedObject) {
        let RunKind { sources, root, .. } = self.context.run_kind;
        if let Some(Err(error)) = sources.map(|sources| sources.take_over(job, root)) {
            return self.record_object_failure(job, error);
        }
        let moved = sources.map(|sources| (sources, done.source_version().cloned()));
        self.count_completed(job, done);
        if let Some((sources, copied)) = moved {
            self.delete_source(sources, job, copied.as_ref());
        }
    }

    fn count_completed(&self, job: &CopyJob, done: CompletedObject) {
        tracing::info!(target: OBJECTS, source = %job.source, destination = %job.destination, bytes = done.bytes, "done");
        self.context.observer.finished(&job.source, &job.destination, done.bytes);
        let mut queue = self.queue.lock();
        if let (ObjectCount::Many | ObjectCount::Tree, Some(path)) =
            (self.context.run_kind.batch, job.destination.as_local())
        {
            queue.written.get_or_insert_with(|| directory_of(path).to_owned());
        }
        queue.summary.add_completed(done);
    }

    /// Deletes the source of a move after its copy is complete and on stable storage.
    fn delete_source(&self, sources: &MovedSources<'_>, job: &CopyJob, version: Option<&Version>) {
        match sources.delete(&job.source, version) {
            Ok(()) => add_relaxed(&self.context.meters.deleted, 1),
            Err(error) => self.record_failure(Failure { location: job.source.to_string(), error }),
        }
    }

    fn record_object_failure(&self, job: &CopyJob, error: Error) {
        self.record_failure(Failure { location: job.source.to_string(), error: job.explain(error) });
    }
}
