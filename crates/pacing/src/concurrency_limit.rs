//! Decides how many requests run at once: the number is raised while throughput grows with it, and
//! no further.
//!
//! The [`Controller`](crate::Controller) passes in the throughput of each window. The number
//! multiplies while throughput follows. When it stops following, the number that is needed is the
//! throughput divided by that of one request, as seen before the link was full. From then on small
//! probes, up and down by turns, notice that conditions have changed.

/// Share of a raise that throughput has to follow, for the next raise to be as large.
const FOLLOWS: f64 = 0.75;
/// From this share on the link was not full, so the throughput of one request is that of a request
/// alone.
const FREE: f64 = 0.9;
/// A first raise of which throughput follows less than this share is taken back: no request was
/// measured alone.
const NOTHING: f64 = 0.1;
/// Growth of throughput from window to window that shows that a raise has not had its whole effect.
const GROWS: f64 = 1.1;
/// Share of a small raise that throughput has to follow for the raise to stay.
const HELPS: f64 = 0.5;
/// Fewer requests that keep this share of the throughput are enough: windows differ as much.
const KEEPS: f64 = 0.96;
/// Requests by those that are needed by a measurement, which is never exact.
const MARGIN: f64 = 1.15;
/// A good limit is probed by this part of it: by more than the margin, so that a probe down shows
/// the throughput of a request alone.
const PART: usize = 6;
/// Windows before a good limit is probed again, first and at last: the measurement may have been
/// wrong, but conditions change seldom.
const HOLD: std::ops::RangeInclusive<u32> = 2..=8;
/// The same once the number that is not refused has been found: each refusal costs a pause.
const HOLD_REFUSED: u32 = 20;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Nothing has been measured.
    Starting,
    /// The limit was multiplied from `from`, which gave the throughput `rate`. A request alone has
    /// the throughput `each`. The latest window had `last`, less than was hoped for.
    Climbing { from: usize, rate: f64, each: f64, last: f64 },
    /// The limit was raised by a part of `from`.
    Raised { from: usize, rate: f64, part: usize },
    /// The limit was lowered from `from`, to see how many requests are needed.
    Lowered { from: usize, rate: f64 },
    /// The limit was found good; so many windows until the next probe.
    Holding { left: u32, next: Probe },
    /// The limit never changes.
    Fixed,
}

/// The next change of a good limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    Up,
    Down,
}

/// The number of requests at once, and what is known of it.
#[derive(Clone, Debug)]
pub struct ConcurrencyLimit {
    now: usize,
    least: usize,
    cap: usize,
    phase: Phase,
    hold: u32,
    /// The server refused this many. Raises halve the distance to it instead of passing it.
    refused: Option<usize>,
}

impl ConcurrencyLimit {
    /// Starts at `start` and stays within 1 to `cap`.
    #[must_use]
    pub fn new(start: usize, cap: usize) -> Self {
        let cap = cap.max(1);
        let (now, phase, hold) = (start.clamp(1, cap), Phase::Starting, *HOLD.start());
        Self { now, least: 1, cap, phase, hold, refused: None }
    }

    /// A limit that never changes.
    #[must_use]
    pub fn fixed(limit: usize) -> Self {
        Self { phase: Phase::Fixed, ..Self::new(limit, limit) }
    }

    /// The present limit.
    #[must_use]
    pub fn now(&self) -> usize {
        self.now
    }

    /// True if it cannot rise further.
    #[must_use]
    pub fn is_at_cap(&self) -> bool {
        self.now == self.cap
    }

    /// True until the first window has been measured, or the server has asked for less.
    pub(crate) fn is_starting(&self) -> bool {
        self.phase == Phase::Starting
    }

    /// True while the effect of a small change is measured, which takes longer than that of a
    /// large one.
    pub(crate) fn is_fine(&self) -> bool {
        !matches!(self.phase, Phase::Starting | Phase::Climbing { .. })
    }

    /// Changes where it starts. Has no effect after the start.
    pub(crate) fn start_at(&mut self, start: usize) {
        if self.is_starting() {
            self.now = start.clamp(1, self.cap);
        }
    }

    /// Sets the number below which fewer requests gain nothing: none is probed.
    pub(crate) fn set_least(&mut self, least: usize) {
        self.least = least.max(1);
    }

