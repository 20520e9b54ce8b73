//! Summarises one list of samples: extremes, median with its interval, mean, percentiles, outliers.

use serde::Serialize;

use super::bootstrap::{Interval, median_interval};
use super::outliers::outliers;
use super::quantile::{COARSE_BELOW, FEW_BELOW, quantile, sorted};

/// The summary of samples of one figure, in the unit of the samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Number of finite samples.
    pub count: usize,
    /// Number of samples that are not finite, which are ignored.
    pub bad: usize,
    /// Smallest sample.
    pub min: f64,
    /// Median; the mean of the middle two if the count is even.
    pub median: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// 95th percentile, interpolated.
    pub p95: f64,
    /// 99th percentile, interpolated.
    pub p99: f64,
    /// Largest sample.
    pub max: f64,
    /// Range that contains the true median with 95 % confidence.
    pub interval: Interval,
    /// True below [`COARSE_BELOW`] samples, for which the interval is rough.
    pub coarse: bool,
    /// True below [`FEW_BELOW`] samples.
    pub few: bool,
    /// Indices of outliers in the given order of the samples, ascending.
    pub outliers: Vec<usize>,
}

/// Smallest number of samples for which percentiles near the end are shown. With fewer, the 95th
/// percentile is close to the largest sample.
const MIN_SAMPLES_FOR_TAIL: usize = 20;

impl Summary {
    /// Returns a percentile near the end; `None` if there are too few samples.
    #[must_use]
    pub fn tail_percentile(&self, percentile: impl Fn(&Self) -> f64) -> Option<f64> {
        (self.count >= MIN_SAMPLES_FOR_TAIL).then(|| percentile(self))
    }
}

/// Summarises `samples`, which are in the order of the runs. `None` if no sample is finite.
#[must_use]
pub fn summarise(samples: &[f64]) -> Option<Summary> {
    let sorted = sorted(samples);
    let count = sorted.len();
    let interval = median_interval(&sorted)?;
    // A running mean, unlike a sum, cannot overflow.
    let mean = sorted.iter().zip(1..).fold(0.0, |mean, (x, n)| mean + (x - mean) / f64::from(n));
    Some(Summary {
        count,
        bad: samples.len() - count,
        min: sorted[0],
        median: quantile(&sorted, 0.5)?,
        mean: mean.clamp(sorted[0], sorted[count - 1]),
        p95: quantile(&sorted, 0.95)?,
        p99: quantile(&sorted, 0.99)?,
        max: sorted[count - 1],
        interval,
        coarse: count < COARSE_BELOW,
        few: count < FEW_BELOW,
        outliers: outliers(samples),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantiles_are_those_of_numpy() {
        let summary = summarise(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((summary.min, summary.median, summary.mean, summary.max), (1.0, 2.5, 2.5, 4.0));
        // numpy.quantile([1, 2, 3, 4], [0.95, 0.99])
        assert!((summary.p95 - 3.85).abs() < 1e-12 && (summary.p99 - 3.97).abs() < 1e-12);
        assert!(summary.few && summary.coarse);
    }

    #[test]
    fn samples_that_are_not_finite_are_counted_and_ignored() {
        assert_eq!(summarise(&[]), None);
        assert_eq!(summarise(&[f64::NAN, f64::INFINITY]), None);
        let summary = summarise(&[f64::NAN, 2.0, f64::NEG_INFINITY, 2.0, 2.0, 2.0, 2.0]).unwrap();
        assert_eq!((summary.count, summary.bad, summary.median), (5, 2, 2.0));
        assert!(!summary.few && summary.coarse);
        assert!(!summarise(&[1.0; 9]).unwrap().coarse);
    }

    fn is_close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
    }

    proptest! {
        #[test]
        fn the_order_of_samples_affects_only_outlier_indices(
            samples in prop::collection::vec(0.001..1000.0f64, 1..40),
            seed: u64,
        ) {
            let mut shuffled = samples.clone();
            fastrand::Rng::with_seed(seed).shuffle(&mut shuffled);
            let values = |samples: &[f64], summary: &Summary| {
                let mut values: Vec<f64> = summary.outliers.iter().map(|&i| samples[i]).collect();
                values.sort_by(f64::total_cmp);
                values
            };
            let (mut one, mut two) = (summarise(&samples).unwrap(), summarise(&shuffled).unwrap());
            prop_assert_eq!(values(&samples, &one), values(&shuffled, &two));
            one.outliers.clear();
            two.outliers.clear();
            prop_assert_eq!(one, two);
        }

        #[test]
        fn a_scaled_sample_has_a_scaled_summary(
            samples in prop::collection::vec(0.001..1000.0f64, 1..40),
            factor in 0.001..1000.0f64,
        ) {
            let scaled: Vec<f64> = samples.iter().map(|sample| sample * factor).collect();
            let (one, two) = (summarise(&samples).unwrap(), summarise(&scaled).unwrap());
            for (one, two) in [
                (one.min, two.min), (one.median, two.median), (one.mean, two.mean), (one.p95, two.p95),
                (one.p99, two.p99), (one.max, two.max), (one.interval.low, two.interval.low),
                (one.interval.high, two.interval.high),
            ] {
                prop_assert!(is_close(one * factor, two), "{one} * {factor} is not {two}");
            }
        }

        #[test]
        fn figures_are_in_order_and_the_interval_holds_the_sample_median(
            samples in prop::collection::vec(-1e300..1e300f64, 1..40),
        ) {
            let s = summarise(&samples).unwrap();
            prop_assert!(s.min <= s.interval.low && s.interval.low <= s.median, "{s:?}");
            prop_assert!(s.median <= s.interval.high && s.interval.high <= s.max, "{s:?}");
            prop_assert!(s.median <= s.p95 && s.p95 <= s.p99 && s.p99 <= s.max, "{s:?}");
            prop_assert!(s.min <= s.mean && s.mean <= s.max, "{s:?}");
        }
    }
}
