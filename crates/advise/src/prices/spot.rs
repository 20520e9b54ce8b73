//! Estimates how long work takes on spot instances, which AWS may interrupt. Uses the monthly rate
//! of interruptions that AWS publishes. Called by the advice for costs.
//!
//! Interruptions are assumed to occur at random, with a constant rate. After an interruption, all
//! work since the start is repeated. Waiting for a new instance is not counted.

use crate::usage::HOURS_PER_MONTH;

/// Returns the number of interruptions per hour if the fraction `part` (0 to 1) of the instances is
/// interrupted within a month. AWS's Spot advisor publishes such fractions.
#[must_use]
pub fn interruptions_per_hour(part: f64) -> f64 {
    -(1.0 - part.clamp(0.0, 1.0)).ln() / HOURS_PER_MONTH
}

/// Returns the mean number of hours until `hours` of work are done, with `rate` interruptions per
/// hour. Each interruption discards all work since the start.
#[must_use]
pub fn expected_hours(hours: f64, rate: f64) -> f64 {
    if hours <= 0.0 || rate <= 0.0 {
        return hours.max(0.0);
    }
    // (e^(rate hours) - 1) / rate: the mean duration of a memoryless process with restarts.
    (rate * hours).exp_m1() / rate
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hourly_interruptions_follow_from_the_share_interrupted_per_month() {
        let rate = interruptions_per_hour(0.5);
        assert!((rate * HOURS_PER_MONTH - 2.0f64.ln()).abs() < 1e-12);
        assert!(interruptions_per_hour(0.0).abs() < 1e-12);
        assert!(interruptions_per_hour(1.0).is_infinite());
    }

    #[test]
    fn interrupted_work_is_done_again() {
        assert!((expected_hours(10.0, 0.0) - 10.0).abs() < 1e-12);
        // One hour of work, interrupted once per hour on average, takes e - 1 hours.
        assert!((expected_hours(1.0, 1.0) - 1.718_281_828).abs() < 1e-6);
    }
}
