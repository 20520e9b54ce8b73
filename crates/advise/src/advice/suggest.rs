//! Changes to the recommended option or to the workload that an expert would propose. Each change
//! is predicted, and is suggested if it saves at least a tenth of the time or of the cost. Called
//! by [`advise`](super::advise).

use serde::Serialize;

use super::choice::{Choice, DataState, ReadMethod};
use super::flips::DeadlineReach;
use super::row::AdviceRow;
use super::{Inputs, checked_row, verdict};
use crate::limits::Limit;
use crate::model::ServiceKind;
use crate::units::{count, shown_bytes, shown_seconds, significant};
use crate::workload::{ComputePlace, ReadInterface, Workload};

/// Minimum relative saving of a change that is suggested.
const MIN_SAVING: f64 = 0.1;

/// Minimum number of files for which packing is considered, and their maximum mean size in bytes.
const PACKED_FILES: (f64, f64) = (100_000.0, 1e6);

/// Size of the shards into which files are packed, bytes.
const SHARD_BYTES: f64 = 1e9;

/// Maximum number of parts into which a job is split.
const MAX_PARTS: f64 = 1_000.0;

/// A change to the workload or the option, with its effect.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Suggestion {
    /// The change, as a phrase.
    pub what: String,
    /// Name of the changed option.
    pub option: String,
    /// Duration of a job before and after the change, in seconds.
    pub seconds: (f64, f64),
    /// Dollars per month before and after the change; `None` if a price is missing.
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

/// Finds the changes to the recommended option that save time or money. The change that saves most
/// time is first.
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
    if data.files >= PACKED_FILES.0 && data.bytes / data.files <= PACKED_FILES.1 {
        let shards = (data.bytes / SHARD_BYTES).ceil().max(1.0);
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
        let any = changed(&|workload| workload.data.needs = ReadInterface::Any);
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
    // Jobs with several passes, as in training, are not split, because each pass depends on the one
    // before.
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

/// If no option meets the deadline, suggests to split each job into so many parts that one does.
pub(super) fn parts(
    workload: &Workload,
    choices: &[Choice<'_>],
    before: &AdviceRow,
    reaches: &[DeadlineReach],
    inputs: &Inputs<'_>,
) -> Option<Suggestion> {
    let reach = verdict::furthest_reach(reaches).filter(|_| before.meets == Some(false))?;
    let choice = choices.iter().find(|choice| choice.name() == reach.option)?;
    let parts = (workload.data.read / reach.bytes).ceil();
    if parts > MAX_PARTS {
        return None;
    }
    let part = split(workload, parts);
    let what = format!("split each job into {} that read {} each", count(parts), shown_bytes(part.data.read));
    let mut offers = Offers { before, inputs, all: Vec::new() };
    offers.offer(what, &part, choice);
    offers.all.pop()
}

/// Replaces each job with `parts` smaller jobs that run concurrently.
fn split(workload: &Workload, parts: f64) -> Workload {
    let mut workload = workload.clone();
    workload.compute.cpu_seconds /= parts;
    (workload.data.read, workload.data.warm) = (workload.data.read / parts, workload.data.warm / parts);
    workload.jobs.at_once *= parts;
    workload.jobs.per_day *= parts;
    workload
}

/// Suggests a copy on the local disk if later passes read the data again and the data does not fit
/// into memory.
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
        let after = checked_row(workload, choice, self.inputs);
        if after.refused.is_some() {
            return;
        }
        let month = self.before.month.zip(after.month);
        let faster = after.seconds < self.before.seconds * (1.0 - MIN_SAVING);
        let cheaper = month.is_some_and(|(before, after)| after < before * (1.0 - MIN_SAVING));
        if faster || cheaper {
            let seconds = (self.before.seconds, after.seconds);
            self.all.push(Suggestion { what, option: self.before.name.clone(), seconds, month });
        }
    }
}
