//! Decides how long a request may be silent before it is cut: cancelled, and sent again on another
//! connection. Such a repetition is called hedging here, although no second request runs beside the
//! first.
//!
//! Of many requests to a large service, a few take a hundred times longer than the rest, because of
//! one server or one connection. Sending such a request again is faster than waiting. The silent
//! request is cancelled first, so only the bytes in its socket's buffer are fetched twice, and no
//! second thread is needed. The limit doubles with every cut of the same request, so against a
//! server that is slow throughout, hedging takes less than three times as long as waiting.

use std::time::Duration;

use crate::backoff::{self, DEADLINE};
use crate::controller::START;
use crate::request_size::ROUND_TRIP_BYTES;

/// Number of samples kept: enough for a steady median, few enough to follow a change.
const SAMPLES: usize = 64;
/// Smallest number of samples that have a meaningful median.
const MIN_SAMPLES: usize = 4;
/// Multiple of the median that is far longer than a healthy service takes.
const MEDIAN_FACTOR: u32 = 4;
/// Limit while too few responses have come. It is longer than any round trip on Earth with a TLS
/// handshake. The next bytes of a long body always have this limit, because TCP resends a lost
/// packet within 200 ms and a round trip. The limit of a write is never shorter.
pub const SILENCE: Duration = Duration::from_millis(500);
/// Shortest limit. If a response is expected sooner than this, a new connection does not pay off.
/// The pause after a first failure is equally long.
pub(crate) const SHORTEST_LIMIT: Duration = backoff::FIRST_PAUSE;
/// Number of requests that allow one cut. The number is high, because a busy client delays
/// responses without any fault of the server.
const REQUESTS_PER_CUT: u64 = 10;
/// Number of cuts allowed in addition to the budget, because every request at the start may stall.
const FREE_CUTS: u64 = START as u64;
/// Number of cut reads that one cut write counts for. The number is high, because a write is sent
/// again from its start.
const WRITE_COST: u64 = REQUESTS_PER_CUT;

/// The event for which a request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The head of the response to a read.
    Head,
    /// The next bytes of a long body.
    Body,
    /// The next bytes of a body short enough to arrive with its head.
    ShortBody,
    /// The response to a long write. The wait includes the sending.
    Write,
    /// The response to a write that takes little more than its round trip.
    ShortWrite,
}

impl Wait {
    /// Returns the wait for a body of `length` bytes.
    #[must_use]
    pub fn body(length: u64) -> Self {
        if length <= ROUND_TRIP_BYTES { Self::ShortBody } else { Self::Body }
    }

    /// Returns the wait for the response to a write of `length` bytes.
    #[must_use]
    pub fn write(length: u64) -> Self {
        if length <= ROUND_TRIP_BYTES { Self::ShortWrite } else { Self::Write }
    }

    fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::ShortWrite)
    }
}

/// The durations of past requests. The limits of later requests follow from them.
#[derive(Debug, Default)]
pub struct HedgePolicy {
    heads: Samples,
    writes: Samples,
    short_writes: Samples,
    requests: u64,
    cuts: u64,
}

impl HedgePolicy {
    /// Counts a request that was sent.
    pub fn sent(&mut self) {
        self.requests += 1;
    }

    /// Records how long a request took.
    pub fn learn(&mut self, wait: Wait, took: Duration) {
        match wait {
            Wait::Head => self.heads.add(took),
            Wait::Write => self.writes.add(took),
            Wait::ShortWrite => {
                self.writes.add(took);
                self.short_writes.add(took);
            }
            Wait::Body | Wait::ShortBody => {}
        }
    }

    /// Returns the typical time until a request shows an effect: the head of the response to a
    /// read, or the response to a short write. Long writes do not count, because their bytes show
    /// an effect while they are sent. `None` while there are too few samples.
    #[must_use]
    pub fn median(&self) -> Option<Duration> {
        self.heads.median().max(self.short_writes.median())
    }

    /// Takes the cost of a cut from the budget. Returns false if the budget does not suffice. So
    /// few requests are sent twice, however slow the server is.
    pub fn cut(&mut self, wait: Wait) -> bool {
        let cost = if wait.is_write() { WRITE_COST } else { 1 };
        let allowed = self.cuts + cost <= FREE_CUTS + self.requests / REQUESTS_PER_CUT;
        self.cuts += if allowed { cost } else { 0 };
        allowed
    }

    /// Returns how long to wait for a request that has already been cut `cuts` times.
    #[must_use]
    pub fn limit(&self, wait: Wait, cuts: u32) -> Duration {
        let base = match wait {
            Wait::Head | Wait::ShortBody => {
                self.heads.median().map_or(SILENCE, |median| (median * MEDIAN_FACTOR).max(SHORTEST_LIMIT))
            }
            Wait::Body => SILENCE,
            Wait::Write | Wait::ShortWrite => {
                self.writes.median().map_or(DEADLINE, |median| (median * MEDIAN_FACTOR).max(SILENCE))
            }
        };
        base.saturating_mul(backoff::power_of_two(cuts))
    }
}

/// The latest durations, in a ring of [`SAMPLES`] entries.
#[derive(Debug, Default)]
struct Samples {
    ring: Vec<Duration>,
    next: usize,
}

impl Samples {
    fn add(&mut self, sample: Duration) {
        if self.ring.len() < SAMPLES {
            self.ring.push(sample);
        } else {
            self.ring[self.next] = sample;
        }
        self.next = (self.next + 1) % SAMPLES;
    }

    fn median(&self) -> Option<Duration> {
        let mut sorted = self.ring.clone();
        sorted.sort_unstable();
        (sorted.len() >= MIN_SAMPLES).then(|| sorted[sorted.len() / 2])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    const MS: Duration = Duration::from_millis(1);

    fn taught(heads: &[u32]) -> HedgePolicy {
        let mut policy = HedgePolicy::default();
        heads.iter().for_each(|ms| policy.learn(Wait::Head, MS * *ms));
        policy
    }

    #[test]
    fn a_stalled_head_is_cut_after_a_few_medians() {
        assert_eq!(taught(&[30, 31, 29, 30, 5_000]).limit(Wait::Head, 0), MS * 120);
        assert_eq!(taught(&[1; 9]).limit(Wait::Head, 0), SHORTEST_LIMIT);
    }

    #[test]
    fn the_limit_doubles_so_a_uniformly_slow_server_is_not_flooded() {
        let policy = taught(&[30; 8]);
        assert_eq!(policy.limit(Wait::Head, 3), MS * 960);
        assert!(policy.limit(Wait::Head, u32::MAX) > Duration::from_secs(30));
    }

    #[test]
    fn at_most_one_request_in_ten_is_cut_after_the_first_few() {
        let mut policy = HedgePolicy::default();
        for _ in 0..10_000 {
            policy.sent();
            policy.cut(Wait::Head);
        }
        assert_eq!(policy.cuts, FREE_CUTS + 10_000 / REQUESTS_PER_CUT);
    }

    #[test]
    fn writes_are_cut_seldom_because_a_write_is_sent_again_from_its_start() {
        let mut policy = HedgePolicy::default();
        assert_eq!((0..100).filter(|_| policy.cut(Wait::Write)).count() as u64, FREE_CUTS / WRITE_COST);
    }

    #[test]
    fn old_samples_are_replaced() {
        let mut policy = taught(&[10; SAMPLES]);
        (0..SAMPLES).for_each(|_| policy.learn(Wait::Head, MS * 200));
        assert_eq!(policy.median(), Some(MS * 200));
    }
}
