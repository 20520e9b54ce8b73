//! `advise grade`: measures how accurate the predictions in receipts were.

use std::path::{Path, PathBuf};

use clap::Args;
use firstbyte::receipt::Receipt;
use firstbyte_advise::units::shown_seconds;
use serde::Serialize;
use serde_json::json;

use super::known;
use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};

/// Grade the predictions of receipts: error of each, median error, share within the range
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte --json cp s3://bucket/big . --model bucket.toml >> receipts.jsonl
  firstbyte advise grade receipts.jsonl
A file holds one receipt on each line.")]
pub struct GradeArgs {
    /// Files with receipts that have predicted_seconds
    #[arg(required = true, value_name = "RECEIPT")]
    receipts: Vec<PathBuf>,
}

pub fn run(args: &GradeArgs, globals: &Globals) -> Result<Exit> {
    let mut found = FoundReceipts::default();
    for path in &args.receipts {
        found.read(path)?;
    }
    let FoundReceipts { graded: all, left_out, first } = found;
    let grades: Vec<Graded> = all.iter().map(|(_, graded)| *graded).collect();
    let Some(grade) = grade(&grades, left_out) else {
        return Err(first.unwrap_or_else(|| Error::failed("no receipt is in these files")));
    };
    for (receipt, graded) in &all {
        console::print(if globals.json { row(receipt, graded) } else { text(receipt, graded) })?;
    }
    console::print(if globals.json { json!({ "grade": grade }).to_string() } else { summary(&grade) })?;
    Ok(Exit::Done)
}

/// Receipts that can be graded, and the number of receipts that cannot.
#[derive(Default)]
struct FoundReceipts {
    graded: Vec<(Receipt, Graded)>,
    left_out: usize,
    /// Reason for the first receipt that was left out.
    first: Option<Error>,
}

impl FoundReceipts {
    /// Adds the receipts of a file. A run that failed, or that moved nothing, has no prediction to
    /// grade.
    fn read(&mut self, path: &Path) -> Result<()> {
        let text = known::text(path)?;
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let place = format!("{}:{}", path.display(), number + 1);
            let receipt = Receipt::parse(line).map_err(|newer| {
                Error::failed(format!("{place}: {}", newer.as_deref().unwrap_or("not a receipt")))
            })?;
            match Graded::of(&receipt) {
                Ok(graded) => self.graded.push((receipt, graded)),
                Err(why) => {
                    self.left_out += 1;
                    self.first.get_or_insert_with(|| {
                        Error::failed(format!("{place}: {why}"))
                            .advise("run the verb with --model FILE, a file that `firstbyte probe` wrote")
                    });
                }
            }
        }
        Ok(())
    }
}

fn row(receipt: &Receipt, graded: &Graded) -> String {
    json!({
        "verb": receipt.verb, "source": receipt.source, "seconds": graded.seconds,
        "predicted_seconds": graded.predicted, "predicted_range": graded.range,
        "error": graded.error(), "held": graded.is_within_range(),
    })
    .to_string()
}

fn text(receipt: &Receipt, graded: &Graded) -> String {
    let range = graded.range.map_or_else(String::new, |[low, high]| {
        format!(" ({} to {})", shown_seconds(low), shown_seconds(high))
    });
    let held = if graded.is_within_range() { "within" } else { "OUTSIDE" };
    format!(
        "{:+4.0} %  {held}  {} took {}, predicted {}{range}",
        graded.error() * 100.0,
        receipt.source,
        shown_seconds(graded.seconds),
        shown_seconds(graded.predicted)
    )
}

fn summary(grade: &Grade) -> String {
    let Grade { count, left_out, median_error, held, width } = grade;
    let left_out = match left_out {
        0 => String::new(),
        left_out => format!("; left out {left_out} without a prediction of a complete run"),
    };
    let width = width.map_or_else(String::new, |width| format!(", median high/low {width:.2}"));
    format!(
        "{count} predictions: median error {:.0} %, {held} within the range ({:.0} %){width}{left_out}",
        median_error * 100.0,
        *held as f64 / *count as f64 * 100.0
    )
}

