//! Changes to the recommended option or the workload that an expert would propose. Each is
//! predicted, and offered if it saves at least a tenth of the time or of the cost. Called by
//! [`advise`](super::advise).

use serde::Serialize;

use super::choice::{Choice, DataState, ReadMethod};
use super::flips::DeadlineReach;
use super::row::{AdviceRow, row};
use super::{Inputs, verdict};
use crate::limits::Limit;
use crate::model::ServiceKind;
use crate::units::{count, shown_bytes, shown_seconds, significant};
use crate::workload::{ComputePlace, Needs, Workload};

/// The least relative saving that is offered.
const MIN_SAVING: f64 = 0.1;

/// The least number of files for which packing is considered, and their largest mean size in bytes.
const MANY: (f64, f64) = (100_000.0, 1e6);

/// Bytes of a shard into which files are packed.
const SHARD: f64 = 1e9;

/// Most parts into which a job is split.
const MOST_PARTS: f64 = 1_000.0;

/// A change to the workload or the option, with its effect.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Suggestion {
    /// The change, in words.
    pub what: String,
    /// Name of the changed option.
    pub option: String,
    /// Seconds of a job before and after.
    pub seconds: (f64, f64),
    /// Dollars per month before and after; `None` if a price is missing.
    pub month: Option<(f64, f64)>,
}

impl Suggestion {
    /// Returns a clause for display.
    #[must_use]
    pub fn line(&self) -> String {
        let (before, after) = self.seconds;
        let time = format!("{} -> {}", shown_seconds(before), shown_seconds(after));
        let cost = self.month.map_or_else(String::new, |(before, after)| {
            format!(", {} -> {} $ a month", significant(before), significant(after))
        });
        format!("{} ({time}{cost})", self.what)
    }
}

/// Finds the changes to the recommended option that save time or money, the best first.
pub(super) fn suggestions(
    workload: &Workload,
    choice: &Choice<'_>,
    before: &AdviceRow,
    inputs: &Inputs<'_>,
) -> Vec<Suggestion> {
    let mut offers = Offers { before, inputs, all: Vec::new() };
    let (data, compute) = (&workload.data, &workload.compute);
    let changed = |change: &dyn Fn(&mut Workload)| {
        let mut changed = workload.clone();
        change(&mut changed);
        changed
    };
    if data.files >= MANY.0 && data.bytes / data.files <= MANY.1 {
        let shards = (data.bytes / SHARD).ceil().max(1.0);
        let packed = changed(&|workload| {
            workload.data.files = shards;
            workload.names.list = workload.names.list.min(shards);
            workload.names.stat = workload.names.stat.min(shards);
        });
        offers.offer(format!("pack the files into {} shards", count(shards)), &packed, choice);
    }
    if before.limit == Limit::Latency || before.limit == Limit::Connection {
        let more = data.in_flight.unwrap_or(compute.threads).max(16.0) * 4.0;
        let flying = changed(&|workload| {
            workload.data.in_flight = Some(more);
            workload.compute.threads = workload.compute.threads.max(more.min(64.0));
        });
        offers.offer(format!("{} requests in flight", count(more)), &flying, choice);
    }
    if choice.method == ReadMethod::Mount && data.read >= data.bytes * 0.5 && data.files > 1.0 {
        let eager = Choice { method: ReadMethod::Download, ..choice.clone() };
        let any = changed(&|workload| workload.data.needs = Needs::Any);
        offers.offer("mount --eager, which fetches in parallel ahead of the reader".to_owned(), &any, &eager);
    }
    if choice.life == DataState::FirstTouch
        && choice.model.kind != ServiceKind::Volume
        && choice.model.kind != ServiceKind::LocalDisk
    {
        let ahead = Choice { life: DataState::Ready, ..choice.clone() };
        offers.offer("hydrate ahead".to_owned(), workload, &ahead);
    }
    hydrate_to_disk(workload, choice, &mut offers);
    // Not for several passes, as in training, which depend on each other.
    if compute.cpu_seconds > 0.0 && before.limit == Limit::Cpu && data.passes < 2.0 {
        let split = split(workload, 4.0);
        offers.offer("split each job into four".to_owned(), &split, choice);
    }
    if let ComputePlace::Lambda(memory) = compute.place {
        let doubled = (memory * 2.0).min(10_240.0 * 1_048_576.0);
        let larger = changed(&|workload| workload.compute.place = ComputePlace::Lambda(doubled));
        offers.offer("twice the memory".to_owned(), &larger, choice);
    }
    if !compute.spot && matches!(compute.place, ComputePlace::Machine(_)) {
        let spot = changed(&|workload| workload.compute.spot = true);
        offers.offer("spot instances".to_owned(), &spot, choice);
    }
    let mut all = offers.all;
    let saved = |one: &Suggestion| one.seconds.1 / one.seconds.0.max(1e-12);
    all.sort_by(|a, b| saved(a).total_cmp(&saved(b)));
    all
}

