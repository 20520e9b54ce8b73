//! `check`: compares two locations by names, sizes and content. Changes nothing.

use std::ffi::OsString;

use clap::Args;
use firstbyte::OperandKind;
use firstbyte::copy_rules::{Destination, ParsedSource, Wildcards};
use firstbyte::receipt::Receipt;
use firstbyte_location::{Location, shown};
use firstbyte_store::Store;
use firstbyte_transfer::{Check, ContentComparison, Engine};

use super::filter::FilterArgs;
use crate::globals::Globals;
use crate::render::error::{Exit, Result};
use crate::render::progress::{DifferenceSums, FailureReporting, ProgressDisplay};
use crate::render::report::{Output, RunReport};
use crate::signals::stop_on_signal;

/// Compare two places by names, sizes and checksums, without changing either
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte check results/ s3://bucket/results
  firstbyte check --content /scratch/ref s3://bucket/ref --exclude '*.tmp'
  firstbyte check big.bam s3://bucket/big.bam --content
  firstbyte --json check s3://bucket/a s3://bucket/b | jq -r 'select(.difference) | .source'

Directories and prefixes are compared by their contents, as sync copies them. Each difference is a row: a name on one side
only, a different size, different content. Exit code 1 if there is any. The receipt says how far the rest was verified:
`full` by ETags and checksums that both stores have, `length` where one of them has none; --content reads those.")]
pub struct CheckArgs {
    /// First location
    #[arg(value_name = "SRC")]
    source: OsString,
    /// Second location
    #[arg(value_name = "DST")]
    destination: OsString,
    /// Read what has no common checksum, to compare its content
    #[arg(long)]
    content: bool,
    #[command(flatten)]
    filter: FilterArgs,
}

pub fn run(args: &CheckArgs, globals: &Globals) -> Result<Exit> {
    let stop = stop_on_signal(None)?;
    let engine = globals.client()?.transfers(globals.settings(stop.clone()));
    let names = [&args.source, &args.destination].map(|text| shown(text).to_string());
    let [source, destination] = names;
    let mut report = RunReport::new("check", source, Some(destination)).counting(engine.store());
    report.receipt().differences = Some(0);
    let progress = ProgressDisplay::new(globals, FailureReporting::Printed).stopping(&stop);
    match compared_locations(args, engine.store()) {
        Ok(places) => {
            let depth = places.depth;
            compare(args, &engine, places, &progress, &mut report);
            if let Some(step) = next_step(report.receipt(), depth, &progress.differences()) {
                report.advise(step);
            }
        }
        Err(error) => report.fail(error),
    }
    report.end_progress(progress);
    let found = report.receipt().differences.unwrap_or(0);
    match report.end(globals, Output::Free)? {
        Exit::Done if found > 0 => Ok(Exit::Failed),
        exit => Ok(exit),
    }
}

/// The two locations to compare.
struct ComparedLocations {
    source: Location,
    destination: Location,
    depth: OperandKind,
}

/// Resolves the operands to the locations to compare. The destination of a tree must exist.
fn compared_locations(args: &CheckArgs, store: &Store) -> Result<ComparedLocations> {
    match ParsedSource::parse(&args.source, OperandKind::Tree, Wildcards::Off, store)? {
        ParsedSource::Object(source) => {
            let destination = Destination::of(&args.destination, false)?;
            let destination = ParsedSource::Object(source.clone()).target(&destination)?;
            Ok(ComparedLocations { source, destination, depth: OperandKind::Object })
        }
        ParsedSource::Tree { root: source, .. } | ParsedSource::Glob { base: source, .. } => {
            let destination = Location::parse(&args.destination)?;
            // The destination must exist. It may be empty.
            store.stat(&destination)?;
            Ok(ComparedLocations { source, destination, depth: OperandKind::Tree })
        }
    }
}

fn compare(
    args: &CheckArgs,
    engine: &Engine,
    places: ComparedLocations,
    progress: &ProgressDisplay,
    report: &mut RunReport,
) {
    let ComparedLocations { source, destination, depth } = places;
    let receipt = report.receipt();
    receipt.source = source.to_string();
    receipt.destination = Some(destination.to_string());
    let select = |name: &[u8]| args.filter.takes(name);
    let content = if args.content { ContentComparison::Read } else { ContentComparison::Held };
    let bounds = args.filter.filter.bounds();
    let check = Check { source, destination, select: &select, bounds, content };
    report.add(match depth {
        OperandKind::Object => engine.check_object(&check, progress),
        OperandKind::Tree => engine.check(&check, progress),
    });
}

/// Returns advice about the differences that were found; `None` if there are none.
fn next_step(receipt: &Receipt, depth: OperandKind, found: &DifferenceSums) -> Option<String> {
    let places = [&receipt.source, receipt.destination.as_ref()?].map(|place| super::quote(place)).join(" ");
    let missing = found.only_source > 0;
    let differing = found.size + found.content > 0;
    if !missing && !differing {
        let shows = format!("`firstbyte sync --delete --dry-run {places}` shows what it would delete");
        return (found.only_destination > 0).then_some(shows);
    }
    if depth == OperandKind::Object {
        return Some(format!("`firstbyte cp {places}` copies it"));
    }
    let compare = if found.content > 0 { "--compare checksum " } else { "" };
    let what = match (missing, differing) {
        (true, false) => "is only in the source",
        (false, _) => "differs",
        (true, true) => "is only in the source or differs",
    };
    let stays =
        if found.only_destination > 0 { "; --delete would remove the rest of the destination" } else { "" };
    let copies = format!("`firstbyte sync {compare}{places}` copies what {what}{stays}");
    let nothing_in_common = !differing && receipt.objects == 0 && found.only_destination > 0;
    Some(match nothing_in_common {
        true => format!("no name is in both; if these are the right places, {copies}"),
        false => copies,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_name_the_command_that_removes_them() {
        let step = |depth, objects, counts: [u64; 4]| {
            let [only_source, only_destination, size, content] = counts;
            let found = DifferenceSums { only_source, only_destination, size, content };
            let mut receipt = Receipt::new("check", "my data".into(), Some("s3://lab/run".into()));
            receipt.objects = objects;
            next_step(&receipt, depth, &found)
        };
        let sync = |text: &str| Some(text.replace("PLACES", "'my data' s3://lab/run"));
        const REST: &str = "; --delete would remove the rest of the destination";
        let tree = OperandKind::Tree;
        assert_eq!(step(tree, 3, [0; 4]), None);
        assert_eq!(
            step(tree, 3, [1, 1, 0, 0]),
            sync(&format!("`firstbyte sync PLACES` copies what is only in the source{REST}"))
        );
        assert_eq!(
            step(tree, 0, [1, 1, 0, 0]),
            sync(&format!(
                "no name is in both; if these are the right places, `firstbyte sync PLACES` copies what is only in the source{REST}"
            ))
        );
        assert_eq!(
            step(tree, 3, [1, 0, 1, 0]),
            sync("`firstbyte sync PLACES` copies what is only in the source or differs")
        );
        assert_eq!(
            step(tree, 3, [0, 0, 0, 1]),
            sync("`firstbyte sync --compare checksum PLACES` copies what differs")
        );
        assert_eq!(
            step(tree, 3, [0, 1, 0, 0]),
            sync("`firstbyte sync --delete --dry-run PLACES` shows what it would delete")
        );
        assert_eq!(step(OperandKind::Object, 0, [0, 0, 1, 0]), sync("`firstbyte cp PLACES` copies it"));
    }
}
