//! The JSON data in the HTML page, from which its script draws the charts and the table of raw
//! runs.
//!
//! Runs are stored by columns: 10,000 runs are about 500 kB and parse in milliseconds.

use crate::result::{Case, Run};
use crate::statistics::Contender;
use serde_json::{Value, json};

use super::scaling::Scaling;
use super::words::kept_out;

/// Largest number of points in one line of throughput.
const MAX_POINTS: usize = 400;

/// Returns the data of one case. The state of a run is -1 if it is in the summary, -2 for a
/// warm-up, else an index into `reasons`.
pub(super) fn of_case(runs: &[&Run], case: &Case, lines: &[Contender], scalings: &[Scaling]) -> Value {
    let mut reasons: Vec<String> = Vec::new();
    let states: Vec<i64> = runs.iter().map(|run| state(run, &mut reasons)).collect();
    let place = |run: &Run| case.contenders.iter().position(|line| line.name == run.contender);
    let column = |of: &dyn Fn(&Run) -> Value| Value::Array(runs.iter().map(|run| of(run)).collect());
    json!({
        "contenders": case.contenders.iter().map(|line| &line.name).collect::<Vec<_>>(),
        "reasons": reasons,
        "runs": {
            "contender": column(&|run| json!(place(run))),
            "round": column(&|run| json!(run.round)),
            "seconds": column(&|run| json!(run.seconds)),
            "user": column(&|run| json!(run.user_seconds)),
            "system": column(&|run| json!(run.system_seconds)),
            "memory": column(&|run| json!(run.peak_memory_bytes)),
            "bytes": column(&|run| json!(run.bytes)),
            "wire": column(&|run| json!(run.wire_bytes)),
            "requests": column(&|run| json!(run.requests)),
            "state": states,
        },
        "throughput": throughputs(runs, lines),
        "scaling": scalings.iter().map(scaling).collect::<Vec<_>>(),
    })
}

fn state(run: &Run, reasons: &mut Vec<String>) -> i64 {
    if run.round == 0 {
        return -2;
    }
    let Some(reason) = kept_out(run) else { return -1 };
    let known = reasons.iter().position(|known| *known == reason);
    let index = known.unwrap_or_else(|| {
        reasons.push(reason);
        reasons.len() - 1
    });
    i64::try_from(index).unwrap_or(i64::MAX)
}

/// Smallest number of rates for a line in a chart. A line of fewer would show the sampling, not the
/// speed of the run.
const MIN_RATES: usize = 5;

/// Returns the rates of a contender's typical run. `None` if there are too few for a line.
pub(super) fn line_of_rates(runs: &[&Run], line: &Contender) -> Option<Vec<(f64, f64)>> {
    Some(rates(typical_run(runs, line)?)).filter(|rates| rates.len() >= MIN_RATES)
}

/// Returns the contender's run with the time closest to the median, among runs with recorded
/// progress.
fn typical_run<'a>(runs: &[&'a Run], line: &Contender) -> Option<&'a Run> {
    let median = line.seconds.as_ref()?.median;
    let is_recorded = |run: &&&Run| run.is_in_summary() && run.throughput.len() > 1;
    let recorded = runs.iter().filter(|run| run.contender == line.name).filter(is_recorded);
    let distance = |run: &Run| (run.seconds - median).abs();
    recorded.copied().min_by(|one, two| distance(one).total_cmp(&distance(two)))
}

/// Returns the bytes per second between recorded points, each at the end of its span.
fn rates(run: &Run) -> Vec<(f64, f64)> {
    let step = run.throughput.len().div_ceil(MAX_POINTS).max(1);
    let points: Vec<(f64, u64)> = run.throughput.iter().copied().step_by(step).collect();
    let spans = points.windows(2).filter(|pair| pair[1].0 > pair[0].0);
    spans
        .map(|pair| (pair[1].0, pair[1].1.saturating_sub(pair[0].1) as f64 / (pair[1].0 - pair[0].0)))
        .collect()
}

fn throughputs(runs: &[&Run], lines: &[Contender]) -> Vec<Value> {
    let recorded = lines.iter().enumerate();
    recorded
        .filter_map(|(index, line)| Some(json!({"contender": index, "points": line_of_rates(runs, line)?})))
        .collect()
}

fn scaling(chart: &Scaling) -> Value {
    let series = chart.series.iter().map(|(name, points)| {
        let points: Vec<[f64; 4]> =
            points.iter().map(|(x, s)| [*x, s.median, s.interval.low, s.interval.high]).collect();
        json!({ "name": name, "points": points })
    });
    json!({"parameter": chart.parameter, "series": series.collect::<Vec<_>>()})
}
