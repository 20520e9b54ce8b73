//! Formats figures and verdicts as text, equal in every form of the report.

use crate::result::{CacheState, Case, Machine, Outcome, Results, Run};
use crate::statistics::{Contender, Verdict, disturbance};
use serde::Serialize;

/// Formats a number with three significant digits, but at most three decimals. A larger number
/// keeps all digits before the point; one below 0.001 is written as 1.2e-4.
pub(super) fn number(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        _ if size >= 99.95 || size == 0.0 => 0,
        _ if size >= 9.995 => 1,
        _ if size >= 0.9995 => 2,
        _ => 3,
    };
    if size > 0.0 && size < 0.001 { format!("{value:.1e}") } else { format!("{value:.decimals$}") }
}

/// Formats a time in a suitable unit.
pub(super) fn seconds(value: f64) -> String {
    match value.abs() {
        size if size >= 0.9995 || size == 0.0 => format!("{} s", number(value)),
        size if size >= 0.000_999_5 => format!("{} ms", number(value * 1e3)),
        _ => format!("{} µs", number(value * 1e6)),
    }
}

/// Formats a count. A median of counts may end in a half.
pub(super) fn count(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { number(value) }
}

/// Formats a parameter's value. Sizes have binary units, in which users choose them.
pub(super) fn parameter(name: &str, value: f64) -> String {
    if !name.ends_with("bytes") {
        return count(value);
    }
    let (size, unit) = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]
        .into_iter()
        .find(|(size, _)| value >= *size as f64)
        .unwrap_or((1, "B"));
    format!("{} {unit}", count(value / size as f64))
}

/// Formats bytes in decimal units.
pub(super) fn bytes(value: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let power = units.iter().enumerate().rev().map(|(power, _)| power);
    let power =
        power.into_iter().find(|&power| value.abs() >= 0.9995 * 1000f64.powi(power as i32)).unwrap_or(0);
    format!("{} {}", number(value / 1000f64.powi(power as i32)), units[power])
}

/// Formats a figure in the unit that its name ends with.
pub(super) fn figure(metric: &str, value: f64) -> String {
    if metric.ends_with("bytes_per_second") {
        format!("{}/s", bytes(value))
    } else if metric.ends_with("per_second") {
        format!("{}/s", number(value))
    } else if metric.ends_with("seconds") {
        seconds(value)
    } else if metric.ends_with("bytes") {
        bytes(value)
    } else {
        number(value)
    }
}

/// Returns a metric's name for readers, without its unit, because the figure shows the unit. See
/// [`metric_among`] for a list of metrics.
pub(super) fn metric(name: &str) -> String {
    if name == "seconds" {
        return "time".into();
    }
    let name = name.strip_suffix("_seconds").or_else(|| name.strip_suffix("_bytes")).unwrap_or(name);
    name.replace('_', " ")
}

/// Returns a metric's name for a list of metrics. The unit stays if only the unit distinguishes
/// two.
pub(super) fn metric_among(name: &str, all: &[&String]) -> String {
    let short = metric(name);
    let is_unique = all.iter().filter(|other| metric(other) == short).count() < 2;
    if is_unique { short } else { name.replace('_', " ") }
}

