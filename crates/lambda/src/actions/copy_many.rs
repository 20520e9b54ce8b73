//! Implements `copy-many`, which copies all objects below a location.
//!
//! Objects are listed and started in the order of their names. So a single name, up to which all
//! objects are done, states where the next call continues. Copies below the function's directory
//! exist in one environment only, so another environment starts again.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use firstbyte::copy_rules::refuse_into_itself;
use firstbyte::receipt::FailedItem;
use firstbyte::size::human;
use firstbyte_location::{Entry, EntryKind, Location};
use firstbyte_store::{EntryOrder, Error as StoreError, ListOptions, PAGE, ReplaceKind, location_below};
use firstbyte_transfer::{
    CopyJob, Effect, Failure as FailedJob, Levels, Shard, Stop, Summary, Tree, TreeNames,
};
use rustix_futex_sync::Mutex;

use crate::answer::Answer;
use crate::call::InvocationContext;
use crate::error::{InvocationFailure, Result};
use crate::event::CopyManyAction;
use crate::frontier::Frontier;
use crate::run::{EngineRun, RunProgress};
use crate::tmp;
use crate::token::ResumeToken;
use crate::written::WrittenPath;

const VERB: &str = "copy-many";

pub(super) fn run(call: &InvocationContext<'_>, event: &CopyManyAction) -> Result<Answer> {
    let source = Location::parse(event.source.as_ref())?;
    let token = ResumeToken::decode(event.r#continue.as_deref(), VERB, &source)?;
    if event.concurrency == Some(0) {
        return Err(InvocationFailure::event("`concurrency` is 0; write a number from 1 on"));
    }
    let stated =
        event.destination.as_deref().or(token.as_ref().and_then(|token| token.destination.as_deref()));
    let destination = call.destination(stated, &source)?;
    refuse_into_itself(&source, &destination).map_err(|error| InvocationFailure::of_library(&error))?;
    let through = claim_destination(call, &destination, token.as_ref())?;
    let run = call.run(event.concurrency)?;
    let mut answer = call.answer(VERB, &source, Some(&destination));
    answer.began_anew = through.is_none() && token.is_some_and(|token| token.through.is_some());

    let listed = run.store().list(&source, &options(&run, through.clone()));
    let mut listing = listed.map_err(|error| InvocationFailure::of_store(&error))?;
    // The first page has already arrived. Its objects are checked here, so that objects which do
    // not fit are refused before any is copied.
    let room = DestinationSpace::of(&destination);
    let page: Vec<_> = listing.by_ref().take(PAGE).collect();
    page.iter().flatten().for_each(|entry| room.add(entry, &run.stop));
    room.check()?;
    answer.stages.opened_seconds = call.now();

    let frontier = Frontier::after(through);
    let left_out = AtomicU64::new(0);
    let plan = Plan { source: &source, destination: &destination, frontier: &frontier, left_out: &left_out };
    let rest = listing.inspect(|entry| entry.iter().for_each(|entry| room.add(entry, &run.stop)));
    let mut jobs = page.into_iter().chain(rest).filter_map(|entry| plan.job(entry));
    let progress = RunProgress { meter: &run.meter, frontier: &frontier };
    let copied = run.engine.copy_listed(&tree(&source, &destination), &mut jobs, &progress);
    let summary = copied.map_err(|error| InvocationFailure::of_transfer(&error))?;
    room.check()?;
    answer.stages.first_byte_seconds =
        run.meter.first_byte().map(|at| at.saturating_duration_since(call.deadline.started()).as_secs_f64());
    answer.receipt.left_out = Some(left_out.load(Ordering::Relaxed));
    record_summary(&mut answer, &summary);
    match summary.ended {
        None => answer.stages.all_seconds = call.now(),
        Some(_) if run.is_stopped() => {
            if summary.objects + summary.skipped + summary.failures + summary.kept_bytes == 0 {
                return Err(InvocationFailure::no_progress(&source));
            }
            let next = ResumeToken::new(VERB, &source);
            let (through, destination) = (frontier.through(), Some(destination.to_string()));
            let environment = Some(call.environment.id().to_owned());
            answer.token = Some(ResumeToken { through, destination, environment, ..next }.encode());
        }
        Some(error) => return Err(InvocationFailure::of_transfer(&error)),
    }
    Ok(answer)
}

/// Returns the options to list all objects below the source, in the order of their names, after the
/// name `through`.
fn options(run: &EngineRun, through: Option<String>) -> ListOptions {
    ListOptions {
        recursive: true,
        order: EntryOrder::Bytes,
        start_after: through,
        requests: Some(run.engine.settings().listing_requests()),
        ..ListOptions::default()
    }
}

fn tree(source: &Location, destination: &Location) -> Tree<'static> {
    Tree {
        source: source.clone(),
        names: TreeNames::Listed,
        destination: destination.clone(),
        beginning: String::new(),
        levels: Levels::All,
        select: &|_| true,
        bounds: Default::default(),
        shard: Shard::default(),
        effect: Effect::Apply,
    }
}

