//! Ranks the feasible options, and writes the sentences that recommend one option and give the
//! reason against the next.
//!
//! Differences in time count only if they exceed the error of the model. Among the options within
//! the range of the fastest option, or within the deadline, cost decides. Called by
//! [`advise`](super::advise).

use std::cmp::Ordering;

use serde::Serialize;

use super::flips::DeadlineReach;
use super::row::AdviceRow;
use crate::units::{shown_bytes, shown_seconds, significant};
use crate::workload::Workload;

/// Relative difference below which two costs count as equal. Also used for the numbers of bytes
/// that options can read within the deadline.
const SAME_COST: f64 = 0.05;

/// The recommendation as sentences, with the names of its options.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recommendation {
    /// The recommendation with time, range, limit and cost; or the reason why there is none.
    pub sentence: String,
    /// The next option, and the reason against it; empty if there is none.
    pub against: String,
    /// Name of the recommended option; `None` if no option is suitable.
    pub option: Option<String>,
    /// Name of the next option; `None` if there is no other.
    pub next: Option<String>,
}

/// Sorts rows: the recommended option, then the other feasible options, then the refused ones.
/// Returns true if an option is recommended.
pub(super) fn rank(workload: &Workload, rows: &mut [AdviceRow]) -> bool {
    rows.sort_by(|a, b| a.refused.is_some().cmp(&b.refused.is_some()).then(compare_rows(workload, a, b)));
    let had = rows.iter().take_while(|row| row.refused.is_none()).count();
    let Some(best) = best_index(workload, &rows[..had]) else { return false };
    rows[..=best].rotate_right(1);
    true
}

/// Compares two rows of the table: by cost if the user states a deadline or a value of waiting
/// time, else by duration. Rows that miss the deadline come last.
fn compare_rows(workload: &Workload, a: &AdviceRow, b: &AdviceRow) -> Ordering {
    let late = (a.meets == Some(false)).cmp(&(b.meets == Some(false)));
    let money = |row: &AdviceRow| row.total().unwrap_or(f64::INFINITY);
    let by_cost = workload.goal.deadline.is_some() || workload.goal.waiting.is_some();
    let cost = if by_cost { money(a).total_cmp(&money(b)) } else { Ordering::Equal };
    late.then(cost).then(a.seconds.total_cmp(&b.seconds)).then(money(a).total_cmp(&money(b)))
}

/// Returns the index of the recommended row among the feasible rows; `None` if no row is suitable.
fn best_index(workload: &Workload, rows: &[AdviceRow]) -> Option<usize> {
    let meeting: Vec<usize> = (0..rows.len()).filter(|index| rows[*index].meets != Some(false)).collect();
    let fastest = meeting.iter().map(|index| &rows[*index]).min_by(|a, b| a.seconds.total_cmp(&b.seconds))?;
    let by_cost = workload.goal.deadline.is_some() || workload.goal.waiting.is_some();
    let near = |index: &&usize| by_cost || rows[**index].seconds <= fastest.high;
    let near: Vec<usize> = meeting.iter().filter(near).copied().collect();
    let cheapest = near.iter().filter_map(|index| rows[*index].total()).min_by(f64::total_cmp);
    let affordable = |index: &usize| match (cheapest, rows[*index].total()) {
        (Some(least), Some(total)) => total <= least * (1.0 + SAME_COST),
        (Some(_), None) => false,
        (None, _) => true,
    };
    let chosen = near.into_iter().filter(affordable);
    chosen.min_by(|a, b| rows[*a].seconds.total_cmp(&rows[*b].seconds))
}

/// Writes the verdict about ranked rows.
pub(super) fn verdict(
    workload: &Workload,
    rows: &[AdviceRow],
    has_recommendation: bool,
    reach: &[DeadlineReach],
) -> Recommendation {
    let had: Vec<&AdviceRow> = rows.iter().filter(|row| row.refused.is_none()).collect();
    let none =
        |sentence: String| Recommendation { sentence, against: String::new(), option: None, next: None };
    let Some(first) = had.first() else {
        return none(format!("no option can be had: {}", reason_against_all(rows)));
    };
    if !has_recommendation {
        return none(late_sentence(workload, &had, reach));
    }
    let next = had.get(1);
    Recommendation {
        sentence: sentence(workload, first),
        against: next.map_or_else(String::new, |next| reason_against(workload, first, next)),
        option: Some(first.name.clone()),
        next: next.map(|next| next.name.clone()),
    }
}

