//! Records the bytes received over time, in bins, and finds rate levels in the bins. A rate that
//! falls once shows that the bucket of a burst ran empty.
//!
//! The workers of [`crate::load::Streams`] record bytes, and the coordinator reads past bins. The
//! analysis is pure.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Duration of a bin. It covers several pieces of the slowest link, and is a tenth of the shortest
/// burst to be detected.
pub(crate) const BIN_DURATION: Duration = Duration::from_millis(20);

/// Smallest number of bins in a level.
const MIN_LEVEL_BINS: usize = 5;

/// Smallest factor by which a rate must fall. A smaller fall is noise.
const MIN_FALL: f64 = 1.25;

/// Smallest share of the variation that two levels must explain.
const MIN_EXPLAINED: f64 = 0.7;

/// The bytes received in each bin since the probe began.
pub(crate) struct Timeline {
    began: Instant,
    bins: Vec<AtomicU64>,
}

impl Timeline {
    /// Returns a timeline of this length. Bytes that arrive later are not recorded.
    pub(crate) fn new(length: Duration) -> Self {
        let count = length.as_millis() / BIN_DURATION.as_millis() + 1;
        let bins = (0..count).map(|_| AtomicU64::new(0)).collect();
        Self { began: Instant::now(), bins }
    }

    /// Returns the number of the current bin.
    pub(crate) fn now(&self) -> usize {
        usize::try_from(self.began.elapsed().as_millis() / BIN_DURATION.as_millis()).unwrap_or(usize::MAX)
    }

    /// Records bytes that have just arrived.
    pub(crate) fn add(&self, bytes: usize) {
        if let Some(bin) = self.bins.get(self.now()) {
            bin.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    /// Returns the bytes per second in each bin, from the bin `from` up to, but not including,
    /// `to`.
    pub(crate) fn rates(&self, from: usize, to: usize) -> Vec<f64> {
        let to = to.min(self.bins.len());
        let bins = self.bins.get(from.min(to)..to).unwrap_or_default();
        bins.iter().map(|bin| bin.load(Ordering::Relaxed) as f64 / BIN_DURATION.as_secs_f64()).collect()
    }

    /// Returns the total number of bytes recorded.
    pub(crate) fn total(&self) -> u64 {
        self.bins.iter().map(|bin| bin.load(Ordering::Relaxed)).sum()
    }

    /// Returns the mean rate in the bins from `from` up to, but not including, `to`.
    pub(crate) fn mean(&self, from: usize, to: usize) -> f64 {
        mean(&self.rates(from, to))
    }
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// A rate that has fallen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fall {
    /// Bytes per second before the fall.
    pub(crate) before: f64,
    /// Bytes per second after the fall.
    pub(crate) after: f64,
    /// Number of the first bin after the fall.
    pub(crate) at: usize,
}

/// Finds the fall in `rates`: the two levels that fit best, if they explain most of the variation.
pub(crate) fn fall(rates: &[f64]) -> Option<Fall> {
    // If the first k of n rates deviate from the mean by S in total, two levels that meet at k
    // explain S² n / (k (n - k)) of the variation. So one running sum (`sum`) is enough for all k.
    let (middle, count) = (mean(rates), rates.len() as f64);
    let whole: f64 = rates.iter().map(|rate| (rate - middle).powi(2)).sum();
    let cuts = MIN_LEVEL_BINS..rates.len().saturating_sub(MIN_LEVEL_BINS);
    let mut sum: f64 = rates.iter().take(MIN_LEVEL_BINS).map(|rate| rate - middle).sum();
    let explained = cuts.map(|at| {
        let explained = sum * sum * count / (at as f64 * (count - at as f64));
        sum += rates[at] - middle;
        (whole - explained, at)
    });
    let (left, at) = explained.min_by(|one, other| one.0.total_cmp(&other.0))?;
    let found = Fall { before: mean(&rates[..at]), after: mean(&rates[at..]), at };
    (found.before > MIN_FALL * found.after && left < (1.0 - MIN_EXPLAINED) * whole).then_some(found)
}

/// Finds the bin in which a rate reaches its highest level: the first window of [`MIN_LEVEL_BINS`]
/// bins whose mean is close to the highest mean.
pub(crate) fn peak(rates: &[f64]) -> usize {
    let means: Vec<f64> = rates.windows(MIN_LEVEL_BINS).map(mean).collect();
    let highest = means.iter().copied().fold(0.0, f64::max);
    means.iter().position(|mean| *mean >= 0.9 * highest).unwrap_or(0)
}

/// Returns the number of bytes above `base` that a bucket has lost by the end of `rates`. The
/// bucket is full at the start, and fills at `base`, up to full.
pub(crate) fn drained_bytes(rates: &[f64], base: f64) -> f64 {
    let drain = |level: f64, rate: &f64| (level + (rate - base) * BIN_DURATION.as_secs_f64()).max(0.0);
    rates.iter().fold(0.0, drain)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `bins` bins of `rate` with a fixed jitter.
    fn level(rate: f64, bins: usize) -> impl Iterator<Item = f64> {
        (0..bins).map(move |bin| rate * (1.0 + 0.1 * ((bin * 7 % 10) as f64 - 4.5) / 4.5))
    }

    #[test]
    fn a_burst_and_what_follows_are_found_with_their_bucket() {
        let rates: Vec<f64> = level(0.0, 20).chain(level(1.35e9, 12)).chain(level(77.5e6, 200)).collect();
        let start = peak(&rates);
        let found = fall(&rates[start..]).unwrap();
        assert_eq!(start + found.at, 32);
        assert!((found.after / 77.5e6 - 1.0).abs() < 0.02, "{found:?}");
        let bucket = drained_bytes(&rates[..32], found.after);
        assert!((bucket / (12.0 * 0.02 * (1.35e9 - 77.5e6)) - 1.0).abs() < 0.05, "{bucket}");
    }

    #[test]
    fn a_steady_rate_and_one_that_rises_have_no_fall() {
        assert_eq!(fall(&level(75e6, 300).collect::<Vec<_>>()), None);
        let rising: Vec<f64> = level(40e6, 50).chain(level(80e6, 50)).chain(level(400e6, 200)).collect();
        assert_eq!(fall(&rising), None);
        assert_eq!(fall(&rising[peak(&rising)..]), None);
        assert_eq!(fall(&[]), None);
    }

    #[test]
    fn a_bucket_fills_while_less_is_sent_and_never_overflows() {
        let rates: Vec<f64> = [200e6; 50].into_iter().chain([0.0; 25]).collect();
        // One second at 200 MB/s takes 100 MB from a bucket that refills at 100 MB/s. A pause of
        // 0.5 s gives half of these bytes back.
        assert!((drained_bytes(&rates, 100e6) - 50e6).abs() < 1.0);
        assert_eq!(drained_bytes(&[0.0; 100], 100e6), 0.0);
    }

    #[test]
    fn bytes_are_recorded_in_the_bin_of_their_moment() {
        let line = Timeline::new(Duration::from_secs(1));
        line.add(1_000);
        let now = line.now() + 1;
        assert!((line.rates(0, now).iter().sum::<f64>() * BIN_DURATION.as_secs_f64() - 1_000.0).abs() < 1e-6);
        assert_eq!(line.rates(10_000, 20_000), Vec::<f64>::new());
    }
}
