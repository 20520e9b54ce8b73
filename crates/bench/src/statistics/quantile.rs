//! Computes the median and quantiles of samples. Defines the numbers of samples below which a
//! summary is marked as uncertain.

/// Number of samples below which an interval of the median is coarse. Such an interval ends at or
/// next to the extremes.
pub const COARSE_BELOW: usize = 9;

/// Number of samples below which a summary is marked as having few samples: by no method can its
/// interval come near 95 % confidence.
///
/// The widest interval of n samples, from the smallest to the largest, contains the true median
/// with a probability of 1 - 2^(1-n): 87.5 % for 4, 93.8 % for 5.
pub const FEW_BELOW: usize = 5;

/// Returns the finite samples, ascending.
pub(super) fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut finite: Vec<f64> = samples.iter().copied().filter(|sample| sample.is_finite()).collect();
    finite.sort_by(f64::total_cmp);
    finite
}

/// Returns the median of `samples`, in any order; `None` if no sample is finite.
#[must_use]
pub fn median(samples: &[f64]) -> Option<f64> {
    quantile(&sorted(samples), 0.5)
}

/// Returns the quantile `q` (0 to 1) of `sorted`; `None` if it is empty.
///
/// Interpolates linearly between neighbours: type 7 of Hyndman and Fan, "Sample quantiles in
/// statistical packages" (1996), as numpy and R do. For the median this is the usual definition.
#[must_use]
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = q.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    Some(low + (high - low) * position.fract())
}
