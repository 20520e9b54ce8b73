//! Finds the points where another option becomes better than the recommended one, as one input
//! varies: bytes read, jobs a day, jobs at once, or the size of the data set.
//!
//! Each point is a root of the difference between two options, found by bisection between sampled
//! points. The uncertain numbers keep their likeliest values. Called by [`advise`](super::advise).

use serde::Serialize;

use super::Inputs;
use super::choice::{Choice, capacity};
use super::row::{DAYS, Row, run, slow_seconds};
use super::usage::usage;
use super::verdict::Reach;
use crate::units::{shown_bytes, significant};
use crate::workload::Workload;

/// The input that varies.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variable {
    /// Bytes that a job reads.
    Read,
    /// Jobs in a day.
    JobsPerDay,
    /// Jobs at once.
    AtOnce,
    /// Bytes of the data set, of which the same part is read.
    Size,
}

/// The figure that two options are compared by.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Seconds of a job.
    Time,
    /// Dollars of a month, with waiting.
    Cost,
}

/// A point where one option stops being better than another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BreakEven {
    /// The input that varies.
    pub variable: Variable,
    /// The figure that is compared.
    pub measure: Measure,
    /// The value of the variable.
    pub value: f64,
    /// Name of the better option below.
    pub below: String,
    /// Name of the better option above.
    pub above: String,
}

impl BreakEven {
    /// One line for people.
    #[must_use]
    pub fn line(&self) -> String {
        let value = match self.variable {
            Variable::Read => format!("{} read a job", shown_bytes(self.value)),
            Variable::Size => format!("{} of data", shown_bytes(self.value)),
            Variable::JobsPerDay => format!("{} jobs a day", significant(self.value)),
            Variable::AtOnce => format!("{} jobs at once", significant(self.value)),
        };
        let what = match self.measure {
            Measure::Time => "faster",
            Measure::Cost => "cheaper",
        };
        format!("{value}: below, {} is {what}; above, {}", self.below, self.above)
    }
}

/// Points of the sweep in which a change is looked for.
const POINTS: i32 = 32;

/// The workload with one value changed.
pub(super) fn varied(workload: &Workload, variable: Variable, value: f64) -> Workload {
    let mut workload = workload.clone();
    let data = &mut workload.data;
    match variable {
        Variable::Read => {
            data.read = value.min(data.bytes);
            data.warm = data.warm.min(data.read);
        }
        Variable::Size => {
            let factor = value / data.bytes;
            (data.bytes, data.read, data.warm) = (value, data.read * factor, data.warm * factor);
        }
        Variable::JobsPerDay => workload.jobs.per_day = value,
        Variable::AtOnce => workload.jobs.at_once = value,
    }
    workload
}

/// The measure of an option at the likeliest values; `None` without prices.
pub(super) fn measure(
    workload: &Workload,
    choice: &Choice<'_>,
    inputs: &Inputs<'_>,
    of: Measure,
) -> Option<f64> {
    let choice = Choice { capacity: capacity(choice.model, workload.data.bytes), ..choice.clone() };
    let run = run(workload, &choice, inputs, 0);
    if of == Measure::Time {
        return Some(run.seconds);
    }
    let usage = usage(workload, &choice, inputs.catalogue, &run.scene.moved, run.seconds);
    let cost = inputs.prices.cost(&usage, &workload.region, inputs.day);
    let jobs = workload.jobs.per_day * DAYS;
    cost.is_complete().then(|| cost.month(jobs) + cost.waiting.unwrap_or(0.0) * jobs)
}

/// Where each variable is swept: its least and its greatest value.
pub(super) fn ranges(workload: &Workload) -> [(Variable, f64, f64); 4] {
    let all = workload.data.bytes;
    [
        (Variable::Read, (all * 1e-6).max(1e-3), all),
        (Variable::JobsPerDay, 0.01, 1e6),
        (Variable::AtOnce, 1.0, 1e4),
        (Variable::Size, (all * 1e-2).max(1e-3), all * 1e2),
    ]
}

/// All points where `best` and another of `others` change places.
pub(super) fn break_evens(
    workload: &Workload,
    best: &Choice<'_>,
    others: &[&Choice<'_>],
    inputs: &Inputs<'_>,
) -> Vec<BreakEven> {
    let mut found = Vec::new();
    for (variable, low, high) in ranges(workload) {
        for of in [Measure::Time, Measure::Cost] {
            if of == Measure::Time && variable == Variable::JobsPerDay {
                continue;
            }
            for other in others {
                let difference = |value: f64| {
                    let workload = varied(workload, variable, value);
                    Some(measure(&workload, best, inputs, of)? - measure(&workload, other, inputs, of)?)
                };
                let Some((value, rising)) = root(difference, low, high) else { continue };
                let (below, above) =
                    if rising { (best.name(), other.name()) } else { (other.name(), best.name()) };
                found.push(BreakEven { variable, measure: of, value, below, above });
            }
        }
    }
    found
}

/// The first sign change of `f` between `low` and `high`, and whether `f` rises there. Differences
/// that are too small to matter count as none.
fn root(f: impl Fn(f64) -> Option<f64>, low: f64, high: f64) -> Option<(f64, bool)> {
    let step = (high / low).ln() / f64::from(POINTS - 1);
    let point = |index: i32| low * (step * f64::from(index)).exp();
    let (mut from, mut before) = (low, f(low)?);
    for index in 1..POINTS {
        let (to, after) = (point(index), f(point(index))?);
        if before < 0.0 && after > 0.0 || before > 0.0 && after < 0.0 {
            return Some((bisect(&f, from, to, before < 0.0)?, before < 0.0));
        }
        if after != 0.0 {
            (from, before) = (to, after);
        }
    }
    None
}

fn bisect(f: &impl Fn(f64) -> Option<f64>, mut low: f64, mut high: f64, rising: bool) -> Option<f64> {
    for _ in 0..40 {
        let middle = (low * high).sqrt();
        if (f(middle)? < 0.0) == rising {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some((low * high).sqrt())
}

/// The most bytes that a job may read within the deadline, for each option that is not refused.
pub(super) fn reaches(
    workload: &Workload,
    choices: &[Choice<'_>],
    rows: &[Row],
    inputs: &Inputs<'_>,
) -> Vec<Reach> {
    let Some(deadline) = workload.goal.deadline else { return Vec::new() };
    let all = workload.data.bytes;
    let had = choices.iter().zip(rows).filter(|(_, row)| row.refused.is_none());
    let reach = |(choice, row): (&Choice<'_>, &Row)| {
        let meets =
            |read: f64| slow_seconds(&varied(workload, Variable::Read, read), choice, inputs) <= deadline;
        let (mut low, mut high) = (0.0, all);
        if meets(all) {
            low = all;
        } else {
            for _ in 0..24 {
                let middle = f64::midpoint(low, high);
                if middle >= 1.0 && meets(middle) { low = middle } else { high = middle }
            }
        }
        Reach { option: row.name.clone(), bytes: low, part: low / all }
    };
    had.map(reach).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_found_where_the_sign_changes() {
        let (value, rising) = root(|x| Some(x - 7.0), 0.1, 1e4).unwrap();
        assert!((value - 7.0).abs() < 1e-6 && rising);
        assert_eq!(root(|_| Some(1.0), 0.1, 10.0), None);
        assert_eq!(root(|_| None, 0.1, 10.0), None);
        assert!(!root(|x| Some(7.0 - x), 0.1, 10.0).unwrap().1);
    }
}
