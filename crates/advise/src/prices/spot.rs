//! Estimates the time of work on spot instances, which AWS may interrupt, from the monthly rate of
//! interruptions that AWS publishes.
//!
//! Interruptions are assumed to occur at random at a constant rate. Work since the last checkpoint,
//! or since the start, is repeated. The wait for a new instance is not counted.

use crate::usage::HOURS_PER_MONTH;

/// Interruptions an hour, if `part` of the instances (0 to 1) were interrupted in a month. AWS's
/// Spot advisor states such parts.
#[must_use]
pub fn interruptions_per_hour(part: f64) -> f64 {
    -(1.0 - part.clamp(0.0, 1.0)).ln() / HOURS_PER_MONTH
}

/// Mean hours until `hours` of work are done with `rate` interruptions an hour, each of which
/// discards what was done since the last checkpoint. Without `checkpoint`, in hours, it starts
/// over.
#[must_use]
pub fn expected_hours(hours: f64, rate: f64, checkpoint: Option<f64>) -> f64 {
    let piece = checkpoint.filter(|every| *every > 0.0).map_or(hours, |every| every.min(hours));
    if piece <= 0.0 || rate <= 0.0 {
        return hours.max(0.0);
    }
    // One piece needs (e^(rate piece) - 1) / rate in the mean: a memoryless process with restarts.
    (rate * piece).exp_m1() / rate * (hours / piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_in_which_half_were_interrupted() {
        let rate = interruptions_per_hour(0.5);
        assert!((rate * HOURS_PER_MONTH - 2.0f64.ln()).abs() < 1e-12);
        assert!(interruptions_per_hour(0.0).abs() < 1e-12);
        assert!(interruptions_per_hour(1.0).is_infinite());
    }

    #[test]
    fn work_is_done_again_and_checkpoints_save_it() {
        assert!((expected_hours(10.0, 0.0, None) - 10.0).abs() < 1e-12);
        // e - 1 hours of an hour's work with one interruption an hour.
        assert!((expected_hours(1.0, 1.0, None) - 1.718_281_828).abs() < 1e-6);
        let (none, some) = (expected_hours(10.0, 0.1, None), expected_hours(10.0, 0.1, Some(1.0)));
        assert!(10.0 < some && some < none, "{some} {none}");
        assert!((expected_hours(10.0, 0.1, Some(99.0)) - none).abs() < 1e-9);
    }
}
