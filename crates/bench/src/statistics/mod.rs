//! Statistics of samples and of results files.
//!
//! Pure and deterministic: resampling draws from a fixed seed, so equal results give equal reports.
//! Samples that are not finite are counted and otherwise ignored. The order of the samples affects
//! only the indices of outliers. Called by `bench` for its reports and goals, and by
//! [`crate::compare`].

mod bootstrap;
mod case;
mod cells;
mod fairness;
mod goal;
mod noise;
mod outliers;
mod quantile;
pub(crate) mod significance;
mod summary;

pub use bootstrap::{Interval, Ratio, median_interval, ratio};
pub use case::{Contender, contenders, figure, samples};
pub use cells::{Cell, cells};
pub use fairness::{Fairness, fairness};
pub use goal::{Verdict, verdict, verdicts};
pub use noise::{Disturbance, MOST_DISTURBED_RUNS, MOST_ELSEWHERE, disturbance, elsewhere};
pub use outliers::outliers;
pub use quantile::{COARSE_BELOW, FEW_BELOW, median, quantile};
pub use summary::{Summary, summarise};

/// Draws a standard normal value by the method of Box and Muller.
#[cfg(test)]
pub(crate) fn normal(random: &mut fastrand::Rng) -> f64 {
    (-2.0 * (1.0 - random.f64()).ln()).sqrt() * (std::f64::consts::TAU * random.f64()).cos()
}
