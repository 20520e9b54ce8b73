//! Decides how many requests a client sends at once, from its observations.
//!
//! The caller passes an [`Observation`] every few milliseconds ([`TICK`](Controller::TICK)) and
//! applies the result. Before anything is measured, the number follows from the distance of the
//! server and the kind of work. Then each window of throughput confirms or changes it
//! ([`ConcurrencyLimit`]). Transfers and hydration each own one.

use std::time::{Duration, Instant};

use crate::{ConcurrencyLimit, FAR, Proximity};

/// The shortest window of a small change: bytes of every connection arrive within it.
const WINDOW: Duration = Duration::from_millis(150);
/// The same of a change by a factor, which shows sooner.
const SHORT_WINDOW: Duration = Duration::from_millis(40);
/// A finished request counts for this many bytes, so that work of small requests has a throughput
/// too.
const STEP_BYTES: u64 = 64 << 10;

/// Round trips that a small change is measured for at least.
const ROUND_TRIPS: u32 = 3;
/// Round trips in which a new connection comes to its rate: it doubles in each (RFC 6928).
const SLOW_START: u32 = 6;
/// From this time of an answer on the number of requests grows fourfold at a time instead of
/// twofold: each step takes two of them, and a network of 200 Gbit/s is to be filled in ten.
const LONG: Duration = Duration::from_millis(100);
/// Requests at once before anything is measured: at the 40 MB/s that S3 gives a connection, these
/// fill a network of 5 Gbit/s.
pub const START: usize = 16;
/// The same for the bytes of large objects from a near server, where a few requests keep both ends
/// busy, and for parts of uploads.
pub const START_NEAR: usize = 4;
/// The same of small objects from afar: they only wait, and waiting costs nothing. The default
/// memory allows about 200.
const START_SMALL: usize = 256;
/// The same between local files, where one copy call a core is all there is to gain.
const START_LOCAL: usize = 2;
/// Parts of uploads at least: while one waits for its answer another fills the link.
const LEAST_PARTS: usize = 2;

/// The kind of work that waits to be requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Parts of one object.
    One,
    /// Many objects whose bytes outweigh their round trips.
    Large,
    /// Many objects whose round trips outweigh their bytes.
    Small,
    /// Parts of uploads. One that is cut off is sent again whole, so they are to finish one after
    /// the other instead of all at the end.
    Parts,
    /// Files of this machine.
    Local,
}

/// What a client sees at one moment. Counts and bytes are totals since it began.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    /// The time.
    pub now: Instant,
    /// Bytes moved.
    pub bytes: u64,
    /// Requests finished.
    pub requests: u64,
    /// Times that a server asked for fewer requests.
    pub slowdowns: u64,
    /// Requests under way.
    pub under_way: usize,
    /// The part of them whose bytes are on their way.
    pub moving: usize,
    /// The typical time to the head of an answer; zero while unknown.
    pub round_trip: Duration,
    /// How far away the server is.
    pub server: Proximity,
    /// True if no read has been answered for so long that the server is probably far away.
    pub silent: bool,
    /// The work that waits; `None` if there is no such work.
    pub waiting: Option<Work>,
}

/// The policy, and the window being measured.
#[derive(Clone, Debug)]
pub struct Controller {
    limit: ConcurrencyLimit,
    slowdowns: u64,
    window: Option<Window>,
    /// The longest round trip so far: a new connection needs several.
    longest_round_trip: Duration,
    /// When the number last changed.
    changed: Option<Instant>,
}

/// A span of time at one limit.
#[derive(Clone, Copy, Debug)]
struct Window {
    since: Instant,
    moved: u64,
    /// Seconds in which a request moved bytes, of all requests together, up to `seen`.
    moving: f64,
    seen: Instant,
    /// True while more requests are under way than a new limit allows, or the first at it have not
    /// been answered yet: such a span is not measured.
    settling: bool,
}

impl Controller {
    /// The interval between observations. It is far shorter than a window, and the calls cost far
    /// less than a percent of a core.
    pub const TICK: Duration = Duration::from_millis(10);

    /// Sends between 1 and `cap` requests at once.
    #[must_use]
    pub fn new(work: Work, cap: usize) -> Self {
        Self::with(ConcurrencyLimit::new(work.start(), cap))
    }

    /// Always sends `limit` requests at once.
    #[must_use]
    pub fn fixed(limit: usize) -> Self {
        Self::with(ConcurrencyLimit::fixed(limit))
    }

    fn with(limit: ConcurrencyLimit) -> Self {
        Self { limit, slowdowns: 0, window: None, longest_round_trip: Duration::ZERO, changed: None }
    }

