//! `advise grade`: how right the predictions of receipts were.

use std::path::{Path, PathBuf};

use clap::Args;
use firstbyte::receipt::Receipt;
use firstbyte_advise::grade::{Grade, Graded, grade};
use firstbyte_advise::units::shown_seconds;
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

/// Runs it.
pub fn run(args: &GradeArgs, globals: &Globals) -> Result<Exit> {
    let mut all: Vec<(Receipt, Graded)> = Vec::new();
    for path in &args.receipts {
        all.extend(graded(path)?);
    }
    let grades: Vec<Graded> = all.iter().map(|(_, graded)| *graded).collect();
    let Some(grade) = grade(&grades) else {
        return Err(Error::failed("no receipt is in these files"));
    };
    for (receipt, graded) in &all {
        console::print(if globals.json { row(receipt, graded) } else { text(receipt, graded) })?;
    }
    console::print(if globals.json { json!({ "grade": grade }).to_string() } else { summary(&grade) })?;
    Ok(Exit::Done)
}

/// The receipts of a file, each with its prediction.
fn graded(path: &Path) -> Result<Vec<(Receipt, Graded)>> {
    let (text, mut found) = (known::text(path)?, Vec::new());
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let place = format!("{}:{}", path.display(), number + 1);
        let receipt = Receipt::parse(line).map_err(|newer| {
            Error::failed(format!("{place}: {}", newer.as_deref().unwrap_or("not a receipt")))
        })?;
        let Some(predicted) = receipt.predicted_seconds else {
            return Err(Error::failed(format!("{place}: the receipt has no predicted_seconds"))
                .advise("run the verb with --model FILE, a file that `firstbyte probe` wrote"));
        };
        let graded = Graded { seconds: receipt.seconds, predicted, range: receipt.predicted_range };
        found.push((receipt, graded));
    }
    Ok(found)
}

fn row(receipt: &Receipt, graded: &Graded) -> String {
    json!({
        "verb": receipt.verb, "source": receipt.source, "seconds": graded.seconds,
        "predicted_seconds": graded.predicted, "predicted_range": graded.range,
        "error": graded.error(), "held": graded.is_held(),
    })
    .to_string()
}

fn text(receipt: &Receipt, graded: &Graded) -> String {
    let range = graded.range.map_or_else(String::new, |[low, high]| {
        format!(" ({} to {})", shown_seconds(low), shown_seconds(high))
    });
    let held = if graded.is_held() { "within" } else { "OUTSIDE" };
    format!(
        "{:+4.0} %  {held}  {} took {}, predicted {}{range}",
        graded.error() * 100.0,
        receipt.source,
        shown_seconds(graded.seconds),
        shown_seconds(graded.predicted)
    )
}

fn summary(grade: &Grade) -> String {
    let Grade { count, median_error, held, width } = grade;
    let width = width.map_or_else(String::new, |width| format!(", median high/low {width:.2}"));
    format!(
        "{count} predictions: median error {:.0} %, {held} within the range ({:.0} %){width}",
        median_error * 100.0,
        *held as f64 / *count as f64 * 100.0
    )
}
