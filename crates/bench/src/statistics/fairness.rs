//! Measures by Jain's index how evenly the parallel jobs of one run shared a resource.

use serde::Serialize;

use crate::result::JobFigures;

/// The evenness of the parallel jobs of one run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fairness {
    /// Jain's index of the rates of n jobs: 1 if all rates are equal, 1 / n if all but one are
    /// zero.
    pub index: f64,
    /// Smallest rate divided by the mean rate; 1 is an equal share.
    pub least_share: f64,
    /// Largest rate divided by the mean rate.
    pub most_share: f64,
}

/// Computes the fairness of `jobs`. `None` for fewer than two jobs, or if one has no usable time.
///
/// The rate of a job is its bytes per second. If any job has no bytes, the rate of every job is 1
/// divided by its time. Source: Jain, Chiu and Hawe, "A Quantitative Measure of Fairness and
/// Discrimination" (1984).
#[must_use]
pub fn fairness(jobs: &[JobFigures]) -> Option<Fairness> {
    let with_bytes = jobs.iter().all(|job| job.bytes.is_some());
    let work = |job: &JobFigures| if with_bytes { job.bytes.unwrap_or(0) as f64 } else { 1.0 };
    let rates: Vec<f64> = jobs.iter().map(|job| work(job) / job.seconds).collect();
    if rates.len() < 2 || rates.iter().any(|rate| !rate.is_finite() || *rate < 0.0) {
        return None;
    }
    let count = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / count;
    let squares = rates.iter().map(|rate| (rate / mean).powi(2)).sum::<f64>();
    (mean > 0.0).then(|| Fairness {
        index: count / squares,
        least_share: rates.iter().copied().fold(f64::INFINITY, f64::min) / mean,
        most_share: rates.iter().copied().fold(0.0, f64::max) / mean,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(seconds: f64, bytes: Option<u64>) -> JobFigures {
        JobFigures { seconds, bytes, ..JobFigures::default() }
    }

    #[test]
    fn jobs_of_equal_rates_are_fair_and_one_that_takes_all_is_not() {
        let equal = fairness(&[job(2.0, Some(100)), job(4.0, Some(200))]).unwrap();
        assert_eq!((equal.index, equal.least_share, equal.most_share), (1.0, 1.0, 1.0));
        let greedy = fairness(&[job(1.0, Some(100)), job(1.0, Some(0)), job(1.0, Some(0))]).unwrap();
        assert!((greedy.index - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!((greedy.least_share, greedy.most_share), (0.0, 3.0));
    }

    #[test]
    fn without_bytes_the_time_decides() {
        let found = fairness(&[job(1.0, None), job(3.0, Some(7))]).unwrap();
        assert_eq!((found.least_share, found.most_share), (0.5, 1.5));
    }

    #[test]
    fn one_job_and_jobs_without_time_have_no_fairness() {
        assert_eq!(fairness(&[job(1.0, None)]), None);
        assert_eq!(fairness(&[job(0.0, None), job(1.0, None)]), None);
        assert_eq!(fairness(&[job(f64::NAN, None), job(1.0, None)]), None);
    }
}
