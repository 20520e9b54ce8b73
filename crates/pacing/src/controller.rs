//! Decides how many concurrent requests a client sends, from what it observes.
//!
//! The caller passes an [`Observation`] every few milliseconds ([`TICK`](Controller::TICK)) and
//! applies the result. Before anything is measured, the number follows from the distance of the
//! server and the kind of work. After that, each window of throughput confirms or changes the
//! number ([`ConcurrencyLimit`]). Transfers and hydration each own a controller.

use std::time::{Duration, Instant};

use crate::concurrency_limit::ConcurrencyLimit;
use crate::proximity::{FAR, Proximity};

/// Shortest window that shows the effect of a small change.
const FINE_WINDOW: Duration = Duration::from_millis(150);
/// Shortest window while the limit is multiplied. Multiplying has a large effect.
const COARSE_WINDOW: Duration = Duration::from_millis(40);
/// Number of bytes that each finished request adds to the throughput, so work of small requests
/// shows a throughput too.
const STEP_BYTES: u64 = 64 << 10;

/// Shortest window that shows the effect of a small change, in round trips.
const FINE_ROUND_TRIPS: u32 = 3;
/// Number of round trips after which a new connection has reached its rate. A connection doubles
/// its rate in each round trip (RFC 6928).
const SLOW_START: u32 = 6;
/// Round trip from which the limit grows fourfold instead of twofold. Each step takes two round
/// trips, and ten round trips should suffice to fill a network of 200 Gbit/s.
const LONG_ROUND_TRIP: Duration = Duration::from_millis(100);
/// Number of concurrent requests before anything is measured. At 40 MB/s per connection, as with
/// S3, this number fills a network of 5 Gbit/s.
pub const START: usize = 16;
/// Number of concurrent requests for the bytes of large objects from a near server. A few requests
/// keep both ends busy.
pub const START_NEAR: usize = 4;
/// Number of concurrent requests for small objects from a far server before anything is measured.
/// These requests mostly wait, which costs nothing. The default memory allows about 200.
const START_SMALL: usize = 256;
/// Number of concurrent requests between local files. More than one copy call per core gains
/// nothing.
const START_LOCAL: usize = 2;

/// The kind of work for which requests are to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// The parts of one object.
    One,
    /// Many objects for which the bytes take more time than the round trips.
    Large,
    /// Many objects for which the round trips take more time than the bytes.
    Small,
    /// Files on this machine.
    Local,
}

/// A client's state at one time. Numbers of bytes, requests and slowdowns are totals since the
/// client began.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    /// The time.
    pub now: Instant,
    /// Number of bytes moved.
    pub bytes: u64,
    /// Number of requests finished.
    pub requests: u64,
    /// Number of times that a server asked for a lower rate.
    pub slowdowns: u64,
    /// Number of requests in flight.
    pub under_way: usize,
    /// Number of requests in flight whose bytes are moving.
    pub moving: usize,
    /// Typical time from a request to the head of its response; zero while unknown.
    pub round_trip: Duration,
    /// The distance of the server.
    pub server: Proximity,
    /// True if reads have been unanswered for so long that the server is probably far away.
    pub silent: bool,
    /// The kind of work that waits to be requested; `None` if no work waits.
    pub waiting: Option<Work>,
}

/// The concurrency policy, and the window that is being measured.
#[derive(Clone, Debug)]
pub struct Controller {
    limit: ConcurrencyLimit,
    slowdowns: u64,
    window: Option<Window>,
    /// The longest time so far from a request to the head of its response. A request on a new
    /// connection takes several round trips.
    longest_round_trip: Duration,
    /// The longest round trip before the first bytes. Later heads of responses also wait for the
    /// bytes of other requests, so they show no distance.
    distance: Duration,
    /// True once bytes have moved.
    has_moved: bool,
    /// Time of the last change of the limit.
    changed: Option<Instant>,
}

/// A period in which the limit stays the same.
#[derive(Clone, Copy, Debug)]
struct Window {
    since: Instant,
    moved: u64,
    /// Seconds for which bytes were moving, summed over all requests, up to `observed`.
    moving: f64,
    observed: Instant,
    /// True while the effect of the limit is not visible yet: more requests are in flight than the
    /// limit allows, or the first requests are unanswered. Such a window is not measured.
    is_settling: bool,
}

impl Controller {
    /// Interval between two observations. It is far shorter than a window, and the calls take far
    /// less than a percent of a core.
    pub const TICK: Duration = Duration::from_millis(10);

    /// Returns a controller that allows between 1 and `cap` concurrent requests.
    #[must_use]
    pub fn new(work: Work, cap: usize) -> Self {
        Self::with(ConcurrencyLimit::new(work.start(), cap))
    }

    /// Returns a controller that always allows `limit` concurrent requests.
    #[must_use]
    pub fn fixed(limit: usize) -> Self {
        Self::with(ConcurrencyLimit::fixed(limit))
    }

    fn with(limit: ConcurrencyLimit) -> Self {
        Self {
            limit,
            slowdowns: 0,
            window: None,
            longest_round_trip: Duration::ZERO,
            distance: Duration::ZERO,
            has_moved: false,
            changed: None,
        }
    }

    /// Returns the current number of concurrent requests.
    #[must_use]
    pub fn concurrency(&self) -> usize {
        self.limit.now()
    }

    /// Returns true if only the cap keeps the number of requests from growing.
    #[must_use]
    pub fn is_at_cap(&self) -> bool {
        self.limit.is_at_cap()
    }

