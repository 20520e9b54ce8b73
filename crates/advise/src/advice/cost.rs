//! The billed [`Usage`] of an option: compute time per job, and the service's items per job, per
//! month or once. Called by `row`; the prices turn it into dollars.

use super::Inputs;
use super::choice::{Choice, DataState};
use super::moved::{CHUNK, Moved};
use crate::model::{Billed, Catalogue, Flow, HERE};
use crate::prices::spot;
use crate::units::GIB;
use crate::usage::{HOURS_PER_MONTH, Item, Unit, Usage, Waiting};
use crate::workload::{Place, Workload};

/// Bytes and operations per second that the price of a gp3 volume includes.
const INCLUDED: (f64, f64) = (125.0 * 1_048_576.0, 3_000.0);

/// Names that one listing request returns.
const NAMES: f64 = 1_000.0;

/// Computes the billed usage of a job that takes `seconds`, and of each month with or without jobs.
pub(super) fn usage(
    workload: &Workload,
    choice: &Choice<'_>,
    catalogue: &Catalogue,
    moved: &Moved,
    seconds: f64,
) -> Usage {
    let spot = workload.compute.spot && matches!(workload.compute.place, Place::Machine(_));
    let rate = if spot { spot::interruptions_per_hour(workload.compute.interrupted) } else { 0.0 };
    // An interrupted job starts over.
    let seconds = 3_600.0 * spot::expected_hours(seconds / 3_600.0, rate);
    let mut items = if choice.keeps_machine() {
        machines_all_month(workload)
    } else {
        compute(workload, catalogue, seconds)
    };
    for bill in &choice.model.bills {
        match amount(workload, choice, moved, seconds, bill.of) {
            Some(Amount::Job(quantity, unit)) => items.push(Item::per_job(&bill.price, quantity, unit)),
            Some(Amount::Month(quantity, unit)) => items.push(Item::per_month(&bill.price, quantity, unit)),
            None => {}
        }
        let names = (workload.names.list / NAMES).ceil() + workload.names.create;
        if let (Billed::Requests, Some(service), true) =
            (bill.of, bill.price.strip_suffix("/get"), names > 0.0)
        {
            items.push(Item::per_job(&format!("{service}/put"), names, Unit::Requests));
        }
    }
    let hours = seconds / 3_600.0;
    let waiting = workload.goal.waiting.map(|per_hour| Waiting { hours, per_hour });
    Usage { items, waiting }
}

/// Computes the dollars of loading the data set once. `None` if this costs nothing or no price is
/// known.
pub(super) fn once(workload: &Workload, choice: &Choice<'_>, inputs: &Inputs<'_>) -> Option<f64> {
    let loaded = choice.model.bills.iter().filter(|bill| bill.of == Billed::Loaded);
    let items: Vec<Item> =
        loaded.map(|bill| Item::per_job(&bill.price, workload.data.bytes / GIB, Unit::GiB)).collect();
    let cost = inputs.prices.cost(&Usage { items, waiting: None }, &workload.region, inputs.day);
    (cost.is_complete() && !cost.lines.is_empty()).then_some(cost.per_job)
}

fn compute(workload: &Workload, catalogue: &Catalogue, seconds: f64) -> Vec<Item> {
    match &workload.compute.place {
        Place::Lambda(memory) => vec![
            Item::per_job("lambda/x86", memory / GIB * seconds, Unit::GiBSeconds),
            Item::per_job("lambda/requests", 1.0, Unit::Requests),
        ],
        Place::Machine(name) if name == HERE => Vec::new(),
        Place::Machine(name) => match (name.strip_prefix("fargate:"), catalogue.machines.get(name)) {
            (Some(_), Some(machine)) => vec![
                Item::per_job("fargate/vcpu", machine.vcpus * seconds / 3_600.0, Unit::VcpuHours),
                Item::per_job("fargate/memory", machine.memory.0 / GIB * seconds / 3_600.0, Unit::GiBHours),
            ],
            _ => {
                let kind = if workload.compute.spot { "ec2-spot" } else { "ec2" };
                vec![Item::per_job(&format!("{kind}/{name}"), seconds / 3_600.0, Unit::Hours)]
            }
        },
    }
}

/// Returns the machines that run all month because the data is on their disks.
fn machines_all_month(workload: &Workload) -> Vec<Item> {
    let Place::Machine(name) = &workload.compute.place else { return Vec::new() };
    if name == HERE {
        return Vec::new();
    }
    let hours = HOURS_PER_MONTH * workload.jobs.at_once;
    vec![Item::per_month(&format!("ec2/{name}"), hours, Unit::Hours)]
}

/// A billed amount, per job or per month.
enum Amount {
    Job(f64, Unit),
    Month(f64, Unit),
}

fn amount(
    workload: &Workload,
    choice: &Choice<'_>,
    moved: &Moved,
    seconds: f64,
    of: Billed,
) -> Option<Amount> {
    let model = choice.model;
    let stored = workload.data.bytes / GIB;
    let jobs = workload.jobs.at_once;
    let month = HOURS_PER_MONTH * 3_600.0;
    let total = |flow: &Option<Flow>| flow.as_ref().map_or(0.0, |flow| flow.rate.0);
    let rate = total(&model.rates.total);
    Some(match of {
        Billed::Stored => Amount::Month(stored, Unit::GiBMonth),
        Billed::StoredPerClient => Amount::Month(stored * jobs, Unit::GiBMonth),
        Billed::StoredDuringJob => Amount::Job(stored * seconds / month, Unit::GiBMonth),
        Billed::StoredSmall if !moved.direct => Amount::Month(stored, Unit::GiBMonth),
        Billed::ReadSmall if !moved.direct => Amount::Job(moved.bytes / GIB, Unit::GiB),
        Billed::DirectRequests if moved.direct => Amount::Job(moved.requests, Unit::Requests),
        Billed::HydrationRequests if choice.life != DataState::Ready => {
            Amount::Job((moved.whole / CHUNK).max(moved.files), Unit::Requests)
        }
        Billed::StoredSmall
        | Billed::ReadSmall
        | Billed::DirectRequests
        | Billed::HydrationRequests
        | Billed::Loaded => return None,
        Billed::Read => Amount::Job(moved.bytes / GIB, Unit::GiB),
        Billed::Requests => Amount::Job(moved.requests, Unit::Requests),
        // Concurrent jobs share one service.
        Billed::Capacity if choice.life == DataState::Made => {
            Amount::Job(choice.capacity / GIB * seconds / month / jobs, Unit::GiBMonth)
        }
        Billed::Capacity => Amount::Month(choice.capacity / GIB, Unit::GiBMonth),
        Billed::Hours if choice.life == DataState::Made => Amount::Job(seconds / 3_600.0 / jobs, Unit::Hours),
        Billed::Hours => Amount::Month(HOURS_PER_MONTH, Unit::Hours),
        Billed::ProvisionedRate => Amount::Month(rate / 1_048_576.0, Unit::MiBpsMonth),
        Billed::VolumeRate => {
            Amount::Month((rate - INCLUDED.0).max(0.0) / 1_048_576.0 * jobs, Unit::MiBpsMonth)
        }
        Billed::VolumeOperations => {
            let operations = model.operations.total.as_ref().map_or(0.0, |total| total.value);
            Amount::Month((operations - INCLUDED.1).max(0.0) * jobs, Unit::IopsMonth)
        }
    })
}
