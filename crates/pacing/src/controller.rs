//! Decides how many requests a client sends at once, from its observations.
//!
//! The caller passes an [`Observation`] every few milliseconds ([`TICK`](Controller::TICK)) and
//! applies the result. Before anything is measured, the number follows from the distance of the
//! server and the kind of work. Then each window of throughput confirms or changes it
//! ([`ConcurrencyLimit`]). Transfers and hydration each own a controller.

use std::time::{Duration, Instant};

use crate::concurrency_limit::ConcurrencyLimit;
use crate::proximity::{FAR, Proximity};

/// The shortest window that shows the effect of a small change.
const FINE_WINDOW: Duration = Duration::from_millis(150);
/// The shortest window while the limit is multiplied, whose effect is large.
const COARSE_WINDOW: Duration = Duration::from_millis(40);
/// Bytes added to the throughput for each finished request, so that work of small requests shows a
/// throughput too.
const STEP_BYTES: u64 = 64 << 10;

/// The shortest window that shows the effect of a small change, in round trips.
const FINE_ROUND_TRIPS: u32 = 3;
/// Round trips in which a new connection reaches its rate, since it doubles it in each (RFC 6928).
const SLOW_START: u32 = 6;
/// The round trip from which on the limit grows fourfold instead of twofold: each step takes two
/// round trips, and ten should suffice to fill a network of 200 Gbit/s.
const LONG_ROUND_TRIP: Duration = Duration::from_millis(100);
/// Requests at once before anything is measured. At 40 MB/s per connection, as with S3, they fill a
/// network of 5 Gbit/s.
pub const START: usize = 16;
/// Requests at once for the bytes of large objects from a near server, where a few keep both ends
/// busy.
pub const START_NEAR: usize = 4;
/// Requests at once for small objects from a far server before anything is measured. They mostly
/// wait, which costs nothing. The default memory allows about 200.
const START_SMALL: usize = 256;
/// Requests at once between local files, where more than one copy call per core gains nothing.
const START_LOCAL: usize = 2;

/// The kind of work that waits to be requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Parts of one object.
    One,
    /// Many objects whose bytes outweigh their round trips.
    Large,
    /// Many objects whose round trips outweigh their bytes.
    Small,
    /// Files of this machine.
    Local,
}

/// A client's state at one moment. Counts and bytes are totals since the client began.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    /// The time.
    pub now: Instant,
    /// Bytes moved.
    pub bytes: u64,
    /// Requests finished.
    pub requests: u64,
    /// Times that a server asked for a lower rate.
    pub slowdowns: u64,
    /// Requests in flight.
    pub under_way: usize,
    /// Requests in flight whose bytes are moving.
    pub moving: usize,
    /// The typical time to the head of an answer; zero while unknown.
    pub round_trip: Duration,
    /// How far away the server is.
    pub server: Proximity,
    /// True if reads have been unanswered for so long that the server is probably far away.
    pub silent: bool,
    /// The work that waits; `None` if there is none.
    pub waiting: Option<Work>,
}

/// The concurrency policy, and the window that is being measured.
#[derive(Clone, Debug)]
pub struct Controller {
    limit: ConcurrencyLimit,
    slowdowns: u64,
    window: Option<Window>,
    /// The longest round trip so far: new connections need several.
    longest_round_trip: Duration,
    /// The time of the last change of the limit.
    changed: Option<Instant>,
}

/// A period with one limit.
#[derive(Clone, Copy, Debug)]
struct Window {
    since: Instant,
    moved: u64,
    /// Seconds for which bytes moved, summed over the requests, up to `observed`.
    moving: f64,
    observed: Instant,
    /// True while the limit's effect is not visible yet: more requests are in flight than it
    /// allows, or its first requests are unanswered. Such a window is not measured.
    settling: bool,
}

impl Controller {
    /// The interval between observations. It is far shorter than a window, and the calls cost far
    /// less than a percent of a core.
    pub const TICK: Duration = Duration::from_millis(10);

    /// Returns a controller that sends between 1 and `cap` requests at once.
    #[must_use]
    pub fn new(work: Work, cap: usize) -> Self {
        Self::with(ConcurrencyLimit::new(work.start(), cap))
    }

    /// Returns a controller that always sends `limit` requests at once.
    #[must_use]
    pub fn fixed(limit: usize) -> Self {
        Self::with(ConcurrencyLimit::fixed(limit))
    }

    fn with(limit: ConcurrencyLimit) -> Self {
        Self { limit, slowdowns: 0, window: None, longest_round_trip: Duration::ZERO, changed: None }
    }