/// Suggests to split jobs until they meet the deadline, if no option meets it.
pub(super) fn parts(
    workload: &Workload,
    choices: &[Choice<'_>],
    before: &AdviceRow,
    reaches: &[DeadlineReach],
    inputs: &Inputs<'_>,
) -> Option<Suggestion> {
    let reach = verdict::furthest(reaches).filter(|_| before.meets == Some(false))?;
    let choice = choices.iter().find(|choice| choice.name() == reach.option)?;
    let parts = (workload.data.read / reach.bytes).ceil();
    if parts > MOST_PARTS {
        return None;
    }
    let part = split(workload, parts);
    let what = format!("split each job into {} that read {} each", count(parts), shown_bytes(part.data.read));
    let mut offers = Offers { before, inputs, all: Vec::new() };
    offers.offer(what, &part, choice);
    offers.all.pop()
}

/// Replaces each job by `parts` smaller ones that run concurrently.
fn split(workload: &Workload, parts: f64) -> Workload {
    let mut workload = workload.clone();
    workload.compute.cpu_seconds /= parts;
    (workload.data.read, workload.data.warm) = (workload.data.read / parts, workload.data.warm / parts);
    workload.jobs.at_once *= parts;
    workload.jobs.per_day *= parts;
    workload
}

/// Offers a copy on the local disk if passes read the data again and it does not fit into memory.
fn hydrate_to_disk(workload: &Workload, choice: &Choice<'_>, offers: &mut Offers<'_>) {
    let ComputePlace::Machine(name) = &workload.compute.place else { return };
    let (data, inputs) = (&workload.data, offers.inputs);
    let store = inputs.catalogue.machines.get(name).and_then(|machine| machine.store.as_ref());
    let disk = inputs.catalogue.services.iter().find(|model| model.kind == ServiceKind::LocalDisk);
    let (Some(store), Some(model)) = (store, disk) else { return };
    if choice.model.kind == ServiceKind::LocalDisk || data.bytes > store.size.0 || data.passes < 2.0 {
        return;
    }
    let copied = Choice { model, method: ReadMethod::InPlace, life: DataState::FirstTouch, capacity: 0.0 };
    let what = format!("hydrate the {} to the instance's disk first", shown_bytes(data.bytes));
    offers.offer(what, workload, &copied);
}

struct Offers<'a> {
    before: &'a AdviceRow,
    inputs: &'a Inputs<'a>,
    all: Vec<Suggestion>,
}

impl Offers<'_> {
    fn offer(&mut self, what: String, workload: &Workload, choice: &Choice<'_>) {
        let (after, _) = row(workload, choice, self.inputs);
        let month = self.before.month.zip(after.month);
        let faster = after.seconds < self.before.seconds * (1.0 - MIN_SAVING);
        let cheaper = month.is_some_and(|(before, after)| after < before * (1.0 - MIN_SAVING));
        if faster || cheaper {
            let seconds = (self.before.seconds, after.seconds);
            self.all.push(Suggestion { what, option: self.before.name.clone(), seconds, month });
        }
    }
}
