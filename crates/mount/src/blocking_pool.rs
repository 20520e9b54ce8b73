//! Runs calls that wait on a network in a pool of threads, so that the few threads that serve the
//! kernel never wait.
//!
//! A job is run by an idle thread, or by a new one while there are fewer than [`MAX_THREADS`];
//! otherwise it queues. Idle threads end after a while. If a job misses its deadline, its request
//! is answered without the job's result: see [`BlockingPool::run_with_deadline`].

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use firstbyte_store::STACK;
use rustix_futex_sync::{Condvar, Mutex};

/// Maximum number of concurrent jobs. With a round trip of 30 ms, this many jobs answer 2,000
/// lookups per second, which is more than should be sent to one endpoint.
const MAX_THREADS: usize = 64;
/// Time after which an idle thread ends.
const IDLE_TIME: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct BlockingPoolState {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    /// Pending answers with their deadlines, in order of the deadlines. All deadlines are equally
    /// long, so this is the order in which the jobs were added.
    pending_answers: VecDeque<(Instant, Weak<dyn Overdue>)>,
    is_watched: bool,
    /// True if the thread that watches the deadlines sleeps without a timeout, and has to be woken.
    is_dormant: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<BlockingPoolState>,
    work: Condvar,
    watch: Condvar,
}

/// A pool of threads. Clones share the threads.
#[derive(Clone)]
pub(crate) struct BlockingPool {
    shared: Arc<Shared>,
    deadline: Duration,
}

/// A reply that is sent once: either by the job, with its result, or at the deadline, with an
/// error.
struct Answer<R> {
    reply: Mutex<Option<R>>,
    overdue: Box<dyn Fn(R) + Send + Sync>,
}

trait Overdue: Send + Sync {
    fn overdue(&self);
}

impl<R: Send> Overdue for Answer<R> {
    fn overdue(&self) {
        if let Some(reply) = self.take() {
            (self.overdue)(reply);
        }
    }
}

impl<R> Answer<R> {
    fn take(&self) -> Option<R> {
        self.reply.lock().take()
    }
}

impl BlockingPool {
    /// Creates a pool for jobs that have to be answered within `deadline`.
    pub(crate) fn new(deadline: Duration) -> Self {
        Self { shared: Arc::default(), deadline }
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Runs `work` on a thread of the pool, then `answer` with `reply` and the result. If the
    /// deadline passes first, runs `overdue` with `reply` instead.
    pub(crate) fn run_with_deadline<R: Send + 'static, T: 'static>(
        &self,
        reply: R,
        work: impl FnOnce() -> T + Send + 'static,
        answer: impl FnOnce(R, T) + Send + 'static,
        overdue: impl Fn(R) + Send + Sync + 'static,
    ) {
        let pending = Arc::new(Answer { reply: Mutex::new(Some(reply)), overdue: Box::new(overdue) });
        let watched: Arc<dyn Overdue> = pending.clone();
        self.watch(Arc::downgrade(&watched));
        self.run(move || {
            let done = work();
            if let Some(reply) = pending.take() {
                answer(reply, done);
            }
        });
    }

    /// Runs `job` as soon as a thread is free.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        let mut state = self.shared.state.lock();
        state.jobs.push_back(Box::new(job));
        if state.idle >= state.jobs.len() || state.threads >= MAX_THREADS {
            drop(state);
            self.shared.work.notify_one();
            return;
        }
        state.threads += 1;
        drop(state);
        let shared = Arc::clone(&self.shared);
        let thread = thread::Builder::new().name("waiter".into()).stack_size(STACK);
        if let Err(error) = thread.spawn(move || shared.work()) {
            let mut state = self.shared.state.lock();
            state.threads -= 1;
            let alone = state.threads == 0;
            drop(state);
            tracing::warn!("no thread for an operation: {error}");
            if alone {
                // No thread can be started, so the caller runs the job.
                self.shared.work_off();
            }
        }
    }

