//! `plan`: writes the manifest that divides a copy among many workers.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use firstbyte::copy_rules::Wildcards;
use firstbyte::manifest::{self, CommonTarget, ManifestPlan, PlannedManifest, plan};
use firstbyte::receipt::Receipt;
use firstbyte::size::human;
use firstbyte_location::shown;

use super::filter::FilterArgs;
use crate::globals::Globals;
use crate::render::error::{Exit, Result};
use crate::render::report::OmittedEntries;
use crate::render::{console, json};
use crate::signals::stop_on_signal;

/// Write a manifest: objects with their versions, divided by bytes among workers
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte plan s3://bucket/run-43 --shards 8 --out m.parquet
  firstbyte cp --manifest m.parquet --shard 0/8 --receipt r0.json data/    # and 1/8 to 7/8, anywhere, at any time
  firstbyte cp --manifest m.parquet --shard auto data/                     # in an array job
  firstbyte receipts merge m.parquet r*.json                               # what is done, missing or changed

The manifest is a Parquet file: location, size, version, shard, modified, source.")]
pub struct PlanArgs {
    /// Objects, trees with everything below them, and patterns
    #[arg(required = true, value_name = "SRC")]
    sources: Vec<OsString>,
    /// The manifest
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The number of shards
    #[arg(long, value_name = "N", default_value_t = 8)]
    shards: u32,
    /// Treat *, ?, [ and { in sources as ordinary characters
    #[arg(long)]
    no_glob: bool,
    #[command(flatten)]
    filter: FilterArgs,
}

pub fn run(args: &PlanArgs, globals: &Globals) -> Result<Exit> {
    let started = Instant::now();
    let stop = stop_on_signal(None)?;
    let store = globals.store()?.scoped(stop.cancel());
    let request = ManifestPlan {
        sources: &args.sources,
        wildcards: if args.no_glob { Wildcards::Off } else { Wildcards::On },
        filter: &args.filter.filter,
        shards: args.shards,
    };
    let planned = plan(&store, request, &args.out)?;
    let mut receipt =
        Receipt::new("plan", super::join_operands(&args.sources), Some(shown(&args.out).to_string()));
    (receipt.objects, receipt.bytes) = (planned.totals.objects, planned.totals.bytes);
    (receipt.requests, receipt.retries) = (store.counters().requests, store.counters().retries);
    receipt.left_out = Some(planned.left_out.special + planned.left_out.unfinished);
    receipt.finish(started);
    if globals.json {
        console::print(json::line(&receipt))?;
    } else if !globals.quiet {
        console::print(line(&planned))?;
        if let Some(CommonTarget { first, second }) = &planned.header.common_target {
            console::note(format_args!(
                "{first} and {second} have the same name at a destination: this manifest can be hydrated, not copied"
            ));
        }
        let manifest::UnplannedEntries { special, unfinished } = planned.left_out;
        if let Some(line) = (OmittedEntries { special, unfinished, directories: 0 }).line() {
            console::note(line);
        }
    }
    Ok(Exit::Done)
}

fn line(PlannedManifest { header, totals, .. }: &PlannedManifest) -> String {
    let bytes = header.shards.iter().map(|shard| shard.bytes);
    let (least, most) = (bytes.clone().min().unwrap_or(0), bytes.max().unwrap_or(0));
    format!(
        "{} objects, {}, in {} shards of {} to {}",
        totals.objects,
        human(totals.bytes),
        header.shards.len(),
        human(least),
        human(most)
    )
}
