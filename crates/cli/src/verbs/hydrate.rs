//! `hydrate`: fetches objects into the cache. For a location, this process does the work. For a
//! path under a mount, the daemon of the mount does the work: it gives its readers priority, and
//! continues when this process ends.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use firstbyte::Client;
use firstbyte::manifest::ShardRun;
use firstbyte::receipt::FailedItem;
use firstbyte_hydrate::{
    HydrationFailure, HydrationItem, HydrationList, HydrationProgress, StartFile, wanted,
};
use firstbyte_location::{Location, shown, units};
use firstbyte_mount::{Control, ControlRequest, ControlResponse, HydrateRequest, JobFailure, JobProgress};
use firstbyte_store::Store;
use firstbyte_transfer::{Observer, Stop};

use super::account::AccountArgs;
use super::cached::{CacheArgs, CacheOperand};
use super::sharding::Sharding;
use super::start;
use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};
use crate::render::progress::{FailureReporting, ProgressDisplay as Bar};
use crate::render::report::{Output, RunReport};
use crate::signals::stop_on_signal;

/// Interval at which the progress of a job is requested.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Fetch objects into the cache before they are read: by location, or by path under a mount
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte hydrate s3://bucket/big.bam                  # into the cache; open, mount and Python find it there
  firstbyte hydrate -r /mnt/data/db --wait               # by the mount's daemon; its readers come first
  firstbyte hydrate -r s3://bucket/run7/ --limit-rate 50MB --pin
  firstbyte hydrate --manifest m.parquet --shard auto    # one worker's part of what `plan` wrote
  firstbyte hydrate --replay start                       # in the order that `mount --record` recorded

Kill it and run it again: cached blocks are not fetched twice.")]
pub struct HydrateArgs {
    /// Locations, or paths under a mount, to fetch
    #[arg(value_name = "LOC", required_unless_present_any = ["replay", "manifest"])]
    operands: Vec<OsString>,
    /// Fetch everything below directories and prefixes
    #[arg(short, long)]
    recursive: bool,
    /// Under a mount, return when everything is in the cache, not when fetching has begun
    #[arg(long)]
    wait: bool,
    /// Limit on bytes per second, so that jobs keep their share of the network
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    limit_rate: Option<u64>,
    /// Keep the objects in the cache until `release`, even if other objects need the room
    #[arg(long)]
    pin: bool,
    /// Fetch what a start file names, which `mount --record` wrote, in its order
    #[arg(long, value_name = "LOC")]
    replay: Option<OsString>,
    #[command(flatten)]
    account: AccountArgs,
    #[command(flatten)]
    sharding: Sharding,
    #[command(flatten)]
    cache: CacheArgs,
}

pub fn run(args: &HydrateArgs, globals: &Globals) -> Result<Exit> {
    let shard = args.sharding.of_manifest()?;
    if shard.is_none() && args.sharding.names_shard() {
        return Err(Error::usage("hydrate takes --shard with --manifest only"));
    }
    if shard.is_some() && !(args.operands.is_empty() && args.replay.is_none()) {
        return Err(Error::usage("with --manifest, hydrate takes no LOC and no --replay")
            .advise("the manifest has the objects"));
    }
    if shard.is_some() || args.replay.is_some() {
        args.account.refuse_bill("--manifest and --replay")?;
    }
    let places = CacheOperand::parse_all(&args.operands)?;
    if places.iter().any(|place| place.mounted.is_some()) {
        args.account.refuse_bill("a path under a mount")?;
    }
    if let Some(place) = places.iter().find(|place| place.mounted.is_some() && place.operand.glob.is_some()) {
        return Err(Error::usage(format!(
            "{}: no path under the mount has this name",
            shown(&place.operand.text)
        ))
        .advise("the shell expands patterns there, or give the location that is mounted"));
    }
    let stop = stop_on_signal(None)?;
    let sources = shard.as_ref().map_or_else(|| super::join_operands(&args.operands), ShardRun::sources);
    let mut report = RunReport::new("hydrate", sources, None);
    args.sharding.open_receipt(&mut report, &args.operands)?;
    // A shard that cannot begin also has a receipt, which says that nothing is done.
    report.receipt().shard = shard.as_ref().map(ShardRun::receipt);
    let (mounted, others): (Vec<CacheOperand>, Vec<CacheOperand>) =
        places.into_iter().partition(|place| place.mounted.is_some());
    let outcome = hydrate_here(args, globals, others, shard.as_ref(), &stop, &mut report).and_then(|()| {
        mounted.iter().try_for_each(|place| hydrate_by_daemon(args, globals, place, &stop, &mut report))
    });
    outcome.unwrap_or_else(|error| report.fail(error));
    if !args.wait && !mounted.is_empty() && !report.has_ended() && !globals.json {
        // The daemon has only begun the job, so there is no result to report.
        return Ok(Exit::Done);
    }
    report.end(globals, Output::Free)
}

// Hydration in this process.

