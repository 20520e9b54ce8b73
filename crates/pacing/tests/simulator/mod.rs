//! A server and a client on a virtual clock. The policies under test, unmodified, drive the client.
//!
//! Time passes in steps. A request waits for the server's processors and a round trip. Then its
//! body flows at the rate of its connection or at its share of the link, whichever is less.
//! Requests may stall, and the server may refuse them. The work never ends, so a run measures the
//! steady state.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use firstbyte_pacing::{
    Abort, Controller, InFlightRequest, Observation, RequestTracker, Wait, Work, backoff_at, request_share,
};

/// Duration of a stall.
const STALL: Duration = Duration::from_secs(5);
/// Length from which an object counts as large, in bytes, as for a transfer.
const LARGE: u64 = 16 << 20;

/// A simulated server and the network path to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) round_trip: Duration,
    /// Bytes per second of one connection.
    pub(crate) each: f64,
    /// Bytes per second of the link.
    pub(crate) total: f64,
    /// Processor time of a request at the server, which begins requests one after another.
    pub(crate) overhead: Duration,
    /// Share of requests that stall.
    pub(crate) stalls: f64,
    /// Most requests at once that the server accepts.
    pub(crate) most: Option<usize>,
    /// Length of an object in bytes; `None` for a single object that is fetched in parts.
    pub(crate) object: Option<u64>,
}

impl Setting {
    /// Returns the kind of work that waits to be fetched.
    pub(crate) fn work(&self) -> Work {
        match self.object {
            None => Work::One,
            Some(length) if length >= LARGE => Work::Large,
            Some(_) => Work::Small,
        }
    }
}

/// The measurements of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Bytes per second after convergence.
    pub(crate) rate: f64,
    /// The concurrency at the end of every tick.
    pub(crate) limits: Vec<usize>,
}

/// True if silent requests are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hedging {
    On,
    Off,
}

/// Simulates `length`, and measures from `converged` on.
pub(crate) fn run(
    setting: Setting,
    mut controller: Controller,
    slots: usize,
    hedging: Hedging,
    converged: Duration,
    length: Duration,
) -> Outcome {
    let start = Instant::now();
    let tracker = RequestTracker::new(slots, start);
    let mut world = World::new(setting, &tracker, slots, start, controller.concurrency());
    let step = (setting.round_trip / 10).clamp(Duration::from_millis(1), Duration::from_millis(10));
    let (mut limits, mut before, mut tick) = (Vec::new(), 0.0, start);
    while world.now < start + length {
        world.now += step;
        world.pass(step);
        if world.now < start + converged {
            before = world.bytes;
        }
        if world.now >= tick {
            tick = world.now + Controller::TICK;
            if hedging == Hedging::On {
                tracker.cut_silent(world.now);
            }
            world.limit = controller.tick(&world.observe());
            limits.push(world.limit);
        }
    }
    Outcome { rate: (world.bytes - before) / (length - converged).as_secs_f64(), limits }
}

#[derive(Clone, Debug, Default)]
struct Flag(Rc<Cell<bool>>);

impl Abort for Flag {
    fn abort(&self) {
        self.0.set(true);
    }
}

/// The state of a worker.
enum State<'a> {
    Idle,
    Paused { until: Instant },
    Head { request: InFlightRequest<'a, Flag>, until: Instant, length: u64, refused: bool },
    Body { request: InFlightRequest<'a, Flag>, left: f64 },
}

struct Worker<'a> {
    state: State<'a>,
    cuts: u32,
    failures: u32,
    cut: Flag,
}

struct World<'a> {
    setting: Setting,
    tracker: &'a RequestTracker<Flag>,
    workers: Vec<Worker<'a>>,
    now: Instant,
    limit: usize,
    bytes: f64,
    requests: u64,
    slowdowns: u64,
    under_way: usize,
    /// Time at which the server's processors are free.
    server_free: Instant,
    random: u64,
}

