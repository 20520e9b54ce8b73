//! Writes figures and verdicts as text. Every form of the report uses the same texts.

use std::collections::BTreeMap;

use crate::result::{Basis, Case, ContenderLine, Machine, Outcome, Results, Run};
use crate::statistics::{Contender, Verdict, contenders, disturbance, verdicts};

/// A number with three significant digits.
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

/// A time in the unit that suits it.
pub(super) fn seconds(value: f64) -> String {
    match value.abs() {
        size if size >= 0.9995 || size == 0.0 => format!("{} s", number(value)),
        size if size >= 0.000_999_5 => format!("{} ms", number(value * 1e3)),
        _ => format!("{} µs", number(value * 1e6)),
    }
}

/// A number of things: a median of counts may have a half.
pub(super) fn count(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { number(value) }
}

/// A parameter's value: sizes are chosen in powers of two.
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

/// Bytes in decimal units.
pub(super) fn bytes(value: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let power = units.iter().enumerate().rev().map(|(power, _)| power);
    let power =
        power.into_iter().find(|&power| value.abs() >= 0.9995 * 1000f64.powi(power as i32)).unwrap_or(0);
    format!("{} {}", number(value / 1000f64.powi(power as i32)), units[power])
}

/// A figure in the unit that its name ends with.
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

/// A metric's name for people.
pub(super) fn metric(name: &str) -> String {
    if name == "seconds" {
        return "time".into();
    }
    let name = name.strip_suffix("_seconds").or_else(|| name.strip_suffix("_bytes")).unwrap_or(name);
    name.replace('_', " ")
}

/// `2 x Some Processor, 24 GiB, Linux 6.1`.
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

/// The label of a figure's origin.
pub(super) fn basis(basis: Basis) -> &'static str {
    match basis {
        Basis::Measured => "measured",
        Basis::Emulated => "emulated",
        Basis::Modelled => "modelled",
    }
}

/// Reservations about a contender's figures, a few words each.
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

/// A goal in words.
pub(super) struct GoalText {
    /// `time / nginx + curl`.
    pub(super) what: String,
    /// `0.74x`, or `not measured`.
    pub(super) value: String,
    /// `<= 0.80x`.
    pub(super) bound: String,
    /// `met`, `SHORT` or `not measured`.
    pub(super) state: &'static str,
}