/// Describes a machine, such as `2 x Some Processor, 24 GiB, Linux 6.1`.
pub(super) fn machine(machine: &Machine) -> String {
    let mut parts = vec![format!("{} x {}", machine.processors, machine.cpu)];
    if machine.memory_bytes > 0 {
        parts.push(format!("{} GiB", number(machine.memory_bytes as f64 / f64::from(1u32 << 30))));
    }
    parts.push(machine.kernel.clone());
    parts.extend(machine.instance_type.clone());
    parts.extend(machine.region.clone());
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

/// Returns reservations about a contender's figures, a few words each.
pub(super) fn reservations(line: &Contender) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(seconds) = &line.seconds {
        if seconds.few {
            found.push("fewer than 5 runs".into());
        } else if seconds.coarse {
            found.push("coarse interval".into());
        }
        if seconds.bad > 0 {
            found.push(format!("{} without a time", seconds.bad));
        }
    }
    let outliers = if line.outliers.len() == 1 { "outlier" } else { "outliers" };
    let counts = [(line.outliers.len(), outliers), (line.marked, "kept out"), (line.failed, "failed")];
    found
        .extend(counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")));
    found
}

/// A verdict as texts.
#[derive(Serialize)]
pub(super) struct GoalText {
    /// Figure and contenders, such as `time / nginx + curl`.
    pub(super) what: String,
    /// Value, such as `0.74x`, or `not measured`.
    pub(super) value: String,
    /// Bound, such as `<= 0.80x`.
    pub(super) bound: String,
    /// Verdict: `met`, `SHORT` or `not measured`.
    pub(super) state: &'static str,
}

/// Formats a verdict.
pub(super) fn goal(case: &Case, verdict: &Verdict) -> GoalText {
    let goal = &verdict.goal;
    let is_ratio = goal.over.is_some();
    let shown = |value: f64| if is_ratio { format!("{value:.2}x") } else { figure(&goal.metric, value) };
    let mut what = metric(&goal.metric);
    if !verdict.of.is_empty() && verdict.of != case.subject() {
        what = format!("{}: {what}", verdict.of);
    }
    if let Some(over) = verdict.over.as_ref().or(goal.over.as_ref()) {
        what = format!("{what} / {over}");
    }
    let bound = match (goal.at_least, goal.at_most) {
        (Some(least), Some(most)) => format!("{} to {}", shown(least), shown(most)),
        (Some(least), None) => format!(">= {}", shown(least)),
        (None, Some(most)) => format!("<= {}", shown(most)),
        (None, None) => "none".into(),
    };
    let state = match verdict.met {
        Some(true) => "met",
        Some(false) => "SHORT",
        None => "not measured",
    };
    GoalText { what, value: verdict.value.map_or_else(|| "-".into(), shown), bound, state }
}

/// Lists all cases of all files.
pub(super) fn cases(results: &[Results]) -> impl Iterator<Item = (&Results, &Case)> {
    results.iter().flat_map(|results| results.header.cases.iter().map(move |case| (results, case)))
}

/// Returns a warning if the machine was noisy.
pub(super) fn noise(results: &Results) -> Option<String> {
    let found = disturbance(&results.runs, results.header.machine.processors);
    found.warns().then(|| {
        format!(
            "The machine was noisy: in {} of {} runs other processes took more than 5 % of the processors (up to {:.0} %). \
             Small differences mean little.",
            found.disturbed,
            found.observed,
            found.worst * 100.0
        )
    })
}

/// Describes firstbyte, for a reader who has only the report.
pub(super) fn project(version: &str) -> String {
    format!("firstbyte {version}: copies, mounts, serves and lists files and objects")
}

/// Explains in one line which real service or network a stand-in replaces.
pub(super) fn explain_stand_in(stand_in: &str) -> &'static str {
    let text = stand_in.to_lowercase();
    if text.contains("local host for functions") {
        "Functions on this machine, with Lambda's limits and a slowed network, in place of AWS Lambda."
    } else if text.contains("file system") || text.contains("link --mount") {
        "A file system on this machine delays and limits every request, in place of shared storage such as EFS."
    } else if text.starts_with("link") {
        "A proxy on this machine adds delay and limits the rate, in place of a distant network."
    } else {
        "A local service in place of the real one."
    }
}

/// Returns the reason why a run is not in the summary. `None` for a run in the summary and for a
/// warm-up.
pub(super) fn kept_out(run: &Run) -> Option<String> {
    if run.round == 0 {
        return None;
    }
    let outcome = match run.outcome {
        Outcome::Ok if run.marks.is_empty() => return None,
        Outcome::Ok => return Some(run.marks.join(" ")),
        Outcome::Failed => "failed",
        Outcome::TimedOut => "timed out",
        Outcome::Wrong => "wrong content",
    };
    Some(run.error.as_ref().map_or_else(|| outcome.to_owned(), |error| format!("{outcome}: {error}")))
}

/// Returns remarks about a contender: the cache state of its runs, if controlled, with `proved` or
/// `not proved`, and the reservations about its figures.
pub(super) fn remarks(results: &Results, case: &Case, line: &Contender) -> Vec<String> {
    let runs: Vec<&Run> = results.counted(&case.name, &line.name).collect();
    let state = runs.first().map(|run| run.cache.wanted).filter(|state| *state != CacheState::Any);
    let proved = if runs.iter().all(|run| run.cache.held == Some(true)) { "proved" } else { "not proved" };
    let state = state.map(|state| format!("{state}, {proved}"));
    state.into_iter().chain(reservations(line)).collect()
}

/// Returns the length of the longest text in each column.
pub(super) fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let columns = rows.first().map_or(0, Vec::len);
    let longest = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    (0..columns).map(longest).collect()
}

/// Returns a case's title, or its name if it has none.
pub(super) fn title(case: &Case) -> &str {
    if case.title.is_empty() { &case.name } else { &case.title }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        assert_eq!([seconds(0.3984), seconds(12.345), seconds(0.000_25)], ["398 ms", "12.3 s", "250 µs"]);
        assert_eq!([seconds(0.0), seconds(0.9999), seconds(123.4)], ["0 s", "1.00 s", "123 s"]);
        assert_eq!([bytes(512.0), bytes(1.5e6), bytes(999_900.0)], ["512 B", "1.50 MB", "1.00 MB"]);
        assert_eq!(figure("bytes_per_second", 2e9), "2.00 GB/s");
        assert_eq!(figure("operations_per_second", 1234.0), "1234/s");
        assert_eq!([metric("first_byte_seconds"), metric("seconds")], ["first byte", "time"]);
    }
}
