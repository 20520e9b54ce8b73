//! Decides how many requests a client sends at once, from its observations.
//!
//! The caller passes an [`Observation`] every few milliseconds ([`TICK`](Controller::TICK)) and
//! applies the result. Before anything is measured, the number follows from the distance of the
//! server and the kind of work. Then each window of throughput confirms or changes it
//! ([`ConcurrencyLimit`]). Transfers and hydration each own a controller.

use std::time::{Duration, Instant};

use crate::concurrency_limit::ConcurrencyLimit;
use crate::proximity::Proximity;

/// The shortest window. Bytes of every connection arrive within it.
const WINDOW: Duration = Duration::from_millis(60);
/// Bytes added to the throughput for each finished request, so that work of small requests shows a
/// throughput too.
const STEP_BYTES: u64 = 64 << 10;

/// Ticks, or round trips if they are longer, after which a new limit shows its effect.
const SETTLING: u32 = 2;
/// The shortest measurement of a limit, in round trips.
const ROUND_TRIPS: u32 = 3;
/// Requests at once before anything is measured. At 40 MB/s per connection, as with S3, they fill a
/// network of 5 Gbit/s.
pub const START: usize = 16;
/// Requests at once for the bytes of large objects from a near server: a few keep both ends busy.
pub const START_NEAR: usize = 4;
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
}

/// A period with one limit.
#[derive(Clone, Copy, Debug)]
struct Window {
    since: Instant,
    moved: u64,
    /// True while the limit's effect is not visible yet: more requests are in flight than it
    /// allows, or its first requests are unanswered. Such a window is not measured.
    settling: bool,
}

impl Controller {
    /// The most requests at once for one object. More have not been seen to help.
    pub const MOST_OF_ONE: usize = 64;
    /// The most requests at once for many objects. Small ones mostly wait for round trips, so more
    /// requests help. The default memory allows about 200.
    pub const MOST: usize = 256;
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
        Self { limit, slowdowns: 0, window: None }
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
        // Requests sent before the last change may still be refused.
        let settling = self.window.is_some_and(|window| window.settling && !window.is_over(seen, before));
        let refused = seen.slowdowns > self.slowdowns && !settling;
        self.slowdowns = seen.slowdowns;
        match seen.waiting {
            _ if refused => self.limit.back_off(START),
            // Throughput falls when the work runs out, so it shows nothing about the limit.
            None => self.window = None,
            Some(work) => {
                self.limit.start_at(seen.start(work));
                if self.limit.now() == before {
                    self.measure(seen);
                }
            }
        }
        if self.limit.now() != before {
            tracing::trace!(before, now = self.limit.now(), "concurrency");
            self.window = Some(Window::new(seen, true));
        }
        self.limit.now()
    }

    /// Ends the window if it is long enough.
    fn measure(&mut self, seen: &Observation) {
        let window = *self.window.get_or_insert(Window::new(seen, true));
        let (elapsed, moved) = (window.elapsed(seen), seen.moved() - window.moved);
        if moved > 0 && window.is_over(seen, self.limit.now()) {
            self.window = Some(Window::new(seen, false));
            if !window.settling {
                self.limit.observe(moved as f64 / elapsed.as_secs_f64());
            }
        }
    }
}

impl Window {
    fn new(seen: &Observation, settling: bool) -> Self {
        Self { since: seen.now, moved: seen.moved(), settling }
    }

    fn elapsed(&self, seen: &Observation) -> Duration {
        seen.now.saturating_duration_since(self.since)
    }

    fn is_over(&self, seen: &Observation, limit: usize) -> bool {
        if self.settling {
            let least = Controller::TICK.max(seen.round_trip) * SETTLING;
            seen.under_way <= limit && self.elapsed(seen) >= least
        } else {
            self.elapsed(seen) >= WINDOW.max(seen.round_trip * ROUND_TRIPS)
        }
    }
}

impl Work {
    /// Returns the number of requests to begin with while nothing is known of the server.
    fn start(self) -> usize {
        if self == Self::Local { START_LOCAL } else { START }
    }
}

impl Observation {
    /// Returns the number of requests to begin with.
    fn start(&self, work: Work) -> usize {
        match (work, self.server) {
            (Work::One | Work::Large, Proximity::Near) => START_NEAR,
            // Requests of small objects mostly wait, which costs nothing.
            (Work::Small, Proximity::Far) => usize::MAX,
            // The first response is late, so the server is probably far. Not waiting for it saves
            // a round trip, and a quick response or a refusal undoes this.
            (Work::Small, Proximity::Unknown) if self.silent && self.slowdowns == 0 => usize::MAX,
            _ => work.start(),
        }
    }

    /// Returns the bytes moved, plus [`STEP_BYTES`] for each request.
    fn moved(&self) -> u64 {
        self.bytes + STEP_BYTES * self.requests
    }
}
