//! Models the time until a response begins, by a distribution from the quantiles of a model. The
//! time includes the round trip.
//!
//! The logarithm of the time is linear in the quantiles of a normal distribution: between the known
//! quantiles, and with the same slope beyond them. Two known quantiles give a log-normal
//! distribution.

use std::f64::consts::TAU;
use std::time::Duration;

use firstbyte_advise::model::Latency;

use crate::dice::Dice;

/// The 95th and 99th percentiles of the standard normal distribution.
const P95: f64 = 1.645;
const P99: f64 = 2.326;

/// Maximum wait, as a multiple of the median. The distribution itself has no end.
const MAX_WAIT_MEDIANS: f64 = 1_000.0;

/// A distribution of waits. Its quantiles are in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WaitDistribution {
    p50: f64,
    p95: f64,
    p99: f64,
}

impl WaitDistribution {
    /// Returns the distribution of a latency. `None` if the latency has only a median.
    #[must_use]
    pub fn of(latency: &Latency) -> Option<Self> {
        let p95 = latency.p95.or(latency.p99).filter(|p95| *p95 > latency.p50)?;
        let p99 = latency
            .p99
            .filter(|p99| *p99 > p95)
            .map_or_else(|| latency.p50.0 * (p95.0 / latency.p50.0).powf(P99 / P95), |p99| p99.0);
        Some(Self { p50: latency.p50.0, p95: p95.0, p99 })
    }

    /// Returns the median wait.
    #[must_use]
    pub fn median(&self) -> Duration {
        Duration::from_secs_f64(self.p50)
    }

    /// Returns the 5th percentile: nearly every response takes longer.
    #[must_use]
    pub fn floor(&self) -> Duration {
        Duration::from_secs_f64(self.at(-P95))
    }

    /// Draws the wait of a response.
    pub(crate) fn draw(&self, dice: &mut Dice) -> Duration {
        let (size, turn) = (dice.roll(), dice.roll());
        let deviations = (-2.0 * (1.0 - size).ln()).sqrt() * (TAU * turn).cos();
        Duration::from_secs_f64(self.at(deviations).min(MAX_WAIT_MEDIANS * self.p50))
    }

    /// Returns the wait in seconds at `deviations` standard deviations from the median.
    fn at(&self, deviations: f64) -> f64 {
        if deviations <= P95 {
            return self.p50 * (self.p95 / self.p50).powf(deviations / P95);
        }
        self.p95 * (self.p99 / self.p95).powf((deviations - P95) / (P99 - P95))
    }
}

#[cfg(test)]
mod tests {
    use firstbyte_advise::units::Seconds;

    use super::*;

    fn latency(p50: f64, p95: Option<f64>, p99: Option<f64>) -> Latency {
        Latency { p50: Seconds(p50), p95: p95.map(Seconds), p99: p99.map(Seconds), source: "test".into() }
    }

    #[test]
    fn drawn_waits_have_the_quantiles_of_the_latency() {
        let wait = WaitDistribution::of(&latency(0.025, Some(0.067), Some(0.3))).unwrap();
        let mut dice = Dice::new(7, 1);
        let mut waits: Vec<f64> = (0..20_000).map(|_| wait.draw(&mut dice).as_secs_f64()).collect();
        waits.sort_by(f64::total_cmp);
        for (part, expected) in [(0.5, 0.025), (0.95, 0.067), (0.99, 0.3)] {
            let found = waits[(part * 20_000.0) as usize];
            assert!((found / expected - 1.0).abs() < 0.1, "{part}: {found} is not {expected}");
        }
        assert!((wait.floor().as_secs_f64() - 0.025 * 0.025 / 0.067).abs() < 1e-6);
    }

    #[test]
    fn a_median_alone_is_no_distribution() {
        assert_eq!(WaitDistribution::of(&latency(0.03, None, None)), None);
        assert_eq!(WaitDistribution::of(&latency(0.03, Some(0.03), None)), None);
        let two = WaitDistribution::of(&latency(0.03, Some(0.06), None)).unwrap();
        assert!((two.p99 - 0.03 * 2_f64.powf(P99 / P95)).abs() < 1e-9);
    }
}
