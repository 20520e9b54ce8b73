//! Median and quantiles of a list of samples, and the sample counts below which they are marked as
//! uncertain.

/// Number of samples below which an interval of the median is coarse: it ends at, or next to, the
/// extremes.
pub const COARSE_BELOW: usize = 9;

/// Number of samples below which a summary is marked: its interval cannot reach 95 % by any method.
///
/// The widest interval that n samples offer, smallest to largest, contains the true median in 1 -
/// 2^(1-n) of all cases: 87.5 % for 4, 93.8 % for 5.
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
/// Interpolated linearly between neighbours: type 7 of Hyndman and Fan, "Sample quantiles in
/// statistical packages" (1996), as in numpy and R. For a median it is the usual definition.
#[must_use]
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = q.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(low + (high - low) * place.fract())
}