/// Returns the reason why every option is refused: that of the fastest option that one job could
/// use; without such an option, the reason that occurs most often.
fn reason_against_all(rows: &[AdviceRow]) -> String {
    let why = |row: &AdviceRow| row.refused.clone().unwrap_or_default();
    let possible = rows.iter().filter(|row| row.overloaded);
    if let Some(row) = possible.min_by(|a, b| a.seconds.total_cmp(&b.seconds)) {
        return format!("{}: {}", row.title, why(row));
    }
    let count = |of: &AdviceRow| rows.iter().filter(|row| row.refused == of.refused).count();
    rows.iter().max_by_key(|row| count(row)).map_or("no service is known".to_owned(), why)
}

/// Formats the monthly cost of a row, or says that no price is known.
fn money(row: &AdviceRow) -> String {
    let waiting = if row.waiting.is_some() { " with waiting" } else { "" };
    match row.total() {
        Some(total) => format!("{} $ a month{waiting}", significant(total)),
        None => "no price known".to_owned(),
    }
}

fn sentence(workload: &Workload, row: &AdviceRow) -> String {
    let mut text = format!(
        "{}: {} ({} to {}), limited by {}, {}",
        row.title,
        shown_seconds(row.seconds),
        shown_seconds(row.low),
        shown_seconds(row.high),
        row.limit,
        money(row)
    );
    if row.capacity > 0.0 {
        text.push_str(&format!(" for {} GiB", significant(row.capacity / 1_073_741_824.0)));
    }
    if let Some(once) = row.once.filter(|once| *once >= 0.01) {
        text.push_str(&format!(", once {} $ to load", significant(once)));
    }
    if let Some(deadline) = workload.goal.deadline {
        let part = significant((row.high / deadline * 100.0).round());
        text.push_str(&format!("; at most {part} % of the deadline of {}", shown_seconds(deadline)));
    }
    if let Some(from) = &row.measured {
        text.push_str(&format!("; by your own results ({from})"));
    }
    for condition in &row.conditions {
        text.push_str(&format!("; {condition}"));
    }
    text
}

/// Formats the reason against the next option.
fn reason_against(workload: &Workload, first: &AdviceRow, next: &AdviceRow) -> String {
    let time = next.seconds / first.seconds.max(1e-12);
    let cost = next.total().zip(first.total()).map(|(next, first)| next / first.max(1e-12));
    let by_cost = workload.goal.deadline.is_some() || workload.goal.waiting.is_some();
    let faster = next.seconds < first.seconds;
    let why = match cost {
        _ if next.meets == Some(false) => "may miss the deadline".to_owned(),
        None if next.month.is_none() && first.month.is_some() => "its price is not known".to_owned(),
        Some(cost) if cost > 1.0 + SAME_COST && faster => {
            format!("{} times the cost, for time within the model's error", significant(cost))
        }
        Some(cost) if cost > 1.0 + SAME_COST => format!("{} times the cost", significant(cost)),
        _ if !by_cost && time > 1.0 => format!("{} times the time", significant(time)),
        _ => "about the same time and cost".to_owned(),
    };
    format!("{}, {}, {}: {why}", next.title, shown_seconds(next.seconds), money(next))
}

/// Returns the first option in the table that can read about as many bytes within the deadline as
/// the best option.
pub(super) fn furthest_reach(reaches: &[DeadlineReach]) -> Option<&DeadlineReach> {
    let most = reaches.iter().map(|reach| reach.bytes).fold(0.0, f64::max);
    reaches.iter().find(|reach| reach.bytes >= most * (1.0 - SAME_COST)).filter(|_| most >= 1.0)
}

/// Writes the sentence for the case that no option meets the deadline.
fn late_sentence(workload: &Workload, had: &[&AdviceRow], reach: &[DeadlineReach]) -> String {
    let Some(fastest) = had.iter().min_by(|a, b| a.high.total_cmp(&b.high)) else {
        return "no option can be had".to_owned();
    };
    let shown = shown_seconds(workload.goal.deadline.unwrap_or(0.0));
    let best = format!(
        "the fastest is {}, {} ({} to {}), limited by {}, {}",
        fastest.title,
        shown_seconds(fastest.seconds),
        shown_seconds(fastest.low),
        shown_seconds(fastest.high),
        fastest.limit,
        money(fastest)
    );
    match furthest_reach(reach) {
        Some(most) => format!(
            "nothing meets {shown}; a job could read at most {} ({} %) in it, with {}; {best}",
            shown_bytes(most.bytes),
            significant(most.part * 100.0),
            most.option
        ),
        None => format!("nothing meets {shown}, however little is read; {best}"),
    }
}
