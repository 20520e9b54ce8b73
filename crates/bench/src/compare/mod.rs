//! Compares two results files and reports the differences that exceed noise.
//!
//! A contender is one program or access that a case compares. Contenders are matched by the names
//! of case and contender, and compared by wall time. A change is reported only if three things
//! agree: the ratio of medians passes the threshold, its 95 % interval does not contain 1, and the
//! probability of a difference by chance is at most 1 %, corrected for the number of comparisons.
//! Called by `bench compare`.

mod obstacles;

use serde::Serialize;

use crate::result::{Case, ContenderLine, Outcome, Results, Run};
use crate::statistics::significance::{chance, corrected};
use crate::statistics::{FEW_BELOW, Ratio, Summary, disturbance, ratio, summarise};
use obstacles::{Obstacles, of_cases, of_contenders, of_files};

/// Default threshold: 5 %. On two shared processors, repeated runs of one program differ by less.
pub const THRESHOLD: f64 = 0.05;

/// Largest probability of chance at which a difference is reported.
const SIGNIFICANCE_LEVEL: f64 = 0.01;

/// The result of comparing a contender's times.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ComparisonOutcome {
    /// The contender had times before, and its runs fail now.
    Failing,
    /// Slower by more than threshold and noise.
    Slower,
    /// Faster by more than threshold and noise.
    Faster,
    /// No change was found, but the noise could hide a change as large as the threshold.
    TooNoisy,
    /// The interval of the ratio lies within the threshold.
    NoChange,
    /// The figures were measured differently, or are missing on one side: see the notes.
    NotComparable,
}

/// A contender of a case in both files.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Name of the case.
    pub case: String,
    /// Name of the contender.
    pub contender: String,
    /// Seconds in the first file; `None` if it has no run in the summary.
    pub before: Option<Summary>,
    /// Seconds in the second file; `None` if it has no run in the summary.
    pub after: Option<Summary>,
    /// Median after, divided by median before: above 1 is slower.
    pub ratio: Option<Ratio>,
    /// Probability that chance alone makes such a difference, corrected for the number of
    /// comparisons; `None` if not compared.
    pub chance: Option<f64>,
    /// The result of the comparison.
    pub outcome: ComparisonOutcome,
    /// Notes that a reader of this comparison needs, one sentence each.
    pub notes: Vec<String>,
}

/// Compares all contenders of two files; `a` is the earlier file. Contenders of only one file come
/// last, as not comparable.
///
/// `threshold` is the smallest relative change that matters: 0.05 is a ratio above 1.05 or below 1
/// / 1.05.
#[must_use]
pub fn compare(a: &Results, b: &Results, threshold: f64) -> Vec<Change> {
    let mut files = of_files(&a.header, &b.header);
    files.notes.extend(noise_notes(a, b));
    let mut changes = Vec::new();
    let mut chances = Vec::new();
    for case in &a.header.cases {
        let Some(other) = b.header.cases.iter().find(|other| other.name == case.name) else { continue };
        let cases = of_cases(case, other);
        for line in &case.contenders {
            let Some(other) = other.contenders.iter().find(|other| other.name == line.name) else { continue };
            let key = (case.name.as_str(), line.name.as_str());
            let [before, after] = [a, b].map(|all| all.counted(key.0, key.1).collect::<Vec<&Run>>());
            let mut obstacles = of_contenders(line, other, &before, &after);
            obstacles.extend(&cases);
            obstacles.extend(&files);
            obstacles.notes.extend(few_notes(&before, &after));
            let (mut change, chance) = compare_contender(key, &before, &after, obstacles);
            let failed =
                |run: &Run| run.case == case.name && run.contender == line.name && run.outcome != Outcome::Ok;
            if !before.is_empty() && after.is_empty() && b.runs.iter().any(failed) {
                change.outcome = ComparisonOutcome::Failing;
            }
            changes.push(change);
            chances.push(chance);
        }
    }
    decide(&mut changes, &chances, threshold);
    changes.extend(unmatched_contenders(a, b, "before"));
    changes.extend(unmatched_contenders(b, a, "after"));
    changes
}

/// True if the files have a contender of a case in common.
#[must_use]
pub fn have_common(a: &Results, b: &Results) -> bool {
    lines(a).any(|(case, line)| has(b, case, line))
}

