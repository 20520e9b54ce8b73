//! Estimates whether a part can be read in time, from the rate of its first blocks.

use std::time::Duration;

use firstbyte_lambda::Deadline;
use firstbyte_lambda::reader::ReadProgress;
use serde::Serialize;

/// Divisor of the time budget: no part is refused within that fraction of the budget after the
/// first byte, because the rate is not reliable yet.
const TRIAL_DIVISOR: u32 = 8;
/// Factor by which the time that a part needs must exceed the remaining time for an early refusal.
/// The rate may still rise, because requests are still being added.
const REFUSAL_FACTOR: f64 = 1.5;
/// Share of the estimated bytes that is reported as the largest part.
const SAFETY_FACTOR: f64 = 0.9;

/// The largest part that can be read before the deadline. The client can request it next.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LargestFittingPart {
    pub(crate) largest_bytes: u64,
    pub(crate) largest_share: String,
    pub(crate) bytes_per_second: f64,
    pub(crate) budget_seconds: f64,
}

#[derive(Debug)]
pub(crate) struct Estimate {
    size: u64,
    wanted: u64,
    /// Time from the start of the invocation to the moment at which reading must end.
    budget: Duration,
}

impl Estimate {
    /// Makes the estimate for a part of `wanted` bytes of an object of `size` bytes.
    pub(crate) fn new(size: u64, wanted: u64, deadline: &Deadline) -> Self {
        let budget = deadline.elapsed() + deadline.remaining().saturating_sub(deadline.margin(None));
        Self { size, wanted, budget }
    }

    /// Returns whether the bytes read so far show that the part cannot be read in time.
    pub(crate) fn refuses(&self, reading: &ReadProgress, elapsed: Duration) -> bool {
        let Some(first) = reading.first_byte else { return false };
        if elapsed < first + self.budget / TRIAL_DIVISOR || reading.bytes >= self.wanted {
            return false;
        }
        let left = self.budget.saturating_sub(elapsed).as_secs_f64();
        let needed = as_f64(self.wanted - reading.bytes) / self.rate(reading, elapsed);
        needed > left * REFUSAL_FACTOR
    }

    /// Returns the largest part that can be read in time, estimated from the progress of `reading`.
    pub(crate) fn fits(&self, reading: &ReadProgress, elapsed: Duration) -> LargestFittingPart {
        let rate = self.rate(reading, elapsed);
        let reads = self.budget.saturating_sub(reading.first_byte.unwrap_or(self.budget)).as_secs_f64();
        let bytes = (rate * reads * SAFETY_FACTOR).min(as_f64(self.size));
        LargestFittingPart {
            largest_bytes: firstbyte::size::whole(bytes),
            largest_share: share(bytes, self.size),
            bytes_per_second: rate,
            budget_seconds: self.budget.as_secs_f64(),
        }
    }

    /// Returns the bytes per second since the first byte.
    fn rate(&self, reading: &ReadProgress, elapsed: Duration) -> f64 {
        let since = elapsed.saturating_sub(reading.first_byte.unwrap_or(elapsed));
        if reading.bytes == 0 { 0.0 } else { as_f64(reading.bytes) / since.as_secs_f64().max(1e-3) }
    }
}

/// Formats a share in percent, rounded down to two decimals, so that the formatted share still
/// fits.
fn share(bytes: f64, size: u64) -> String {
    let percent = if size == 0 { 100.0 } else { bytes / as_f64(size) * 100.0 };
    format!("{:.2}%", (percent * 100.0).floor() / 100.0)
}

#[expect(clippy::cast_precision_loss, reason = "sizes in an estimate")]
fn as_f64(bytes: u64) -> f64 {
    bytes as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use firstbyte_location::{Algorithm, Hasher};

    fn reading(bytes: u64) -> ReadProgress {
        let crc32c = Hasher::new(Algorithm::Crc32c).finish();
        ReadProgress { bytes, first_byte: Some(Duration::from_millis(100)), crc32c, rate: None }
    }

    #[test]
    fn a_part_is_refused_once_the_rate_shows_that_it_does_not_fit() {
        let estimate = Estimate { size: 1000 << 20, wanted: 500 << 20, budget: Duration::from_secs(2) };
        let at = |milliseconds| Duration::from_millis(milliseconds);
        // After 0.1 s it is too early to decide. After 0.4 s the rate is 10 MiB in 0.3 s, so about
        // 60 MiB can be read in all.
        assert!(!estimate.refuses(&reading(1 << 20), at(110)));
        assert!(estimate.refuses(&reading(10 << 20), at(400)));
        let fits = estimate.fits(&reading(10 << 20), at(400));
        assert_eq!((fits.largest_bytes >> 20, fits.largest_share.as_str()), (57, "5.70%"));
        // At 100 MiB in 0.3 s, the part can be read in time.
        assert!(!estimate.refuses(&reading(100 << 20), at(400)));
        let nothing = ReadProgress { first_byte: None, ..reading(0) };
        assert_eq!(estimate.fits(&nothing, at(400)).largest_share, "0.00%");
    }
}