/// The prediction in a receipt and the measured time, both in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Graded {
    /// Measured seconds.
    seconds: f64,
    /// Predicted seconds.
    predicted: f64,
    /// Low and high end of the prediction. A receipt without a range counts as outside the range.
    range: Option<[f64; 2]>,
}

impl Graded {
    /// Returns the prediction of a receipt, or the reason why the receipt cannot be graded.
    fn of(receipt: &Receipt) -> std::result::Result<Self, &'static str> {
        let Some(predicted) = receipt.predicted_seconds else {
            return Err("the receipt has no predicted_seconds");
        };
        if !receipt.failed.is_empty() {
            return Err("the run failed in part, so its predicted_seconds are of other bytes");
        }
        let is_time = |seconds: f64| seconds > 0.0 && seconds.is_finite();
        let range = receipt.predicted_range;
        if !is_time(receipt.seconds)
            || !is_time(predicted)
            || range.is_some_and(|[low, high]| !is_time(low) || !is_time(high))
        {
            return Err("seconds, predicted_seconds and predicted_range are no times above 0");
        }
        Ok(Self { seconds: receipt.seconds, predicted, range })
    }

    /// Returns the relative error, above zero if the prediction is too long.
    fn error(&self) -> f64 {
        self.predicted / self.seconds - 1.0
    }

    /// Returns whether the measurement is within the range.
    fn is_within_range(&self) -> bool {
        self.range.is_some_and(|[low, high]| (low..=high).contains(&self.seconds))
    }
}

/// The accuracy of all predictions together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Grade {
    /// Number of predictions.
    count: usize,
    /// Number of receipts without a prediction of a complete run.
    left_out: usize,
    /// Median of the absolute errors.
    median_error: f64,
    /// Number of measurements that are within their ranges.
    held: usize,
    /// Median ratio of the high end of a range to its low end; `None` if no receipt has a range.
    width: Option<f64>,
}

/// Grades `all`; `None` if there are no predictions.
fn grade(all: &[Graded], left_out: usize) -> Option<Grade> {
    Some(Grade {
        count: all.len(),
        left_out,
        median_error: median(all.iter().map(|one| one.error().abs()).collect())?,
        held: all.iter().filter(|one| one.is_within_range()).count(),
        width: median(all.iter().filter_map(|one| one.range).map(|[low, high]| high / low).collect()),
    })
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let last = *values.get(middle)?;
    Some(if values.len() % 2 == 1 { last } else { f64::midpoint(values[middle - 1], last) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_relative_and_a_prediction_without_a_range_holds_nothing() {
        let one = |seconds, predicted, range| Graded { seconds, predicted, range };
        let all = [one(2.0, 2.2, Some([1.8, 2.7])), one(2.0, 1.0, Some([0.8, 1.2])), one(4.0, 4.0, None)];
        let found = grade(&all, 0).unwrap();
        assert!((found.median_error - 0.1).abs() < 1e-9 && found.count == 3 && found.held == 1, "{found:?}");
        assert!((found.width.unwrap() - 1.5).abs() < 1e-9);
        assert_eq!(grade(&[], 3), None);
    }

    #[test]
    fn what_cannot_be_graded_is_left_out_with_its_reason() {
        let receipt = |seconds, predicted| Receipt {
            seconds,
            predicted_seconds: predicted,
            predicted_range: Some([0.5, 2.0]),
            ..Receipt::default()
        };
        assert!(Graded::of(&receipt(1.0, Some(1.0))).is_ok());
        for (seconds, predicted) in [(1.0, None), (0.0, Some(1.0)), (-1.0, Some(1.0)), (1.0, Some(-1e308))] {
            assert!(Graded::of(&receipt(seconds, predicted)).is_err(), "{seconds} {predicted:?}");
        }
        let zero = Receipt { predicted_range: Some([0.0, 0.0]), ..receipt(1.0, Some(1.0)) };
        assert!(Graded::of(&zero).is_err());
        let failed =
            vec![firstbyte::receipt::FailedItem::new("x".into(), "y".into(), Default::default(), None)];
        assert!(Graded::of(&Receipt { failed, ..receipt(1.0, Some(1.0)) }).is_err());
    }
}