impl<'a> World<'a> {
    fn new(
        setting: Setting,
        tracker: &'a RequestTracker<Flag>,
        slots: usize,
        now: Instant,
        limit: usize,
    ) -> Self {
        let idle = |_| Worker { state: State::Idle, cuts: 0, failures: 0, cut: Flag::default() };
        Self {
            setting,
            tracker,
            workers: (0..slots).map(idle).collect(),
            now,
            limit,
            bytes: 0.0,
            requests: 0,
            slowdowns: 0,
            under_way: 0,
            server_free: now,
            random: 0x9e37_79b9,
        }
    }

    /// Advances the simulation by one step of time.
    fn pass(&mut self, step: Duration) {
        let bodies = self.workers.iter().filter(|worker| matches!(worker.state, State::Body { .. })).count();
        let share = self.setting.each.min(self.setting.total / bodies.max(1) as f64) * step.as_secs_f64();
        let mut workers = std::mem::take(&mut self.workers);
        for (slot, worker) in workers.iter_mut().enumerate() {
            self.advance(worker, share);
            if matches!(worker.state, State::Idle) && slot < self.limit {
                self.begin(slot, worker);
            }
        }
        self.workers = workers;
    }

    fn advance(&mut self, worker: &mut Worker<'a>, share: f64) {
        let cut = worker.cut.0.take();
        worker.state = match std::mem::replace(&mut worker.state, State::Idle) {
            State::Head { request, .. } | State::Body { request, .. } if cut => {
                worker.cuts += 1;
                request.end(false, self.now);
                self.under_way -= 1;
                State::Idle
            }
            State::Paused { until } if until <= self.now => State::Idle,
            State::Head { request, until, refused: true, .. } if until <= self.now => {
                request.end(false, self.now);
                self.under_way -= 1;
                self.slowdowns += 1;
                worker.failures += 1;
                State::Paused { until: self.now + backoff_at(worker.failures, None, self.random()) }
            }
            State::Head { request, until, length, .. } if until <= self.now => {
                request.head_arrived(length, self.now);
                State::Body { request, left: length as f64 }
            }
            State::Body { request, left } => {
                let moved = share.min(left);
                self.bytes += moved;
                request.bytes_arrived(self.now);
                if moved < left {
                    State::Body { request, left: left - moved }
                } else {
                    request.end(true, self.now);
                    self.under_way -= 1;
                    self.requests += 1;
                    (worker.cuts, worker.failures) = (0, 0);
                    State::Idle
                }
            }
            other => other,
        };
    }

    fn begin(&mut self, slot: usize, worker: &mut Worker<'a>) {
        self.under_way += 1;
        let refused = self.setting.most.is_some_and(|most| self.under_way > most);
        self.server_free = self.server_free.max(self.now) + self.setting.overhead;
        let until = if self.random() < self.setting.stalls {
            self.now + STALL
        } else {
            // Responses take different times. Otherwise all requests would stay in step.
            self.server_free + self.setting.round_trip.mul_f64(0.9 + 0.2 * self.random())
        };
        let longest = request_share(u64::MAX, self.limit, self.tracker.server());
        let length = self.setting.object.unwrap_or(u64::MAX).min(longest);
        let request = self.tracker.begin(slot, Wait::Head, worker.cut.clone(), worker.cuts, self.now);
        worker.state = State::Head { request, until, length, refused };
    }

    fn observe(&self) -> Observation {
        Observation {
            now: self.now,
            bytes: self.bytes as u64,
            requests: self.requests,
            slowdowns: self.slowdowns,
            under_way: self.under_way,
            round_trip: self.tracker.round_trip().unwrap_or_default(),
            server: self.tracker.server(),
            silent: self.tracker.is_silent(self.now),
            waiting: Some(self.setting.work()),
        }
    }

    /// Returns a number from 0 to 1.
    fn random(&mut self) -> f64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as f64 / (1_u64 << 31) as f64
    }
}
