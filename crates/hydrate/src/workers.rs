//! The threads that fetch, and the queues of waiting fetches.
//!
//! A thread is started when work waits and no thread is idle, and ends when it has been idle for a
//! while. Fetches on demand start first. Fetches ahead start in order of the distance from their
//! reader, so that a distant one does not delay another reader. Background fetches start last. The
//! [`Controller`] decides how many fetches of the last two kinds run at once.
//!
//! All fetches that run fit into the memory of the pool. Those ahead leave a part of it for demand,
//! and those in the background leave another part for those ahead. A small object needs a small
//! buffer, so more of them are fetched at once: they mostly wait for their round trips.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use firstbyte_location::to_usize;
use firstbyte_pacing::{
    Controller, LONGEST_REQUEST, Observation, Proximity, ReadSizes, START, Work, request_share,
};
use firstbyte_store::{KEEP_IDLE, STACK, THREAD_MEMORY};

use crate::Error;
use crate::block::BLOCK;
use crate::fetch::{self, FetchMeters};
use crate::inflight::{FetchId, Priority};
use crate::pending_read::PendingRead;
use crate::version::{Fetch, Fetcher};

/// A fetch up to this length, in bytes, mostly waits for its round trip.
const SMALL: u64 = BLOCK;
/// Queued bytes of background fetches that are enough: some 20 ms of a fast network.
const ENOUGH_QUEUED: u64 = LONGEST_REQUEST;
/// Fetches of whole blocks for which memory is left at most: by those ahead for those on demand,
/// and by those in the background for those ahead.
const LEFT: u64 = START as u64;
/// Divisor: of little memory, this share is left. A reader in order waits for what is fetched ahead
/// of it, and needs most.
const LEFT_SHARE: u64 = 4;
/// Memory of a fetch of whole blocks, bytes.
const LARGEST: u64 = THREAD_MEMORY + BLOCK;

/// Threads and their work.
pub(crate) struct WorkerPool {
    queues: Mutex<Queues>,
    /// Wakes idle threads.
    work: Condvar,
    /// Wakes the supervisor.
    busy: Condvar,
    most: usize,
    deadline: Duration,
    meters: FetchMeters,
}

#[derive(Default)]
struct Queues {
    demand: VecDeque<Fetch>,
    /// By distance from the reader in MiB, then by age.
    ahead: BTreeMap<(u64, u64), Fetch>,
    background: VecDeque<Fetch>,
    /// Number of fetches ever submitted.
    submitted: u64,
    running_ahead: usize,
    running_background: usize,
    running: usize,
    /// Bytes free for fetches.
    memory: u64,
    /// Bytes free for fetches ahead and in the background, which leave some for demand.
    beside_demand: u64,
    /// Bytes of those that background fetches leave for fetches ahead.
    for_ahead: u64,
    concurrency: usize,
    idle: usize,
    /// Idle threads that were woken and have not run yet; they are no longer counted as idle.
    woken: usize,
    /// New threads that have not run yet.
    starting: usize,
    free_slots: Vec<usize>,
    threads: usize,
    /// The error of the first thread, which could not be started.
    threadless: Option<Arc<std::io::Error>>,
    /// Whether the supervisor's thread exists.
    supervised: bool,
    /// The supervisor sleeps until it is woken. Otherwise it wakes after a tick, because waking it
    /// for each request would cost more.
    dormant: bool,
    closed: bool,
    /// Reads of callbacks, in order of their deadlines, which are all equally far ahead.
    waiting: VecDeque<Weak<PendingRead>>,
}

impl WorkerPool {
    /// Threads and their buffers use at most `memory` bytes, but those that a few fetches need at
    /// least. Reads take at most `deadline`. Starts no thread.
    pub(crate) fn new(memory: u64, deadline: Duration) -> Self {
        let memory = memory.max((LEFT + 1) * LARGEST);
        let most = to_usize(memory / THREAD_MEMORY).min(START + Controller::MOST);
        let queues = Queues { free_slots: (0..most).collect(), ..Queues::new(memory) };
        Self {
            queues: Mutex::new(queues),
            work: Condvar::new(),
            busy: Condvar::new(),
            most,
            deadline,
            meters: FetchMeters::new(most),
        }
    }
}

