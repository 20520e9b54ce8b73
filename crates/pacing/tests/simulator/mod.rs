//! Simulates a server, the network path to it, and a client machine on a virtual clock. The
//! unmodified policies under test drive the client.
//!
//! Time passes in steps. A request waits for the server's processors and for a round trip; the
//! first request of a connection waits for the handshakes too. Then the body of its response flows
//! at the lowest of four rates: the rate of its connection, and its shares of the link, of the
//! machine's processors and of the machine's disk. Requests may stall, and the server may refuse
//! them. Equal settings give equal outcomes.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use firstbyte_pacing::{
    Abort, Controller, InFlightRequest, Observation, RequestTracker, Wait, Work, backoff_at, request_share,
};

/// Duration of a stall.
const STALL_TIME: Duration = Duration::from_secs(5);
/// Length from which an object counts as large, in bytes. Transfers use the same length.
const LARGE_OBJECT_BYTES: u64 = 16 << 20;
/// Number of bytes in a connection's first round trip: ten segments (RFC 6928).
const FIRST_FLIGHT_BYTES: f64 = 14_600.0;
/// Share of one second's requests that the server accepts at once, if it limits requests per
/// second.
const BURST_SHARE: f64 = 0.1;

/// A simulated server, the network path to it, and the client machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) round_trip: Duration,
    /// Bytes per second of one connection, on average.
    pub(crate) each: f64,
    /// Largest difference between the rate of a connection and the average, as a share of the
    /// average.
    pub(crate) spread: f64,
    /// Bytes per second of the link.
    pub(crate) total: f64,
    /// Processor time of a request at the server. The server begins requests one after another.
    pub(crate) overhead: Duration,
    /// Share of requests that stall.
    pub(crate) stalls: f64,
    /// Maximum number of concurrent requests that the server accepts.
    pub(crate) most: Option<usize>,
    /// Maximum number of requests per second that the server accepts.
    pub(crate) per_second: Option<f64>,
    /// Length of an object, in bytes. `None` for a single object that is fetched in parts.
    pub(crate) object: Option<u64>,
    /// Length of the single object, in bytes. `None` if the object is endless.
    pub(crate) size: Option<u64>,
    pub(crate) machine: ClientMachine,
    /// Number of round trips of a new connection before its first request.
    pub(crate) handshakes: u32,
    /// Whether the rate of a new connection grows with each round trip, as with TCP.
    pub(crate) slow_start: bool,
}

/// The client machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientMachine {
    pub(crate) cores: f64,
    /// Processor time per byte, in seconds.
    pub(crate) byte: f64,
    /// Processor time per request, in seconds.
    pub(crate) request: f64,
    /// Bytes per second of the disk.
    pub(crate) disk: f64,
}

impl ClientMachine {
    /// A machine that limits nothing.
    pub(crate) const ENDLESS: Self = Self { cores: 1.0, byte: 0.0, request: 0.0, disk: f64::INFINITY };
}

impl Setting {
    /// Returns the kind of work that waits to be fetched.
    pub(crate) fn work(&self) -> Work {
        match self.object {
            None => Work::One,
            Some(length) if length >= LARGE_OBJECT_BYTES => Work::Large,
            Some(_) => Work::Small,
        }
    }

    /// Returns the bytes per second that the link, the processors and the disk allow.
    pub(crate) fn allowed(&self) -> f64 {
        self.total.min(self.machine.disk).min(self.machine.cores / self.machine.byte)
    }
}

/// The measurements of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Bytes per second, measured after convergence.
    pub(crate) rate: f64,
    /// The concurrency at the end of every tick.
    pub(crate) limits: Vec<usize>,
    /// The state at the end of every tick.
    pub(crate) ticks: Vec<Tick>,
    /// Time at which the last byte arrived; `None` if it did not arrive.
    pub(crate) ended: Option<Duration>,
}

/// The bytes arrived, the requests in flight and the refusals so far, at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tick {
    pub(crate) at: Duration,
    pub(crate) bytes: f64,
    pub(crate) under_way: usize,
    pub(crate) slowdowns: u64,
}

/// Whether silent requests are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hedging {
    On,
    Off,
}

