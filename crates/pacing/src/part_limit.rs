//! Decides how many parts of uploads are sent at once.
//!
//! A part that is interrupted has to be sent again from its start. If many parts share a thin link,
//! each takes long, and a killed run has finished few. Fewer parts at once fill such a link as
//! well, and finish one after another. Where each connection is slow, however, a part takes long
//! although nothing is shared, and only more parts at once fill the link. The rate of one part
//! distinguishes the two: on a thin link it falls as parts are added. The supervisor of a run
//! reports the bytes that have been sent, workers report each finished part, and the queue reads
//! the limit.

use std::time::{Duration, Instant};

/// The fewest parts at once: while one waits for its answer, another fills the link.
const FEWEST_PARTS: usize = 2;
/// The time that the parts in flight may take together. It bounds the link time that a kill wastes.
const IN_FLIGHT_TIME: Duration = Duration::from_secs(2);
/// The time that the parts in flight may take, in times of a part that shares nothing. Above 1, so
/// that parts are added for as long as they do not slow each other.
const IN_FLIGHT_PARTS: f64 = 1.5;
/// The shortest period that shows a rate: the buffers of a new connection are full long before its
/// end.
const PERIOD: Duration = Duration::from_millis(200);

/// The number of parts that may be sent at once.
#[derive(Clone, Copy, Debug)]
pub struct PartLimit {
    most: usize,
    /// The highest rate of one part, bytes per second.
    each: f64,
    /// The period that is being measured.
    period: Option<Period>,
}

/// A period, measured from its start up to `until`.
#[derive(Clone, Copy, Debug)]
struct Period {
    since: Instant,
    until: Instant,
    /// Bytes that had been sent before it.
    sent_before: u64,
    /// Seconds that parts were in flight, summed over the parts.
    in_flight: f64,
}

/// The parts of uploads that are in flight.
#[derive(Clone, Copy, Debug, Default)]
pub struct PartsInFlight {
    /// Their number.
    pub count: usize,
    /// The length of the longest, bytes.
    pub length: u64,
}

impl PartLimit {
    /// Returns a limit that follows the measured link.
    pub fn measuring() -> Self {
        Self { most: FEWEST_PARTS, each: 0.0, period: None }
    }

    /// Returns a limit that allows any number.
    pub fn none() -> Self {
        Self { most: usize::MAX, ..Self::measuring() }
    }

    /// Returns how many parts may be in flight.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Reports the bytes `sent` so far, and the parts that are being sent. Returns true if more may
    /// be sent than before.
    pub fn observe(&mut self, now: Instant, sent: u64, parts: PartsInFlight) -> bool {
        let new = Period { since: now, until: now, sent_before: sent, in_flight: 0.0 };
        // One part waits for its answer, and sends nothing meanwhile.
        if parts.count < FEWEST_PARTS {
            self.period = None;
            return false;
        }
        let period = self.period.get_or_insert(new);
        period.in_flight += parts.count as f64 * now.saturating_duration_since(period.until).as_secs_f64();
        period.until = now;
        let (took, period) = (now.saturating_duration_since(period.since), *period);
        if took < PERIOD {
            return false;
        }
        self.period = Some(new);
        let rate = sent.saturating_sub(period.sent_before) as f64 / took.as_secs_f64();
        self.adjust(rate, period.in_flight / took.as_secs_f64(), parts.length)
    }

    /// Reports that a part of `length` bytes took `took` while `parts`, itself included, were being
    /// sent. Returns true if more may be sent than before.
    pub fn finished(&mut self, took: Duration, parts: PartsInFlight) -> bool {
        let (in_flight, length) = (parts.count as f64, parts.length);
        let rate = in_flight * length as f64 / took.as_secs_f64().max(f64::MIN_POSITIVE);
        self.adjust(rate, in_flight, length)
    }

    /// Adjusts the limit to the rate of the parts in flight together, each of `length` bytes.
    fn adjust(&mut self, rate: f64, in_flight: f64, length: u64) -> bool {
        if self.most == usize::MAX || in_flight <= 0.0 || length == 0 || rate <= 0.0 {
            return false;
        }
        self.each = self.each.max(rate / in_flight);
        let alone = length as f64 / self.each;
        let time = IN_FLIGHT_TIME.as_secs_f64().max(IN_FLIGHT_PARTS * alone);
        let before = self.most;
        // A float out of range becomes `usize::MAX`, which stands for no limit.
        let most = (rate * time / length as f64).ceil() as usize;
        self.most = most.clamp(FEWEST_PARTS, usize::MAX - 1);
        self.most > before
    }
}

impl Default for PartLimit {
    fn default() -> Self {
        Self::none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: u64 = 8_000_000;

    /// Returns the limit after so many seconds over a link of `rate` bytes per second, with `each`
    /// for one connection. Parts end one after another.
    fn settle(rate: f64, each: f64, seconds: u64) -> usize {
        let mut limit = PartLimit::measuring();
        let began = Instant::now();
        let mut sent = 0.0;
        for tick in 0..seconds * 100 {
            let parts = PartsInFlight { count: limit.most().min(256), length: PART };
            sent += (parts.count as f64 * each).min(rate) / 100.0;
            limit.observe(began + Duration::from_millis(tick * 10), sent as u64, parts);
            if tick % 50 == 49 {
                let share = (rate / parts.count as f64).min(each);
                limit.finished(Duration::from_secs_f64(PART as f64 / share + 0.03), parts);
            }
        }
        limit.most()
    }

    #[test]
    fn on_a_thin_link_few_parts_fill_it_and_on_a_fast_one_there_is_room_for_all() {
        for rate in [1e5, 1e6, 8e6] {
            assert!((2..=3).contains(&settle(rate, rate, 60)), "{rate}: {}", settle(rate, rate, 60));
        }
        assert!((12..=30).contains(&settle(100e6, 100e6, 10)), "{}", settle(100e6, 100e6, 10));
        assert!(settle(400e6, 40e6, 2) >= 64);
        assert!(settle(4e9, 4e9, 1) >= 64);
    }

    #[test]
    fn slow_connections_are_added_until_they_share_the_link() {
        assert!(settle(400e6, 4e6, 2) >= 16, "{}", settle(400e6, 4e6, 2));
        assert!((100..=160).contains(&settle(400e6, 4e6, 6)), "{}", settle(400e6, 4e6, 6));
        assert!((10..=16).contains(&settle(10e6, 1e6, 20)), "{}", settle(10e6, 1e6, 20));
    }

    #[test]
    fn a_part_that_stalled_is_forgotten_with_the_next() {
        let mut limit = PartLimit::measuring();
        limit.finished(Duration::from_secs(30), PartsInFlight { count: 12, length: PART });
        assert!(limit.most() <= 24, "{}", limit.most());
        limit.finished(Duration::from_millis(50), PartsInFlight { count: 2, length: PART });
        assert!(limit.most() >= 64);
    }
}