    /// Returns the present number of requests at once.
    #[must_use]
    pub fn concurrency(&self) -> usize {
        self.limit.now()
    }

    /// Returns true if only the cap keeps the number from growing.
    #[must_use]
    pub fn is_at_cap(&self) -> bool {
        self.limit.is_at_cap()
    }

    /// Takes an observation. Returns the number of requests at once from now on.
    pub fn tick(&mut self, seen: &Observation) -> usize {
        let before = self.limit.now();
        self.longest_round_trip = self.longest_round_trip.max(seen.round_trip);
        // Requests sent before the last change may still be refused.
        let settling = self.window.is_some_and(|window| window.settling && !self.is_over(&window, seen));
        let refused = seen.slowdowns > self.slowdowns && !settling;
        self.slowdowns = seen.slowdowns;
        match seen.waiting {
            _ if refused => self.limit.back_off(START),
            // Throughput falls when the work runs out, so it shows nothing about the limit.
            None => self.window = None,
            Some(work) => {
                self.limit.start_at(seen.start(work, self.longest_round_trip));
                self.limit.set_least(seen.least(work));
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

    /// Ends the window if it is long enough.
    fn measure(&mut self, seen: &Observation, work: Work) {
        let window = self.window.get_or_insert(Window::new(seen, true));
        window.add(seen);
        let window = *window;
        let moved = seen.moved() - window.moved;
        if self.limit.is_starting() && window.settling && moved == 0 {
            // The first window begins with the first bytes.
            self.window = Some(Window::new(seen, true));
        } else if moved > 0 && self.is_over(&window, seen) {
            self.window = Some(Window::new(seen, false));
            if !window.settling {
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
        let least = match (window.settling, self.limit.is_fine()) {
            // The first bytes of new connections arrive after several round trips, and a small
            // change shows only when they have reached their rate.
            (true, false) => self.longest_round_trip + Self::TICK * 2,
            (true, true) => self.longest_round_trip.max(seen.round_trip * SLOW_START) + Self::TICK * 2,
            (false, true) => FINE_WINDOW.max(seen.round_trip * FINE_ROUND_TRIPS),
            (false, false) => COARSE_WINDOW.max(seen.round_trip),
        };
        window.elapsed(seen) >= least && !(window.settling && seen.under_way > self.limit.now())
    }
}

impl Window {
    fn new(seen: &Observation, settling: bool) -> Self {
        Self { since: seen.now, moved: seen.moved(), moving: 0.0, observed: seen.now, settling }
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

    /// Returns the throughput that `limit` requests would have if the bytes of all were moving. How
    /// many of them move at one time changes with the waves in which long requests end; the rate of
    /// one does not. Of small objects the waiting is the work.
    fn rate(&self, seen: &Observation, work: Work, limit: usize) -> f64 {
        let seconds = self.elapsed(seen).as_secs_f64();
        let rate = (seen.moved() - self.moved) as f64 / seconds;
        let share = self.moving / seconds / limit as f64;
        if work == Work::Small || share == 0.0 { rate } else { rate / share }
    }
}

impl Work {
    /// Returns the number of requests to begin with while nothing is known of the server.
    fn start(self) -> usize {
        match self {
            Self::Local => START_LOCAL,
            Self::One | Self::Large | Self::Small => START,
        }
    }
}

impl Observation {
    /// Returns the number of requests to begin with. The `longest` round trip decides whether a few
    /// suffice: the first of a connection shows a distance that later ones hide.
    fn start(&self, work: Work, longest: Duration) -> usize {
        match (work, self.server) {
            (Work::One | Work::Large, Proximity::Near) if longest < FAR => START_NEAR,
            (Work::Small, Proximity::Far) => START_SMALL,
            // The first response is late, so the server is probably far. Not waiting for it saves
            // a round trip, and a quick response or a refusal undoes this.
            (Work::Small, Proximity::Unknown) if self.silent && self.slowdowns == 0 => START_SMALL,
            _ => work.start(),
        }
    }

    /// Returns the number of requests below which fewer gain nothing.
    fn least(&self, work: Work) -> usize {
        match (work, self.server) {
            (Work::Local, _) => START_LOCAL,
            (Work::One | Work::Large, Proximity::Near) => START_NEAR,
            (Work::Small, Proximity::Far) => START_SMALL,
            _ => START,
        }
    }

    /// Returns the bytes moved, plus [`STEP_BYTES`] for each request.
    fn moved(&self) -> u64 {
        self.bytes + STEP_BYTES * self.requests
    }
}