    /// Takes an observation. Returns the number of concurrent requests from now on.
    pub fn tick(&mut self, seen: &Observation) -> usize {
        let before = self.limit.now();
        self.longest_round_trip = self.longest_round_trip.max(seen.round_trip);
        if !self.has_moved {
            self.distance = self.longest_round_trip;
            self.has_moved = seen.bytes > 0;
        }
        // Requests that were sent before the last change may still be refused, which says nothing
        // about the new limit.
        let is_settling =
            self.window.is_some_and(|window| window.is_settling && !self.is_over(&window, seen));
        let refused = seen.slowdowns > self.slowdowns && !is_settling;
        self.slowdowns = seen.slowdowns;
        match seen.waiting {
            _ if refused => self.limit.back_off(START),
            // Throughput falls when the work runs out, so it says nothing about the limit.
            None => self.window = None,
            Some(work) => {
                self.limit.start_at(seen.start(work, self.distance));
                self.limit.set_min_useful(seen.min_useful(work));
                if self.limit.now() == before {
                    self.measure(seen, work);
                }
            }
        }
        if self.limit.now() != before {
            tracing::trace!(before, now = self.limit.now(), "concurrency");
            self.changed = Some(seen.now);
            self.window = Some(Window::new(seen, true));
        }
        self.limit.now()
    }

    /// Adds an observation to the window, and ends the window if it is long enough.
    fn measure(&mut self, seen: &Observation, work: Work) {
        let window = self.window.get_or_insert(Window::new(seen, true));
        window.add(seen);
        let window = *window;
        let moved = seen.moved() - window.moved;
        if self.limit.is_starting() && window.is_settling && moved == 0 {
            // The first window begins with the first bytes.
            self.window = Some(Window::new(seen, true));
        } else if moved > 0 && self.is_over(&window, seen) {
            self.window = Some(Window::new(seen, false));
            if !window.is_settling {
                let factor = if self.longest_round_trip < LONG_ROUND_TRIP { 2 } else { 4 };
                let rate = window.rate(seen, work, self.limit.now());
                self.limit.observe(rate, factor, self.is_early(seen));
            }
        }
    }

    /// Returns true while new connections may not have reached their rate.
    fn is_early(&self, seen: &Observation) -> bool {
        self.changed.is_some_and(|at| seen.now.saturating_duration_since(at) < seen.round_trip * SLOW_START)
    }

    fn is_over(&self, window: &Window, seen: &Observation) -> bool {
        let shortest = match (window.is_settling, self.limit.is_fine_tuning()) {
            // The first bytes of new connections arrive after several round trips. A small change
            // shows only after these connections have reached their rate.
            (true, false) => self.longest_round_trip + Self::TICK * 2,
            (true, true) => self.longest_round_trip.max(seen.round_trip * SLOW_START) + Self::TICK * 2,
            (false, true) => FINE_WINDOW.max(seen.round_trip * FINE_ROUND_TRIPS),
            (false, false) => COARSE_WINDOW.max(seen.round_trip),
        };
        window.elapsed(seen) >= shortest && !(window.is_settling && seen.under_way > self.limit.now())
    }
}

impl Window {
    fn new(seen: &Observation, is_settling: bool) -> Self {
        Self { since: seen.now, moved: seen.moved(), moving: 0.0, observed: seen.now, is_settling }
    }

    /// Adds the time since the last observation.
    fn add(&mut self, seen: &Observation) {
        let passed = seen.now.saturating_duration_since(self.observed).as_secs_f64();
        self.moving += seen.moving as f64 * passed;
        self.observed = seen.now;
    }

    fn elapsed(&self, seen: &Observation) -> Duration {
        seen.now.saturating_duration_since(self.since)
    }

    /// Returns the throughput that `limit` requests would have if the bytes of all of them were
    /// moving at the same time. The number of requests whose bytes move varies, because long
    /// requests end together; the rate of one request does not vary. For small objects, the
    /// measured throughput is returned, because waiting is part of the work.
    fn rate(&self, seen: &Observation, work: Work, limit: usize) -> f64 {
        let seconds = self.elapsed(seen).as_secs_f64();
        let rate = (seen.moved() - self.moved) as f64 / seconds;
        let share = self.moving / seconds / limit as f64;
        if work == Work::Small || share == 0.0 { rate } else { rate / share }
    }
}

impl Work {
    /// Returns the number of requests to start with while nothing is known about the server.
    fn start(self) -> usize {
        match self {
            Self::Local => START_LOCAL,
            Self::One | Self::Large | Self::Small => START,
        }
    }
}

impl Observation {
    /// Returns the number of requests to start with. `distance` is the longest round trip before
    /// the first bytes. A server can be far although its quickest response was quick, as a proxy is
    /// that answers some requests itself.
    fn start(&self, work: Work, distance: Duration) -> usize {
        match (work, self.server) {
            (Work::One | Work::Large, Proximity::Near) if distance < FAR => START_NEAR,
            (Work::Small, Proximity::Far) => START_SMALL,
            // The first response is late, so the server is probably far away. Not waiting for this
            // response saves a round trip. A quick response or a refusal will undo the guess.
            (Work::Small, Proximity::Unknown) if self.silent && self.slowdowns == 0 => START_SMALL,
            _ => work.start(),
        }
    }

    /// Returns the smallest number of requests that is worth having. Fewer would gain nothing.
    fn min_useful(&self, work: Work) -> usize {
        match (work, self.server) {
            (Work::Local, _) => START_LOCAL,
            (Work::One | Work::Large, Proximity::Near) => START_NEAR,
            (Work::Small, Proximity::Far) => START_SMALL,
            _ => START,
        }
    }

    /// Returns the number of bytes moved, plus [`STEP_BYTES`] for each finished request.
    fn moved(&self) -> u64 {
        self.bytes + STEP_BYTES * self.requests
    }
}
