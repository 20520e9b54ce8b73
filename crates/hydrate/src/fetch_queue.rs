//! Runs fetches on threads, taking them from queues.
//!
//! A thread is started when a fetch is queued and no thread is idle; it ends when it has been idle
//! for a while. Fetches on demand start first. Fetches ahead start in order of their distance from
//! the reader, so that a distant fetch does not delay another reader. Background fetches start
//! last. The [`Controller`] decides how many fetches ahead and in the background run at the same
//! time.
//!
//! All running fetches fit into the memory of the queue. Fetches ahead leave some of it for fetches
//! on demand, and background fetches leave some for fetches ahead. A small object needs a small
//! buffer, so more small objects are fetched at once: their fetches mostly wait for round trips.
//!
//! Block tables create the fetches, and readers and jobs submit them.

mod background_throttle;
mod queues;
mod receive;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use firstbyte_location::to_usize;
use firstbyte_pacing::{Controller, LONGEST_REQUEST, Observation, Proximity, ReadSizes, Work, request_share};
use firstbyte_store::{KEEP_IDLE, STACK, Store, THREAD_MEMORY, most_requests};
use rustix_futex_sync::{Condvar, Mutex, MutexGuard};

use crate::block_table::{Fetch, FetchId, Priority, Requests};
use crate::counters::HydrationCounters;
use crate::error::Error;
use queues::{Queues, RESERVED_FETCHES, WHOLE_BLOCK_MEMORY, memory_of};
use receive::FetchMeters;

/// Once the queued background fetches have this many bytes together, no more are queued. A fast
/// network moves them in some 20 ms.
const ENOUGH_QUEUED_BYTES: u64 = LONGEST_REQUEST;

/// The threads that fetch, and their queues.
pub(crate) struct FetchQueue {
    queues: Mutex<Queues>,
    /// Wakes idle threads.
    work: Condvar,
    /// Wakes the supervisor.
    busy: Condvar,
    /// Maximum number of threads.
    max_threads: usize,
    store: Store,
    deadline: Duration,
    counters: Arc<HydrationCounters>,
    meters: FetchMeters,
}

impl FetchQueue {
    /// Creates a queue whose threads and buffers use at most `memory` bytes, or as much as a few
    /// fetches need if that is more. Reads fail after `deadline`. Starts no thread.
    pub(crate) fn new(
        store: Store,
        memory: u64,
        deadline: Duration,
        counters: Arc<HydrationCounters>,
    ) -> Self {
        let memory = memory.max((RESERVED_FETCHES + 1) * WHOLE_BLOCK_MEMORY);
        let max_threads = to_usize(memory / THREAD_MEMORY).min(most_requests());
        let queues = Queues { free_slots: (0..max_threads).collect(), ..Queues::new(memory) };
        Self {
            queues: Mutex::new(queues),
            work: Condvar::new(),
            busy: Condvar::new(),
            max_threads,
            store,
            deadline,
            counters,
            meters: FetchMeters::new(max_threads),
        }
    }
}

impl FetchQueue {
    /// Queues new fetches by priority, promotes queued fetches to demand priority, and registers
    /// the reads with a callback, which fail at their deadlines.
    pub(crate) fn submit(self: &Arc<Self>, requests: Requests) {
        let Requests { fetches, promoted, watched } = requests;
        if fetches.is_empty() && promoted.is_empty() && watched.is_empty() {
            return;
        }
        let waits = |fetch: &&Fetch| fetch.priority != Priority::Demand;
        let waiting: Vec<_> =
            fetches.iter().filter(waits).map(|fetch| (Arc::clone(&fetch.table), fetch.id)).collect();
        let mut queues = self.queues.lock();
        fetches.into_iter().for_each(|fetch| queues.push(fetch));
        promoted.into_iter().for_each(|id| queues.promote(id));
        queues.watch(&watched);
        self.wake(&mut queues);
        self.run_on_this_thread(queues);
        // A reader may have joined a fetch before it was queued, and could not promote it then.
        let joined = waiting.into_iter().filter(|(table, id)| table.has_demand_priority(*id));
        let promoted: Vec<FetchId> = joined.map(|(_, id)| id).collect();
        self.submit(Requests { promoted, ..Requests::default() });
    }

