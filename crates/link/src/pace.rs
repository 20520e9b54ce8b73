//! Pacing by a clock of when the wire is free again, exact over time however late the thread wakes.
//!
//! Sending `n` bytes moves the clock on by `n / rate`. A wire that somebody waited for is sent on from when it became
//! free, not from when the thread got round to it, so a late wake-up is made good; a wire that nobody waited for earns
//! nothing, so there is no burst after a silence.

use std::time::{Duration, Instant};

use crate::Rate;

/// Lateness made good at most: longer than any scheduling delay on a loaded machine, shorter than a suspended laptop.
const CATCH_UP: Duration = Duration::from_millis(50);

/// The clock of one wire.
#[derive(Debug)]
pub(crate) struct Pace {
    rate: Option<Rate>,
    free_at: Instant,
    /// Whether somebody was refused in the last round.
    waited: bool,
    /// Whether somebody was refused in this one.
    refused: bool,
}

impl Pace {
    pub(crate) fn new(rate: Option<Rate>, now: Instant) -> Self {
        Self { rate, free_at: now, waited: false, refused: false }
    }

    /// When the wire is free, where it is not free now.
    pub(crate) fn busy_until(&mut self, now: Instant) -> Option<Instant> {
        let busy = self.rate.is_some() && self.free_at > now;
        self.refused |= busy;
        busy.then_some(self.free_at)
    }

    /// Sends `bytes`.
    pub(crate) fn send(&mut self, bytes: usize, now: Instant) {
        let Some(rate) = self.rate else { return };
        let earliest = if self.waited { now.checked_sub(CATCH_UP).unwrap_or(now) } else { now };
        self.free_at = self.free_at.max(earliest) + rate.time_of(bytes as u64);
    }

    /// Ends a round, in which everyone who had something to send has asked.
    pub(crate) fn end_round(&mut self) {
        self.waited = std::mem::take(&mut self.refused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn pace(now: Instant) -> Pace {
        Pace::new(Some(Rate::bytes_per_second(1_000_000)), now)
    }

    #[test]
    fn a_wire_is_busy_for_as_long_as_its_bytes_take() {
        let start = Instant::now();
        let mut pace = pace(start);
        assert_eq!(pace.busy_until(start), None);
        pace.send(5_000, start);
        assert_eq!(pace.busy_until(start), Some(start + 5 * MS));
        assert_eq!(pace.busy_until(start + 5 * MS), None);
    }

    #[test]
    fn lateness_is_made_good_to_those_who_waited() {
        let start = Instant::now();
        let mut pace = pace(start);
        pace.send(1_000, start);
        assert!(pace.busy_until(start).is_some());
        pace.end_round();
        // Woken 3 ms after the wire became free: three more milliseconds' worth go at once.
        let late = start + 4 * MS;
        for _ in 0..3 {
            assert_eq!(pace.busy_until(late), None);
            pace.send(1_001, late);
        }
        assert!(pace.busy_until(late).is_some());
    }

    #[test]
    fn silence_earns_nothing() {
        let start = Instant::now();
        let mut pace = pace(start);
        pace.send(1_000, start);
        pace.end_round();
        let later = start + 1_000 * MS;
        pace.send(1_000, later);
        assert_eq!(pace.busy_until(later), Some(later + MS));
    }

    #[test]
    fn no_rate_is_never_busy() {
        let start = Instant::now();
        let mut pace = Pace::new(None, start);
        pace.send(usize::MAX, start);
        assert_eq!(pace.busy_until(start), None);
    }
}
