//! Decides how many concurrent requests run. The limit is raised only while throughput grows with
//! it.
//!
//! The [`Controller`](crate::Controller) passes in the throughput of each window. The limit is
//! multiplied while throughput follows. When throughput stops following, the limit becomes the
//! throughput divided by the throughput of a single request, as measured before the link was full.
//! From then on, small probes, up and down by turns, detect changed conditions.

use std::ops::RangeInclusive;

/// Share of a raise by which throughput must grow for the limit to be multiplied again. After a
/// doubling, for example, throughput must be at least 1.75 times as high.
const FOLLOW_SHARE: f64 = 0.75;
/// If throughput grows by at least this share of a raise, the link counts as not full. A request is
/// then as fast as a single request alone would be.
const UNCONTENDED_SHARE: f64 = 0.9;
/// If throughput grows by less than this share of the first raise, the limit returns to its value
/// before the raise. The link was then full from the start, so no request was measured alone, and
/// the needed number cannot be computed.
const NO_EFFECT_SHARE: f64 = 0.1;
/// If throughput still grows by this factor from one window to the next, a raise has not had its
/// full effect yet.
const GROWTH_FACTOR: f64 = 1.1;
/// Smallest share of a small raise by which throughput must grow for the raise to stay.
const HELP_SHARE: f64 = 0.5;
/// Share of the throughput that must remain after the limit was lowered, for the lower limit to be
/// enough. The throughput of two equal windows differs by about 4%.
const RETAINED_SHARE: f64 = 0.96;
/// Factor by which a computed limit is increased, because no measurement is exact.
const MARGIN_FACTOR: f64 = 1.16;
/// A probe changes a good limit by one part in this many. That is more than the margin, so a
/// lowered limit is below the needed number, and the throughput of a single request can be
/// measured.
const PROBE_DIVISOR: usize = 6;
/// Number of windows before a good limit is probed again: 2 at first, 8 in the long run. The first
/// measurement may have been wrong, but later conditions seldom change.
const HOLD_WINDOWS: RangeInclusive<u32> = 2..=8;
/// Number of windows before the next probe once the highest accepted limit is known. The number is
/// large, because each refusal costs a pause.
const HOLD_WINDOWS_REFUSED: u32 = 20;
/// Factor of the first raise. It is small, because the starting limit often suffices.
const FIRST_FACTOR: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// No window has been measured yet.
    Starting,
    /// The limit was multiplied. Before that, it was `from`, with the throughput `rate`. `each` is
    /// the throughput of a single request, and `last` is the throughput of the latest window.
    Climbing { from: usize, rate: f64, each: f64, last: f64 },
    /// The limit was raised from `from` by `from / divisor`. Before that, the throughput was
    /// `rate`.
    Raised { from: usize, rate: f64, divisor: usize },
    /// The limit was lowered from `from`, to measure how many requests are needed. Before that, the
    /// throughput was `rate`.
    Lowered { from: usize, rate: f64 },
    /// The limit was found good. The next probe follows after `left` windows.
    Holding { left: u32, next: Probe },
    /// The limit never changes.
    Fixed,
}

/// The direction of the next probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    Up,
    Down,
}

/// The number of concurrent requests, and the state of the search for it.
#[derive(Clone, Debug)]
pub struct ConcurrencyLimit {
    now: usize,
    min_useful: usize,
    cap: usize,
    phase: Phase,
    hold: u32,
    /// The limit at which the server last refused requests. Each raise covers at most half of the
    /// distance to it.
    refused: Option<usize>,
}

impl ConcurrencyLimit {
    /// Returns a limit that starts at `start` and stays between 1 and `cap`.
    #[must_use]
    pub fn new(start: usize, cap: usize) -> Self {
        let cap = cap.max(1);
        let (now, phase, hold) = (start.clamp(1, cap), Phase::Starting, *HOLD_WINDOWS.start());
        Self { now, min_useful: 1, cap, phase, hold, refused: None }
    }

    /// Returns a limit that never changes.
    #[must_use]
    pub fn fixed(limit: usize) -> Self {
        Self { phase: Phase::Fixed, ..Self::new(limit, limit) }
    }

