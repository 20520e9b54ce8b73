//! Intervals of medians and of ratios of medians, by resampling.
//!
//! The method is the percentile bootstrap of Efron and Tibshirani, "An Introduction to the
//! Bootstrap" (1993), chapter 13. The percentile bootstrap assumes no distribution and suits
//! medians, whose bootstrap distribution lies on the samples themselves. Draws come from a fixed
//! seed over sorted samples, so that the result depends on neither order nor scale.

use serde::Serialize;

use super::quantile::{COARSE_BELOW, quantile, sorted};

/// Share of the resampled values on either side of a 95 % interval.
const TAIL_SHARE: f64 = 0.025;

/// Largest number of resamples for an interval.
const MAX_RESAMPLES: usize = 2000;

/// Largest number of draws for one interval. With very many samples, fewer resamples suffice.
const MAX_DRAWS: usize = 4_000_000;

/// Seed of the draws, chosen arbitrarily.
const SEED: u64 = 0x0f15_7b17_e000_0001;

/// A range that contains the true value with 95 % confidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// True if `value` lies in the interval, ends included.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// A ratio of two medians.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The ratio of the sample medians.
    pub value: f64,
    /// Range that contains the true ratio with 95 % confidence.
    pub interval: Interval,
    /// True if either side has so few samples that the interval is rough.
    pub coarse: bool,
}

/// Returns the 95 % interval of the median of `samples`; `None` if no sample is finite.
#[must_use]
pub fn median_interval(samples: &[f64]) -> Option<Interval> {
    let sorted = sorted(samples);
    let value = quantile(&sorted, 0.5)?;
    let mut resample = Resample::new(sorted.len());
    let medians = (0..resamples(sorted.len())).map(|_| resample.median(&sorted)).collect();
    Some(percentiles(medians, value))
}

/// Returns the median of `over` divided by the median of `under`, with its 95 % interval. `None` if
/// a list has no finite sample, or a sample that is not positive.
#[must_use]
pub fn ratio(over: &[f64], under: &[f64]) -> Option<Ratio> {
    let (over, under) = (sorted(over), sorted(under));
    if *over.first()? <= 0.0 || *under.first()? <= 0.0 {
        return None;
    }
    let value = quantile(&over, 0.5)? / quantile(&under, 0.5)?;
    let (mut above, mut below) = (Resample::new(over.len()), Resample::independent(under.len()));
    let count = resamples(over.len().max(under.len()));
    let ratios = (0..count).map(|_| above.median(&over) / below.median(&under)).collect();
    let coarse = over.len().min(under.len()) < COARSE_BELOW;
    Some(Ratio { value, interval: percentiles(ratios, value), coarse })
}

fn resamples(samples: usize) -> usize {
    (MAX_DRAWS / samples).clamp(400, MAX_RESAMPLES)
}

/// Returns the 95 % interval of resampled values, widened to contain `value`, that of the sample
/// itself.
fn percentiles(mut values: Vec<f64>, value: f64) -> Interval {
    values.sort_by(f64::total_cmp);
    let end = |part| quantile(&values, part).unwrap_or(value);
    Interval { low: end(TAIL_SHARE).min(value), high: end(1.0 - TAIL_SHARE).max(value) }
}

/// Draws resamples of one size with replacement.
struct Resample {
    random: fastrand::Rng,
    /// Number of draws of each sample.
    counts: Vec<u32>,
}

impl Resample {
    fn new(size: usize) -> Self {
        Self { random: fastrand::Rng::with_seed(SEED), counts: vec![0; size] }
    }

    /// Makes draws that are independent of those by [`Resample::new`].
    fn independent(size: usize) -> Self {
        Self { random: fastrand::Rng::with_seed(!SEED), counts: vec![0; size] }
    }

    /// Draws a resample of `sorted` and returns its median.
    fn median(&mut self, sorted: &[f64]) -> f64 {
        let size = sorted.len();
        self.counts.fill(0);
        for _ in 0..size {
            self.counts[self.random.usize(..size)] += 1;
        }
        let (low, high) = (self.value_at_rank(sorted, (size - 1) / 2), self.value_at_rank(sorted, size / 2));
        low + (high - low) / 2.0
    }

    /// Returns the value at `rank`, from 0, of the current resample.
    fn value_at_rank(&self, sorted: &[f64], rank: usize) -> f64 {
        let mut before = 0;
        let index = self.counts.iter().position(|&count| {
            before += count as usize;
            before > rank
        });
        sorted[index.unwrap_or(sorted.len() - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::normal;
    use crate::statistics::quantile::median;

    /// Simulated timings: log-normal noise around a known median.
    fn timings(random: &mut fastrand::Rng, count: usize, median: f64, spread: f64) -> Vec<f64> {
        (0..count).map(|_| median * (spread * normal(random)).exp()).collect()
    }

    #[test]
    fn intervals_of_twenty_samples_hold_the_true_median_in_90_to_98_of_100() {
        for spread in [0.01, 0.1, 1.0] {
            let held = (0..100)
                .filter(|&seed| {
                    let samples = timings(&mut fastrand::Rng::with_seed(seed), 20, 2.5, spread);
                    median_interval(&samples).unwrap().holds(2.5)
                })
                .count();
            assert!((90..=98).contains(&held), "{held} of 100 at spread {spread}");
        }
    }

    #[test]
    fn intervals_of_ratios_hold_the_true_ratio_in_90_to_98_of_100() {
        let held = (0..100)
            .filter(|&seed| {
                let random = &mut fastrand::Rng::with_seed(seed);
                let (one, two) = (timings(random, 20, 3.0, 0.1), timings(random, 20, 2.0, 0.3));
                ratio(&one, &two).unwrap().interval.holds(1.5)
            })
            .count();
        assert!((90..=98).contains(&held), "{held} of 100");
    }

    #[test]
    fn an_interval_of_few_samples_ends_at_the_extremes() {
        assert_eq!(median_interval(&[3.0, 1.0, 2.0]), Some(Interval { low: 1.0, high: 3.0 }));
        assert_eq!(median_interval(&[7.0]), Some(Interval { low: 7.0, high: 7.0 }));
        assert_eq!(median_interval(&[]), None);
    }

    #[test]
    fn a_ratio_needs_positive_samples_on_both_sides() {
        assert_eq!(ratio(&[1.0], &[0.0, 1.0]), None);
        assert_eq!(ratio(&[1.0], &[f64::NAN]), None);
        assert_eq!(ratio(&[], &[1.0]), None);
        let ratio = ratio(&[1.0; 9], &[2.0; 9]).unwrap();
        assert_eq!(
            (ratio.value, ratio.interval, ratio.coarse),
            (0.5, Interval { low: 0.5, high: 0.5 }, false)
        );
    }

    #[test]
    fn a_resampled_median_is_the_median_of_the_drawn_samples() {
        let sorted: Vec<f64> = (0..6).map(f64::from).collect();
        let mut resample = Resample::new(sorted.len());
        for _ in 0..100 {
            let found = resample.median(&sorted);
            let drawn: Vec<f64> = sorted
                .iter()
                .zip(&resample.counts)
                .flat_map(|(value, &count)| std::iter::repeat_n(*value, count as usize))
                .collect();
            assert_eq!(Some(found), median(&drawn));
        }
    }
}
