//! Points at which the answer changes. As one input varies, finds all values at which the
//! recommended option and one of its rivals cost the same. Also computes how many bytes a job can
//! read within the deadline.
//!
//! Such a crossing counts only if, on both sides of it, the costs differ by more than the error of
//! a prediction. Called by [`advise`](super::advise), and by the charts for values and ranges of
//! the inputs.

use serde::Serialize;

use super::Inputs;
use super::choice::Choice;
use super::feasible::{overload, refusal};
use super::row::{AdviceRow, month_cost, outcome};
use crate::units::shown_bytes;
use crate::workload::Workload;

/// The input that varies.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variable {
    /// Bytes that a job reads.
    Read,
    /// Jobs per day.
    JobsPerDay,
    /// Concurrent jobs.
    AtOnce,
    /// Bytes of the data set. The fraction of the data set that is read stays the same.
    Size,
}

/// The figure by which options are compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Duration of a job, in seconds.
    Time,
    /// Dollars per month, including the value of waiting time.
    Cost,
}

/// A point at which the better of two options changes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Crossing {
    /// The input that varies.
    pub variable: Variable,
    /// The figure that is compared.
    pub measure: Measure,
    /// Value of the variable at this point.
    pub value: f64,
    /// Name of the better option below this value.
    pub below: String,
    /// Name of the better option above this value.
    pub above: String,
}

/// The number of bytes that a job can read within the deadline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeadlineReach {
    /// Name of the option.
    pub option: String,
    /// Bytes read by one job.
    pub bytes: f64,
    /// The same number as a fraction of the data set.
    pub part: f64,
}

impl Crossing {
    /// Returns a clause for display: `above 12 jobs a day efs-elastic is cheaper`.
    #[must_use]
    pub fn line(&self) -> String {
        let value = match self.variable {
            Variable::Read => format!("{} read per job", rounded_bytes(self.value)),
            Variable::Size => format!("{} of data", rounded_bytes(self.value)),
            Variable::JobsPerDay => format!("{} jobs a day", two_digits(self.value)),
            Variable::AtOnce => format!("{} jobs at once", two_digits(self.value)),
        };
        let what = match self.measure {
            Measure::Time => "faster",
            Measure::Cost => "cheaper",
        };
        format!("above {value} {} is {what} than {}", self.above, self.below)
    }
}

/// Formats a number with at most two significant digits.
#[must_use]
pub fn two_digits(value: f64) -> String {
    if value <= 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let scale = 10f64.powf(value.log10().floor() - 1.0);
    let rounded = (value / scale).round() * scale;
    let decimals = if rounded >= 10.0 { 0 } else { (1.0 - rounded.log10().floor()).max(0.0) as usize };
    let text = format!("{rounded:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Formats bytes with at most two significant digits.
fn rounded_bytes(bytes: f64) -> String {
    let shown = shown_bytes(bytes);
    match shown.split_once(' ') {
        Some((number, unit)) => {
            let number = number.parse().map_or_else(|_| number.to_owned(), two_digits);
            format!("{number} {unit}")
        }
        None => shown,
    }
}

/// Number of values of a variable between which crossings are searched.
const SEARCH_POINTS: i32 = 49;

/// Relative difference below which costs are within the error of a prediction.
const COST_ERROR: f64 = 0.1;

/// Factor by which a crossing is divided and multiplied. At both resulting values, the costs must
/// differ by more than [`COST_ERROR`].
const SIDE_FACTOR: f64 = 3.0;

/// Returns the value of `variable` in a workload.
pub(super) fn current_value(workload: &Workload, variable: Variable) -> f64 {
    match variable {
        Variable::Read => workload.data.read,
        Variable::Size => workload.data.bytes,
        Variable::JobsPerDay => workload.jobs.per_day,
        Variable::AtOnce => workload.jobs.at_once,
    }
}

/// Returns the workload with another value of `variable`.
pub(super) fn with_value(workload: &Workload, variable: Variable, value: f64) -> Workload {
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
            data.files = (data.files * factor).max(1.0);
        }
        Variable::JobsPerDay => workload.jobs.per_day = value,
        Variable::AtOnce => workload.jobs.at_once = value,
    }
    workload
}

/// Returns each variable with its lowest and its highest value.
pub(super) fn ranges(workload: &Workload) -> [(Variable, f64, f64); 4] {
    let all = workload.data.bytes;
    [
        (Variable::Read, (all * 1e-6).max(1.0), all.max(2.0)),
        (Variable::JobsPerDay, 0.01, 1e5),
        (Variable::AtOnce, 1.0, 1e4),
        (Variable::Size, (all * 1e-2).max(1.0), all * 1e2),
    ]
}

/// Returns the highest useful value of a variable, at most `high`. More concurrent jobs than jobs
/// per day are not useful.
pub(super) fn max_useful_value(workload: &Workload, variable: Variable, high: f64) -> f64 {
    match variable {
        Variable::AtOnce => workload.jobs.per_day.max(workload.jobs.at_once).clamp(2.0, high),
        _ => high,
    }
}

/// Returns the measure `of` for an option; `None` if it is not known.
pub(super) fn measure(
    workload: &Workload,
    choice: &Choice<'_>,
    inputs: &Inputs<'_>,
    of: Measure,
) -> Option<f64> {
    let choice = choice.sized(workload.data.bytes);
    let outcome = outcome(workload, &choice, inputs);
    match of {
        Measure::Time => Some(outcome.seconds).filter(|seconds| seconds.is_finite()),
        Measure::Cost => month_cost(workload, &choice, inputs, &outcome),
    }
}

