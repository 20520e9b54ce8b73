//! Renders [`Advice`] for a terminal, in at most twelve lines or in full. Called by `firstbyte
//! advise run`.

use std::fmt::Write as _;

use super::Advice;
use super::row::AdviceRow;
use crate::prices::{MissingPrice, Reason};
use crate::units::significant;

/// Number of options that the short answer shows.
const SHOWN_OPTIONS: usize = 5;

/// Approximate maximum number of bytes in a line of several clauses in the short answer.
const LINE_BYTES: usize = 120;

/// Renders the answer in at most twelve lines.
#[must_use]
pub fn text(advice: &Advice) -> String {
    let mut lines = vec![advice.verdict.sentence.clone()];
    if !advice.verdict.against.is_empty() {
        lines.push(format!("not {}", advice.verdict.against));
    }
    let flips = flips(advice);
    if !flips.is_empty() {
        lines.push(format!("flips: {}", join_clauses(flips)));
    }
    let suggestions: Vec<String> = advice.suggestions.iter().map(super::suggest::Suggestion::line).collect();
    if !suggestions.is_empty() {
        lines.push(format!("consider: {}", join_clauses(suggestions)));
    }
    if !advice.assumed.is_empty() {
        lines.push(format!("assumed: {}", advice.assumed.join(", ")));
    }
    lines.push(left_out(advice));
    let rows: Vec<&AdviceRow> =
        advice.rows.iter().filter(|row| row.refused.is_none()).take(SHOWN_OPTIONS).collect();
    lines.retain(|line| !line.is_empty());
    format!("{}\n{}", lines.join("\n"), table(&rows))
}

/// Joins the first clause with as many of the others as fit into one line.
fn join_clauses(all: Vec<String>) -> String {
    let mut all = all.into_iter();
    let first = all.next().unwrap_or_default();
    all.fold(
        first,
        |line, next| if line.len() + next.len() < LINE_BYTES { format!("{line}; {next}") } else { line },
    )
}

/// Renders the full answer: all options, all points at which the answer changes, all suggestions,
/// and the refused options.
#[must_use]
pub fn full_text(advice: &Advice) -> String {
    let mut text = format!("{}\n", advice.verdict.sentence);
    if !advice.verdict.against.is_empty() {
        let _ = writeln!(text, "not {}", advice.verdict.against);
    }
    let rows: Vec<&AdviceRow> = advice.rows.iter().filter(|row| row.refused.is_none()).collect();
    let _ = write!(text, "\n{}", table(&rows));
    let lists = [
        ("flips", flips(advice)),
        ("consider", advice.suggestions.iter().map(super::suggest::Suggestion::line).collect()),
        ("assumed", advice.assumed.clone()),
        (
            "left out by the models",
            rows.iter().map(|row| format!("{}: {}", row.name, row.leaves_out)).collect(),
        ),
        ("billed separately", unbilled_lines(&rows)),
        ("cannot be used here", refused(advice)),
    ];
    for (title, lines) in lists.iter().filter(|(_, lines)| !lines.is_empty()) {
        let _ = writeln!(text, "\n{title}");
        for line in lines {
            let _ = writeln!(text, "  {line}");
        }
    }
    let missing = missing_price_keys(&advice.rows);
    if !missing.is_empty() {
        let _ = writeln!(text, "\nno price is known for: {missing}");
    }
    if let Some(days) = advice.rows.iter().filter_map(|row| row.cost.oldest_days).max() {
        let _ = writeln!(text, "oldest price: {days} days");
    }
    text
}

fn unbilled_lines(rows: &[&AdviceRow]) -> Vec<String> {
    let some = rows.iter().filter(|row| !row.unbilled.is_empty());
    some.map(|row| format!("{}: {}", row.name, row.unbilled)).collect()
}

/// Renders the points at which the answer changes, the nearest first. Before them comes the number
/// of bytes above which the recommended option misses the deadline.
#[must_use]
pub fn flips(advice: &Advice) -> Vec<String> {
    let reach = advice.verdict.option.as_ref().and_then(|name| {
        let reach = advice.reaches.iter().find(|reach| reach.option == *name && reach.part < 1.0)?;
        let bytes = crate::units::shown_bytes(reach.bytes);
        Some(format!("above {bytes} read per job it misses the deadline"))
    });
    reach.into_iter().chain(advice.flips.iter().map(super::flips::Crossing::line)).collect()
}

