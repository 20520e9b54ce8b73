//! Computes quantiles of measured times. A quantile is given only if enough values lie beyond it.

use serde::Serialize;

/// The distribution of times, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantiles {
    /// Number of values.
    pub count: usize,
    /// Median.
    pub p50: f64,
    /// 95th percentile, if there are at least 20 values.
    pub p95: Option<f64>,
    /// 99th percentile, if there are at least 100 values.
    pub p99: Option<f64>,
}

impl Quantiles {
    /// Computes the quantiles of `values`. `None` if there are no values.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let count = values.len();
        let at = |part: f64| values[((count as f64 * part).ceil() as usize).clamp(1, count) - 1];
        (count > 0).then(|| Self {
            count,
            p50: at(0.5),
            p95: (count >= 20).then(|| at(0.95)),
            p99: (count >= 100).then(|| at(0.99)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_needs_values_beyond_it() {
        let of = |count: u32| Quantiles::of((1..=count).rev().map(f64::from).collect());
        assert_eq!(of(0), None);
        assert_eq!(of(1), Some(Quantiles { count: 1, p50: 1.0, p95: None, p99: None }));
        assert_eq!(of(20), Some(Quantiles { count: 20, p50: 10.0, p95: Some(19.0), p99: None }));
        assert_eq!(of(100), Some(Quantiles { count: 100, p50: 50.0, p95: Some(95.0), p99: Some(99.0) }));
    }
}
