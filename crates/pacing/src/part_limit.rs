//! Decides how many parts of uploads are sent at once.
//!
//! An interrupted part must be sent again from its start. If many parts share a thin link, each
//! part takes long, and a run that is killed has finished few parts. Fewer concurrent parts fill
//! such a link just as well, and finish one after another. If each connection is slow, however, a
//! part takes long although it shares nothing, and only more concurrent parts fill the link. The
//! rate of one part distinguishes the two situations: on a thin link, the rate falls as parts are
//! added.
//!
//! The supervisor of a run reports the bytes that have been sent, workers report each finished
//! part, and the queue reads the limit.

use std::time::{Duration, Instant};

/// Smallest number of concurrent parts: while one part waits for its response, another fills the
/// link.
const MIN_PARTS: usize = 2;
/// Time that the parts in flight may take together. It bounds the link time that is lost if the run
/// is killed.
const IN_FLIGHT_TIME: Duration = Duration::from_secs(2);
/// Time that the parts in flight may take together, as a multiple of the time of a single part. It
/// is above 1, so parts are added as long as they do not slow each other down.
const IN_FLIGHT_PARTS: f64 = 1.5;
/// Shortest period that shows a rate. The buffers of a new connection are full long before its end.
const MIN_PERIOD: Duration = Duration::from_millis(200);

/// The number of parts that may be sent at once.
#[derive(Clone, Copy, Debug)]
pub struct PartLimit {
    max_parts: usize,
    /// The highest rate of one part so far, in bytes per second.
    part_rate: f64,
    /// The period that is being measured.
    period: Option<Period>,
}

/// A period that has been measured from `since` to `until`.
#[derive(Clone, Copy, Debug)]
struct Period {
    since: Instant,
    until: Instant,
    /// Number of bytes sent before the period.
    sent_before: u64,
    /// Seconds for which parts were in flight, summed over all parts.
    in_flight: f64,
}

/// The parts of uploads that are in flight.
#[derive(Clone, Copy, Debug, Default)]
pub struct PartsInFlight {
    /// Number of parts.
    pub count: usize,
    /// Length of the longest part, in bytes.
    pub length: u64,
}

impl PartLimit {
    /// Returns a limit that follows the measured link.
    pub fn measuring() -> Self {
        Self { max_parts: MIN_PARTS, part_rate: 0.0, period: None }
    }

    /// Returns a limit that allows any number of parts.
    pub fn none() -> Self {
        Self { max_parts: usize::MAX, ..Self::measuring() }
    }

    /// Returns the number of parts that may be in flight.
    pub fn most(&self) -> usize {
        self.max_parts
    }

    /// Reports the number of bytes `sent` so far, and the parts that are being sent. Returns true
    /// if the limit has risen.
    pub fn observe(&mut self, now: Instant, sent: u64, parts: PartsInFlight) -> bool {
        let new = Period { since: now, until: now, sent_before: sent, in_flight: 0.0 };
        // A single part sends nothing while it waits for its response, so it shows no rate.
        if parts.count < MIN_PARTS {
            self.period = None;
            return false;
        }
        let period = self.period.get_or_insert(new);
        period.in_flight += parts.count as f64 * now.saturating_duration_since(period.until).as_secs_f64();
        period.until = now;
        let (took, period) = (now.saturating_duration_since(period.since), *period);
        if took < MIN_PERIOD {
            return false;
        }
        self.period = Some(new);
        let rate = sent.saturating_sub(period.sent_before) as f64 / took.as_secs_f64();
        self.adjust(rate, period.in_flight / took.as_secs_f64(), parts.length)
    }

    /// Reports that a part took `took`, while `parts`, including this part, were being sent.
    /// Returns true if the limit has risen.
    pub fn finished(&mut self, took: Duration, parts: PartsInFlight) -> bool {
        let (in_flight, length) = (parts.count as f64, parts.length);
        let rate = in_flight * length as f64 / took.as_secs_f64().max(f64::MIN_POSITIVE);
        self.adjust(rate, in_flight, length)
    }

    /// Sets the limit from the total rate of the parts in flight, which have `length` bytes each.
    /// Returns true if the limit has risen.
    fn adjust(&mut self, rate: f64, in_flight: f64, length: u64) -> bool {
        if self.max_parts == usize::MAX || in_flight <= 0.0 || length == 0 || rate <= 0.0 {
            return false;
        }
        self.part_rate = self.part_rate.max(rate / in_flight);
        let alone = length as f64 / self.part_rate;
        let time = IN_FLIGHT_TIME.as_secs_f64().max(IN_FLIGHT_PARTS * alone);
        let before = self.max_parts;
        // A float out of range becomes `usize::MAX`, which would mean no limit.
        let most = (rate * time / length as f64).ceil() as usize;
        self.max_parts = most.clamp(MIN_PARTS, usize::MAX - 1);
        self.max_parts > before
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

    /// Returns the limit after `seconds` seconds on a link of `rate` bytes per second, with `each`
    /// bytes per second for one connection. Parts end one after another.
    fn limit_after(rate: f64, each: f64, seconds: u64) -> usize {
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
            assert!(
                (2..=3).contains(&limit_after(rate, rate, 60)),
                "{rate}: {}",
                limit_after(rate, rate, 60)
            );
        }
        assert!((12..=30).contains(&limit_after(100e6, 100e6, 10)), "{}", limit_after(100e6, 100e6, 10));
        assert!(limit_after(400e6, 40e6, 2) >= 64);
        assert!(limit_after(4e9, 4e9, 1) >= 64);
    }

    #[test]
    fn slow_connections_are_added_until_they_share_the_link() {
        assert!(limit_after(400e6, 4e6, 2) >= 16, "{}", limit_after(400e6, 4e6, 2));
        assert!((100..=160).contains(&limit_after(400e6, 4e6, 6)), "{}", limit_after(400e6, 4e6, 6));
        assert!((10..=16).contains(&limit_after(10e6, 1e6, 20)), "{}", limit_after(10e6, 1e6, 20));
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