    /// Takes the throughput of a whole window at the present limit, in any unit, and sets the limit
    /// for the next. A limit that helps is multiplied by `factor`. Whether one helps that
    /// `is_early` cannot be said yet, unless it does.
    pub(crate) fn observe(&mut self, rate: f64, factor: usize, is_early: bool) {
        match self.phase {
            Phase::Fixed => {}
            // The start is often enough: the first step is a small one.
            Phase::Starting => self.climb(rate, self.per_request(rate), 2),
            Phase::Climbing { from, rate: before, each, last } => {
                let share = self.share(from, rate / before);
                let each = if share >= FREE { self.per_request(rate) } else { each };
                if share >= FOLLOWS {
                    self.climb(rate, each, factor);
                } else if is_early || rate > last * GROWS {
                    // New connections are still slow.
                    self.phase = Phase::Climbing { from, rate: before, each, last: rate };
                } else if share < NOTHING && from <= self.least {
                    self.keep(from, Probe::Down);
                } else {
                    self.land(rate.max(before) / each, 1..=self.now, Probe::Up);
                }
            }
            Phase::Raised { from, rate: before, .. } if self.share(from, rate / before) < HELPS => {
                self.keep(from, Probe::Down);
            }
            // Each raise that helps is followed by one of twice the part.
            Phase::Raised { part: 1, .. } => self.climb(rate, self.per_request(rate), factor),
            Phase::Raised { part, .. } => {
                self.hold = *HOLD.start();
                self.raise_by(rate, part / 2);
            }
            Phase::Lowered { from, rate: before } => {
                let lost = if rate < before * KEEPS { before / rate } else { 1.0 };
                self.land(self.now as f64 * lost, self.now..=from, Probe::Up);
            }
            Phase::Holding { left, next } if left > 0 => {
                self.phase = Phase::Holding { left: left - 1, next };
            }
            Phase::Holding { next: Probe::Up, .. } => {
                // Behind a refusal the number that is not refused is searched for.
                self.raise_by(rate, if self.refused.is_some() { 1 } else { PART });
            }
            Phase::Holding { next: Probe::Down, .. } => self.lower(rate),
        }
    }

    /// Lowers the limit, because the server asked for fewer requests: to what was good before, else
    /// by a quarter, and from the start to half. `start` is where a start that assumed nothing
    /// would have been.
    pub(crate) fn back_off(&mut self, start: usize) {
        let refused = self.now;
        let limit = match self.phase {
            Phase::Fixed => return,
            Phase::Starting => start.min(self.now) / 2,
            Phase::Climbing { from, .. } | Phase::Raised { from, .. } => from,
            Phase::Lowered { .. } | Phase::Holding { .. } => self.now * 3 / 4,
        };
        self.now = limit.max(1);
        self.hold = *HOLD.start();
        self.phase = Phase::Holding { left: self.hold, next: Probe::Up };
        self.refused = Some(refused);
    }

    /// Multiplies the limit.
    fn climb(&mut self, rate: f64, each: f64, factor: usize) {
        let from = self.now;
        self.now = self.bounded(from.saturating_mul(factor));
        if self.now > from {
            self.phase = Phase::Climbing { from, rate, each, last: rate };
        } else {
            self.keep(from, Probe::Down);
        }
    }

    /// Raises the limit by a part.
    fn raise_by(&mut self, rate: f64, part: usize) {
        let from = self.now;
        self.now = self.bounded(from + from.div_ceil(part));
        if self.now > from {
            self.phase = Phase::Raised { from, rate, part };
        } else {
            // Conditions may have changed when this limit is probed next.
            self.keep(from, Probe::Up);
            if self.refused.take().is_some() {
                self.phase = Phase::Holding { left: HOLD_REFUSED, next: Probe::Up };
            }
        }
    }

    /// Lowers the limit by a part.
    fn lower(&mut self, rate: f64) {
        let from = self.now;
        self.now = (from - from.div_ceil(PART)).max(self.least.min(from));
        if self.now < from {
            self.phase = Phase::Lowered { from, rate };
        } else {
            self.keep(from, Probe::Up);
        }
    }

    /// Sets the limit to what a measurement shows to be needed, and the margin.
    fn land(&mut self, needed: f64, within: std::ops::RangeInclusive<usize>, next: Probe) {
        let limit = (needed * MARGIN).round() as usize;
        self.keep(self.bounded(limit.clamp(*within.start(), *within.end())), next);
    }

    /// Holds a limit, for longer each time.
    fn keep(&mut self, limit: usize, next: Probe) {
        self.now = limit;
        self.phase = Phase::Holding { left: self.hold, next };
        self.hold = (self.hold * 2).min(*HOLD.end());
    }

    /// A higher limit, within the cap and half-way to the refused number at most.
    fn bounded(&self, limit: usize) -> usize {
        let room = self.refused.map_or(self.cap, |refused| self.now + refused.saturating_sub(self.now) / 2);
        limit.min(room.max(self.now)).min(self.cap).max(1)
    }