/// A verdict in words.
pub(super) fn goal(case: &Case, verdict: &Verdict) -> GoalText {
    let goal = &verdict.goal;
    let is_ratio = goal.over.is_some();
    let shown = |value: f64| if is_ratio { format!("{value:.2}x") } else { figure(&goal.metric, value) };
    let mut what = metric(&goal.metric);
    if !verdict.of.is_empty() && verdict.of != subject(case) {
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

/// The contender that ratios of `case` are about.
pub(super) fn subject(case: &Case) -> &str {
    if case.subject.is_empty() {
        case.contenders.first().map_or("", |line| &line.name)
    } else {
        &case.subject
    }
}

/// The main findings of all results, a sentence each, the most important first.
pub(super) fn headline(results: &[Results]) -> Vec<String> {
    let (mut fastest, mut compared, mut single) = (0, 0, String::new());
    let mut wins: BTreeMap<String, usize> = BTreeMap::new();
    for (results, case) in cases(results) {
        let lines = contenders(results, case);
        if let Some(sentence) = sentence(case, &lines) {
            compared += 1;
            let first = self::fastest(&lines);
            fastest += usize::from(first == [subject(case)]);
            if let [only] = first[..] {
                *wins.entry(only.to_owned()).or_default() += 1;
            }
            single = sentence;
        }
    }
    let mut parts = vec![match compared {
        0 => format!(
            "{} cases of {} runs.",
            cases(results).count(),
            results.iter().map(|r| r.runs.len()).sum::<usize>()
        ),
        1 => single,
        _ => match wins.iter().max_by_key(|(_, count)| **count) {
            // Where the subject never is, the reader wants to know what is.
            Some((name, count)) if fastest == 0 => {
                format!("{name} is fastest in {count} of {compared} comparisons.")
            }
            _ => format!("{} is fastest in {fastest} of {compared} comparisons.", common_subject(results)),
        },
    }];
    let met: Vec<bool> =
        cases(results).flat_map(|(r, c)| verdicts(r, c)).filter_map(|verdict| verdict.met).collect();
    if !met.is_empty() {
        let count = met.iter().filter(|met| **met).count();
        parts.push(format!("{count} of {} goals are met.", met.len()));
    }
    let runs = || results.iter().flat_map(|results| &results.runs);
    if runs().any(|run| run.basis == Basis::Emulated) {
        parts.push("Figures marked emulated were measured through a stand-in.".into());
    }
    if runs().any(|run| run.basis == Basis::Modelled) {
        parts.push("Figures marked modelled were computed.".into());
    }
    let failed = runs().filter(|run| run.round > 0 && run.outcome != Outcome::Ok).count();
    if failed > 0 {
        parts.push(format!("{failed} {} failed.", if failed == 1 { "run" } else { "runs" }));
    }
    parts
}

/// True if the contenders of `case` do different amounts of work, or with different means: then
/// none is the fastest.
pub(super) fn varies(case: &Case) -> bool {
    case.contenders.windows(2).any(|pair| pair[0].parameters != pair[1].parameters)
}

/// A sentence that names the fastest contender of a case and its margin; `None` with fewer than two
/// contenders, or if their parameters differ.
pub(super) fn sentence(case: &Case, lines: &[Contender]) -> Option<String> {
    if varies(case) {
        return None;
    }
    let mut timed: Vec<(&Contender, f64)> =
        lines.iter().filter_map(|line| Some((line, line.seconds.as_ref()?.median))).collect();
    timed.sort_by(|one, two| one.1.total_cmp(&two.1));
    let [(first, least), (second, next), ..] = timed[..] else { return None };
    let mut text = format!(
        "{} is fastest: {}, {:.2}x the time of {}.",
        first.name,
        seconds(least),
        least / next,
        second.name
    );
    if overlap(first, second) {
        text = format!(
            "{} ({}) and {} ({}) are not distinguishable: their intervals overlap.",
            first.name,
            seconds(least),
            second.name,
            seconds(next)
        );
    }
    let own = lines.iter().find(|line| line.name == subject(case));
    if let Some((name, ratio)) = own.filter(|own| own.name != first.name).and_then(|own| {
        let base = own.seconds.as_ref()?.median;
        Some((&own.name, base / least))
    }) {
        text.push_str(&format!(" {name} takes {ratio:.2}x the time of {}.", first.name));
    }
    Some(text)
}

/// True if the interval of `faster` reaches into that of `slower`.
fn overlap(faster: &Contender, slower: &Contender) -> bool {
    let intervals = faster.seconds.as_ref().zip(slower.seconds.as_ref());
    intervals.is_some_and(|(faster, slower)| faster.interval.high >= slower.interval.low)
}

/// The names of the fastest contender and of those that are not distinguishable from it.
pub(super) fn fastest(lines: &[Contender]) -> Vec<&str> {
    let Some(first) = best(lines) else { return Vec::new() };
    let near = lines.iter().filter(|line| line.name == first.name || overlap(first, line));
    near.map(|line| line.name.as_str()).collect()
}

/// The contender with the least median time.
fn best(lines: &[Contender]) -> Option<&Contender> {
    let timed = lines.iter().filter_map(|line| Some((line, line.seconds.as_ref()?.median)));
    timed.min_by(|one, two| one.1.total_cmp(&two.1)).map(|(line, _)| line)
}

fn common_subject(results: &[Results]) -> String {
    let compared = cases(results).filter(|(_, case)| case.contenders.len() > 1 && !varies(case));
    let mut names: Vec<&str> = compared.map(|(_, case)| subject(case)).collect();
    names.dedup();
    if let [name] = names[..] { name.to_owned() } else { "The subject".to_owned() }
}

/// All cases of all files.
pub(super) fn cases(results: &[Results]) -> impl Iterator<Item = (&Results, &Case)> {
    results.iter().flat_map(|results| results.header.cases.iter().map(move |case| (results, case)))
}

/// The warning that the machine was not quiet, if it was not.
pub(super) fn noise(results: &Results) -> Option<String> {
    let found = disturbance(&results.runs, results.header.machine.processors);
    found.warns().then(|| {
        format!(
            "The machine was noisy: {} of {} runs lost more than 5 % of the processors to other work, up to {:.0} %. \
             Small differences mean little.",
            found.disturbed,
            found.observed,
            found.worst * 100.0
        )
    })
}

/// The beginning of a table that may be wider than the screen: it scrolls, by keyboard too.
pub(super) const SCROLL: &str = "<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"Table\">";

/// What firstbyte is, for a reader who got only the report.
pub(super) fn project(version: &str) -> String {
    format!("firstbyte {version}: copies, opens, serves and lists large files and very many small ones")
}

/// What a stand-in is and what it takes the place of, in a line.
pub(super) fn explain(stand_in: &str) -> &'static str {
    let text = stand_in.to_lowercase();
    if text.contains("local host for functions") {
        "Functions run on this machine in place of AWS Lambda, with its limits and behind a slowed network."
    } else if text.contains("file system") || text.contains("link --mount") {
        "A file system on this machine that delays and limits every request, in place of shared storage such as EFS."
    } else if text.starts_with("link") {
        "A proxy on this machine that delays and limits the bytes of a server beside it, in place of a distant network."
    } else {
        "A service on this machine in place of the one that is meant."
    }
}

/// What the results say to a reader who chooses a program: one sentence.
pub(super) fn meaning(results: &[Results]) -> String {
    let compared: Vec<(&str, f64)> = cases(results)
        .filter_map(|(results, case)| Some((subject(case), against_others(results, case)?)))
        .collect();
    let Some((first, _)) = compared.first() else {
        return "For you: these runs say how long the work takes on this machine; no other program was measured \
                beside it."
            .into();
    };
    let name = match compared.iter().all(|(name, _)| name.starts_with("firstbyte")) {
        true => "firstbyte",
        false if compared.iter().all(|(name, _)| name == first) => *first,
        false => "the first of each comparison",
    };
    let least = compared.iter().map(|(_, ratio)| *ratio).fold(f64::INFINITY, f64::min);
    let most = compared.iter().map(|(_, ratio)| *ratio).fold(0.0, f64::max);
    let (span, count) = match compared.len() {
        1 => (format!("{least:.2}x"), String::new()),
        count => (format!("{least:.2}x to {most:.2}x"), format!(", in {count} comparisons")),
    };
    let emulated = results.iter().flat_map(|results| &results.runs).any(|run| run.basis == Basis::Emulated);
    let scope =
        if emulated { "on this machine, with stand-ins for what is far away" } else { "on this machine" };
    format!(
        "For you: {name} needs {span} the time of the fastest other program that was measured {scope}{count}; with another \
         machine or network the ratio can differ."
    )
}

/// The median time of the subject over that of the fastest other program, where these compare.
/// Other ways of firstbyte's own are no other program.
fn against_others(results: &Results, case: &Case) -> Option<f64> {
    if varies(case) {
        return None;
    }
    let lines = contenders(results, case);
    let median = |line: &Contender| line.seconds.as_ref().map(|time| time.median);
    let own = lines.iter().find(|line| line.name == subject(case)).and_then(median)?;
    let is_other = |line: &ContenderLine| {
        let command = &line.command;
        let is_program = !command.is_empty() && !command.starts_with("the model of ");
        line.name != subject(case) && is_program && !command.contains("firstbyte")
    };
    let others: Vec<&str> =
        case.contenders.iter().filter(|line| is_other(line)).map(|line| line.name.as_str()).collect();
    let other = lines.iter().filter(|line| others.contains(&line.name.as_str())).filter_map(median);
    let other = other.reduce(f64::min)?;
    Some(own / other)
}

/// The reason for which a run is not in the summary; `None` if it is, or is a warm-up.
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

/// The cache state of a contender's runs, and whether it is proved; empty if not controlled.
pub(super) fn cache_state(results: &Results, case: &Case, contender: &str) -> String {
    let runs: Vec<&Run> = results.counted(&case.name, contender).collect();
    let Some(first) = runs.first() else { return String::new() };
    let state = match serde_json::to_value(first.cache.wanted) {
        Ok(serde_json::Value::String(state)) if state != "any" => state,
        _ => return String::new(),
    };
    let proved = runs.iter().all(|run| run.cache.held == Some(true));
    format!("{state}, {}", if proved { "proved" } else { "not proved" })
}

/// Escapes text for an element or a quoted attribute.
pub(super) fn escape(text: impl std::fmt::Display) -> String {
    let text = text.to_string();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A case's title, or else its name.
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
