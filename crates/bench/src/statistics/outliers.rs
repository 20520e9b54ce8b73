//! Finds the outliers among samples.
//!
//! The score is the modified z-score of Iglewicz and Hoaglin, "How to Detect and Handle Outliers"
//! (1993): the distance from the median over the median absolute deviation, scaled to a normal
//! distribution. An outlier is reported, never removed.

use super::quantile::median;

/// The score above which Iglewicz and Hoaglin call a sample an outlier.
const OUTLIER_SCORE: f64 = 3.5;

/// 0.75 quantile of the standard normal distribution: median absolute deviation divided by sigma.
const MEDIAN_DEVIATION: f64 = 0.6745;

/// Square root of pi / 2: sigma divided by the mean absolute deviation.
const MEAN_DEVIATION: f64 = 1.253_314;

/// Smallest number of samples for an estimate of the deviation.
const MIN_SAMPLES: usize = 5;

/// Returns the indices of the outliers among `samples`, ascending.
#[must_use]
pub fn outliers(samples: &[f64]) -> Vec<usize> {
    let finite = samples.iter().filter(|sample| sample.is_finite()).count();
    let Some(middle) = median(samples).filter(|_| finite >= MIN_SAMPLES) else { return Vec::new() };
    let distances: Vec<f64> = samples.iter().map(|sample| (sample - middle).abs()).collect();
    let Some(sigma) = sigma(&distances, finite) else { return Vec::new() };
    let outlying = |distance: f64| distance.is_finite() && distance / sigma > OUTLIER_SCORE;
    (0..samples.len()).filter(|&index| outlying(distances[index])).collect()
}

/// Estimates the standard deviation from absolute `distances`; `None` if all are zero. If more than
/// half are zero, which is common for counts, the mean replaces the median, as Iglewicz and Hoaglin
/// advise.
fn sigma(distances: &[f64], finite: usize) -> Option<f64> {
    let sigma = median(distances)? / MEDIAN_DEVIATION;
    if sigma > 0.0 {
        return Some(sigma);
    }
    // The sum is in ascending order, so that it does not depend on the order of the samples.
    let mut ascending: Vec<f64> = distances.iter().copied().filter(|d| d.is_finite()).collect();
    ascending.sort_by(f64::total_cmp);
    let mean = ascending.iter().sum::<f64>() / finite as f64;
    (mean > 0.0).then_some(mean * MEAN_DEVIATION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_are_indices_into_the_samples() {
        let samples = [1.0, 1.02, 9.0, 0.99, f64::NAN, 1.01, 0.98, 0.1, 1.0];
        assert_eq!(outliers(&samples), [2, 7]);
        assert!(outliers(&[1.0, 1.1, 0.9, 1.05, 1.0, 0.95]).is_empty());
    }

    #[test]
    fn one_odd_value_among_equal_ones_is_an_outlier() {
        let mut samples = [5.0; 12];
        assert!(outliers(&samples).is_empty());
        samples[3] = 6.0;
        assert_eq!(outliers(&samples), [3]);
    }

    #[test]
    fn few_samples_have_no_outliers() {
        assert!(outliers(&[1.0, 1.0, 1.0, 100.0]).is_empty());
    }
}