    /// Throughput of one request.
    fn per_request(&self, rate: f64) -> f64 {
        rate / self.now as f64
    }

    /// The share of the raise from `from` that the throughput has followed.
    fn share(&self, from: usize, growth: f64) -> f64 {
        (growth - 1.0) / (self.now as f64 / from as f64 - 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CAP: usize = 64;

    fn settle(limit: &mut ConcurrencyLimit, windows: usize, throughput: impl Fn(usize) -> f64) -> usize {
        for _ in 0..windows {
            limit.observe(throughput(limit.now()), 2, false);
        }
        limit.now()
    }

    /// The throughput of requests of 40 each on a link of `total`.
    fn link(total: f64) -> impl Fn(usize) -> f64 {
        move |limit| (limit as f64 * 40.0).min(total)
    }

    #[test]
    fn it_multiplies_while_throughput_follows_and_lands_at_the_number_that_fills_the_link() {
        let mut limit = ConcurrencyLimit::new(16, 10_000);
        assert_eq!(settle(&mut limit, 7, link(40.0 * 300.0)), 345, "16 to 512, which is measured twice");
        assert_eq!(settle(&mut limit, 2, link(40.0 * 300.0)), 345);
    }

    #[test]
    fn a_start_with_too_many_requests_is_left_for_fewer() {
        let mut limit = ConcurrencyLimit::new(16, CAP);
        assert_eq!(settle(&mut limit, 2, link(400.0)), 18);
        assert!((9..=13).contains(&settle(&mut limit, 100, link(400.0))), "{}", limit.now());
    }

    #[test]
    fn a_good_limit_is_probed_up_and_down_by_little() {
        let mut limit = ConcurrencyLimit::new(16, 1000);
        settle(&mut limit, 5, link(4_000.0));
        let seen: Vec<usize> = (0..200).map(|_| settle(&mut limit, 1, link(4_000.0))).collect();
        assert!(seen.iter().all(|now| (84..=140).contains(now)), "{seen:?}");
    }

    #[test]
    fn more_bandwidth_is_found_by_a_probe_and_then_climbed_to() {
        let mut limit = ConcurrencyLimit::new(16, 1000);
        settle(&mut limit, 10, link(1_000.0));
        assert!((360..=520).contains(&settle(&mut limit, 60, link(16_000.0))), "{}", limit.now());
    }

    #[test]
    fn latency_bound_work_reaches_the_cap_in_three_windows() {
        assert_eq!(settle(&mut ConcurrencyLimit::new(8, CAP), 3, |limit| limit as f64), CAP);
    }

    #[test]
    fn nothing_is_searched_for_below_the_least() {
        let mut limit = ConcurrencyLimit::new(4, CAP);
        limit.set_least(4);
        assert_eq!(settle(&mut limit, 2, |_| 1.0), 4);
        assert!((0..50).all(|_| settle(&mut limit, 1, |_| 1.0) >= 4));
    }

    #[test]
    fn the_start_changes_only_before_the_first_window() {
        let mut limit = ConcurrencyLimit::new(12, CAP);
        limit.start_at(4);
        assert_eq!(limit.now(), 4);
        limit.observe(1.0, 2, false);
        limit.start_at(CAP);
        assert_eq!(limit.now(), 8);
    }

    #[test]
    fn a_server_that_asks_for_less_gets_less_for_a_while() {
        let mut limit = ConcurrencyLimit::new(16, CAP);
        limit.back_off(32);
        assert_eq!(settle(&mut limit, *HOLD.start() as usize, |limit| limit as f64), 8);
        let found = settle(&mut limit, 10, |limit| limit as f64);
        assert!((14..16).contains(&found), "{found}: the search ends below the refused number");
    }

    #[test]
    fn a_fixed_limit_stays() {
        let mut limit = ConcurrencyLimit::fixed(7);
        limit.back_off(32);
        assert_eq!(settle(&mut limit, 50, |limit| limit as f64), 7);
    }

    proptest! {
        #[test]
        fn it_never_leaves_its_bounds(cap in 1_usize..100, rates in proptest::collection::vec(0.0_f64..1e9, 0..200)) {
            let mut limit = ConcurrencyLimit::new(8, cap);
            for (index, rate) in rates.into_iter().enumerate() {
                if index % 17 == 3 { limit.back_off(8) }
                limit.observe(rate, 2 + index % 3, index % 5 == 0);
                prop_assert!((1..=cap).contains(&limit.now()));
            }
        }
    }
}
