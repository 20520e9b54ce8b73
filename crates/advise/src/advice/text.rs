//! Renders [`Advice`] as text for a terminal: the recommendation, a row for each option, the
//! break-even points and the changes. Called by `firstbyte advise run`.

use std::fmt::Write as _;

use super::row::Row;
use super::{Advice, LAZY, S3_FILES};
use crate::prices::{Day, Missing, Reason};
use crate::units::{shown_seconds, significant};

/// The recommendation, a row for each option, break-even points, and what to change first.
#[must_use]
pub fn text(advice: &Advice) -> String {
    let mut text = format!("{}\n\n", advice.verdict.sentence);
    let had: Vec<&Row> = advice.rows.iter().filter(|row| row.refused.is_none()).collect();
    text.push_str(&table(&had));
    if let Some(refused) = refused(advice) {
        let _ = writeln!(text, "cannot be used here: {refused}");
    }
    let missing: Vec<&str> = missing(&advice.rows);
    if !missing.is_empty() {
        let _ = writeln!(text, "no price is known for: {}", missing.join(", "));
    }
    if let Some(first) = advice.rows.iter().flat_map(|row| &row.cost.missing).filter_map(first_day).min() {
        let _ = writeln!(text, "the first price of those is of {first}, after the day that is asked for");
    }
    if let Some(days) = advice.rows.iter().filter_map(|row| row.cost.oldest_days).max() {
        let _ = writeln!(text, "oldest price: {days} days");
    }
    if !advice.break_evens.is_empty() {
        text.push_str("\nbreak-even (at the likeliest values)\n");
    }
    for point in &advice.break_evens {
        let _ = writeln!(text, "  {}", point.line());
    }
    if let Some(line) = files_or_lazy(advice) {
        let _ = writeln!(text, "\nS3 Files or our lazy open\n  {line}");
    }
    for point in &advice.s3_files {
        let _ = writeln!(text, "  {}", point.line());
    }
    if !advice.changes.is_empty() {
        text.push_str("\nwhat to change first\n");
    }
    for change in &advice.changes {
        let _ = writeln!(text, "  {}", change.line());
    }
    text
}

/// The day of the first price, where the day that is asked for is before it.
fn first_day(missing: &Missing) -> Option<Day> {
    match missing.reason {
        Reason::Day { first } => Some(first),
        _ => None,
    }
}

fn missing(rows: &[Row]) -> Vec<&str> {
    let mut keys: Vec<&str> =
        rows.iter().flat_map(|row| &row.cost.missing).map(|missing| missing.price.as_str()).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Options by the reason for which they cannot be had: `ebs-gp3 (functions have no volumes); ...`;
/// `None` if all can be had.
#[must_use]
pub fn refused(advice: &Advice) -> Option<String> {
    let refused: Vec<&Row> = advice.rows.iter().filter(|row| row.refused.is_some()).collect();
    let mut reasons: Vec<&str> = refused.iter().filter_map(|row| row.refused.as_deref()).collect();
    reasons.sort_unstable();
    reasons.dedup();
    let group = |why: &&str| {
        let of = refused.iter().filter(|row| row.refused.as_deref() == Some(*why));
        let names: Vec<&str> = of.map(|row| row.name.as_str()).collect();
        format!("{} ({why})", names.join(", "))
    };
    (!reasons.is_empty()).then(|| reasons.iter().map(group).collect::<Vec<_>>().join("; "))
}

fn table(rows: &[&Row]) -> String {
    let money = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), significant);
    let line = |row: &Row| {
        [
            row.name.clone(),
            shown_seconds(row.ready),
            shown_seconds(row.p50),
            format!("{} - {}", shown_seconds(row.p5), shown_seconds(row.p95)),
            row.limit.to_string(),
            money(row.month.map(|_| row.cost.per_job).map(|usd| (usd * 1e6).round() / 1e6)),
            money(row.month),
            money(row.waiting.and(row.total())),
            note(row),
        ]
    };
    let head = ["option", "ready", "job", "p5 - p95", "limit", "$/job", "$/month", "with waiting", ""];
    let mut lines = vec![head.map(str::to_owned)];
    lines.extend(rows.iter().copied().map(line));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text
}

fn note(row: &Row) -> String {
    match (row.meets, &row.measured) {
        (Some(false), _) => "too late".to_owned(),
        (_, Some(from)) => format!("measured: {from}"),
        _ => String::new(),
    }
}

/// What S3 Files and our lazy open would do here; `None` if either cannot be had.
#[must_use]
pub fn files_or_lazy(advice: &Advice) -> Option<String> {
    let had = |name: &str| advice.rows.iter().find(|row| row.name == name && row.refused.is_none());
    let figures = |row: &Row| {
        let month = row
            .month
            .map_or_else(|| ", no price".to_owned(), |month| format!(", {} $ a month", significant(month)));
        format!("{} {}{month}", row.name, shown_seconds(row.p50))
    };
    let (files, lazy) = had(S3_FILES).zip(had(LAZY))?;
    let never = if advice.s3_files.is_empty() { "; no break-even found" } else { "" };
    Some(format!("here: {}; {}{never}", figures(files), figures(lazy)))
}
