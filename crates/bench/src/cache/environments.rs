//! The cache state of function calls: whether each call got a new environment.
//!
//! A response reports the number of invocations in its environment and the environment's start
//! time. Called by the engine.

use crate::result::{CacheEvidence, CacheState, Run};

/// Tolerated difference between the clocks of this machine and of a function, in seconds.
const CLOCK_TOLERANCE_SECONDS: f64 = 1.0;

/// Judges the cache state of a run from its responses. Returns the evidence and the marks. `began`
/// is the time at which new environments were requested, in seconds since 1970.
#[must_use]
pub fn judge_environments(wanted: CacheState, began: f64, run: &Run) -> (CacheEvidence, Vec<String>) {
    let mut evidence = CacheEvidence { wanted, ..CacheEvidence::default() };
    if wanted != CacheState::Cold {
        return (evidence, Vec::new());
    }
    let answers =
        || run.jobs.iter().map(|job| &job.metrics).chain(Some(&run.metrics).filter(|_| run.jobs.is_empty()));
    let of = |name: &str| answers().filter_map(|metrics| metrics.get(name).copied()).collect::<Vec<f64>>();
    let (calls, invocations, started) = (answers().count(), of("invocation"), of("environment_started"));
    if invocations.len() < calls || started.len() < calls {
        evidence.evidence.push("the answers do not say which environment they come from".into());
        return (evidence, Vec::new());
    }
    let used = invocations.iter().filter(|number| **number > 1.0).count();
    let old = started.iter().filter(|at| **at < began - CLOCK_TOLERANCE_SECONDS).count();
    evidence.evidence.push(format!("{} of {calls} calls were the first of their environment", calls - used));
    evidence.evidence.push(format!("{} of {calls} environments started in the run", calls - old));
    evidence.held = Some(used + old == 0);
    let mut marks = Vec::new();
    if used > 0 {
        marks.push(format!("meant to be cold, but {used} of {calls} calls came to an environment in use"));
    }
    if old > 0 {
        marks.push(format!("meant to be cold, but {old} of {calls} environments had started before the run"));
    }
    (evidence, marks)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::result::JobFigures;

    use super::*;

    fn judge_answers(answers: &[(f64, f64)]) -> (CacheEvidence, Vec<String>) {
        let job = |(invocation, started): &(f64, f64)| JobFigures {
            metrics: BTreeMap::from([
                ("invocation".into(), *invocation),
                ("environment_started".into(), *started),
            ]),
            ..JobFigures::default()
        };
        let run = Run { jobs: answers.iter().map(job).collect(), ..Run::default() };
        judge_environments(CacheState::Cold, 100.0, &run)
    }

    #[test]
    fn cold_calls_are_the_first_of_environments_that_started_in_the_run() {
        let (evidence, marks) = judge_answers(&[(1.0, 100.5), (1.0, 99.5)]);
        assert_eq!((evidence.held, marks.len()), (Some(true), 0));
        let (evidence, marks) = judge_answers(&[(1.0, 100.5), (2.0, 100.5)]);
        assert_eq!(evidence.held, Some(false));
        assert!(marks[0].contains("1 of 2 calls came to an environment in use"), "{marks:?}");
        let (evidence, marks) = judge_answers(&[(1.0, 50.0), (1.0, 100.5)]);
        assert_eq!(evidence.held, Some(false));
        assert!(marks[0].contains("had started before the run"), "{marks:?}");
    }

    #[test]
    fn responses_without_figures_prove_no_state() {
        let run = Run::default();
        assert_eq!(judge_environments(CacheState::Cold, 0.0, &run).0.held, None);
        assert_eq!(judge_environments(CacheState::Any, 0.0, &run).0.evidence.len(), 0);
    }
}