    fn watch(&self, overdue: Weak<dyn Overdue>) {
        let mut state = self.shared.state.lock();
        // Entries whose answers were sent are removed here. On a busy mount, they would otherwise
        // accumulate until their deadlines.
        while state.pending_answers.front().is_some_and(|(_, answer)| answer.strong_count() == 0) {
            state.pending_answers.pop_front();
        }
        state.pending_answers.push_back((Instant::now() + self.deadline, overdue));
        if !state.is_watched {
            let shared = Arc::clone(&self.shared);
            // The stack is small, because the thread only sends replies.
            let thread = thread::Builder::new().name("deadlines".into()).stack_size(128 << 10);
            state.is_watched = thread.spawn(move || shared.keep_deadlines()).is_ok();
        }
        if std::mem::take(&mut state.is_dormant) {
            self.shared.watch.notify_one();
        }
    }
}

impl Shared {
    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            while let Some(job) = state.jobs.pop_front() {
                drop(state);
                job();
                state = self.state.lock();
            }
            state.idle += 1;
            let (woken, waited) = self.work.wait_timeout(state, IDLE_TIME);
            state = woken;
            state.idle -= 1;
            if waited.timed_out() && state.jobs.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }

    fn work_off(&self) {
        loop {
            let Some(job) = self.state.lock().jobs.pop_front() else { return };
            job();
        }
    }

    fn keep_deadlines(&self) {
        let mut state = self.state.lock();
        loop {
            let now = Instant::now();
            match state.pending_answers.front().map(|(due, _)| *due) {
                Some(due) if due <= now => {
                    let answer = state.pending_answers.pop_front().and_then(|(_, answer)| answer.upgrade());
                    drop(state);
                    answer.inspect(|answer| answer.overdue());
                    state = self.state.lock();
                }
                Some(due) => {
                    state = self.watch.wait_timeout(state, due - now).0;
                }
                None => {
                    state.is_dormant = true;
                    state = self.watch.wait(state);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use firstbyte_testkit::wait_limit;

    use super::*;

    #[test]
    fn many_jobs_that_wait_run_at_the_same_time_and_the_rest_follow() {
        let pool = BlockingPool::new(Duration::from_secs(60));
        let (send, receive) = mpsc::channel();
        let gate = Arc::new((Mutex::new(0), Condvar::new()));
        for _ in 0..3 * MAX_THREADS {
            let (gate, send) = (Arc::clone(&gate), send.clone());
            pool.run(move || {
                // Each job waits until the pool has started all the threads it may have.
                let mut arrived = gate.0.lock();
                *arrived += 1;
                gate.1.notify_all();
                while *arrived < MAX_THREADS {
                    arrived = gate.1.wait(arrived);
                }
                send.send(()).unwrap();
            });
        }
        for _ in 0..3 * MAX_THREADS {
            receive.recv_timeout(wait_limit()).expect("a job that never ran");
        }
    }

    #[test]
    fn what_takes_too_long_is_answered_once_and_without_its_job() {
        let pool = BlockingPool::new(Duration::from_millis(20));
        let (send, receive) = mpsc::channel();
        let (release, held) = mpsc::channel::<()>();
        let reply = send.clone();
        pool.run_with_deadline(
            reply,
            move || held.recv(),
            |reply, _| reply.send("done").unwrap(),
            |reply| reply.send("late").unwrap(),
        );
        assert_eq!(receive.recv_timeout(wait_limit()), Ok("late"));
        release.send(()).unwrap();
        pool.run_with_deadline(send, || (), |reply, ()| reply.send("done").unwrap(), |_| panic!("not late"));
        assert_eq!(receive.recv_timeout(wait_limit()), Ok("done"));
        assert_eq!(receive.recv_timeout(wait_limit()), Err(mpsc::RecvTimeoutError::Disconnected));
    }
}