impl Fetcher for Arc<WorkerPool> {
    fn submit(&self, fetches: Vec<(Fetch, u64)>) {
        if fetches.is_empty() {
            return;
        }
        let mut queues = self.lock();
        for (fetch, distance) in fetches {
            queues.submitted += 1;
            let age = queues.submitted;
            match fetch.priority {
                Priority::Demand => queues.demand.push_back(fetch),
                Priority::Ahead => drop(queues.ahead.insert((distance, age), fetch)),
                Priority::Background => queues.background.push_back(fetch),
            }
        }
        self.wake(&mut queues);
        WorkerPool::refuse(queues);
    }

    fn promote(&self, id: FetchId) {
        let mut queues = self.lock();
        let found = queues.ahead.iter().find(|(_, fetch)| fetch.id == id).map(|(key, _)| *key);
        if let Some(mut fetch) = found.and_then(|key| queues.ahead.remove(&key)) {
            fetch.priority = Priority::Demand;
            queues.demand.push_back(fetch);
            self.wake(&mut queues);
        }
        WorkerPool::refuse(queues);
    }

    fn watch_deadline(&self, pending: &Arc<PendingRead>) {
        let mut queues = self.lock();
        while queues.waiting.front().is_some_and(|old| old.strong_count() == 0) {
            queues.waiting.pop_front();
        }
        queues.waiting.push_back(Arc::downgrade(pending));
        self.watch(&mut queues);
    }

    fn background_request(&self, rest: u64) -> u64 {
        request_share(rest, self.lock().concurrency, self.server())
    }

    /// Whether one more background fetch could start, or the queue is short: queued fetches have
    /// the size that was right when they were submitted. Before the first response, only if it
    /// could start.
    fn has_room_in_background(&self) -> bool {
        let is_known = self.server() != Proximity::Unknown;
        let queues = self.lock();
        let waiting = queues.background.len();
        let bytes = || queues.background.iter().map(Fetch::bytes).sum::<u64>();
        waiting < queues.room_in_background()
            || (is_known && waiting < queues.concurrency.max(1) && bytes() < ENOUGH_QUEUED)
    }

    fn server(&self) -> Proximity {
        self.meters.tracker.server()
    }

    fn read_sizes(&self) -> ReadSizes {
        self.meters.tracker.read_sizes()
    }

    fn close(&self) {
        self.lock().closed = true;
        self.work.notify_all();
        self.busy.notify_all();
    }
}

