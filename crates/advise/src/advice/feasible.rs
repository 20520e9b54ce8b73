//! The checks before ranking. They refuse an option, with a reason, if it is impossible or cannot
//! sustain the number of jobs per day. Called by [`advise`](super::advise) for each option.

use super::choice::{Choice, DataState, ReadMethod};
use super::cost::FREE_DISK_BYTES;
use super::host::host;
use super::moved::moved;
use super::row::{AdviceRow, PredictedOutcome};
use crate::limits::Limit;
use crate::model::{Cloud, HERE, ModelCatalogue, ServiceKind, ServiceModel};
use crate::units::{count, shown_bytes, shown_seconds, significant};
use crate::workload::{ComputePlace, ReadInterface, Workload};

/// Number of seconds in a day.
const SECONDS_PER_DAY: f64 = 86_400.0;

/// Number of jobs above which no account is assumed to create a file system for each.
const MAX_MADE_SYSTEMS: f64 = 1_000.0;

/// Tolerance, as a factor, so that rounding errors do not count as exceeding a limit.
const ROUNDING_TOLERANCE: f64 = 1.0 + 1e-9;

/// Returns the reason why an option is impossible; `None` if it is possible.
pub(super) fn refusal(
    workload: &Workload,
    choice: &Choice<'_>,
    catalogue: &ModelCatalogue,
) -> Option<String> {
    let model = choice.model;
    let lambda = matches!(workload.compute.place, ComputePlace::Lambda(_));
    let why = match model.kind {
        ServiceKind::Object if model.latency == Default::default() && model.rates == Default::default() => {
            "no measurement of it is known"
        }
        _ if !is_same_cloud(workload, model, catalogue) => "another provider's network",
        _ if !is_way_known(workload, model, catalogue) => "the way to it from here was not measured",
        _ if lambda && choice.method == ReadMethod::Mount => "functions have no FUSE",
        kind if lambda && kind.is_of_one_machine() => "functions have no volumes",
        _ if lambda && !model.functions => "functions cannot mount it",
        _ if workload.data.needs == ReadInterface::Files && choice.method == ReadMethod::Lazy => {
            "the program needs files"
        }
        _ if workload.goal.durable && !model.durable => "does not survive the loss of a server or zone",
        _ if workload.goal.shared && !model.shared => "one machine only",
        _ if workload.names.create > 0.0 && choice.method == ReadMethod::Mount => {
            "our mount creates no files"
        }
        _ => return capacity_refusal(workload, choice, catalogue),
    };
    Some(why.to_owned())
}

/// Returns false for a provider's service, and the machine of a probe of another place: the network
/// to a directory or to a server nearby is not the one to a provider.
fn is_way_known(workload: &Workload, model: &ServiceModel, catalogue: &ModelCatalogue) -> bool {
    let at_here = matches!(&workload.compute.place, ComputePlace::Machine(name) if name == HERE);
    let cloud = catalogue.machines.get(HERE).map_or(Cloud::Any, |machine| machine.cloud);
    !at_here || cloud != Cloud::Any || model.cloud == Cloud::Any || model.kind == ServiceKind::LocalDisk
}

fn is_same_cloud(workload: &Workload, model: &ServiceModel, catalogue: &ModelCatalogue) -> bool {
    let cloud = match &workload.compute.place {
        ComputePlace::Lambda(_) => Cloud::Aws,
        ComputePlace::Machine(name) => {
            catalogue.machines.get(name).map_or(Cloud::Aws, |machine| machine.cloud)
        }
    };
    model.cloud == cloud || model.cloud == Cloud::Any || cloud == Cloud::Any
}

/// Returns the reason why the data does not fit on the service, or a copy of the data does not fit
/// on the machine. `None` if both fit.
fn capacity_refusal(workload: &Workload, choice: &Choice<'_>, catalogue: &ModelCatalogue) -> Option<String> {
    let (bytes, model) = (workload.data.bytes, choice.model);
    if let Some(most) = model.capacity.most.as_ref().filter(|most| bytes > most.value.0) {
        return Some(format!("{} at most, {} asked for", shown_bytes(most.value.0), shown_bytes(bytes)));
    }
    let store = match &workload.compute.place {
        ComputePlace::Machine(name) => {
            catalogue.machines.get(name).and_then(|machine| machine.store.as_ref())
        }
        ComputePlace::Lambda(_) => None,
    };
    let store = store.map(|store| store.size.0);
    match (model.kind, choice.method, store) {
        (ServiceKind::LocalDisk, _, None) => Some("no instance store of this type is known".to_owned()),
        (ServiceKind::LocalDisk, _, Some(size)) if bytes > size => {
            Some("larger than the instance store".to_owned())
        }
        (_, ReadMethod::Download, _) => copy_refusal(workload, choice, catalogue, store),
        _ => None,
    }
}

