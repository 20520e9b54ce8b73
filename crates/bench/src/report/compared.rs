//! Renders the comparison of two results files as text for a terminal. Called by `bench compare`.

use std::collections::BTreeMap;

use crate::compare::{Change, ComparisonOutcome};

use super::words::{seconds, widths};

/// Formats the changes as aligned lines, slower ones first. Notes follow, each once.
#[must_use]
pub fn compared(changes: &[Change]) -> String {
    let mut ordered: Vec<&Change> = changes.iter().collect();
    ordered.sort_by_key(|change| change.outcome);
    let rows: Vec<Vec<String>> = ordered.iter().map(|change| row(change)).collect();
    let widths = widths(&rows);
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    let mut notes: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for change in &ordered {
        for note in &change.notes {
            notes.entry(note).or_default().push(format!("{} / {}", change.case, change.contender));
        }
    }
    for (note, of) in notes {
        let whose = if of.len() == changes.len() { "all".to_owned() } else { of.join(", ") };
        text.push_str(&format!("note ({whose}): {note}\n"));
    }
    text.push_str(&summary(changes));
    text
}

fn outcome_word(outcome: ComparisonOutcome) -> &'static str {
    match outcome {
        ComparisonOutcome::Failing => "FAILS NOW",
        ComparisonOutcome::Slower => "SLOWER",
        ComparisonOutcome::Faster => "faster",
        ComparisonOutcome::TooNoisy => "too noisy",
        ComparisonOutcome::NoChange => "no change",
        ComparisonOutcome::NotComparable => "not comparable",
    }
}

fn row(change: &Change) -> Vec<String> {
    let time = |summary: &Option<crate::statistics::Summary>| {
        summary.as_ref().map_or_else(|| "-".into(), |summary| seconds(summary.median))
    };
    let ratio = change.ratio.map_or_else(String::new, |ratio| {
        format!("{:.2}x ({:.2} to {:.2})", ratio.value, ratio.interval.low, ratio.interval.high)
    });
    vec![
        outcome_word(change.outcome).to_owned(),
        change.case.clone(),
        change.contender.clone(),
        format!("{} -> {}", time(&change.before), time(&change.after)),
        ratio,
    ]
}

fn summary(changes: &[Change]) -> String {
    let count = |wanted: ComparisonOutcome| changes.iter().filter(|change| change.outcome == wanted).count();
    let all = [
        ComparisonOutcome::Slower,
        ComparisonOutcome::Faster,
        ComparisonOutcome::NoChange,
        ComparisonOutcome::TooNoisy,
        ComparisonOutcome::NotComparable,
    ];
    let mut parts: Vec<String> =
        all.map(|one| format!("{} {}", count(one), outcome_word(one).to_lowercase())).into();
    if count(ComparisonOutcome::Failing) > 0 {
        parts.insert(
            0,
            format!(
                "{} {}",
                count(ComparisonOutcome::Failing),
                outcome_word(ComparisonOutcome::Failing).to_lowercase()
            ),
        );
    }
    format!("{}\n", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slower_contenders_come_first_and_a_shared_note_is_printed_once() {
        let change = |case: &str, outcome| Change {
            case: case.into(),
            contender: "ours".into(),
            before: None,
            after: None,
            ratio: None,
            chance: None,
            outcome,
            notes: vec!["Another build.".into()],
        };
        let text =
            compared(&[change("a", ComparisonOutcome::NoChange), change("b", ComparisonOutcome::Slower)]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("SLOWER") && lines[0].contains('b'), "{text}");
        assert_eq!(lines[2], "note (all): Another build.");
        assert_eq!(lines[3], "1 slower, 0 faster, 1 no change, 0 too noisy, 0 not comparable");
    }
}
