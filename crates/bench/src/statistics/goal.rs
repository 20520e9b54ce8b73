//! Decides whether the results of a case meet its goals: bounds on a figure, or on the ratio of two
//! contenders. Called by the reports of `bench`.

use serde::Serialize;

use super::bootstrap::{Interval, ratio};
use super::case::samples;
use super::summary::summarise;
use crate::result::{Case, Goal, Results};

/// The result for one goal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Goal that was checked.
    pub goal: Goal,
    /// Contender to which the bound applies.
    pub of: String,
    /// Contender by whose figure the value was divided. For `best`, the name of that contender.
    pub over: Option<String>,
    /// Median of the figure, or ratio of the two medians; `None` if it was not measured.
    pub value: Option<f64>,
    /// Range that contains the true value with 95 % confidence.
    pub interval: Option<Interval>,
    /// True if the value is within the bounds; `None` if it was not measured.
    pub met: Option<bool>,
}

/// Checks all goals of `case`, in order.
#[must_use]
pub fn verdicts(results: &Results, case: &Case) -> Vec<Verdict> {
    case.goals.iter().map(|goal| verdict(results, case, goal)).collect()
}

/// Checks one goal of `case`.
#[must_use]
pub fn verdict(results: &Results, case: &Case, goal: &Goal) -> Verdict {
    let figures = |contender: &str| -> Vec<f64> {
        samples(results, &case.name, contender, &goal.metric).into_iter().map(|(_, value)| value).collect()
    };
    let of = if goal.of.is_empty() { case.subject() } else { &goal.of }.to_owned();
    let over = match goal.over.as_deref() {
        Some("best") => best(case, &of, goal, figures),
        other => other.map(str::to_owned),
    };
    let measured = match (&goal.over, &over) {
        (None, _) => summarise(&figures(&of)).map(|summary| (summary.median, summary.interval)),
        (Some(_), None) => None,
        (Some(_), Some(over)) => {
            ratio(&figures(&of), &figures(over)).map(|found| (found.value, found.interval))
        }
    };
    let value = measured.map(|(value, _)| value);
    let keeps = |value: f64| {
        goal.at_most.is_none_or(|most| value <= most) && goal.at_least.is_none_or(|least| value >= least)
    };
    Verdict {
        goal: goal.clone(),
        of,
        over,
        value,
        interval: measured.map(|(_, interval)| interval),
        met: value.map(keeps),
    }
}

/// Finds the best contender other than `of`. Best is the lowest median of the goal's figure, or the
/// highest if the goal has only a lower bound.
fn best(case: &Case, of: &str, goal: &Goal, figures: impl Fn(&str) -> Vec<f64>) -> Option<String> {
    let more_is_better = goal.at_least.is_some() && goal.at_most.is_none();
    let others = case.contenders.iter().filter(|other| other.name != of);
    let medians = others.filter_map(|other| Some((&other.name, summarise(&figures(&other.name))?.median)));
    let order = |median: f64| if more_is_better { -median } else { median };
    medians.min_by(|one, two| order(one.1).total_cmp(&order(two.1))).map(|(name, _)| name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{ContenderLine, Run};

    fn results(goal: Goal) -> Results {
        let contender = |name: &str| ContenderLine { name: name.into(), ..ContenderLine::default() };
        let case = Case {
            name: "copy".into(),
            contenders: ["ours", "slow", "fast", "absent"].map(contender).into(),
            goals: vec![goal],
            ..Case::default()
        };
        let mut results = Results::default();
        results.header.cases.push(case);
        for (contender, seconds) in [("ours", 1.0), ("slow", 4.0), ("fast", 2.0)] {
            for round in 0..=5 {
                results.runs.push(Run {
                    case: "copy".into(),
                    contender: contender.into(),
                    round,
                    seconds: if round == 0 { 100.0 } else { seconds },
                    metrics: [("rate".into(), 8.0 / seconds)].into(),
                    ..Run::default()
                });
            }
        }
        results
    }

    fn judge_goal(goal: Goal) -> Verdict {
        let results = results(goal);
        verdicts(&results, &results.header.cases[0]).remove(0)
    }

    fn goal(metric: &str, over: Option<&str>, at_most: Option<f64>, at_least: Option<f64>) -> Goal {
        Goal { metric: metric.into(), of: String::new(), over: over.map(Into::into), at_most, at_least }
    }

    #[test]
    fn a_ratio_is_of_medians_and_its_bounds_are_inclusive() {
        let met = judge_goal(goal("seconds", Some("slow"), Some(0.25), Some(0.25)));
        assert_eq!((met.of.as_str(), met.value, met.met), ("ours", Some(0.25), Some(true)));
        assert_eq!(met.interval, Some(Interval { low: 0.25, high: 0.25 }));
        assert_eq!(judge_goal(goal("seconds", Some("slow"), Some(0.2), None)).met, Some(false));
        assert_eq!(judge_goal(goal("seconds", Some("slow"), None, Some(0.3))).met, Some(false));
    }

    #[test]
    fn the_best_other_contender_depends_on_the_bound() {
        let least = judge_goal(goal("seconds", Some("best"), Some(0.5), None));
        assert_eq!((least.over.as_deref(), least.value), (Some("fast"), Some(0.5)));
        let most = judge_goal(goal("rate", Some("best"), None, Some(1.0)));
        assert_eq!((most.over.as_deref(), most.value), (Some("fast"), Some(2.0)));
    }

    #[test]
    fn a_goal_without_a_peer_bounds_the_figure_itself() {
        let verdict = judge_goal(Goal { of: "slow".into(), ..goal("rate", None, None, Some(2.0)) });
        assert_eq!((verdict.value, verdict.met), (Some(2.0), Some(true)));
    }

    #[test]
    fn an_unmeasured_goal_is_neither_met_nor_missed() {
        for unmeasured in [
            goal("seconds", Some("absent"), Some(1.0), None),
            goal("seconds", Some("unknown"), Some(1.0), None),
            goal("colour", None, Some(1.0), None),
            goal("colour", Some("best"), Some(1.0), None),
        ] {
            let verdict = judge_goal(unmeasured);
            assert_eq!((verdict.value, verdict.met, verdict.interval), (None, None, None));
        }
    }
}