/// Renders what the model and the bill of the recommended option leave out, and the missing prices.
fn left_out(advice: &Advice) -> String {
    let Some(row) = advice.rows.first().filter(|row| row.refused.is_none()) else { return String::new() };
    let mut parts = Vec::new();
    if !row.leaves_out.is_empty() {
        parts.push(format!("not modelled: {}", row.leaves_out));
    }
    if !row.unbilled.is_empty() {
        parts.push(format!("billed separately: {}", row.unbilled));
    }
    let shown: Vec<AdviceRow> =
        advice.rows.iter().filter(|row| row.refused.is_none()).take(SHOWN_OPTIONS).cloned().collect();
    let missing = missing_price_keys(&shown);
    if !missing.is_empty() {
        parts.push(format!("no price is known for: {missing}"));
    }
    parts.join("; ")
}

/// Renders the keys that have no price. If the only reason is that the requested day is too early,
/// adds the first day that has a price.
fn missing_price_keys(rows: &[AdviceRow]) -> String {
    let all: Vec<&MissingPrice> = rows.iter().flat_map(|row| &row.cost.missing).collect();
    let mut keys: Vec<&str> = all.iter().map(|missing| missing.price.as_str()).collect();
    keys.sort_unstable();
    keys.dedup();
    let first = all.iter().filter_map(|missing| match missing.reason {
        Reason::Day { first } => Some(first),
        _ => None,
    });
    match first.min() {
        Some(day) => format!("{}; the first price of those is of {day}", keys.join(", ")),
        None => keys.join(", "),
    }
}

/// Renders the refused options, grouped by reason: `ebs-gp3: functions have no volumes`.
#[must_use]
pub fn refused(advice: &Advice) -> Vec<String> {
    let refused: Vec<(&str, &str)> =
        advice.rows.iter().filter_map(|row| Some((row.refused.as_deref()?, row.name.as_str()))).collect();
    let mut reasons: Vec<&str> = refused.iter().map(|(why, _)| *why).collect();
    reasons.sort_unstable();
    reasons.dedup();
    let group = |why: &&str| {
        let names: Vec<&str> = refused.iter().filter(|(of, _)| of == why).map(|(_, name)| *name).collect();
        format!("{}: {why}", names.join(", "))
    };
    reasons.iter().map(group).collect()
}

/// Chooses the unit of time for a column. Returns the name of the unit and its length in seconds.
fn time_unit(rows: &[&AdviceRow]) -> (&'static str, f64) {
    match rows.iter().map(|row| row.seconds).fold(0.0, f64::max) {
        most if most < 1.0 => ("ms", 1e-3),
        most if most < 600.0 => ("s", 1.0),
        most if most < 36_000.0 => ("min", 60.0),
        _ => ("h", 3_600.0),
    }
}

fn table(rows: &[&AdviceRow]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let (name, one) = time_unit(rows);
    // A time below a thousandth of the unit is negligible compared to the other times in the
    // column.
    let time = |seconds: f64| if seconds / one < 1e-3 { "0".to_owned() } else { significant(seconds / one) };
    let money = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), significant);
    let waiting = rows.iter().any(|row| row.waiting.is_some());
    let line = |row: &&AdviceRow| {
        let note = match (row.meets, &row.measured) {
            (Some(false), _) => "too late".to_owned(),
            (_, Some(from)) => format!("measured: {from}"),
            _ => String::new(),
        };
        let job = row.month.map(|_| row.cost.per_job);
        let mut cells = vec![
            row.name.clone(),
            time(row.ready),
            time(row.seconds),
            format!("{}-{}", time(row.low), time(row.high)),
            row.limit.to_string(),
            money(job),
            money(row.month),
        ];
        if waiting {
            cells.push(money(row.total()));
        }
        cells.push(note);
        cells
    };
    let mut head = vec![
        "option".to_owned(),
        format!("ready {name}"),
        format!("job {name}"),
        format!("range {name}"),
        "limit".to_owned(),
        "$/job".to_owned(),
        "$/month".to_owned(),
    ];
    if waiting {
        head.push("$ with waiting".to_owned());
    }
    head.push(String::new());
    let mut lines = vec![head];
    lines.extend(rows.iter().map(line));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let words = [0, 4, line.len() - 1];
        let cells = line.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if words.contains(&column) { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text
}
