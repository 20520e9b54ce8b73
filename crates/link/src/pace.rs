//! Limits a rate: computes the time at which an emulated wire is free again. On average the rate is
//! exact, even if the thread wakes late.
//!
//! Sending `n` bytes occupies the wire for `n / rate`. If a connection was waiting, the next bytes
//! count from the time at which the wire became free, which compensates for a late wake-up. If no
//! connection was waiting, they count from now, so a pause is not made up for.
//!
//! With a [`BurstBucket`], the wire has a bucket of bytes, exact to the nanosecond. Both forms of
//! the link use this module: the proxy by `busy_until` and `send`, the slow file system by
//! `occupy`.

use std::time::{Duration, Instant};

use crate::rate::{BurstBucket, LinkRate};

/// Maximum delay of the thread that is compensated. Scheduling delays on a loaded machine are
/// shorter; the suspension of a laptop is longer, and is not made up for.
pub(crate) const CATCH_UP: Duration = Duration::from_millis(50);

/// Duration of a piece at the current rate. It is short enough for a smooth rate within short round
/// trips.
const PIECE_DURATION: Duration = Duration::from_millis(2);
/// Smallest and largest size of a piece, in bytes: the payload of one packet, and a size at which
/// the cost of the system call is negligible.
const PIECE_BYTES: std::ops::RangeInclusive<u64> = 1460..=(128 << 10);

/// The rate limit of one wire.
#[derive(Debug)]
pub(crate) struct WirePace {
    rate: Option<LinkRate>,
    bucket: Option<Bucket>,
    free_at: Instant,
    /// True if a connection was refused in the last round.
    waited: bool,
    /// True if a connection was refused in this round.
    refused: bool,
}

impl WirePace {
    pub(crate) fn new(rate: Option<LinkRate>, now: Instant) -> Self {
        Self { rate, bucket: None, free_at: now, waited: false, refused: false }
    }

    /// Returns the same wire with a full bucket. Ignores the burst if the wire has no rate.
    pub(crate) fn with_burst(self, burst: Option<BurstBucket>) -> Self {
        let bucket = self.rate.zip(burst).map(|(rate, burst)| Bucket::full(rate, burst));
        Self { bucket, ..self }
    }

    /// Returns the number of bytes to send in one piece now.
    pub(crate) fn piece(&self) -> u64 {
        let rate = self.bucket.as_ref().map_or(self.rate, |bucket| Some(bucket.rate()));
        rate.map_or(*PIECE_BYTES.end(), |rate| {
            rate.bytes_in(PIECE_DURATION).clamp(*PIECE_BYTES.start(), *PIECE_BYTES.end())
        })
    }

    /// Returns the time at which the wire will be free, or `None` if it is free now. A time counts
    /// as a refusal in this round.
    pub(crate) fn busy_until(&mut self, now: Instant) -> Option<Instant> {
        let busy = self.rate.is_some() && self.free_at > now;
        self.refused |= busy;
        busy.then_some(self.free_at)
    }

    /// Returns the time at which the wire is free, in the past or the future.
    pub(crate) fn free_at(&self) -> Instant {
        self.free_at
    }

    /// Records that `bytes` are sent now.
    pub(crate) fn send(&mut self, bytes: usize, now: Instant) {
        let earliest = if self.waited { now.checked_sub(CATCH_UP).unwrap_or(now) } else { now };
        self.occupy(bytes as u64, earliest);
    }

    /// Sends `bytes` as soon as the wire is free, but not before `earliest`. Returns the time at
    /// which the last byte is sent.
    pub(crate) fn occupy(&mut self, bytes: u64, earliest: Instant) -> Instant {
        let Some(rate) = self.rate else { return earliest };
        let start = self.free_at.max(earliest);
        let takes = match &mut self.bucket {
            None => rate.time_of(bytes),
            Some(bucket) => {
                bucket.fill(start - self.free_at);
                bucket.drain(bytes)
            }
        };
        self.free_at = start + takes;
        self.free_at
    }

    /// Ends a round. In a round, every connection that has bytes to send requests one piece.
    pub(crate) fn end_round(&mut self) {
        self.waited = std::mem::take(&mut self.refused);
    }
}

/// The state of a [`BurstBucket`]. The level and the capacity are in billionths of a byte, because
/// a rate times nanoseconds is then exact.
#[derive(Debug)]
struct Bucket {
    base: LinkRate,
    burst: LinkRate,
    capacity: u128,
    level: u128,
}

const BILLION: u128 = 1_000_000_000;

impl Bucket {
    fn full(base: LinkRate, burst: BurstBucket) -> Self {
        let capacity = u128::from(burst.bytes) * BILLION;
        Self { base, burst: burst.rate, capacity, level: capacity }
    }

