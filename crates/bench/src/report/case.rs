//! Values of one case for the templates: a summary sentence, goals, a line for each contender, and
//! charts with their tables.

use std::iter::once;

use crate::result::{Case, Results, Run};
use crate::statistics::{Contender, Summary, contenders, verdicts};
use serde::Serialize;
use serde_json::{Value, json};

use super::data::{self, line_of_rates};
use super::rivals::{comparison, fastest, sentence, varies};
use super::scaling::{Scaling, scalings};
use super::words::{
    bytes, count, figure, goal, kept_out, metric, metric_among, number, parameter, remarks, seconds, title,
};

/// Largest number of runs listed in order for each contender. The table of raw runs has all of
/// them.
const MAX_LISTED_RUNS: usize = 40;

/// Returns the values of a case. The page's script draws its `data`.
pub(super) fn section(results: &Results, case: &Case) -> Value {
    let lines = contenders(results, case);
    let scalings = scalings(case, &lines);
    let runs: Vec<&Run> = results.runs.iter().filter(|run| run.case == case.name).collect();
    let columns: Vec<&Column> =
        COLUMNS.iter().filter(|(_, cell)| lines.iter().any(|line| cell(line).is_some())).collect();
    let line = |of: &'_ Contender| {
        let cells = columns.iter().map(|(_, cell)| cell(of).unwrap_or_default()).collect();
        let p95 = of.seconds.as_ref().and_then(|s| s.tail_percentile(|s| s.p95));
        let remarks = remarks(results, case, of).join("; ");
        json!(Line { of, is_subject: of.name == case.subject(), remarks, cells, p95, extra: extra(of) })
    };
    let ends = lines.iter().filter_map(|line| Some(line.seconds.as_ref()?.interval.high));
    let charts = runs_chart(&runs, &lines).into_iter().chain(throughput_chart(&runs, &lines));
    let commands = case.contenders.iter().filter(|line| !line.command.is_empty());
    json!({
        "title": title(case),
        "finding": sentence(case, &lines),
        "notes": case.notes,
        "stand_ins": case.stand_ins,
        "goals": verdicts(results, case).iter().map(|verdict| goal(case, verdict)).collect::<Vec<_>>(),
        "fastest": if varies(case) { "see its charts".into() } else { fastest(case, &lines).join(" or ") },
        "ratio": comparison(case, &lines).map(|found| found.ratio),
        "longest": ends.fold(0.0, f64::max),
        "columns": columns.iter().map(|(title, _)| title).collect::<Vec<_>>(),
        "lines": lines.iter().map(line).collect::<Vec<_>>(),
        "own": own_metrics(&lines),
        "left_out": left_out(&runs),
        "charts": charts.chain(scalings.iter().enumerate().map(scaling)).collect::<Vec<_>>(),
        "commands": commands.map(|line| (&line.name, &line.command)).collect::<Vec<_>>(),
        "runs": runs.len(),
        "data": data::of_case(&runs, case, &lines, &scalings),
    })
}

/// A contender, with the computed values of its line.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    of: &'a Contender,
    is_subject: bool,
    remarks: String,
    /// Texts of the columns, in their order.
    cells: Vec<String>,
    p95: Option<f64>,
    extra: Vec<String>,
}