/// Returns the name up to which earlier calls have copied objects to the destination. Copies below
/// the function's directory exist only in the environment of those calls. Returns `None` in another
/// environment, and for another destination: the copy starts again.
///
/// Checks that the files which will be removed when the call ends were made by this call, or by the
/// calls that it continues.
fn claim_destination(
    call: &InvocationContext<'_>,
    destination: &Location,
    token: Option<&ResumeToken>,
) -> Result<Option<String>> {
    let stated = Some(destination.to_string());
    let token = token.filter(|token| token.destination == stated);
    let through = token.and_then(|token| token.through.clone());
    let Some(path) = call.below_directory(destination) else { return Ok(through) };
    if token.is_some_and(|token| token.environment.as_deref() == Some(call.environment.id())) {
        call.remove_with_answer(WrittenPath::continued(path));
        return Ok(through);
    }
    if !call.keeps_files() && !tmp::is_vacant(&path) {
        return Err(InvocationFailure::event(format!(
            "{destination}: has files already, and copies would be removed with the answer; give an empty \
             `destination`, or `\"keep\": true`"
        )));
    }
    call.remove_with_answer(WrittenPath::new(path));
    Ok(None)
}

fn record_summary(answer: &mut Answer, summary: &Summary) {
    answer.receipt.add(summary);
    answer.receipt.failed.extend(summary.failed.iter().map(|failure| {
        let error = InvocationFailure::of_transfer(&failure.error);
        let (kind, trace) = (failure.error.kind(), failure.error.trace());
        FailedItem::new(failure.location.clone(), error.to_string(), kind, trace)
    }));
}

/// Converts entries to jobs.
struct Plan<'a> {
    source: &'a Location,
    destination: &'a Location,
    frontier: &'a Frontier,
    /// Number of pipes, sockets and devices, which are not copied.
    left_out: &'a AtomicU64,
}

impl Plan<'_> {
    /// Returns the job that copies an entry. `None` if the entry is not an object.
    fn job(&self, entry: firstbyte_store::Result<Entry>) -> Option<std::result::Result<CopyJob, FailedJob>> {
        let failed = |location: &Location, error: StoreError| {
            Some(Err(FailedJob { location: location.to_string(), error: error.into() }))
        };
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => return failed(self.source, error),
        };
        if entry.kind == EntryKind::Other {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
        // The keys of directory markers end in `/`. Directory markers are not copied. An object
        // with content is no marker, whatever its key.
        let is_marker = entry.name.ends_with(b"/") && entry.size == Some(0);
        if entry.kind != EntryKind::File || is_marker {
            return None;
        }
        let source = self.source.join(&entry.name);
        let destination = match location_below(self.destination, &entry.name) {
            Ok(destination) => destination,
            Err(error) => return failed(&source, error),
        };
        self.frontier.begin(&entry.name, &source.to_string());
        Some(Ok(CopyJob { source, destination, entry: Some(entry), over: ReplaceKind::File }))
    }
}

/// The free space at a local destination, and the bytes that are to be written there.
struct DestinationSpace {
    destination: Location,
    free: Option<u64>,
    listed: Mutex<u64>,
    exceeded: OnceLock<()>,
}

impl DestinationSpace {
    fn of(destination: &Location) -> Self {
        let free = destination.as_local().and_then(tmp::free);
        Self { destination: destination.clone(), free, listed: Mutex::default(), exceeded: OnceLock::new() }
    }

    /// Adds the size of an entry, less what earlier calls have already written of it. Stops the run
    /// if the total does not fit.
    fn add(&self, entry: &Entry, stop: &Stop) {
        let Some(free) = self.free else { return };
        let copy = location_below(&self.destination, &entry.name).ok();
        let present = copy.as_ref().and_then(Location::as_local).map_or(0, tmp::present_bytes);
        let mut listed = self.listed.lock();
        *listed += entry.size.unwrap_or(0).saturating_sub(present);
        if *listed > free {
            self.exceeded.get_or_init(|| stop.stop());
        }
    }

    /// Returns an error if the listed entries do not fit.
    fn check(&self) -> Result<()> {
        let (Some(()), Some(path), Some(free)) =
            (self.exceeded.get(), self.destination.as_local(), self.free)
        else {
            return Ok(());
        };
        let listed = *self.listed.lock();
        Err(tmp::too_small(path, &format!("{} or more", human(listed)), free))
    }
}