    /// Returns the rate that limits the wire now.
    fn rate(&self) -> LinkRate {
        if self.level > 0 { self.burst } else { self.base }
    }

    /// Fills the bucket for a pause of `idle`.
    fn fill(&mut self, idle: Duration) {
        let filled = u128::from(self.base.get()).saturating_mul(idle.as_nanos());
        self.level = self.level.saturating_add(filled).min(self.capacity);
    }

    /// Sends `bytes` bytes: at the burst rate until the bucket is empty, and the rest at the base
    /// rate. Returns the time that this takes.
    fn drain(&mut self, bytes: u64) -> Duration {
        let (base, burst) = (u128::from(self.base.get()), u128::from(self.burst.get()));
        let bytes = u128::from(bytes) * BILLION;
        // While bytes are sent, the bucket fills at the base rate.
        let loses = burst.saturating_sub(base);
        let lasts = self.level.checked_div(loses).unwrap_or(u128::MAX);
        let takes = if bytes / burst <= lasts {
            self.level -= bytes / burst * loses;
            bytes / burst
        } else {
            self.level = 0;
            lasts + (bytes - lasts * burst) / base
        };
        Duration::from_nanos(u64::try_from(takes).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn pace(now: Instant) -> WirePace {
        WirePace::new(Some(LinkRate::bytes_per_second(1_000_000)), now)
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
        // The thread wakes 3 ms after the wire became free, so it may send the bytes of 3 ms at
        // once.
        let late = start + 4 * MS;
        for _ in 0..3 {
            assert_eq!(pace.busy_until(late), None);
            pace.send(1_001, late);
        }
        assert!(pace.busy_until(late).is_some());
    }

    #[test]
    fn a_pause_is_not_made_up_for() {
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
        let mut pace = WirePace::new(None, start);
        pace.send(usize::MAX, start);
        assert_eq!(pace.busy_until(start), None);
    }

    /// Returns a full bucket of 100 kB above 1 MB/s. At the burst rate of 5 MB/s, the bucket lasts
    /// 25 ms, in which 125 kB are sent.
    fn bursting(now: Instant) -> WirePace {
        let burst = BurstBucket { bytes: 100_000, rate: LinkRate::bytes_per_second(5_000_000) };
        pace(now).with_burst(Some(burst))
    }

    #[test]
    fn a_full_bucket_lasts_as_long_as_it_loses_more_than_it_gains() {
        let start = Instant::now();
        // One large piece takes the same time as many small ones.
        let mut whole = bursting(start);
        assert_eq!(whole.occupy(125_000 + 7_000, start), start + 32 * MS);
        let mut pieces = bursting(start);
        assert_eq!(pieces.piece(), 10_000);
        for sent in 1..=25 {
            assert_eq!(pieces.occupy(5_000, start), start + sent * MS);
        }
        assert_eq!(pieces.piece(), 2_000);
        assert_eq!(pieces.occupy(7_000, start), start + 32 * MS);
        // An empty bucket stays empty while bytes are sent without a pause.
        assert_eq!(whole.occupy(1_000, start), start + 33 * MS);
    }

    #[test]
    fn a_bucket_fills_at_the_base_rate_in_pauses_and_no_further_than_full() {
        let start = Instant::now();
        let mut pace = bursting(start);
        let empty = pace.occupy(125_000, start);
        // 40 kB, gained in a pause of 40 ms, last 10 ms.
        let later = empty + 40 * MS;
        assert_eq!(pace.occupy(50_000, later), later + 10 * MS);
        assert_eq!(pace.occupy(1_000, later), later + 11 * MS);
        let much_later = later + 10_000 * MS;
        assert_eq!(pace.occupy(126_000, much_later), much_later + 26 * MS);
    }

    #[test]
    fn below_the_base_rate_a_bucket_stays_full() {
        let start = Instant::now();
        let mut pace = bursting(start);
        for turn in 0..1_000 {
            pace.occupy(500, start + turn * MS);
        }
        let later = start + 1_000 * MS;
        assert_eq!(pace.occupy(125_000, later), later + 25 * MS);
    }

    #[test]
    fn a_burst_at_the_base_rate_changes_nothing() {
        let start = Instant::now();
        let burst = BurstBucket { bytes: 100_000, rate: LinkRate::bytes_per_second(1_000_000) };
        let mut pace = pace(start).with_burst(Some(burst));
        assert_eq!(pace.occupy(1_000_000, start), start + 1_000 * MS);
    }

    #[test]
    fn the_proxy_sends_at_the_burst_rate_as_well() {
        let start = Instant::now();
        let mut pace = bursting(start);
        pace.send(5_000, start);
        assert_eq!(pace.busy_until(start), Some(start + MS));
    }
}