    /// Returns the present limit.
    #[must_use]
    pub fn now(&self) -> usize {
        self.now
    }

    /// Returns true if the limit is at its cap.
    #[must_use]
    pub fn is_at_cap(&self) -> bool {
        self.now == self.cap
    }

    /// Returns true until the first window is measured or the server refuses a request.
    pub(crate) fn is_starting(&self) -> bool {
        self.phase == Phase::Starting
    }

    /// Returns true once the limit changes only by small steps. These take longer to show their
    /// effect.
    pub(crate) fn is_fine_tuning(&self) -> bool {
        !matches!(self.phase, Phase::Starting | Phase::Climbing { .. })
    }

    /// Changes the starting limit. Does nothing after the start.
    pub(crate) fn start_at(&mut self, start: usize) {
        if self.is_starting() {
            self.now = start.clamp(1, self.cap);
        }
    }

    /// Sets the smallest number of requests that is worth having: fewer would gain nothing. No
    /// probe goes below it.
    pub(crate) fn set_min_useful(&mut self, min_useful: usize) {
        self.min_useful = min_useful.max(1);
    }

    /// Sets the next limit from the throughput of a whole window at the current limit, in any unit.
    /// If the last raise helped, multiplies the limit by `factor`; the first raise uses
    /// [`FIRST_FACTOR`], and small raises are doubled. While `is_early`, a raise that does not help
    /// yet is kept.
    pub(crate) fn observe(&mut self, rate: f64, factor: usize, is_early: bool) {
        match self.phase {
            Phase::Fixed => {}
            Phase::Starting => self.climb(rate, self.per_request(rate), FIRST_FACTOR),
            Phase::Climbing { .. } => self.observe_climb(rate, factor, is_early),
            Phase::Raised { from, rate: before, .. } if self.share(from, rate / before) < HELP_SHARE => {
                self.hold_at(from, Probe::Down);
            }
            // After each raise that helps, the next raise is twice as large.
            Phase::Raised { divisor: 1, .. } => self.climb(rate, self.per_request(rate), factor),
            Phase::Raised { divisor, .. } => {
                self.hold = *HOLD_WINDOWS.start();
                self.raise_by(rate, divisor / 2);
            }
            Phase::Lowered { from, rate: before } => {
                let lost = if rate < before * RETAINED_SHARE { before / rate } else { 1.0 };
                self.hold_needed(self.now as f64 * lost, self.now..=from, Probe::Up);
            }
            Phase::Holding { left, next } if left > 0 => {
                self.phase = Phase::Holding { left: left - 1, next };
            }
            Phase::Holding { next: Probe::Up, .. } => {
                // Below a limit that was refused, the highest accepted limit is searched for.
                self.raise_by(rate, if self.refused.is_some() { 1 } else { PROBE_DIVISOR });
            }
            Phase::Holding { next: Probe::Down, .. } => self.lower(rate),
        }
    }

    fn observe_climb(&mut self, rate: f64, factor: usize, is_early: bool) {
        let Phase::Climbing { from, rate: before, each, last } = self.phase else { return };
        let share = self.share(from, rate / before);
        let each = if share >= UNCONTENDED_SHARE { self.per_request(rate) } else { each };
        if share >= FOLLOW_SHARE {
            self.climb(rate, each, factor);
        } else if is_early || rate > last * GROWTH_FACTOR {
            // New connections have not reached their rate yet.
            self.phase = Phase::Climbing { from, rate: before, each, last: rate };
        } else if share < NO_EFFECT_SHARE && from <= self.min_useful {
            self.hold_at(from, Probe::Down);
        } else {
            self.hold_needed(rate.max(before) / each, 1..=self.now, Probe::Up);
        }
    }

