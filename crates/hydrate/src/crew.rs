//! The threads that fetch, and what waits for them.
//!
//! A thread is started when work waits and none is idle, and ends when it has been idle for a while. Work for a reader who
//! waits is taken first and at once. What is fetched ahead is taken in order of its distance from its reader, so that
//! one far ahead does not keep another waiting; background work last. Of those two only so many are under way at once as
//! are measured to help ([`Level`]). Some threads are left to readers at all times.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use firstbyte_transfer::control::{Distance, Flights, Heed, Level, Reading, START_NEAR, Window};

use crate::Error;
use crate::fetch::{self, Fetch};
use crate::gate::Gate;
use crate::inflight::{Class, Id};
use crate::pending::Pending;
use crate::requests;

/// A worker's stack. TLS and signing need some 100 KiB; pages not touched cost nothing.
const STACK: usize = 512 << 10;
/// How long a thread stays for more work: a connection is not kept much longer either.
const IDLE: Duration = Duration::from_secs(5);
/// How often requests under way are looked at: a tenth of the shortest patience, and far less than a percent of a core.
const TICK: Duration = Duration::from_millis(10);
/// Fetches at once, beside those for readers who wait, to begin with and at most. As for a transfer: the first fill a
/// network of 4 Gbit/s at what S3 gives a connection, and more than the last have not been seen to help.
const START: usize = 12;
const MOST_AHEAD: usize = 64;
/// Bytes of background fetches in line that are enough while all threads have work: some 10 ms of a fast network.
const IN_LINE: u64 = 16 << 20;
/// Threads left to readers who wait.
const FOR_READERS: usize = 16;
/// What a thread needs: its buffer, touched stack, socket and TLS state.
const THREAD_MEMORY: u64 = 192 << 10;
/// What a finished fetch counts for beside its bytes: work that is all small requests has a throughput too.
pub(crate) const STEP_BYTES: u64 = 64 << 10;

/// Threads and their work.
pub(crate) struct Crew {
    state: Mutex<State>,
    work: Condvar,
    /// Tells the watch that something is under way.
    busy: Condvar,
    most: usize,
    deadline: Duration,
    /// Whether the server was near when last looked at.
    near: AtomicBool,
    pub(crate) flights: Flights,
    pub(crate) gate: Gate,
    pub(crate) moved: AtomicU64,
    pub(crate) slowdowns: AtomicU64,
}

#[derive(Default)]
struct State {
    demand: VecDeque<Fetch>,
    /// By distance from the reader, in steps, then by age.
    ahead: BTreeMap<(u64, u64), Fetch>,
    background: VecDeque<Fetch>,
    queued: u64,
    running_ahead: usize,
    running_background: usize,
    running: usize,
    level: usize,
    idle: usize,
    /// Idle threads that were called and have not come yet.
    called: usize,
    free_slots: Vec<usize>,
    threads: usize,
    watched: bool,
    /// The watch sleeps until it is told; else it looks by itself after a tick, and to wake it for each request would cost more.
    dormant: bool,
    closed: bool,
    /// Reads of callbacks, in order of their deadlines, which all lie equally far ahead.
    waiting: VecDeque<Weak<Pending>>,
}

impl Crew {
    /// Nobody yet; buffers take at most `memory` bytes, reads at most `deadline`.
    pub(crate) fn new(memory: u64, deadline: Duration) -> Self {
        let fit = usize::try_from(memory / THREAD_MEMORY).unwrap_or(usize::MAX);
        let most = fit.clamp(FOR_READERS + 2, FOR_READERS + MOST_AHEAD);
        let state = State { free_slots: (0..most).collect(), level: START.min(most), ..State::default() };
        Self {
            state: Mutex::new(state),
            work: Condvar::new(),
            busy: Condvar::new(),
            most,
            deadline,
            near: AtomicBool::new(false),
            flights: Flights::new(most),
            gate: Gate::default(),
            moved: AtomicU64::new(0),
            slowdowns: AtomicU64::new(0),
        }
    }

