//! Measures how much other work disturbed the machine during a run.
//!
//! The disturbance of a run is a part of the available processor time, which is seconds times
//! processors: the part used by other processes, or given by the host to other machines.

use serde::Serialize;

use crate::result::Run;

/// Largest part of the processors that other work may take in an undisturbed run. Reports and
/// `compare` decide on differences of some 5 %, so a run must not lose more than that.
pub const MOST_ELSEWHERE: f64 = 0.05;

/// Largest part of the runs that may be disturbed without a warning. If one run of five is
/// disturbed, the median, and usually its interval, still lie among undisturbed runs.
pub const MOST_DISTURBED_RUNS: f64 = 0.2;

/// Processor seconds below which other work is ignored, because the kernel counts in ticks of 0.01
/// s.
const IGNORED_SECONDS: f64 = 0.03;

/// Disturbance of the runs in the summary of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Disturbance {
    /// Number of runs in the summary whose noise was observed.
    pub observed: usize,
    /// Number of those runs that lost more than [`MOST_ELSEWHERE`] of the processors.
    pub disturbed: usize,
    /// Largest part of the processors that a run lost.
    pub worst: f64,
}

impl Disturbance {
    /// True if the part of disturbed runs exceeds [`MOST_DISTURBED_RUNS`].
    #[must_use]
    pub fn warns(&self) -> bool {
        self.disturbed as f64 > MOST_DISTURBED_RUNS * self.observed as f64
    }
}

/// Returns the part of the machine's processor time that other work used during `run`. `None` if
/// noise was not observed.
#[must_use]
pub fn elsewhere(run: &Run, processors: usize) -> Option<f64> {
    let noise = &run.noise;
    if noise.other_cpu_seconds.is_none() && noise.steal_seconds.is_none() {
        return None;
    }
    let lost = noise.other_cpu_seconds.unwrap_or(0.0) + noise.steal_seconds.unwrap_or(0.0);
    let offered = run.seconds * processors.max(1) as f64;
    let part = if lost < IGNORED_SECONDS { 0.0 } else { lost / offered };
    part.is_finite().then_some(part)
}

/// Summarises the disturbance of those `runs` that are in the summary.
pub fn disturbance<'a>(runs: impl IntoIterator<Item = &'a Run>, processors: usize) -> Disturbance {
    let counted = runs.into_iter().filter(|run| run.is_in_summary());
    counted.filter_map(|run| elsewhere(run, processors)).fold(Disturbance::default(), |so_far, part| {
        Disturbance {
            observed: so_far.observed + 1,
            disturbed: so_far.disturbed + usize::from(part > MOST_ELSEWHERE),
            worst: so_far.worst.max(part),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Noise;

    fn run(seconds: f64, other: Option<f64>, steal: Option<f64>) -> Run {
        let noise = Noise { other_cpu_seconds: other, steal_seconds: steal };
        Run { round: 1, seconds, noise, ..Run::default() }
    }

    #[test]
    fn disturbance_is_a_part_of_all_processors_and_ignores_ticks() {
        assert_eq!(elsewhere(&run(10.0, Some(1.0), Some(1.0)), 2), Some(0.1));
        assert_eq!(elsewhere(&run(0.01, Some(0.02), None), 1), Some(0.0));
        assert_eq!(elsewhere(&run(10.0, None, None), 2), None);
        assert_eq!(elsewhere(&run(0.0, Some(1.0), None), 2), None);
    }

    #[test]
    fn more_than_one_disturbed_run_of_five_warns() {
        let quiet = || run(10.0, Some(0.1), Some(0.0));
        let loud = || run(10.0, Some(5.0), None);
        let mut runs = vec![quiet(), quiet(), quiet(), quiet(), loud()];
        let found = disturbance(&runs, 1);
        assert_eq!((found.observed, found.disturbed, found.worst), (5, 1, 0.5));
        assert!(!found.warns());
        runs.push(loud());
        assert!(disturbance(&runs, 1).warns());
        runs.iter_mut().for_each(|run| run.marks = vec!["the cache was warm".into()]);
        assert_eq!(disturbance(&runs, 1), Disturbance::default(), "marked runs are not counted");
        assert!(!Disturbance::default().warns());
    }
}
