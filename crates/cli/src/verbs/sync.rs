//! `sync`: brings a tree up to date with another, in either direction.

use std::ffi::OsString;

use clap::Args;
use firstbyte_location::Location;
use firstbyte_transfer::{Engine, Extras, Settings, Tree};

use super::operands::refuse_into_itself;
use super::policy::{CompareName, Policy};
use super::report::{Output, Report, stop_on_signal};
use crate::args::Globals;
use crate::error::{Exit, Result};
use crate::progress::{Failures, Progress};

/// Copy what is missing or changed below SRC to the same names below DST
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte sync results/ s3://bucket/results
  firstbyte sync s3://bucket/reference /scratch/reference --exclude '*.tmp'
  firstbyte sync --delete --dry-run data/ s3://bucket/data    # what would be copied and deleted")]
pub struct SyncArgs {
    /// What is copied: always the contents, with or without a `/` at its end
    #[arg(value_name = "SRC")]
    source: OsString,
    /// What is brought up to date
    #[arg(value_name = "DST")]
    destination: OsString,
    /// What makes an object count as unchanged
    #[arg(long, value_enum, default_value_t = CompareName::SizeMtime)]
    compare: CompareName,
    /// Delete what only DST has
    #[arg(long)]
    delete: bool,
    #[command(flatten)]
    policy: Policy,
}

/// Runs it.
pub fn run(args: &SyncArgs, globals: &Globals) -> Result<Exit> {
    let (source, destination) = (Location::parse(&args.source)?, Location::parse(&args.destination)?);
    refuse_into_itself(&source, &destination)?;
    let stop = stop_on_signal(args.policy.deadline(&args.source))?;
    let settings = Settings { compare: args.compare.into(), ..args.policy.settings(globals, stop.clone()) };
    let engine = Engine::new(args.policy.store(globals)?, settings);
    let mut report = Report::new("sync", source.to_string(), Some(destination.to_string()));
    let extras = if args.delete { Extras::Delete } else { Extras::Keep };
    report.receipt().deleted = args.delete.then_some(0);
    let select = |name: &[u8]| args.policy.filter.takes(name);
    let (shard, effect) = (args.policy.shard(), args.policy.effect());
    let progress = Progress::new(globals, Failures::Printed).stopping(&stop);
    let tree = Tree { source, destination, select: &select, shard, effect };
    report.add(engine.sync(&tree, extras, &progress));
    report.output(progress);
    report.end(globals, Output::Free)
}