    /// Puts fetches in line; those of class `Ahead` with their distance from the reader, in steps.
    pub(crate) fn submit(self: &Arc<Self>, fetches: Vec<(Fetch, u64)>) {
        if fetches.is_empty() {
            return;
        }
        let mut state = self.lock();
        for (fetch, distance) in fetches {
            state.queued += 1;
            let turn = state.queued;
            match fetch.class {
                Class::Demand => state.demand.push_back(fetch),
                Class::Ahead => drop(state.ahead.insert((distance, turn), fetch)),
                Class::Background => state.background.push_back(fetch),
            }
        }
        self.call(&mut state);
    }

    /// A reader waits for a queued fetch now.
    pub(crate) fn promote(self: &Arc<Self>, id: Id) {
        let mut state = self.lock();
        let found = state.ahead.iter().find(|(_, fetch)| fetch.id == id).map(|(key, _)| *key);
        if let Some(mut fetch) = found.and_then(|key| state.ahead.remove(&key)) {
            fetch.class = Class::Demand;
            state.demand.push_back(fetch);
            self.call(&mut state);
        }
    }

    /// Ends a callback's read at its deadline.
    pub(crate) fn expire(self: &Arc<Self>, pending: &Arc<Pending>) {
        let mut state = self.lock();
        while state.waiting.front().is_some_and(|old| old.strong_count() == 0) {
            state.waiting.pop_front();
        }
        state.waiting.push_back(Arc::downgrade(pending));
        self.watch(&mut state);
    }

    /// Bytes that a background fetch should ask for where `rest` are to be asked for, by it and others.
    pub(crate) fn background_request(&self, rest: u64) -> u64 {
        let server = self.flights.known_distance();
        requests::share(rest, self.lock().level, server)
    }

    /// Whether one more background fetch could begin, or the line is so short that it would not have to wait long: whatever is
    /// in line has been cut as seemed right then. Before the first answer only what can begin, for nothing is known.
    pub(crate) fn has_room_in_background(&self) -> bool {
        let is_known = self.flights.known_distance().is_some();
        let state = self.lock();
        let waiting = state.background.len();
        let bytes = || state.background.iter().map(Fetch::bytes).sum::<u64>();
        waiting < state.room() || (is_known && waiting < state.level.max(1) && bytes() < IN_LINE)
    }

    /// How far away the server seems to be.
    pub(crate) fn distance(&self) -> Distance {
        if self.near.load(Ordering::Relaxed) { Distance::Near } else { Distance::Far }
    }