    /// Returns the number of bytes that a background fetch should request if `rest` bytes of its
    /// file are still to be fetched.
    pub(crate) fn background_request(&self, rest: u64) -> u64 {
        request_share(rest, self.concurrency(), self.meters.tracker.longest_request())
    }

    /// Returns whether another background fetch could start now, or fewer are queued than a fast
    /// network needs. The queue is kept short, because a fetch gets its size when it is queued, and
    /// the best size changes. Before the first response, a fetch is queued only if it could start
    /// at once.
    pub(crate) fn has_room_in_background(&self) -> bool {
        let is_known = self.server() != Proximity::Unknown;
        let queues = self.queues.lock();
        let waiting = queues.background.len();
        let bytes = || queues.background.iter().map(Fetch::bytes).sum::<u64>();
        waiting < queues.room_in_background()
            || (is_known && waiting < queues.concurrency.max(1) && bytes() < ENOUGH_QUEUED_BYTES)
    }

    /// Returns the measured distance of the server.
    pub(crate) fn server(&self) -> Proximity {
        self.meters.tracker.server()
    }

    /// Returns the measured sizes of requests for readers.
    pub(crate) fn read_sizes(&self) -> ReadSizes {
        self.meters.tracker.read_sizes()
    }

    /// Returns the bytes per second of one connection, if they are known.
    pub(crate) fn rate(&self) -> Option<u64> {
        self.meters.tracker.rate()
    }

    /// Returns the number of requests that may run at once, not counting those on demand.
    pub(crate) fn concurrency(&self) -> usize {
        self.queues.lock().concurrency
    }

    /// Prevents the queue from starting threads from now on.
    #[cfg(test)]
    pub(crate) fn prevent_new_threads(&self) {
        self.queues.lock().free_slots.clear();
    }

    /// Closes the queue: no more work will be submitted, so idle threads end.
    pub(crate) fn close(&self) {
        self.queues.lock().is_closed = true;
        self.work.notify_all();
        self.busy.notify_all();
    }

    /// Wakes or starts a thread for each queued fetch that may start now.
    fn wake(self: &Arc<Self>, queues: &mut Queues) {
        let mut wanted = queues.startable_count().saturating_sub(queues.woken + queues.starting);
        while wanted > 0 && queues.idle > 0 {
            queues.idle -= 1;
            queues.woken += 1;
            self.work.notify_one();
            wanted -= 1;
        }
        for _ in 0..wanted {
            let Some(slot) = queues.free_slots.pop() else { break };
            let pool = Arc::clone(self);
            let name = format!("fetch-{slot}");
            let spawned = thread::Builder::new().name(name).stack_size(STACK).spawn(move || pool.work(slot));
            if let Err(error) = spawned {
                queues.free_slots.push(slot);
                tracing::warn!(%error, threads = queues.threads, "no further thread");
                queues.has_no_thread = queues.threads == 0;
                break;
            }
            queues.threads += 1;
            queues.starting += 1;
        }
        self.watch(queues);
    }

