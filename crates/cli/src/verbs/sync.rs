//! `sync`: makes a destination tree equal to its source. Either may be local or remote.

use std::ffi::OsString;
use std::path::Path;

use clap::Args;
use firstbyte::copy_rules::{destination_location, refuse_into_itself, refuse_to_delete_source};
use firstbyte::manifest::ShardTarget;
use firstbyte_location::Location;
use firstbyte_transfer::{EmptySource, Extras, Levels, Tree, TreeNames};

use super::policy::Policy;
use super::shard_copy;
use crate::globals::Globals;
use crate::render::error::{Error, Exit, Result};
use crate::render::progress::{FailureReporting, ProgressDisplay};
use crate::render::report::{Output, RunReport};
use crate::signals::stop_on_signal;

/// Copy missing and changed objects below SRC to DST
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte sync results/ s3://bucket/results
  firstbyte sync s3://bucket/reference /scratch/reference --exclude '*.tmp'
  firstbyte sync --delete --dry-run data/ s3://bucket/data    # dry run: what would be copied and deleted

Links below SRC are followed, links below DST are not: a link where a file belongs is replaced, --delete removes the link
itself, and nothing is written or deleted through a link.")]
pub struct SyncArgs {
    /// Source, of which the contents are copied, with or without a trailing `/`; then the
    /// destination
    #[arg(required = true, num_args = 1..=2, value_names = ["SRC", "DST"])]
    operands: Vec<OsString>,
    /// Delete what exists only in DST; refused if SRC holds no object. No environment variable sets
    /// it
    #[arg(long, conflicts_with_all = ["manifest", "files_from"])]
    delete: bool,
    /// Let --delete remove everything in DST if SRC holds no object
    #[arg(long, requires = "delete")]
    allow_empty: bool,
    #[command(flatten)]
    policy: Policy,
}

pub fn run(args: &SyncArgs, globals: &Globals) -> Result<Exit> {
    if let Some(run) = args.policy.shard_of_manifest()? {
        let [destination] = args.operands.as_slice() else {
            return Err(Error::usage("with --manifest, sync takes only a destination")
                .advise("the manifest names the sources"));
        };
        let destination = destination_location(destination)?;
        return shard_copy::run("sync", &run, ShardTarget::Contents(&destination), &args.policy, globals);
    }
    let [source, destination] = args.operands.as_slice() else {
        return Err(Error::usage("sync needs a source and a destination").advise("see firstbyte sync --help"));
    };
    args.policy.transfer_args().check([source], destination)?;
    let named = source;
    let (source, destination) = (Location::parse(source)?, destination_location(destination)?);
    if source.as_local().is_some_and(Path::is_file) {
        return Err(
            Error::usage(format!("{source}: is a file; sync takes directories")).advise("use firstbyte cp")
        );
    }
    let refused = |error| super::operand_error(error, "copied");
    refuse_into_itself(&source, &destination).map_err(refused)?;
    if args.delete {
        refuse_to_delete_source(&source, &destination).map_err(refused)?;
    }
    let stop = stop_on_signal(args.policy.transfer_args().deadline(named))?;
    let settings = args.policy.settings(globals, stop.clone());
    let account = args.policy.transfer_args().account(&args.operands, globals)?;
    let client = args.policy.transfer_args().client(globals, account.spending())?;
    let engine = client.transfers(settings);
    let report = RunReport::new("sync", source.to_string(), Some(destination.to_string()));
    let mut report = report.counting(engine.store());
    let extras = match (args.delete, args.allow_empty) {
        (false, _) => Extras::Keep,
        (true, false) => Extras::Delete(EmptySource::Refuse),
        (true, true) => Extras::Delete(EmptySource::Allow),
    };
    report.set_cost_callback(move |receipt, store| account.settle(receipt, store));
    args.policy.sharding().open_receipt(&mut report, &args.operands)?;
    report.receipt().left_out = Some(0);
    report.receipt().deleted = args.delete.then_some(0);
    let list = args.policy.names()?;
    let root = source.clone();
    let listing = || Ok(list.clone().unwrap_or_default().listing(engine.store(), &root));
    let names = if list.is_some() { TreeNames::Given(&listing) } else { TreeNames::Listed };
    let select = |name: &[u8]| args.policy.transfer_args().takes(name);
    let (shard, effect) = (args.policy.sharding().of_names()?, args.policy.transfer_args().effect());
    let progress = ProgressDisplay::new(globals, FailureReporting::Printed).stopping(&stop);
    let (beginning, levels) = (String::new(), Levels::All);
    let bounds = args.policy.transfer_args().bounds(None);
    let tree = Tree { source, names, destination, beginning, levels, select: &select, bounds, shard, effect };
    report.add(engine.sync(&tree, extras, &progress));
    report.end_progress(progress);
    report.end(globals, Output::Free)
}