impl WorkerPool {
    /// Wakes or starts a thread for each fetch that may run.
    fn wake(self: &Arc<Self>, queues: &mut Queues) {
        let mut wanted = queues.startable().saturating_sub(queues.woken + queues.starting);
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
                if queues.threads == 0 {
                    queues.threadless = Some(Arc::new(error));
                }
                break;
            }
            queues.threads += 1;
            queues.starting += 1;
        }
        self.watch(queues);
    }

    /// Fails all queued fetches if there is no thread and none can be started: nothing would ever
    /// run them.
    fn refuse(mut queues: MutexGuard<'_, Queues>) {
        let Some(source) = queues.threadless.take() else { return };
        let mut refused: Vec<Fetch> = std::mem::take(&mut queues.demand).into();
        refused.extend(std::mem::take(&mut queues.ahead).into_values());
        refused.extend(std::mem::take(&mut queues.background));
        drop(queues);
        let error = Error::Thread { source };
        refused.into_iter().for_each(|fetch| fetch::refuse(fetch, &error));
    }

    /// Starts or wakes the supervisor.
    fn watch(self: &Arc<Self>, queues: &mut Queues) {
        if queues.supervised {
            if std::mem::take(&mut queues.dormant) {
                self.busy.notify_one();
            }
            return;
        }
        let pool = Arc::clone(self);
        let spawned =
            thread::Builder::new().name("watch".into()).stack_size(STACK).spawn(move || pool.supervise());
        queues.supervised = spawned.is_ok();
    }

    fn work(self: Arc<Self>, slot: usize) {
        let mut buffer = Vec::new();
        let mut queues = self.lock();
        queues.starting -= 1;
        loop {
            if let Some(fetch) = queues.next() {
                let (priority, memory) = (fetch.priority, memory_of(&fetch));
                queues.started(priority, memory);
                // One that ended may leave room for several.
                self.wake(&mut queues);
                drop(queues);
                fetch::run(&self.meters, fetch, slot, &mut buffer);
                queues = self.lock();
                queues.ended(priority, memory);
                continue;
            }
            if queues.closed || !queues.can_idle(&mut buffer) {
                break;
            }
            queues.idle += 1;
            let (next, wait) =
                self.work.wait_timeout(queues, KEEP_IDLE).unwrap_or_else(PoisonError::into_inner);
            queues = next;
            if !queues.resumed() && wait.timed_out() {
                break;
            }
        }
        queues.threads -= 1;
        queues.free_slots.push(slot);
    }

    /// Cuts silent requests, applies the concurrency that the controller decides on, and fails
    /// reads at their deadline. Sleeps while there is no work.
    fn supervise(self: Arc<Self>) {
        let mut controller = Controller::new(Work::One, self.most.min(Controller::MOST));
        let mut most_of_kind = Controller::MOST_OF_ONE;
        let mut queues = self.lock();
        while !queues.closed {
            let late = queues.late();
            let seen = self.observe(&queues);
            drop(queues);
            late.iter().for_each(|pending| pending.fail(&Error::deadline(&pending.location, self.deadline)));
            self.meters.tracker.cut_silent(seen.now);
            // Its limit for small objects is kept for when they come again.
            if let Some(work) = seen.waiting {
                most_of_kind = if work == Work::Small { Controller::MOST } else { Controller::MOST_OF_ONE };
            }
            let concurrency = controller.tick(&seen).min(most_of_kind);
            queues = self.lock();
            if concurrency != queues.concurrency {
                queues.concurrency = concurrency;
                self.wake(&mut queues);
            }
            queues = if queues.is_idle() {
                queues.dormant = true;
                self.busy.wait(queues).unwrap_or_else(PoisonError::into_inner)
            } else {
                self.busy.wait_timeout(queues, Controller::TICK).unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }

    fn observe(&self, queues: &Queues) -> Observation {
        let FetchMeters { tracker, moved, requests, slowdowns, .. } = &self.meters;
        let now = Instant::now();
        Observation {
            now,
            bytes: moved.load(Ordering::Relaxed),
            requests: requests.load(Ordering::Relaxed),
            slowdowns: slowdowns.load(Ordering::Relaxed),
            under_way: queues.running_ahead + queues.running_background,
            round_trip: tracker.round_trip().unwrap_or_default(),
            server: tracker.server(),
            silent: tracker.is_silent(now),
            waiting: queues.work(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queues {
    /// No fetch, with `memory` bytes for those to come.
    fn new(memory: u64) -> Self {
        let left = (memory / LEFT_SHARE).min(LEFT * LARGEST);
        let beside_demand = memory - left;
        Self { concurrency: START, memory, beside_demand, for_ahead: left, ..Self::default() }
    }

    /// Queued fetches that may start.
    fn startable(&self) -> usize {
        let demand = fit(self.memory, self.demand.front()).min(self.demand.len());
        let ahead = self.room_ahead().min(self.ahead.len());
        demand + ahead + self.room_in_background().min(self.background.len())
    }

    /// Fetches ahead that may start.
    fn room_ahead(&self) -> usize {
        let fit = fit(self.memory.min(self.beside_demand), self.ahead.values().next());
        self.concurrency.saturating_sub(self.running_ahead).min(fit)
    }

    /// Background fetches that may start.
    fn room_in_background(&self) -> usize {
        let free = self.memory.min(self.beside_demand.saturating_sub(self.for_ahead));
        let running = self.running_ahead + self.running_background;
        self.concurrency.saturating_sub(running).min(fit(free, self.background.front()))
    }

    /// Whether a thread may wait for work. Those that do, and their buffers, take no more than the
    /// memory that no fetch uses.
    fn can_idle(&self, buffer: &mut Vec<u8>) -> bool {
        let threads = self.idle as u64 + 1;
        if threads * LARGEST > self.memory {
            *buffer = Vec::new();
        }
        threads * THREAD_MEMORY <= self.memory
    }

    /// An idle thread runs again: whether one was woken, which may have been another.
    fn resumed(&mut self) -> bool {
        let was_woken = self.woken > 0;
        if was_woken {
            self.woken -= 1;
        } else {
            self.idle -= 1;
        }
        was_woken
    }

    /// Removes the next fetch that may start from its queue. One that does not fit is waited for by
    /// those behind it, and a fetch on demand by all others.
    fn next(&mut self) -> Option<Fetch> {
        if let Some(first) = self.demand.front() {
            return if memory_of(first) <= self.memory { self.demand.pop_front() } else { None };
        }
        if self.room_ahead() > 0
            && let Some((_, fetch)) = self.ahead.pop_first()
        {
            return Some(fetch);
        }
        if self.room_in_background() > 0 { self.background.pop_front() } else { None }
    }

    /// A fetch starts.
    fn started(&mut self, priority: Priority, memory: u64) {
        self.running += 1;
        self.memory -= memory;
        match priority {
            Priority::Demand => return,
            Priority::Ahead => self.running_ahead += 1,
            Priority::Background => self.running_background += 1,
        }
        self.beside_demand -= memory;
    }

    fn ended(&mut self, priority: Priority, memory: u64) {
        self.running -= 1;
        self.memory += memory;
        match priority {
            Priority::Demand => return,
            Priority::Ahead => self.running_ahead -= 1,
            Priority::Background => self.running_background -= 1,
        }
        self.beside_demand += memory;
    }

    /// Whether there is nothing to supervise. A queued fetch counts, because the supervisor is not
    /// woken when it starts.
    fn is_idle(&self) -> bool {
        let queued = self.demand.len() + self.ahead.len() + self.background.len();
        self.running + queued == 0 && self.waiting.is_empty()
    }

    /// Removes the reads whose deadline has passed.
    fn late(&mut self) -> Vec<Arc<PendingRead>> {
        let now = Instant::now();
        let mut late = Vec::new();
        while let Some(first) = self.waiting.front() {
            match first.upgrade() {
                Some(pending) if pending.deadline() > now => break,
                Some(pending) => late.push(pending),
                None => {}
            }
            self.waiting.pop_front();
        }
        late
    }

    /// The kind of work that waits, beside fetches on demand.
    fn work(&self) -> Option<Work> {
        let next = self.ahead.values().next().or(self.background.front())?;
        Some(if next.bytes() <= SMALL { Work::Small } else { Work::One })
    }
}

/// Memory of a fetch while it runs, bytes.
fn memory_of(fetch: &Fetch) -> u64 {
    THREAD_MEMORY + fetch.buffer()
}

/// How many fetches like the `first` fit into `memory` bytes; without one, of whole blocks.
fn fit(memory: u64, first: Option<&Fetch>) -> usize {
    to_usize(memory / first.map_or(LARGEST, memory_of))
}

#[cfg(test)]
mod tests {
    use firstbyte_location::{Location, Version};
    use firstbyte_store::{Options, Store};

    use super::*;
    use crate::Settings;
    use crate::version::Engine;

    /// Starts as many fetches of objects of `size` bytes as may run. Returns their number, and the
    /// memory of one.
    fn start(queues: &mut Queues, priority: Priority, size: u64) -> (usize, u64) {
        let pool = Arc::new(WorkerPool::new(0, Duration::ZERO));
        let store = Store::new(Options::default()).unwrap();
        let engine = Arc::new(Engine::new(store, Settings::default(), Box::new(pool), None, 0));
        let location = Location::parse("s3://bucket/key".as_ref()).unwrap();
        let version = engine.open_version(&location, Version { size: Some(size), ..Version::default() });
        for id in 0..1000 {
            let (version, blocks) = (Arc::clone(&version), 0..1);
            let (only, took_over, handle, job) = (None, false, None, None);
            let fetch = Fetch { version, id, priority, blocks, only, took_over, handle, job };
            match priority {
                Priority::Demand => queues.demand.push_back(fetch),
                Priority::Ahead => drop(queues.ahead.insert((0, id), fetch)),
                Priority::Background => queues.background.push_back(fetch),
            }
        }
        let (startable, mut started, mut memory) = (queues.startable(), 0, 0);
        while let Some(fetch) = queues.next() {
            memory = memory_of(&fetch);
            queues.started(priority, memory);
            started += 1;
        }
        assert_eq!(started, startable);
        (queues.demand, queues.ahead, queues.background) = Default::default();
        (started, memory)
    }

    #[test]
    fn more_small_objects_than_large_ones_fit_into_the_memory_and_each_kind_leaves_some() {
        for (size, in_background, all) in [(BLOCK, 60, 76), (1 << 30, 60, 76), (16 << 10, 153, 194)] {
            let mut queues = Queues { concurrency: 256, ..Queues::new(92 * LARGEST) };
            let (started, memory) = start(&mut queues, Priority::Background, size);
            assert_eq!(started, in_background);
            assert_eq!(start(&mut queues, Priority::Ahead, size).0, all - in_background);
            assert_eq!(start(&mut queues, Priority::Ahead, size).0, 0);
            assert_eq!(start(&mut queues, Priority::Demand, BLOCK).0, 16);
            assert_eq!(start(&mut queues, Priority::Demand, BLOCK).0, 0);
            queues.ended(Priority::Background, memory);
            assert_eq!(start(&mut queues, Priority::Background, size).0, 0, "it is left for those ahead");
            assert_eq!(start(&mut queues, Priority::Ahead, size).0, 1);
        }
    }

    #[test]
    fn idle_threads_and_their_buffers_fit_into_the_memory_that_no_fetch_uses() {
        let mut queues = Queues::new(20 * LARGEST);
        queues.started(Priority::Demand, 18 * LARGEST);
        let mut can_idle = |idle: usize| {
            queues.idle = idle;
            let mut buffer = vec![0; 9];
            (queues.can_idle(&mut buffer), buffer.len())
        };
        assert_eq!(can_idle(1), (true, 9));
        assert_eq!(can_idle(2), (true, 0));
        assert_eq!(can_idle(20), (false, 0));
    }

    #[test]
    fn an_idle_thread_that_times_out_does_not_take_the_place_of_one_that_starts() {
        let mut queues = Queues { idle: 1, threads: 2, starting: 1, ..Queues::default() };
        assert!(!queues.resumed(), "nothing woke it");
        assert_eq!((queues.idle, queues.woken, queues.starting), (0, 0, 1));
    }

    #[test]
    fn a_thread_that_times_out_while_another_is_woken_works_in_its_place() {
        let mut queues = Queues { idle: 1, threads: 2, woken: 1, ..Queues::default() };
        assert!(queues.resumed());
        assert!(!queues.resumed(), "the one that was woken finds nothing to do, and stays if it is not late");
        assert_eq!((queues.idle, queues.woken), (0, 0));
    }
}
