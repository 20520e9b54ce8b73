//! Limits a rate by the time at which the wire is free again. The rate is exact on average, also if
//! the thread wakes late.
//!
//! Sending `n` bytes occupies the wire for `n / rate`. If a connection was waiting, the next bytes
//! count from the moment the wire became free rather than from now, which makes up for late
//! wake-ups. If none was waiting they count from now, so there is no burst after a pause.

use std::time::{Duration, Instant};

use crate::Rate;

/// The largest delay that is made up for: longer than scheduling delays on a loaded machine,
/// shorter than the suspension of a laptop.
const CATCH_UP: Duration = Duration::from_millis(50);

/// The rate limit of one wire.
#[derive(Debug)]
pub(crate) struct Pace {
    rate: Option<Rate>,
    free_at: Instant,
    /// True if a connection was refused in the last round.
    waited: bool,
    /// True if a connection was refused in this round.
    refused: bool,
}

impl Pace {
    pub(crate) fn new(rate: Option<Rate>, now: Instant) -> Self {
        Self { rate, free_at: now, waited: false, refused: false }
    }

    /// When the wire will be free; `None` if it is free now.
    pub(crate) fn busy_until(&mut self, now: Instant) -> Option<Instant> {
        let busy = self.rate.is_some() && self.free_at > now;
        self.refused |= busy;
        busy.then_some(self.free_at)
    }

    /// Records that `bytes` are sent.
    pub(crate) fn send(&mut self, bytes: usize, now: Instant) {
        let Some(rate) = self.rate else { return };
        let earliest = if self.waited { now.checked_sub(CATCH_UP).unwrap_or(now) } else { now };
        self.free_at = self.free_at.max(earliest) + rate.time_of(bytes as u64);
    }

    /// Ends a round in which every connection with bytes to send has asked.
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
    fn late_wake_ups_are_made_up_for_if_a_connection_waited() {
        let start = Instant::now();
        let mut pace = pace(start);
        pace.send(1_000, start);
        assert!(pace.busy_until(start).is_some());
        pace.end_round();
        // Woken 3 ms after the wire became free: bytes of three more milliseconds go at once.
        let late = start + 4 * MS;
        for _ in 0..3 {
            assert_eq!(pace.busy_until(late), None);
            pace.send(1_001, late);
        }
        assert!(pace.busy_until(late).is_some());
    }

    #[test]
    fn there_is_no_burst_after_a_pause() {
        let start = Instant::now();
        let mut pace = pace(start);
        pace.send(1_000, start);
        pace.end_round();
        let later = start + 1_000 * MS;
        pace.send(1_000, later);
        assert_eq!(pace.busy_until(later), Some(later + MS));
    }

    #[test]
    fn a_wire_without_a_rate_is_never_busy() {
        let start = Instant::now();
        let mut pace = Pace::new(None, start);
        pace.send(usize::MAX, start);
        assert_eq!(pace.busy_until(start), None);
    }
}