    /// The present number of requests at once.
    #[must_use]
    pub fn concurrency(&self) -> usize {
        self.limit.now()
    }

    /// True if only its cap keeps the number from growing.
    #[must_use]
    pub fn is_at_cap(&self) -> bool {
        self.limit.is_at_cap()
    }

    /// Takes an observation; returns the number of requests at once from now on.
    pub fn tick(&mut self, seen: &Observation) -> usize {
        let before = self.limit.now();
        self.longest_round_trip = self.longest_round_trip.max(seen.round_trip);
        // Requests sent before the last change may still be refused.
        let settling = self.window.is_some_and(|window| window.settling && !self.is_over(&window, seen));
        let refused = seen.slowdowns > self.slowdowns && !settling;
        self.slowdowns = seen.slowdowns;
        match seen.waiting {
            _ if refused => self.limit.back_off(START),
            // At the end of the work throughput falls for want of it: nothing can be learnt.
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
        window.moving += seen.moving as f64 * seen.now.saturating_duration_since(window.seen).as_secs_f64();
        window.seen = seen.now;
        let window = *window;
        let (elapsed, moved) = (window.elapsed(seen), seen.moved() - window.moved);
        if self.limit.is_starting() && window.settling && (moved == 0 || seen.round_trip.is_zero()) {
            // The first window begins with the first bytes.
            self.window = Some(Window::new(seen, true));
        } else if moved > 0 && self.is_over(&window, seen) {
            self.window = Some(Window::new(seen, false));
            if !window.settling {
                let seconds = elapsed.as_secs_f64();
                // Of long bodies, how many move at a time changes with the waves in which requests
                // end; the rate of one that moves does not.
                let share =
                    if work == Work::Small { 1.0 } else { window.moving / seconds / self.limit.now() as f64 };
                let rate = moved as f64 / seconds / if share > 0.0 { share } else { 1.0 };
                let slow_start = seen.round_trip * SLOW_START;
                let is_early =
                    self.changed.is_some_and(|at| seen.now.saturating_duration_since(at) < slow_start);
                self.limit.observe(rate, if self.longest_round_trip < LONG { 2 } else { 4 }, is_early);
            }
        }
    }

    fn is_over(&self, window: &Window, seen: &Observation) -> bool {
        let least = match (window.settling, self.limit.is_fine()) {
            // The first bytes of new connections arrive after several round trips. A small change
            // shows only when they have come to their rate.
            (true, false) => self.longest_round_trip + Self::TICK * 2,
            (true, true) => self.longest_round_trip.max(seen.round_trip * SLOW_START) + Self::TICK * 2,
            (false, true) => WINDOW.max(seen.round_trip * ROUND_TRIPS),
            (false, false) => SHORT_WINDOW.max(seen.round_trip),
        };
        window.elapsed(seen) >= least && !(window.settling && seen.under_way > self.limit.now())
    }
}

impl Window {
    fn new(seen: &Observation, settling: bool) -> Self {
        Self { since: seen.now, moved: seen.moved(), moving: 0.0, seen: seen.now, settling }
    }

    fn elapsed(&self, seen: &Observation) -> Duration {
        seen.now.saturating_duration_since(self.since)
    }
}

impl Work {
    /// The number of requests to begin with while nothing is known of the server.
    fn start(self) -> usize {
        match self {
            Self::Local => START_LOCAL,
            Self::Parts => START_NEAR,
            Self::One | Self::Large | Self::Small => START,
        }
    }
}

impl Observation {
    /// The number of requests to begin with. The longest round trip so far decides whether few are
    /// enough: the first of a connection shows a distance that later ones hide.
    fn start(&self, work: Work, longest: Duration) -> usize {
        match (work, self.server) {
            (Work::One | Work::Large, Proximity::Near) if longest < FAR => START_NEAR,
            (Work::Small, Proximity::Far) => START_SMALL,
            // The first answer is late: a round trip is saved, and a quick answer or a refusal
            // takes it back.
            (Work::Small, Proximity::Unknown) if self.silent && self.slowdowns == 0 => START_SMALL,
            _ => work.start(),
        }
    }

    /// The number of requests below which fewer gain nothing.
    fn least(&self, work: Work) -> usize {
        match (work, self.server) {
            (Work::Parts, _) => LEAST_PARTS,
            (Work::Local, _) => START_LOCAL,
            (Work::One | Work::Large, Proximity::Near) => START_NEAR,
            (Work::Small, Proximity::Far) => START_SMALL,
            _ => START,
        }
    }

    /// Bytes, and requests in terms of bytes.
    fn moved(&self) -> u64 {
        self.bytes + STEP_BYTES * self.requests
    }
}
