//! Charts for the HTML page: time and cost of the options while one input varies. Each chart marks
//! the user's workload, and a chart of time also the deadline. Called by `firstbyte advise run
//! --page`.

use serde::Serialize;

use super::flips::{Measure, Variable, current_value, measure, ranges, with_value};
use super::row::AdviceRow;
use super::{Advice, Inputs, choice};
use crate::workload::Workload;

/// Number of points of a curve.
const CURVE_POINTS: i32 = 25;

/// Maximum number of options in a chart. The chart has as many colours.
const MAX_OPTIONS: usize = 8;

/// One chart: time or cost of several options, over one variable.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chart {
    /// The input that varies.
    pub variable: Variable,
    /// The quantity of the curves: time or cost.
    pub measure: Measure,
    /// Values of the variable, in ascending order.
    pub at: Vec<f64>,
    /// Value of the variable in the user's workload.
    pub here: f64,
    /// Time or cost of the recommended option for the user's workload.
    pub here_measure: Option<f64>,
    /// Seconds of the deadline, in a chart of time.
    pub deadline: Option<f64>,
    /// One curve for each option; the recommended option is first.
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

/// Computes the charts of an advice: time and cost, over the bytes read, the jobs per day, the
/// concurrent jobs and the size of the data set. Leaves out refused options. Charts of cost also
/// leave out options without a known price.
#[must_use]
pub fn charts(workload: &Workload, advice: &Advice, inputs: &Inputs<'_>) -> Vec<Chart> {
    let all = choice::choices(workload, inputs.catalogue);
    let rows = advice.rows.iter().filter(|row| row.refused.is_none()).take(MAX_OPTIONS);
    let shown: Vec<(&AdviceRow, &choice::Choice<'_>)> =
        rows.filter_map(|row| Some((row, all.iter().find(|choice| choice.name() == row.name)?))).collect();
    let mut charts = Vec::new();
    for of in [Measure::Time, Measure::Cost] {
        for (variable, low, high) in ranges(workload) {
            // The time of a job does not depend on the number of jobs per day.
            if of == Measure::Time && variable == Variable::JobsPerDay {
                continue;
            }
            let at = geometric_points(low, high);
            let curve = |(row, choice): &(&AdviceRow, &choice::Choice<'_>)| {
                let value = |at: &f64| measure(&with_value(workload, variable, *at), choice, inputs, of);
                let values = at.iter().map(value).collect::<Option<Vec<f64>>>()?;
                Some(Curve { option: row.name.clone(), values })
            };
            let curves: Vec<Curve> = shown.iter().filter_map(curve).collect();
            if curves.is_empty() {
                continue;
            }
            let here = current_value(workload, variable);
            let first = shown.first().map(|(row, _)| row);
            let here_measure = first.and_then(|row| match of {
                Measure::Time => Some(row.seconds),
                Measure::Cost => row.total(),
            });
            let deadline = workload.goal.deadline.filter(|_| of == Measure::Time);
            charts.push(Chart { variable, measure: of, at, here, here_measure, deadline, curves });
        }
    }
    charts
}

/// Returns [`CURVE_POINTS`] values from `low` to `high`, in geometric progression.
fn geometric_points(low: f64, high: f64) -> Vec<f64> {
    let step = (high / low).ln() / f64::from(CURVE_POINTS - 1);
    let point =
        |index: i32| if index == CURVE_POINTS - 1 { high } else { low * (step * f64::from(index)).exp() };
    (0..CURVE_POINTS).map(point).collect()
}