/// Simulates the time `length`, or less if the object ends sooner. Measures from `converged` on.
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
    let mut world = World::new(setting, &tracker, start, controller.concurrency());
    let step = (setting.round_trip / 10).clamp(Duration::from_millis(1), Duration::from_millis(10));
    let mut outcome = Outcome { rate: 0.0, limits: Vec::new(), ticks: Vec::new(), ended: None };
    let (mut before, mut tick) = (0.0, start);
    while world.now < start + length && outcome.ended.is_none() {
        world.now += step;
        world.pass(step);
        if world.now < start + converged {
            before = world.bytes;
        }
        if world.is_over() {
            outcome.ended = Some(world.now - start);
        }
        if world.now >= tick {
            tick = world.now + Controller::TICK;
            if hedging == Hedging::On {
                tracker.cut_silent(world.now);
            }
            world.limit = controller.tick(&world.observe());
            outcome.limits.push(world.limit);
            let (at, bytes) = (world.now - start, world.bytes);
            let (under_way, slowdowns) = (world.under_way, world.slowdowns);
            outcome.ticks.push(Tick { at, bytes, under_way, slowdowns });
        }
    }
    outcome.rate = (world.bytes - before) / (length.saturating_sub(converged)).as_secs_f64();
    outcome
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
    Head { request: InFlightRequest<'a, Flag>, until: Instant, length: f64, refused: bool },
    Body { request: InFlightRequest<'a, Flag>, left: f64, length: f64, head: Instant },
}

struct Worker<'a> {
    state: State<'a>,
    cuts: u32,
    failures: u32,
    cut: Flag,
    /// Bytes per second that the connection of the worker has reached; `None` before it is open.
    reached: Option<f64>,
    /// Bytes per second of the worker's connection.
    each: f64,
}

impl Worker<'_> {
    fn idle(each: f64) -> Self {
        Self { state: State::Idle, cuts: 0, failures: 0, cut: Flag::default(), reached: None, each }
    }
}

struct World<'a> {
    setting: Setting,
    tracker: &'a RequestTracker<Flag>,
    workers: Vec<Worker<'a>>,
    now: Instant,
    limit: usize,
    bytes: f64,
    /// Number of bytes of the object for which no request has asked yet.
    rest: f64,
    requests: u64,
    /// Number of requests begun in the last step. Their processor time is spent in the next step.
    begun: u32,
    slowdowns: u64,
    /// Number of workers that have a request, or that pause before its next attempt.
    under_way: usize,
    at_server: usize,
    /// Time at which the processors of the server will be free.
    server_free: Instant,
    /// Number of requests that the server accepts now.
    tokens: f64,
    random: u64,
}

impl<'a> World<'a> {
    fn new(setting: Setting, tracker: &'a RequestTracker<Flag>, now: Instant, limit: usize) -> Self {
        Self {
            setting,
            tracker,
            workers: Vec::new(),
            now,
            limit,
            bytes: 0.0,
            rest: setting.size.map_or(f64::INFINITY, |size| size as f64),
            requests: 0,
            begun: 0,
            slowdowns: 0,
            under_way: 0,
            at_server: 0,
            server_free: now,
            tokens: 0.0,
            random: 0x9e37_79b9,
        }
    }

    fn is_over(&self) -> bool {
        self.rest <= 0.0 && self.under_way == 0
    }

    /// Advances the simulation by one step of time.
    fn pass(&mut self, step: Duration) {
        let Setting { machine, each, spread, total, per_second, .. } = self.setting;
        let seconds = step.as_secs_f64();
        let rate = per_second.unwrap_or_default();
        self.tokens = (self.tokens + rate * seconds).min(rate * BURST_SHARE);
        let spent = f64::from(std::mem::take(&mut self.begun)) * machine.request;
        let processed = (machine.cores * seconds - spent).max(0.0) / machine.byte;
        let bytes = processed.min(total.min(machine.disk) * seconds);
        let bodies = self.workers.iter().filter(|worker| matches!(worker.state, State::Body { .. })).count();
        let share = bytes / bodies.max(1) as f64;
        let ramp = 2_f64.powf(seconds / self.setting.round_trip.as_secs_f64());
        let mut workers = std::mem::take(&mut self.workers);
        while workers.len() < self.limit {
            workers.push(Worker::idle(each * (1.0 + spread * (2.0 * self.random() - 1.0))));
        }
        for (slot, worker) in workers.iter_mut().enumerate() {
            let most = worker.each * seconds;
            let most = match &mut worker.reached {
                Some(reached) if self.setting.slow_start && matches!(worker.state, State::Body { .. }) => {
                    *reached = (*reached * ramp).min(worker.each);
                    most.min(*reached * seconds)
                }
                _ => most,
            };
            self.advance(worker, share.min(most));
            if matches!(worker.state, State::Idle) && slot < self.limit && self.rest > 0.0 {
                self.begin(slot, worker);
            }
        }
        self.workers = workers;
    }