/// Returns the reason why a copy of the files that are read does not fit; `None` if it fits. Each
/// file of which a job reads anything is copied whole. A function has room on its `/tmp`; a machine
/// on its instance store, or in half of the memory that the program leaves.
fn copy_refusal(
    workload: &Workload,
    choice: &Choice<'_>,
    catalogue: &ModelCatalogue,
    store: Option<f64>,
) -> Option<String> {
    let host = host(workload, catalogue);
    let whole = moved(workload, choice, &host, 0.0).whole;
    match &workload.compute.place {
        ComputePlace::Lambda(memory) => {
            let local = catalogue.function(*memory).map_or(0.0, |function| function.local.0);
            (whole > local).then(|| format!("{} do not fit into a function's /tmp", shown_bytes(whole)))
        }
        ComputePlace::Machine(name) => {
            let memory = (host.memory - workload.compute.program_memory).max(0.0) / 2.0;
            (whole > memory.max(store.unwrap_or(0.0)))
                .then(|| format!("no disk for {} on {name}: attach a volume, or mount", shown_bytes(whole)))
        }
    }
}

/// Returns the reason why an option cannot sustain the jobs of a day; `None` if it can.
pub(super) fn overload(
    workload: &Workload,
    choice: &Choice<'_>,
    outcome: &PredictedOutcome,
) -> Option<String> {
    let (jobs, seconds) = (&workload.jobs, outcome.seconds);
    if !seconds.is_finite() {
        return Some("no rate is known".to_owned());
    }
    let busy = jobs.per_day * seconds;
    if busy > jobs.at_once * SECONDS_PER_DAY * ROUNDING_TOLERANCE {
        let needed = (busy / SECONDS_PER_DAY).ceil();
        let shown = shown_seconds(seconds);
        return Some(format!(
            "{} jobs of {shown} need {} at once",
            significant(jobs.per_day),
            significant(needed)
        ));
    }
    // The prediction assumes that each job has a fresh network and that the service's bucket is
    // full. Over a day, only the sustained rate counts.
    let shared = [Limit::StorageNetwork, Limit::Disk, Limit::Requests, Limit::Hydration, Limit::ClientLimit];
    for pool in outcome.jobs.iter().flat_map(|job| &job.page.pools) {
        if !shared.contains(&pool.limit) || pool.rate.is_infinite() {
            continue;
        }
        // The amount of a pool is that of all concurrent jobs, or of one job if the pool limits one
        // client.
        let rounds = jobs.per_day / jobs.at_once;
        let (day, most) = (pool.amount * rounds, pool.rate * SECONDS_PER_DAY);
        if day > most * ROUNDING_TOLERANCE {
            let shown = |amount: f64| match pool.limit {
                Limit::Requests => format!("{} requests", significant(amount)),
                _ => shown_bytes(amount),
            };
            return Some(format!("{} a day, {} is its most", shown(day), shown(most)));
        }
    }
    match choice.life {
        DataState::Made if jobs.at_once > MAX_MADE_SYSTEMS => {
            Some("so many file systems at once are not created".to_owned())
        }
        _ => None,
    }
}

/// Refuses serverless functions that would run too long, and adds the conditions of an option to
/// its row.
pub(super) fn check_account_limits(workload: &Workload, catalogue: &ModelCatalogue, row: &mut AdviceRow) {
    let ComputePlace::Lambda(memory) = workload.compute.place else {
        let ComputePlace::Machine(name) = &workload.compute.place else { return };
        let has_disk = catalogue.machines.get(name).is_some_and(|machine| machine.store.is_some());
        if row.name.ends_with("-download") && !has_disk {
            row.conditions.push("the copy is in memory".to_owned());
        }
        return;
    };
    let Some(function) = catalogue.function(memory) else { return };
    if row.seconds > function.longest.0 && row.refused.is_none() {
        row.refused = Some(format!("a function ends after {}", shown_seconds(function.longest.0)));
        row.overloaded = true;
    }
    if row.name.ends_with("-download") && row.bytes > FREE_DISK_BYTES {
        row.conditions.push(format!("needs /tmp of {}", shown_bytes(row.bytes)));
    }
    if workload.jobs.at_once > function.at_once {
        row.conditions.push(format!(
            "the account's limit of {} functions at once has to be raised to {}",
            count(function.at_once),
            count(workload.jobs.at_once)
        ));
    }
}