    /// Runs queued fetches on the caller's thread if the queue has no thread and cannot start one,
    /// because the fetches would never run otherwise. Ends as soon as a thread could be started.
    fn run_on_this_thread<'q>(self: &'q Arc<Self>, mut queues: MutexGuard<'q, Queues>) {
        if !std::mem::take(&mut queues.has_no_thread) {
            return;
        }
        let Some(slot) = queues.free_slots.pop() else { return };
        let mut buffer = Vec::new();
        // The caller counts as a thread, so other callers leave their fetches to it.
        queues.threads += 1;
        while queues.threads == 1
            && let Some(fetch) = queues.next()
        {
            queues = self.run(queues, fetch, slot, &mut buffer);
            self.wake(&mut queues);
        }
        queues.threads -= 1;
        queues.free_slots.push(slot);
    }

    fn run<'q>(
        self: &'q Arc<Self>,
        mut queues: MutexGuard<'q, Queues>,
        fetch: Fetch,
        slot: usize,
        buffer: &mut Vec<u8>,
    ) -> MutexGuard<'q, Queues> {
        let (priority, memory) = (fetch.priority, memory_of(&fetch));
        queues.count_start(priority, memory);
        // The end of a fetch may make room for several others.
        self.wake(&mut queues);
        drop(queues);
        receive::run(self, fetch, slot, buffer);
        let mut queues = self.queues.lock();
        queues.count_end(priority, memory);
        queues
    }

    /// Starts or wakes the supervisor.
    fn watch(self: &Arc<Self>, queues: &mut Queues) {
        if queues.is_supervised {
            if std::mem::take(&mut queues.is_dormant) {
                self.busy.notify_one();
            }
            return;
        }
        let pool = Arc::clone(self);
        let spawned =
            thread::Builder::new().name("watch".into()).stack_size(STACK).spawn(move || pool.supervise());
        queues.is_supervised = spawned.is_ok();
    }

    fn work(self: Arc<Self>, slot: usize) {
        let mut buffer = Vec::new();
        let mut queues = self.queues.lock();
        queues.starting -= 1;
        loop {
            if let Some(fetch) = queues.next() {
                queues = self.run(queues, fetch, slot, &mut buffer);
                continue;
            }
            if queues.is_closed || !queues.can_idle(&mut buffer) {
                break;
            }
            queues.idle += 1;
            let (next, wait) = self.work.wait_timeout(queues, KEEP_IDLE);
            queues = next;
            if !queues.count_resumed_thread() && wait.timed_out() {
                break;
            }
        }
        queues.threads -= 1;
        queues.free_slots.push(slot);
    }

    /// Cuts off silent requests, applies the concurrency that the controller chooses, and fails
    /// reads at their deadlines. Sleeps while there is no work.
    fn supervise(self: Arc<Self>) {
        let mut controller = Controller::new(Work::One, self.max_threads);
        let mut queues = self.queues.lock();
        // Fetches that run when the last file is closed are still supervised until they end.
        while !(queues.is_closed && queues.is_idle()) {
            let late = queues.take_overdue_reads();
            let seen = self.observe(&queues);
            drop(queues);
            late.iter().for_each(|pending| pending.fail(&Error::deadline(&pending.location, self.deadline)));
            self.meters.tracker.cut_silent(seen.now);
            let concurrency = controller.tick(&seen);
            queues = self.queues.lock();
            if concurrency != queues.concurrency {
                queues.concurrency = concurrency;
                self.wake(&mut queues);
            }
            queues = if queues.is_idle() && !queues.is_closed {
                queues.is_dormant = true;
                self.busy.wait(queues)
            } else {
                self.busy.wait_timeout(queues, Controller::TICK).0
            };
        }
    }

    fn observe(&self, queues: &Queues) -> Observation {
        let FetchMeters { tracker, moved, ended_fetches, slowdowns, .. } = &self.meters;
        let now = Instant::now();
        Observation {
            now,
            bytes: moved.load(Ordering::Relaxed),
            requests: ended_fetches.load(Ordering::Relaxed),
            slowdowns: slowdowns.load(Ordering::Relaxed),
            under_way: queues.running_ahead + queues.running_background,
            moving: tracker.moving(),
            round_trip: tracker.round_trip().unwrap_or_default(),
            server: tracker.server(),
            silent: tracker.is_silent(now),
            waiting: queues.work(),
        }
    }
}