fn hydrate_here(
    args: &HydrateArgs,
    globals: &Globals,
    places: Vec<CacheOperand>,
    shard: Option<&ShardRun>,
    stop: &Stop,
    report: &mut RunReport,
) -> Result<()> {
    if places.is_empty() && args.replay.is_none() && shard.is_none() {
        return Ok(());
    }
    let named: Vec<Location> = places.iter().map(|place| place.operand.root.clone()).collect();
    let account = args.account.open(&named, globals)?;
    let options = firstbyte_store::StoreOptions { spending: account.spending(), ..globals.options().store };
    let store = globals.store_of(options)?.scoped(stop.cancel());
    report.counted_by(&store);
    report.set_cost_callback(move |receipt, store| account.settle(receipt, store));
    let client = Client::over(store.clone(), args.cache.settings(globals))?;
    let hydrator = client.hydrator();
    let start = args.replay.as_deref().map(|file| start::read(file, &store)).transpose()?;
    let replayed = start.as_ref().map(items_of_start);
    let (recursive, lister) = (args.recursive, store.clone());
    let found = places.into_iter().flat_map(move |place| self::objects_of(place, recursive, &lister));
    let planned = shard.map(|shard| shard.wanted(&store)).transpose()?;
    let mut list: HydrationList =
        Box::new(found.chain(replayed.into_iter().flatten()).chain(planned.into_iter().flatten()));
    if args.pin {
        list = hydrator.pinned(list);
    }
    let job = hydrator.hydrate(list, args.limit_rate)?;
    let advice = advice_for_changed(args, shard);
    let reached = || {
        if stop.is_stopped() {
            job.cancel();
        }
        let mut progress = job.wait(PROGRESS_INTERVAL);
        if let Some(advice) = advice {
            progress.failed.iter_mut().for_each(|failure| {
                failure.error = failure.error.clone().advise_instead(advice);
            });
        }
        Ok(progress.into())
    };
    follow(globals, report, stop, reached)?;
    if stop.is_stopped() {
        report.receipt().shard = shard.map(ShardRun::receipt);
        return Err(interrupted_error());
    }
    if let Some(shard) = shard {
        shard.hydrated(&job.progress().failed)?;
        report.receipt().shard = Some(shard.receipt());
    }
    Ok(())
}

/// Returns the advice for objects that are not in the version which a file names.
fn advice_for_changed(args: &HydrateArgs, shard: Option<&ShardRun>) -> Option<&'static str> {
    match (shard, &args.replay) {
        (Some(_), _) => Some("plan again to hydrate the new version"),
        (None, Some(_)) => Some("record the start file again for the new version"),
        (None, None) => None,
    }
}

/// Lists the objects of an operand, as they are found.
fn objects_of(place: CacheOperand, recursive: bool, store: &Store) -> HydrationList {
    let root = place.operand.root.clone();
    if recursive || place.operand.glob.is_some() {
        let found = wanted::below(store, &root);
        return Box::new(found.filter(move |wanted| {
            wanted.as_ref().map_or(true, |wanted| place.operand.takes(&wanted.location))
        }));
    }
    Box::new(std::iter::once(wanted::one(store, &root)))
}

/// Returns whether the location comes from output of this program, in which secrets are replaced by
/// `***`.
fn lacks_secrets(location: &Location) -> bool {
    matches!(location, Location::Http(url) if url.authority.starts_with("***@") || url.target.contains("=***"))
}

/// Lists the objects and ranges that a start file names.
#[expect(clippy::result_large_err, reason = "an item of a list, made once an object")]
fn items_of_start(start: &Arc<StartFile>) -> HydrationList {
    Box::new(start.wanted().map(|wanted| match wanted {
        Ok(HydrationItem { location, .. }) if lacks_secrets(&location) => {
            let why = "noted without its password or signature, which no file holds; name it itself";
            let error = firstbyte_store::Error::Credentials {
                location: location.to_string(),
                detail: why.into(),
                trace: None,
            };
            Err(HydrationFailure { location, error: error.into() })
        }
        wanted => wanted,
    }))
}

// Hydration by a mount's daemon.

fn hydrate_by_daemon(
    args: &HydrateArgs,
    globals: &Globals,
    place: &CacheOperand,
    stop: &Stop,
    report: &mut RunReport,
) -> Result<()> {
    let (Some(mut control), Some(path)) = (place.control()?, &place.mounted) else { return Ok(()) };
    let request = ControlRequest::Hydrate(HydrateRequest {
        location: place.operand.root.to_text().unwrap_or_else(|| place.operand.root.to_string()),
        recursive: args.recursive,
        pin: args.pin,
        limit_rate: args.limit_rate,
    });
    let ControlResponse::Begun { job } = ask(&mut control, path, &request)? else {
        return Err(unexpected_response(path));
    };
    if !args.wait {
        if !globals.quiet {
            let (path, option) = (shown(path), if args.recursive { " -r" } else { "" });
            console::say(format_args!("{path}: begun; `firstbyte status{option} {path}` says how far it is"));
        }
        return Ok(());
    }
    follow(globals, report, stop, || {
        let now = progress_of(&mut control, path, job)?;
        let reached = ReachedProgress::from(now);
        if !reached.is_over {
            if stop.is_stopped() {
                ask(&mut control, path, &ControlRequest::Cancel { job })?;
                return Err(interrupted_error());
            }
            std::thread::sleep(PROGRESS_INTERVAL);
        }
        Ok(reached)
    })
}