/// A column of the summary table: its title, and the content for a contender. The contender's own
/// column comes first.
type Column = (&'static str, fn(&Contender) -> Option<String>);

const COLUMNS: [Column; 17] = [
    ("runs", |line| Some(line.seconds.as_ref().map_or(0, |s| s.count).to_string())),
    ("min – max", |line| time(line, |s| format!("{} – {}", seconds(s.min), seconds(s.max)))),
    ("mean", |line| time(line, |s| seconds(s.mean))),
    ("p95", |line| line.seconds.as_ref()?.tail_percentile(|s| s.p95).map(seconds)),
    ("p99", |line| line.seconds.as_ref()?.tail_percentile(|s| s.p99).map(seconds)),
    ("MB/s", |line| line.bytes_per_second().map(|rate| number(rate / 1e6))),
    ("operations a second", |line| line.operations_per_second().map(number)),
    ("p50 of one", |line| operation(line, "latency_p50_seconds")),
    ("p99 of one", |line| operation(line, "latency_p99_seconds")),
    ("CPU user + system", |line| {
        let (user, system) = line.user_seconds.zip(line.system_seconds)?;
        (user + system > 0.0).then(|| format!("{} + {}", seconds(user), seconds(system)))
    }),
    ("peak memory", |line| line.peak_memory_bytes.filter(|n| *n > 0.0).map(bytes)),
    ("on the wire", |line| line.wire_bytes.map(bytes)),
    ("requests", |line| line.requests.map(count)),
    ("retries", |line| line.retries.filter(|n| *n > 0.0).map(count)),
    ("read amplification", |line| line.passes.map(|n| format!("{n:.2}"))),
    ("fairness", |line| line.fairness.map(|n| format!("{n:.3}"))),
    ("shares of jobs", |line| line.least_share.zip(line.most_share).map(|(a, b)| format!("{a:.2} – {b:.2}"))),
];

/// Metrics of single operations, which have their own columns.
const OPERATION_METRICS: [&str; 4] =
    ["operations", "operations_per_second", "latency_p50_seconds", "latency_p99_seconds"];

fn operation(line: &Contender, metric: &str) -> Option<String> {
    line.metrics.get(metric).map(|found| seconds(found.median))
}

fn time(line: &Contender, text: impl Fn(&Summary) -> String) -> Option<String> {
    line.seconds.as_ref().map(text)
}

/// Formats the figures that only some contenders have, such as wire bytes, passes, shares and their
/// own metrics, for forms of the report that have no columns for them.
fn extra(line: &Contender) -> Vec<String> {
    let own = line.metrics.iter().map(|(name, s)| format!("{} {}", metric(name), figure(name, s.median)));
    let shares = line.least_share.zip(line.most_share);
    let parts = [
        line.wire_bytes.map(|n| format!("{} on the wire", bytes(n))),
        line.requests.map(|n| format!("{} requests", count(n))),
        line.retries.filter(|n| *n > 0.0).map(|n| format!("{} retries", count(n))),
        line.passes.map(|n| format!("{n:.2} passes over the data")),
        shares.map(|(least, most)| format!("shares {least:.2} to {most:.2}")),
    ];
    parts.into_iter().flatten().chain(own).collect()
}

/// Returns a table of the figures that contenders printed themselves, one figure per row, because
/// there may be twenty. Empty without such figures.
fn own_metrics(lines: &[Contender]) -> Vec<Vec<String>> {
    let mut names: Vec<&String> = lines.iter().flat_map(|line| line.metrics.keys()).collect();
    names.retain(|name| !OPERATION_METRICS.contains(&name.as_str()) && *name != "schema");
    names.sort();
    names.dedup();
    if names.is_empty() {
        return Vec::new();
    }
    let own: Vec<&Contender> = lines.iter().filter(|line| !line.metrics.is_empty()).collect();
    let head = once("median of".to_owned()).chain(own.iter().map(|line| line.name.clone()));
    let row = |name: &&String| {
        let value = |line: &&Contender| line.metrics.get(*name).map(|s| figure(name, s.median));
        let values = own.iter().map(|line| value(line).unwrap_or_default());
        once(metric_among(name, &names)).chain(values).collect()
    };
    once(head.collect()).chain(names.iter().map(row)).collect()
}

/// Lists the reasons why runs are not in the summary, each once, with its rounds.
fn left_out(runs: &[&Run]) -> Vec<(String, Vec<u32>)> {
    let mut seen: Vec<(String, Vec<u32>)> = Vec::new();
    for run in runs {
        let Some(reason) = kept_out(run) else { continue };
        let text = format!("{}: {reason}", run.contender);
        match seen.iter_mut().find(|(known, _)| *known == text) {
            Some((_, rounds)) => rounds.push(run.round),
            None => seen.push((text, vec![run.round])),
        }
    }
    seen
}

/// Returns a chart that the page's script draws, with the table of its figures.
pub(super) fn chart(kind: &str, caption: &str, rows: &[Vec<String>]) -> Value {
    json!({ "kind": kind, "caption": caption, "rows": rows })
}

/// Charts the times of all runs in the order in which they ended. A cache that gets warm shows as a
/// step.
fn runs_chart(runs: &[&Run], lines: &[Contender]) -> Option<Value> {
    if runs.iter().all(|run| run.seconds <= 0.0) {
        return None;
    }
    let mut rows = vec![vec!["contender".into(), "times in order; in brackets: does not count".into()]];
    for line in lines {
        let own: Vec<&&Run> = runs.iter().filter(|run| run.contender == line.name).collect();
        let shown = |run: &&&Run| match run.is_in_summary() {
            true => seconds(run.seconds),
            false => format!("({})", seconds(run.seconds)),
        };
        let mut times: Vec<String> = own.iter().take(MAX_LISTED_RUNS).map(shown).collect();
        if own.len() > MAX_LISTED_RUNS {
            times.push(format!("… and {} more", own.len() - MAX_LISTED_RUNS));
        }
        rows.push(vec![line.name.clone(), times.join(", ")]);
    }
    let caption = "Time of each run, in order; hollow points do not count (warm-ups, wrong cache state)";
    Some(chart("runs", caption, &rows))
}

/// Charts the throughput over time of each contender's typical run.
fn throughput_chart(runs: &[&Run], lines: &[Contender]) -> Option<Value> {
    let mut rows =
        vec![["contender", "first quarter", "second", "third", "last"].map(str::to_owned).to_vec()];
    for line in lines {
        let Some(rates) = line_of_rates(runs, line) else { continue };
        let end = rates.last().map_or(0.0, |last| last.0);
        let quarter = |quarter: i32| {
            let (from, to) = (end * f64::from(quarter) / 4.0, end * f64::from(quarter + 1) / 4.0);
            let inside: Vec<f64> =
                rates.iter().filter(|(t, _)| *t > from && *t <= to).map(|(_, rate)| *rate).collect();
            let mean = inside.iter().sum::<f64>() / inside.len() as f64;
            if inside.is_empty() { String::new() } else { format!("{}/s", bytes(mean)) }
        };
        rows.push(once(line.name.clone()).chain((0..4).map(quarter)).collect());
    }
    let caption = "Throughput over time, in the run nearest the median";
    (rows.len() > 1).then(|| chart("throughput", caption, &rows))
}

fn scaling((number, of): (usize, &Scaling)) -> Value {
    let mut values: Vec<f64> = of.series.values().flatten().map(|(value, _)| *value).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let name = metric(of.parameter);
    let mut rows = vec![once(name.clone()).chain(of.series.keys().cloned()).collect::<Vec<String>>()];
    for value in values {
        let at = |points: &Vec<(f64, &Summary)>| {
            let found = points.iter().find(|(at, _)| at.total_cmp(&value).is_eq());
            found.map_or_else(String::new, |(_, s)| seconds(s.median))
        };
        rows.push(once(parameter(of.parameter, value)).chain(of.series.values().map(at)).collect());
    }
    chart(&format!("scaling-{number}"), &format!("Median time by {name}"), &rows)
}