    /// Lowers the limit, because the server refused requests. After a raise, restores the limit
    /// before the raise; otherwise lowers the limit by a quarter. During the start, halves the
    /// limit, or the cautious starting limit `start` if that is lower.
    pub(crate) fn back_off(&mut self, start: usize) {
        let refused = self.now;
        let limit = match self.phase {
            Phase::Fixed => return,
            Phase::Starting => start.min(self.now) / 2,
            Phase::Climbing { from, .. } | Phase::Raised { from, .. } => from,
            Phase::Lowered { .. } | Phase::Holding { .. } => self.now * 3 / 4,
        };
        self.now = limit.max(1);
        self.hold = *HOLD_WINDOWS.start();
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
            self.hold_at(from, Probe::Down);
        }
    }

    /// Raises the limit by its value divided by `divisor`.
    fn raise_by(&mut self, rate: f64, divisor: usize) {
        let from = self.now;
        self.now = self.bounded(from + from.div_ceil(divisor));
        if self.now > from {
            self.phase = Phase::Raised { from, rate, divisor };
            return;
        }
        self.hold_at(from, Probe::Up);
        // The next probe may pass the limit that was refused, because conditions may have changed.
        if self.refused.take().is_some() {
            self.phase = Phase::Holding { left: HOLD_WINDOWS_REFUSED, next: Probe::Up };
        }
    }

    fn lower(&mut self, rate: f64) {
        let from = self.now;
        self.now = (from - from.div_ceil(PROBE_DIVISOR)).max(self.min_useful.min(from));
        if self.now < from {
            self.phase = Phase::Lowered { from, rate };
        } else {
            self.hold_at(from, Probe::Up);
        }
    }

    /// Holds the limit that a measurement shows to be needed, plus the margin.
    fn hold_needed(&mut self, needed: f64, within: RangeInclusive<usize>, next: Probe) {
        let limit = (needed * MARGIN_FACTOR) as usize;
        self.hold_at(self.bounded(limit.clamp(*within.start(), *within.end())), next);
    }

    /// Holds a limit. Each period without a probe is longer than the one before, up to a maximum.
    fn hold_at(&mut self, limit: usize, next: Probe) {
        self.now = limit;
        self.phase = Phase::Holding { left: self.hold, next };
        self.hold = (self.hold * 2).min(*HOLD_WINDOWS.end());
    }

    /// Bounds a new limit by the cap, and by half of the distance to the limit that was refused.
    fn bounded(&self, limit: usize) -> usize {
        let room = self.refused.map_or(self.cap, |refused| self.now + refused.saturating_sub(self.now) / 2);
        limit.min(room.max(self.now)).min(self.cap).max(1)
    }

    fn per_request(&self, rate: f64) -> f64 {
        rate / self.now as f64
    }

    /// Returns the share of the raise from `from` by which throughput has grown.
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

    /// Returns the throughput of a link of `total` whose requests have up to 40 each.
    fn link(total: f64) -> impl Fn(usize) -> f64 {
        move |limit| (limit as f64 * 40.0).min(total)
    }

    #[test]
    fn the_limit_multiplies_while_throughput_follows_and_ends_where_the_link_is_full() {
        let mut limit = ConcurrencyLimit::new(16, 10_000);
        assert_eq!(settle(&mut limit, 7, link(40.0 * 300.0)), 348, "16 to 512, which is measured twice");
        assert_eq!(settle(&mut limit, 2, link(40.0 * 300.0)), 348);
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
    fn a_first_raise_without_effect_is_reverted_and_the_limit_never_falls_below_the_least() {
        let mut limit = ConcurrencyLimit::new(4, CAP);
        limit.set_min_useful(4);
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
        assert_eq!(settle(&mut limit, *HOLD_WINDOWS.start() as usize, |limit| limit as f64), 8);
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
        fn the_limit_never_leaves_its_bounds(cap in 1_usize..100, rates in proptest::collection::vec(0.0_f64..1e9, 0..200)) {
            let mut limit = ConcurrencyLimit::new(8, cap);
            for (index, rate) in rates.into_iter().enumerate() {
                if index % 17 == 3 { limit.back_off(8) }
                limit.observe(rate, 2 + index % 3, index % 5 == 0);
                prop_assert!((1..=cap).contains(&limit.now()));
            }
        }
    }
}