/// Requests the progress of a daemon's job. If the job is over, requests all of its failures.
fn progress_of(control: &mut Control, path: &Path, job: u64) -> Result<JobProgress> {
    let mut failed: Vec<JobFailure> = Vec::new();
    loop {
        let request = ControlRequest::Progress { job, known_failures: failed.len() };
        let ControlResponse::Progress(mut now) = ask(control, path, &request)? else {
            return Err(unexpected_response(path));
        };
        // A daemon of an earlier version has no more failures than those in its first answer.
        let is_next = now.known_failures == failed.len() && !now.failed.is_empty();
        if is_next {
            failed.append(&mut now.failed);
        }
        if !now.is_over || !is_next || failed.len() >= now.failures {
            return Ok(JobProgress { failed, ..now });
        }
    }
}

/// Makes the error for a run that a signal ended.
fn interrupted_error() -> Error {
    Error::interrupted().advise("run it again: what is here is not fetched again")
}

fn ask(control: &mut Control, path: &Path, request: &ControlRequest) -> Result<ControlResponse> {
    match control.ask(request).map_err(|error| Error::io(shown(path), &error))? {
        ControlResponse::Error { error } => Err(Error::failed(format!("{}: {error}", shown(path)))),
        response => Ok(response),
    }
}

fn unexpected_response(path: &Path) -> Error {
    Error::failed(format!("{}: the mount's daemon gave an answer to another request", shown(path)))
        .advise("it may be of another version: mount it again")
}

// Progress.

/// Progress of a job that runs in this process or in a daemon.
struct ReachedProgress {
    files: u64,
    files_done: u64,
    bytes: u64,
    bytes_here: u64,
    fetched: u64,
    /// The list of requested objects is complete, so the totals are final.
    is_counted: bool,
    /// Failures; empty until the job is over.
    failed: Vec<FailedItem>,
    is_over: bool,
}

impl From<HydrationProgress> for ReachedProgress {
    fn from(progress: HydrationProgress) -> Self {
        let failed = progress.failed.into_iter().filter(|_| progress.is_over).map(|failure| {
            let location = failure.location.to_string();
            Error::from(failure.error).about(&location).item(location)
        });
        Self {
            files: progress.files,
            files_done: progress.files_done,
            bytes: progress.bytes,
            bytes_here: progress.bytes_here,
            fetched: progress.fetched,
            is_counted: progress.totals_are_final,
            failed: failed.collect(),
            is_over: progress.is_over,
        }
    }
}

impl From<JobProgress> for ReachedProgress {
    fn from(progress: JobProgress) -> Self {
        let failed = progress.failed.into_iter();
        Self {
            files: progress.files,
            files_done: progress.files_done,
            bytes: progress.bytes,
            bytes_here: progress.bytes_here,
            fetched: progress.fetched,
            is_counted: progress.is_counted,
            failed: failed
                .map(|JobFailure { location, error }| Error::failed(error).item(location))
                .collect(),
            is_over: progress.is_over,
        }
    }
}

/// Shows the progress of a job until the job is over, and adds its results to the receipt.
fn follow(
    globals: &Globals,
    report: &mut RunReport,
    stop: &Stop,
    mut reached: impl FnMut() -> Result<ReachedProgress>,
) -> Result<()> {
    let bar = Bar::new(globals, FailureReporting::Printed);
    let (mut files, mut done, mut bytes, mut moved) = (0, 0, 0, 0);
    loop {
        let now = reached()?;
        bar.expected(now.files.saturating_sub(files), now.bytes.saturating_sub(bytes));
        bar.moved(now.bytes_here.saturating_sub(moved));
        bar.completed(now.files_done.saturating_sub(done));
        if now.is_counted {
            bar.listed();
        }
        (files, done) = (now.files.max(files), now.files_done.max(done));
        (bytes, moved) = (now.bytes.max(bytes), now.bytes_here.max(moved));
        if now.is_over {
            drop(bar);
            let receipt = report.receipt();
            receipt.objects += now.files_done;
            receipt.bytes += now.bytes_here;
            receipt.resumed_bytes += now.bytes_here.saturating_sub(now.fetched);
            // After a stop, objects that have not arrived do not count as failures.
            for failed in now.failed.into_iter().filter(|_| !stop.is_stopped()) {
                console::print_error(&Error::failed(&*failed.error));
                report.item_failed(failed);
            }
            return Ok(());
        }
    }
}
