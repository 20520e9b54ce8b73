//! Implements a work-stealing pool: each worker has a queue, and steals from the others when its
//! own is empty.
//!
//! A worker takes its newest job first. So the listing goes deep before wide, and few jobs wait. A
//! thief takes the older half of a queue: these jobs are the larger ones, so it takes longest until
//! the owner is disturbed again. Each queue has a lock, which is taken by its owner and, rarely, by
//! one thief. The lock costs about 20 ns; a directory costs 5 us or more. Another worker is
//! requested only while jobs wait and no worker sleeps, so a small listing requests none.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix_futex_sync::{Condvar, Mutex};

/// Jobs, and the workers that share them.
pub(crate) struct ScanPool<J> {
    queues: Vec<Mutex<VecDeque<J>>>,
    /// Number of jobs in queues.
    waiting: AtomicUsize,
    /// Number of jobs that are in queues or running. At 0 there can be no further jobs.
    unfinished: AtomicUsize,
    /// Number of workers that have begun.
    enlisted: AtomicUsize,
    sleeping: AtomicUsize,
    /// Locked from the last check of `waiting` until the worker sleeps, so that no push is missed
    /// in between.
    sleep_lock: Mutex<()>,
    wake: Condvar,
    stopped: AtomicBool,
}

impl<J> ScanPool<J> {
    /// Makes a pool for at most `workers` workers. The first worker counts as begun.
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            queues: (0..workers.max(1)).map(|_| Mutex::default()).collect(),
            waiting: AtomicUsize::new(0),
            unfinished: AtomicUsize::new(0),
            enlisted: AtomicUsize::new(1),
            sleeping: AtomicUsize::new(0),
            sleep_lock: Mutex::new(()),
            wake: Condvar::new(),
            stopped: AtomicBool::new(false),
        }
    }

    /// Adds a job to the worker's own queue, and wakes a sleeping worker for it.
    pub(crate) fn push(&self, worker: usize, job: J) {
        self.unfinished.fetch_add(1, Ordering::SeqCst);
        self.waiting.fetch_add(1, Ordering::SeqCst);
        self.queues[worker].lock().push_back(job);
        if self.sleeping.load(Ordering::SeqCst) > 0 {
            drop(self.sleep_lock.lock());
            self.wake.notify_one();
        }
    }

    /// Returns the index of a worker to start, if there is work for one more.
    pub(crate) fn enlist(&self) -> Option<usize> {
        if self.waiting.load(Ordering::Relaxed) == 0 || self.sleeping.load(Ordering::Relaxed) > 0 {
            return None;
        }
        let more = |begun| (begun < self.queues.len()).then_some(begun + 1);
        self.enlisted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()
    }

    /// Takes a job for the worker: the newest in its own queue, or one stolen from another queue.
    /// `None` if no job waits, or the pool was stopped.
    pub(crate) fn take(&self, worker: usize) -> Option<J> {
        if self.is_stopped() {
            return None;
        }
        let own = self.queues[worker].lock().pop_back();
        let job = own.or_else(|| self.steal(worker))?;
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        Some(job)
    }

    /// Takes a job. Sleeps until there is one. `None` when all jobs are finished or the pool was
    /// stopped.
    pub(crate) fn wait(&self, worker: usize) -> Option<J> {
        loop {
            if let Some(job) = self.take(worker) {
                return Some(job);
            }
            let sleep_lock = self.sleep_lock.lock();
            self.sleeping.fetch_add(1, Ordering::SeqCst);
            let over = self.unfinished.load(Ordering::SeqCst) == 0 || self.is_stopped();
            if !over && self.waiting.load(Ordering::SeqCst) == 0 {
                drop(self.wake.wait(sleep_lock));
            }
            self.sleeping.fetch_sub(1, Ordering::SeqCst);
            if over {
                return None;
            }
        }
    }

    /// Marks a taken job as done. The jobs that follow from it must have been pushed before.
    pub(crate) fn finish(&self) {
        if self.unfinished.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.wake_all();
        }
    }

    /// Stops every worker after its current job.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.wake_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    fn wake_all(&self) {
        drop(self.sleep_lock.lock());
        self.wake.notify_all();
    }

    /// Moves the older half of another worker's queue to this worker's queue. Returns one of the
    /// moved jobs instead of queueing it.
    fn steal(&self, worker: usize) -> Option<J> {
        let count = self.queues.len();
        for victim in (1..count).map(|step| (worker + step) % count) {
            let mut stolen: VecDeque<J> = {
                let mut queue = self.queues[victim].lock();
                let half = queue.len().div_ceil(2);
                queue.drain(..half).collect()
            };
            if let Some(job) = stolen.pop_back() {
                // This worker's queue was empty, and no other worker adds to it, so the jobs stay
                // in order.
                self.queues[worker].lock().extend(stolen);
                return Some(job);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