/// Returns the cost of an option in dollars per month; `None` if the option is not feasible or a
/// price is missing.
fn feasible_month_cost(workload: &Workload, choice: &Choice<'_>, inputs: &Inputs<'_>) -> Option<f64> {
    let choice = choice.sized(workload.data.bytes);
    if refusal(workload, &choice, inputs.catalogue).is_some() {
        return None;
    }
    let outcome = outcome(workload, &choice, inputs);
    let overloaded = overload(workload, &choice, &outcome).is_some();
    month_cost(workload, &choice, inputs, &outcome).filter(|_| !overloaded)
}

/// Finds all points at which the cheaper option changes between `best` and one of `others`.
pub(super) fn flips(
    workload: &Workload,
    best: &Choice<'_>,
    others: &[&Choice<'_>],
    inputs: &Inputs<'_>,
) -> Vec<Crossing> {
    let mut found = Vec::new();
    for (variable, low, high) in ranges(workload) {
        let high = max_useful_value(workload, variable, high);
        for other in others {
            let both = |value: f64| {
                let workload = with_value(workload, variable, value);
                Some((
                    feasible_month_cost(&workload, best, inputs)?,
                    feasible_month_cost(&workload, other, inputs)?,
                ))
            };
            for (value, rising) in crossings(both, low, high) {
                let (below, above) =
                    if rising { (best.name(), other.name()) } else { (other.name(), best.name()) };
                found.push(Crossing { variable, measure: Measure::Cost, value, below, above });
            }
        }
    }
    found
}

/// Finds the values between `low` and `high` at which two figures are equal. With each, returns
/// true if the first figure is the larger one above that value. Leaves out a crossing if the
/// figures differ by less than the error on either side of it.
fn crossings(both: impl Fn(f64) -> Option<(f64, f64)>, low: f64, high: f64) -> Vec<(f64, bool)> {
    let difference = |value: f64| both(value).map(|(a, b)| a - b);
    let apart =
        |value: f64| both(value.clamp(low, high)).is_some_and(|(a, b)| (a - b).abs() > COST_ERROR * a.max(b));
    let step = (high / low).ln() / f64::from(SEARCH_POINTS - 1);
    let mut found = Vec::new();
    let mut last: Option<(f64, f64)> = None;
    for value in (0..SEARCH_POINTS).map(|index| low * (step * f64::from(index)).exp()) {
        let Some(after) = difference(value).filter(|after| *after != 0.0) else { continue };
        if let Some((from, before)) = last
            && (before < 0.0) != (after < 0.0)
            && let Some(at) = bisect(&difference, from, value, before < 0.0)
            && apart(at / SIDE_FACTOR)
            && apart(at * SIDE_FACTOR)
        {
            found.push((at, before < 0.0));
        }
        last = Some((value, after));
    }
    found
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

/// Computes, for each feasible option, the number of bytes that a job can read within the deadline.
pub(super) fn reaches(
    workload: &Workload,
    choices: &[Choice<'_>],
    rows: &[AdviceRow],
    inputs: &Inputs<'_>,
) -> Vec<DeadlineReach> {
    let Some(deadline) = workload.goal.deadline else { return Vec::new() };
    let all = workload.data.bytes;
    let had = rows.iter().filter(|row| row.refused.is_none());
    let had = had.filter_map(|row| Some((choices.iter().find(|choice| choice.name() == row.name)?, row)));
    let reach = |(choice, row): (&Choice<'_>, &AdviceRow)| {
        let meets =
            |read: f64| outcome(&with_value(workload, Variable::Read, read), choice, inputs).high <= deadline;
        let (mut low, mut high) = (0.0, all);
        if meets(all) {
            low = all;
        } else {
            for _ in 0..24 {
                let middle = f64::midpoint(low, high);
                if middle >= 1.0 && meets(middle) { low = middle } else { high = middle }
            }
        }
        DeadlineReach { option: row.name.clone(), bytes: low, part: low / all }
    };
    had.map(reach).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crossing_is_found_and_those_within_the_error_are_not() {
        let line = |x: f64| Some((x, 7.0));
        let found = crossings(line, 0.1, 1e4);
        assert!(found.len() == 1 && (found[0].0 - 7.0).abs() < 1e-6 && found[0].1, "{found:?}");
        assert_eq!(crossings(|x| Some((7.0 + x * 1e-6, 7.0 + 5e-5)), 0.1, 1e4), []);
        assert_eq!(crossings(|_| None, 0.1, 10.0), []);
        let twice = crossings(|x| Some(((x.ln() - 3.0).powi(2), 1.0)), 0.1, 1e4);
        assert_eq!(twice.iter().map(|(_, rising)| *rising).collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn numbers_have_two_digits() {
        for (value, text) in
            [(12.34, "12"), (1_234.0, "1200"), (1.26, "1.3"), (0.034_56, "0.035"), (5.0, "5"), (0.5, "0.5")]
        {
            assert_eq!(two_digits(value), text);
        }
        assert_eq!(rounded_bytes(2.16e9), "2.2 GB");
    }
}