    /// No more work comes; idle threads end.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.work.notify_all();
        self.busy.notify_all();
    }

    /// Gets a thread for each fetch that may begin.
    fn call(self: &Arc<Self>, state: &mut State) {
        let ahead = (state.ahead.len() + state.background.len()).min(state.room());
        let mut wanted = state.demand.len() + ahead;
        wanted = wanted.saturating_sub(state.called);
        while wanted > 0 && state.idle > 0 {
            state.idle -= 1;
            state.called += 1;
            self.work.notify_one();
            wanted -= 1;
        }
        for _ in 0..wanted {
            let Some(slot) = state.free_slots.pop() else { break };
            let crew = Arc::clone(self);
            let name = format!("fetch-{slot}");
            let spawned = thread::Builder::new().name(name).stack_size(STACK).spawn(move || crew.work(slot));
            if let Err(error) = spawned {
                state.free_slots.push(slot);
                tracing::warn!(%error, threads = state.threads, "no further thread");
                break;
            }
            // It takes its work as one that was called.
            state.threads += 1;
            state.called += 1;
        }
        self.watch(state);
    }

    fn watch(self: &Arc<Self>, state: &mut State) {
        if state.watched {
            if std::mem::take(&mut state.dormant) {
                self.busy.notify_one();
            }
            return;
        }
        let crew = Arc::clone(self);
        let spawned =
            thread::Builder::new().name("watch".into()).stack_size(STACK).spawn(move || crew.supervise());
        state.watched = spawned.is_ok();
    }

    fn work(self: Arc<Self>, slot: usize) {
        let mut buffer = Vec::new();
        let mut state = self.lock();
        state.called -= 1;
        loop {
            if let Some(fetch) = state.take() {
                let class = fetch.class;
                drop(state);
                fetch::run(&self, fetch, slot, &mut buffer);
                state = self.lock();
                state.ended(class);
                continue;
            }
            if state.closed {
                break;
            }
            state.idle += 1;
            let (next, wait) = self.work.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = next;
            if state.called > 0 {
                state.called -= 1;
            } else {
                state.idle -= 1;
                if wait.timed_out() {
                    break;
                }
            }
        }
        state.threads -= 1;
        state.free_slots.push(slot);
    }

    /// Cuts silent requests, finds the level, ends reads at their deadline; sleeps while there is nothing to watch.
    fn supervise(self: Arc<Self>) {
        let mut level = Level::new(START.min(self.most), self.most.saturating_sub(FOR_READERS));
        // What comes here is read back and summed up: from a server that is near, a thread for each processor has enough to do.
        let start_near =
            thread::available_parallelism().map_or(START_NEAR, |count| START_NEAR.min(count.get()));
        let mut window = Window::default();
        let mut state = self.lock();
        while !state.closed {
            let late = state.late();
            let plenty = state.ahead.len() + state.background.len() > 0;
            let small = state.is_small();
            drop(state);
            late.iter().for_each(|pending| pending.fail(&Error::deadline(&pending.location, self.deadline)));
            self.flights.cut_silent();
            let reading = self.reading();
            let far = reading.processors == Heed::Ignore;
            let near = !small && self.distance() == Distance::Near;
            let found = match plenty {
                _ if near && let Some(now) = level.begin_near(start_near) => {
                    window.restart(&reading);
                    Some(now)
                }
                // They only wait: as many as may be, at once.
                true if small && level.is_fresh() && far => Some(level.leap()),
                true => window.measure(&reading, &mut level),
                false => {
                    window.restart(&reading);
                    None
                }
            };
            state = self.lock();
            if let Some(level) = found {
                state.level = level;
                self.call(&mut state);
            }
            state = if state.is_idle() {
                state.dormant = true;
                self.busy.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else {
                self.busy.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }

    fn reading(&self) -> Reading {
        self.near.store(self.flights.distance() == Distance::Near, Ordering::Relaxed);
        Reading {
            moved: self.moved.load(Ordering::Relaxed),
            slowdowns: self.slowdowns.load(Ordering::Relaxed),
            round_trip: self.flights.median_wait().unwrap_or_default(),
            processors: self.flights.heed(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Fetches that may begin beside those for readers who wait.
    fn room(&self) -> usize {
        self.level.saturating_sub(self.running_ahead + self.running_background)
    }

    fn take(&mut self) -> Option<Fetch> {
        let fetch = if let Some(fetch) = self.demand.pop_front() {
            fetch
        } else if self.running_ahead < self.level
            && let Some((_, fetch)) = self.ahead.pop_first()
        {
            self.running_ahead += 1;
            fetch
        } else if self.room() > 0 {
            let fetch = self.background.pop_front()?;
            self.running_background += 1;
            fetch
        } else {
            return None;
        };
        self.running += 1;
        Some(fetch)
    }

    fn ended(&mut self, class: Class) {
        self.running -= 1;
        match class {
            Class::Demand => {}
            Class::Ahead => self.running_ahead -= 1,
            Class::Background => self.running_background -= 1,
        }
    }

    /// Whether there is nothing to watch. What waits for a thread counts: nobody tells when the thread takes it.
    fn is_idle(&self) -> bool {
        let queued = self.demand.len() + self.ahead.len() + self.background.len();
        self.running + queued == 0 && self.waiting.is_empty()
    }

    /// Reads whose deadline has come.
    fn late(&mut self) -> Vec<Arc<Pending>> {
        let now = Instant::now();
        let mut late = Vec::new();
        while let Some(first) = self.waiting.front() {
            match first.upgrade() {
                Some(pending) if pending.deadline > now => break,
                Some(pending) => late.push(pending),
                None => {}
            }
            self.waiting.pop_front();
        }
        late
    }

    /// Whether what comes next is too small to be about anything but round trips.
    fn is_small(&self) -> bool {
        let next = self.ahead.values().next().or(self.background.front());
        let waiting = self.ahead.len() + self.background.len();
        next.is_some_and(|fetch| fetch.bytes() <= 2 * STEP_BYTES) && waiting >= self.level / 2
    }
}
