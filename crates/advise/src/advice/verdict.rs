//! Ranks the simulated options and writes the recommendation: one sentence with its reason and its
//! margin. If no option meets the deadline, the sentence says how much a job could read in time.
//! Called by [`advise`](super::advise).

use serde::Serialize;

use super::row::Row;
use crate::units::{shown_bytes, shown_seconds, significant};
use crate::workload::Workload;

/// The recommendation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The sentence.
    pub sentence: String,
    /// Names of the recommended options; several if they are too close to call; none if nothing
    /// will do.
    pub options: Vec<String>,
    /// The distance of the first option from the bound that decides: 1.0 is at the bound, 2.0 is
    /// twice as good.
    pub margin: f64,
}

/// The most that a job may read to end in time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reach {
    /// Name of the option.
    pub option: String,
    /// Bytes read by one job.
    pub bytes: f64,
    /// Part of the data set.
    pub part: f64,
}

/// Ranks the rows that may be had and says which to take.
pub(super) fn verdict(workload: &Workload, rows: &[Row], reach: &[Reach]) -> Verdict {
    let had: Vec<&Row> = rows.iter().filter(|row| row.refused.is_none()).collect();
    let meeting: Vec<&Row> = had.iter().copied().filter(|row| row.meets != Some(false)).collect();
    match (workload.goal.deadline, meeting.is_empty()) {
        (_, true) if had.is_empty() => none("no option has what is asked for"),
        (Some(deadline), true) => late(deadline, &had, reach),
        _ => best(workload, meeting, reach),
    }
}

fn none(sentence: &str) -> Verdict {
    Verdict { sentence: sentence.to_owned(), options: Vec::new(), margin: 0.0 }
}

/// The verdict if no option meets the deadline.
fn late(deadline: f64, had: &[&Row], reach: &[Reach]) -> Verdict {
    let fastest = had.iter().min_by(|a, b| a.p95.total_cmp(&b.p95));
    let Some(fastest) = fastest else { return none("no option has what is asked for") };
    let shown = shown_seconds(deadline);
    let sentence = match reach.iter().max_by(|a, b| a.bytes.total_cmp(&b.bytes)) {
        Some(most) if most.bytes >= 1.0 => format!(
            "nothing meets {shown}; at most {} a request would ({} %), with {}; the limit is {}",
            shown_bytes(most.bytes),
            significant(most.part * 100.0),
            most.option,
            fastest.limit,
        ),
        _ => format!("nothing meets {shown}, however little is read; the limit is {}", fastest.limit),
    };
    Verdict { sentence, options: Vec::new(), margin: deadline / fastest.p95 }
}

fn best(workload: &Workload, mut rows: Vec<&Row>, reach: &[Reach]) -> Verdict {
    let priced = rows.iter().any(|row| row.month.is_some());
    let by_cost = priced && (workload.goal.waiting.is_some() || workload.goal.deadline.is_some());
    // What has no price cannot be ranked by cost; it stays in the table.
    rows.retain(|row| !by_cost || row.month.is_some());
    let key = |row: &Row| if by_cost { row.total().unwrap_or(f64::INFINITY) } else { row.p50 };
    let range = |row: &Row| if by_cost { row.total_range().unwrap_or((0.0, 0.0)) } else { (row.p5, row.p95) };
    rows.sort_by(|a, b| key(a).total_cmp(&key(b)));
    let first = rows[0];
    let overlaps = |row: &&&Row| range(row).0 <= range(first).1;
    let close: Vec<&Row> = rows.iter().filter(overlaps).copied().collect();
    let next = rows.iter().find(|row| !overlaps(row));
    let reason = reason(workload, first, by_cost);
    let margin = next.map_or(1.0, |next| key(next) / key(first).max(1e-12));
    let lead = next.map_or_else(
        || "no other option differs beyond its range".to_owned(),
        |next| format!("the next, {}, {} {} times as much", next.title, verb(by_cost), significant(margin)),
    );
    let fits = reach.iter().find(|reach| reach.option == first.name).map_or_else(String::new, |reach| {
        format!(
            "; fits up to {} read a request ({} %)",
            shown_bytes(reach.bytes),
            significant(reach.part * 100.0)
        )
    });
    let sentence = if close.len() > 1 {
        let titles: Vec<&str> = close.iter().map(|row| row.title.as_str()).collect();
        format!("too close to call: {}; {reason}; {lead}{fits}", titles.join(" or "))
    } else {
        format!("{}: {reason}; {lead}{fits}", first.title)
    };
    Verdict { sentence, options: close.iter().map(|row| row.name.clone()).collect(), margin }
}

fn verb(by_cost: bool) -> &'static str {
    if by_cost { "costs" } else { "takes" }
}

fn reason(workload: &Workload, row: &Row, by_cost: bool) -> String {
    let time = format!(
        "{} ({} to {}), bound by {}",
        shown_seconds(row.p50),
        shown_seconds(row.p5),
        shown_seconds(row.p95),
        row.limit
    );
    let cost = row.total().filter(|_| by_cost).map(|total| {
        let with = if row.waiting.is_some() { " with waiting" } else { "" };
        format!(", {} $ a month{with}", significant(total))
    });
    let deadline = workload.goal.deadline.map(|deadline| {
        let part = significant(row.p95 / deadline * 100.0);
        format!(", at most {part} % of the {} allowed", shown_seconds(deadline))
    });
    let measured = row.measured.as_ref().map(|from| format!(", by your own results ({from})"));
    [Some(time), deadline, cost, measured].into_iter().flatten().collect()
}