/// Lists all contenders of a file, with their cases.
fn lines(results: &Results) -> impl Iterator<Item = (&Case, &ContenderLine)> {
    results.header.cases.iter().flat_map(|case| case.contenders.iter().map(move |line| (case, line)))
}

fn has(results: &Results, case: &Case, line: &ContenderLine) -> bool {
    lines(results).any(|(other, own)| other.name == case.name && own.name == line.name)
}

/// Compares one contender. Returns the change without its outcome, and the chance of the difference
/// if the sides are comparable.
fn compare_contender(
    key: (&str, &str),
    before: &[&Run],
    after: &[&Run],
    obstacles: Obstacles,
) -> (Change, Option<f64>) {
    let seconds = |runs: &[&Run]| runs.iter().map(|run| run.seconds).collect::<Vec<f64>>();
    let (one, two) = (seconds(before), seconds(after));
    let change = Change {
        case: key.0.to_owned(),
        contender: key.1.to_owned(),
        before: summarise(&one),
        after: summarise(&two),
        ratio: ratio(&two, &one),
        chance: None,
        outcome: ComparisonOutcome::NotComparable,
        notes: obstacles.notes,
    };
    let comparable = obstacles.comparable && change.ratio.is_some();
    (change, comparable.then(|| chance(&one, &two)))
}

/// Sets the outcome of each change that has a chance.
fn decide(changes: &mut [Change], chances: &[Option<f64>], threshold: f64) {
    let plain: Vec<f64> = chances.iter().copied().flatten().collect();
    let compared = changes.iter_mut().zip(chances).filter(|(_, chance)| chance.is_some());
    for ((change, _), chance) in compared.zip(corrected(&plain)) {
        if let Some(ratio) = change.ratio {
            change.chance = Some(chance);
            change.outcome = outcome(ratio, chance, threshold);
        }
    }
}

fn outcome(ratio: Ratio, chance: f64, threshold: f64) -> ComparisonOutcome {
    let (least, most) = (1.0 / (1.0 + threshold), 1.0 + threshold);
    let beyond_chance = chance <= SIGNIFICANCE_LEVEL && !ratio.interval.holds(1.0);
    if beyond_chance && ratio.value > most {
        ComparisonOutcome::Slower
    } else if beyond_chance && ratio.value < least {
        ComparisonOutcome::Faster
    } else if least <= ratio.interval.low && ratio.interval.high <= most {
        ComparisonOutcome::NoChange
    } else {
        ComparisonOutcome::TooNoisy
    }
}

/// Returns a note for each file whose machine was noisy.
fn noise_notes(a: &Results, b: &Results) -> Vec<String> {
    let mut notes = Vec::new();
    for (when, results) in [("before", a), ("after", b)] {
        let found = disturbance(&results.runs, results.header.machine.processors);
        if found.warns() {
            notes.push(format!(
                "{when}: the machine did other work during {} of {} runs, up to {:.0} % of its processors.",
                found.disturbed,
                found.observed,
                found.worst * 100.0
            ));
        }
    }
    notes
}

/// Returns a note for each side with few runs.
fn few_notes(before: &[&Run], after: &[&Run]) -> Vec<String> {
    let sides = [("before", before), ("after", after)].into_iter();
    let few = sides.filter(|(_, runs)| (1..FEW_BELOW).contains(&runs.len()));
    few.map(|(when, _)| format!("{when}: fewer than {FEW_BELOW} runs.")).collect()
}

/// Lists contenders of `one` that `other` lacks. `when` is the side of `one`: before or after.
fn unmatched_contenders(one: &Results, other: &Results, when: &str) -> Vec<Change> {
    lines(one)
        .filter(|(case, line)| !has(other, case, line))
        .map(|(case, line)| {
            let seconds: Vec<f64> = one.counted(&case.name, &line.name).map(|run| run.seconds).collect();
            let (summary, is_first) = (summarise(&seconds), when == "before");
            Change {
                case: case.name.clone(),
                contender: line.name.clone(),
                before: summary.clone().filter(|_| is_first),
                after: summary.filter(|_| !is_first),
                ratio: None,
                chance: None,
                outcome: ComparisonOutcome::NotComparable,
                notes: vec![format!("Only in the results {when}.")],
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
