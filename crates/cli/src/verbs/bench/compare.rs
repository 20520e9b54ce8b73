//! `bench compare`: prints the differences between two results files that are larger than noise.

use std::path::PathBuf;

use clap::Args;
use firstbyte_bench::compare::{ComparisonOutcome, compare, have_common};
use firstbyte_bench::{report, results};

use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};

/// Compare two results files, and print the changes that exceed noise
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte bench compare before.jsonl after.jsonl
  firstbyte bench compare before.jsonl after.jsonl --threshold 3%
Exit codes: 0 nothing is slower, 1 something is slower or fails now, or nothing can be compared.")]
pub struct CompareArgs {
    /// The earlier results
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// The later results
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// Smallest change that counts
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = parse_percent)]
    threshold: f64,
}

fn parse_percent(text: &str) -> std::result::Result<f64, String> {
    let number = text.trim_end_matches('%').trim().parse::<f64>().ok();
    let fits = number.filter(|percent| (0.0..=1000.0).contains(percent) && *percent > 0.0);
    fits.map(|percent| percent / 100.0).ok_or_else(|| "write a percentage above 0, for example 5%".into())
}

pub fn run(args: &CompareArgs, globals: &Globals) -> Result<Exit> {
    let (before, after) = (results::read(&args.before)?, results::read(&args.after)?);
    let changes = compare(&before, &after, args.threshold);
    if !have_common(&before, &after) {
        let message = format!(
            "{} and {} have no contender of a case in common",
            args.before.display(),
            args.after.display()
        );
        return Err(Error::failed(message).advise("compare two runs of one plan"));
    }
    if globals.json {
        let rows = serde_json::to_string(&changes).map_err(|error| Error::failed(error.to_string()))?;
        console::print(rows)?;
    } else {
        console::print(report::compared(&changes).trim_end())?;
    }
    let has = |wanted: ComparisonOutcome| changes.iter().any(|change| change.outcome == wanted);
    if changes.iter().all(|change| change.outcome == ComparisonOutcome::NotComparable) {
        return Err(Error::failed("nothing in these files can be compared: see the notes"));
    }
    Ok(if has(ComparisonOutcome::Slower) || has(ComparisonOutcome::Failing) {
        Exit::Failed
    } else {
        Exit::Done
    })
}
