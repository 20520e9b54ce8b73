//! Decides how many requests run at once: the limit is raised only while throughput grows with it.
//!
//! The [`Controller`](crate::Controller) passes in the throughput of each window. Doubling reaches
//! 64 from 8 in three windows, which matters because a gigabyte at 400 MB/s lasts 2.7 s. A raise
//! without effect is reverted: on a short path, additional requests only compete for processor
//! time.

/// Growth of throughput, as a share, that justifies doubling the limit. Smaller growth is within
/// the noise of a window.
const DOUBLING_GAIN: f64 = 0.12;
/// Windows before a good limit is probed again. Conditions change, but seldom.
const HOLD_WINDOWS: u32 = 20;
/// Windows before the next probe after a refusal, when the highest accepted limit is searched for.
const HOLD_WINDOWS_REFUSED: u32 = 4;
/// The factor by which a limit is raised and lowered. A probe from a good limit raises it by half,
/// and a probe below a refused limit halves the distance.
const FACTOR: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// No window has been measured.
    Starting,
    /// The limit was raised from `from`, which had the throughput `rate`.
    Probing { from: usize, rate: f64 },
    /// The limit was found good. The next probe is `left` windows away.
    Holding { left: u32 },
    /// The limit never changes.
    Fixed,
}

/// The number of requests at once, and the state of the search for it.
#[derive(Clone, Debug)]
pub struct ConcurrencyLimit {
    now: usize,
    cap: usize,
    phase: Phase,
    /// The limit at which the server last refused requests. Probes halve the distance to it.
    refused: Option<usize>,
}

impl ConcurrencyLimit {
    /// Starts at `start` and stays between 1 and `cap`.
    #[must_use]
    pub fn new(start: usize, cap: usize) -> Self {
        let cap = cap.max(1);
        Self { now: start.clamp(1, cap), cap, phase: Phase::Starting, refused: None }
    }

    /// Returns a limit that never changes.
    #[must_use]
    pub fn fixed(limit: usize) -> Self {
        Self { now: limit.max(1), cap: limit.max(1), phase: Phase::Fixed, refused: None }
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

    /// Returns true until the first window is measured or the server refuses requests.
    pub(crate) fn is_starting(&self) -> bool {
        self.phase == Phase::Starting
    }

    /// Changes the starting limit. Has no effect after the start.
    pub(crate) fn start_at(&mut self, start: usize) {
        if self.is_starting() {
            self.now = start.clamp(1, self.cap);
        }
    }

    /// Takes the throughput of a whole window at the present limit, in any unit, and sets the next
    /// limit.
    pub(crate) fn observe(&mut self, rate: f64) {
        match self.phase {
            Phase::Fixed => {}
            Phase::Probing { from, rate: before } if rate < before * self.gain_from(from) => self.hold(from),
            Phase::Holding { left } if left > 0 => self.phase = Phase::Holding { left: left - 1 },
            Phase::Starting | Phase::Probing { .. } => self.probe(rate, self.now * FACTOR),
            Phase::Holding { .. } => self.probe(rate, self.now + self.now.div_ceil(FACTOR)),
        }
    }

    /// Lowers the limit because the server refused requests: to the last good limit, otherwise to
    /// half. `start` is the cautious starting limit, which bounds the half during the start.
    pub(crate) fn back_off(&mut self, start: usize) {
        let refused = self.now;
        let limit = match self.phase {
            Phase::Fixed => return,
            Phase::Starting => start.min(self.now) / FACTOR,
            Phase::Probing { from, .. } => from,
            Phase::Holding { .. } => self.now / FACTOR,
        };
        self.now = limit.max(1);
        self.phase = Phase::Holding { left: HOLD_WINDOWS_REFUSED };
        self.refused = Some(refused);
    }

    fn hold(&mut self, limit: usize) {
        self.now = limit;
        self.phase = Phase::Holding { left: HOLD_WINDOWS };
    }

    fn probe(&mut self, rate: f64, limit: usize) {
        let from = self.now;
        let room = self.refused.map_or(self.cap, |refused| from + refused.saturating_sub(from) / FACTOR);
        let limit = limit.min(room).min(self.cap);
        if limit > from {
            self.now = limit;
            self.phase = Phase::Probing { from, rate };
        } else {
            // The next probe of this limit may pass the refused one: conditions may have changed.
            self.refused = None;
            self.hold(from);
        }
    }

    /// Returns the factor of throughput that justifies the raise from `from` to the present limit.
    fn gain_from(&self, from: usize) -> f64 {
        1.0 + DOUBLING_GAIN * (self.now as f64 / from as f64 - 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CAP: usize = 64;

    fn settle(limit: &mut ConcurrencyLimit, windows: usize, throughput: impl Fn(usize) -> f64) -> usize {
        for _ in 0..windows {
            limit.observe(throughput(limit.now()));
        }
        limit.now()
    }

    #[test]
    fn it_rises_while_connections_add_throughput_and_stops_where_the_link_is_full() {
        let link = |limit: usize| (limit as f64 * 40.0).min(400.0);
        let mut limit = ConcurrencyLimit::new(8, CAP);
        assert_eq!(settle(&mut limit, 3, link), 16);
        assert_eq!(settle(&mut limit, 10, link), 16);
    }

    #[test]
    fn latency_bound_work_reaches_the_cap_in_three_windows() {
        assert_eq!(settle(&mut ConcurrencyLimit::new(8, CAP), 3, |limit| limit as f64), CAP);
    }

    #[test]
    fn a_probe_without_gain_is_reverted() {
        assert_eq!(settle(&mut ConcurrencyLimit::new(4, CAP), 15, |_| 1.0), 4);
    }

    #[test]
    fn the_start_changes_only_before_the_first_window() {
        let mut limit = ConcurrencyLimit::new(12, CAP);
        limit.start_at(4);
        assert_eq!(limit.now(), 4);
        limit.observe(1.0);
        limit.start_at(CAP);
        assert_eq!(limit.now(), 8);
    }

    #[test]
    fn a_server_that_asks_for_less_gets_less_for_a_while() {
        let mut limit = ConcurrencyLimit::new(16, CAP);
        limit.back_off(32);
        assert_eq!(settle(&mut limit, HOLD_WINDOWS_REFUSED as usize, |limit| limit as f64), 8);
        assert_eq!(
            settle(&mut limit, 10, |limit| limit as f64),
            15,
            "the search ends below the refused number"
        );
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
                limit.observe(rate);
                prop_assert!((1..=cap).contains(&limit.now()));
            }
        }
    }
}
