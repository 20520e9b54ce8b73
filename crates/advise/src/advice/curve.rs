//! Time and cost of the options over what is varied: the curves of the page.
//!
//! Computed like break-even points, at the same values and over the same ranges, so each point lies
//! where two curves cross. Called by `firstbyte advise run --page`.

use serde::Serialize;

use super::break_even::{self, Measure, Variable};
use super::row::Row;
use super::{Advice, Error, Inputs, LAZY, S3_FILES, check, choice};
use crate::workload::Workload;

/// Points of a curve.
const POINTS: i32 = 25;

/// Most options in a chart: as many as it has colours.
const OPTIONS: usize = 8;

/// One chart: a measure of several options over one variable.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chart {
    /// What is varied.
    pub variable: Variable,
    /// The quantity that the curves show: time or cost.
    pub measure: Measure,
    /// The values of the variable, ascending.
    pub at: Vec<f64>,
    /// Each option, the recommended ones first.
    pub curves: Vec<Curve>,
}

/// One option in a chart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// Name of the option.
    pub option: String,
    /// Seconds or dollars at each value of the variable.
    pub values: Vec<f64>,
}

/// The charts of an advice: time and cost over bytes read, jobs a day, jobs at once and size.
/// Refused options are left out. Charts of cost also leave out options without a known price.
///
/// # Errors
/// Machine, client or region are not known.
pub fn charts(workload: &Workload, advice: &Advice, inputs: &Inputs<'_>) -> Result<Vec<Chart>, Error> {
    check(workload, inputs)?;
    let all = choice::choices(workload, inputs.catalogue);
    let names = shown(advice);
    let shown: Vec<&choice::Choice<'_>> =
        names.iter().filter_map(|name| all.iter().find(|choice| choice.name() == *name)).collect();
    let mut charts = Vec::new();
    for measure in [Measure::Time, Measure::Cost] {
        for (variable, low, high) in break_even::ranges(workload) {
            // How long a job takes does not depend on how many there are in a day.
            if measure == Measure::Time && variable == Variable::JobsPerDay {
                continue;
            }
            let at = points(low, high);
            let curve = |choice: &&choice::Choice<'_>| {
                let value = |at: &f64| {
                    let varied = break_even::varied(workload, variable, *at);
                    break_even::measure(&varied, choice, inputs, measure)
                };
                let values = at.iter().map(value).collect::<Option<Vec<f64>>>()?;
                Some(Curve { option: choice.name(), values })
            };
            let curves: Vec<Curve> = shown.iter().filter_map(curve).collect();
            if !curves.is_empty() {
                charts.push(Chart { variable, measure, at, curves });
            }
        }
    }
    Ok(charts)
}

/// The options that are shown: the recommended, S3 Files and our lazy open, then the fastest.
fn shown(advice: &Advice) -> Vec<&str> {
    let mut rows: Vec<&Row> = advice.rows.iter().filter(|row| row.refused.is_none()).collect();
    let rank = |row: &Row| {
        let recommended = advice.verdict.options.iter().position(|name| *name == row.name);
        (recommended.unwrap_or(usize::MAX), ![S3_FILES, LAZY].contains(&row.name.as_str()))
    };
    rows.sort_by(|a, b| rank(a).cmp(&rank(b)).then(a.p50.total_cmp(&b.p50)));
    rows.into_iter().take(OPTIONS).map(|row| row.name.as_str()).collect()
}

/// Values from `low` to `high`, each the same factor above the one before.
fn points(low: f64, high: f64) -> Vec<f64> {
    let step = (high / low).ln() / f64::from(POINTS - 1);
    let point = |index: i32| if index == POINTS - 1 { high } else { low * (step * f64::from(index)).exp() };
    (0..POINTS).map(point).collect()
}