    fn advance(&mut self, worker: &mut Worker<'a>, share: f64) {
        let cut = worker.cut.0.take();
        worker.state = match std::mem::replace(&mut worker.state, State::Idle) {
            State::Head { request, length: left, .. } | State::Body { request, left, .. } if cut => {
                worker.cuts += 1;
                worker.reached = None;
                self.rest += left;
                request.end(false, self.now);
                self.under_way -= 1;
                self.at_server -= 1;
                State::Idle
            }
            State::Paused { until } if until <= self.now => {
                self.under_way -= 1;
                State::Idle
            }
            State::Head { request, until, length, refused: true } if until <= self.now => {
                request.end(false, self.now);
                self.slowdowns += 1;
                self.at_server -= 1;
                self.rest += length;
                worker.failures += 1;
                // The worker keeps its task while it pauses, as in a transfer.
                State::Paused { until: self.now + backoff_at(worker.failures, None, self.random()) }
            }
            State::Head { request, until, length, .. } if until <= self.now => {
                request.head_arrived(length as u64, self.now);
                let round_trip = self.setting.round_trip.as_secs_f64();
                worker.reached.get_or_insert(FIRST_FLIGHT_BYTES / round_trip);
                State::Body { request, left: length, length, head: self.now }
            }
            State::Body { request, left, length, head } => {
                let moved = share.min(left);
                self.bytes += moved;
                request.bytes_arrived(self.now);
                if moved < left {
                    State::Body { request, left: left - moved, length, head }
                } else {
                    request.end(true, self.now);
                    self.tracker.learn_rate(length as u64, self.now - head);
                    self.under_way -= 1;
                    self.at_server -= 1;
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
        self.at_server += 1;
        self.begun += 1;
        let Setting { most, per_second, round_trip, overhead, stalls, object, .. } = self.setting;
        let mut refused = most.is_some_and(|most| self.at_server > most);
        if per_second.is_some() {
            refused |= self.tokens < 1.0;
            self.tokens = (self.tokens - 1.0).max(0.0);
        }
        self.server_free = self.server_free.max(self.now) + overhead;
        let handshakes =
            if worker.reached.is_none() { round_trip * self.setting.handshakes } else { Duration::ZERO };
        let until = if self.random() < stalls {
            self.now + STALL_TIME
        } else {
            // No two responses take exactly the same time. Otherwise all requests would stay in
            // step.
            self.server_free + handshakes + round_trip.mul_f64(0.9 + 0.2 * self.random())
        };
        let longest = self.tracker.longest_request();
        let length = match object {
            Some(object) => object.min(longest) as f64,
            None => (request_share(self.rest as u64, 2 * self.limit, longest) as f64).min(self.rest),
        };
        self.rest -= if object.is_some() { 0.0 } else { length };
        let request = self.tracker.begin(slot, Wait::Head, worker.cut.clone(), worker.cuts, self.now);
        worker.state = State::Head { request, until, length, refused };
    }

    fn observe(&self) -> Observation {
        Observation {
            now: self.now,
            bytes: self.bytes as u64,
            requests: self.requests,
            slowdowns: self.slowdowns,
            under_way: self.tracker.in_flight(),
            moving: self.tracker.moving(),
            round_trip: self.tracker.round_trip().unwrap_or_default(),
            server: self.tracker.server(),
            silent: self.tracker.is_silent(self.now),
            waiting: (self.rest > 0.0).then_some(self.setting.work()),
        }
    }

    /// Returns a random number from 0 to 1.
    fn random(&mut self) -> f64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as f64 / (1_u64 << 31) as f64
    }
}
