//! Estimates the time until a measurement's end, from the runs made so far. Called by the engine
//! after each round, for the progress display.

use std::time::Instant;

use super::MIN_ROUNDS;
use crate::plan::Case;

/// The pace of a measurement so far.
pub(super) struct Outlook {
    began: Instant,
    /// Runs so far, warm-ups included.
    runs: u32,
}

impl Outlook {
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), runs: 0 }
    }

    pub(super) fn count_run(&mut self) {
        self.runs += 1;
    }

    /// Estimates the seconds until the end, after `done` rounds of `case` in `spent` seconds. The
    /// cases in `later` follow.
    pub(super) fn remaining_seconds(&self, case: &Case, done: u32, spent: f64, later: &[Case]) -> f64 {
        let pace = self.began.elapsed().as_secs_f64() / f64::from(self.runs.max(1));
        let of_round = spent / f64::from(done.max(1));
        let rest = case_seconds(case.rounds + 1, of_round, case.seconds) - spent;
        let of_case = |case: &Case| {
            let contenders = case.contenders.iter().filter(|one| one.modelled.is_none()).count() as f64;
            case_seconds(case.rounds + 1, pace * contenders, case.seconds)
        };
        rest.max(0.0) + later.iter().map(of_case).sum::<f64>()
    }
}

/// Estimates the seconds of a case with `rounds` rounds of `each` seconds. A case ends with the
/// round that exceeds `most` seconds, but not before its third measured round.
fn case_seconds(rounds: u32, each: f64, most: f64) -> f64 {
    let all = f64::from(rounds) * each;
    let least = f64::from(rounds.min(MIN_ROUNDS + 1)) * each;
    all.min(most + each).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_ends_with_its_rounds_or_its_time() {
        assert_eq!(case_seconds(11, 1.0, 30.0), 11.0);
        assert_eq!(case_seconds(11, 5.0, 30.0), 35.0);
        assert_eq!(case_seconds(11, 60.0, 30.0), 240.0, "the warm-up and three rounds are always made");
        assert_eq!(case_seconds(2, 60.0, 30.0), 120.0);
    }

    #[test]
    fn the_estimate_shrinks_and_includes_later_cases() {
        let outlook = Outlook { began: Instant::now(), runs: 4 };
        let case = Case { rounds: 9, seconds: 30.0, ..Case::default() };
        assert_eq!(outlook.remaining_seconds(&case, 2, 4.0, &[]), 16.0);
        assert_eq!(outlook.remaining_seconds(&case, 10, 20.0, &[]), 0.0);
        let later = [Case { contenders: vec![Default::default()], ..case.clone() }];
        assert!(outlook.remaining_seconds(&case, 10, 20.0, &later) >= 0.0);
    }
}
