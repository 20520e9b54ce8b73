//! Computes the billed [`Usage`] of an option: the compute time of each job, and the items that the
//! service bills for each job or month. Called by `row` and `break_even`; the prices turn it into
//! dollars.

use super::choice::Choice;
use super::moved::{CHUNK, Moved};
use crate::models::{Billed, Catalogue};
use crate::prices::spot;
use crate::units::GIB;
use crate::usage::{HOURS_PER_MONTH, Item, Unit, Usage, Waiting};
use crate::workload::{Place, Workload};

/// Bytes per second that the price of a gp3 volume includes.
const INCLUDED_RATE: f64 = 125.0 * 1_048_576.0;

/// Billed usage of a job that takes `seconds`, and of each month, with or without jobs.
pub(super) fn usage(
    workload: &Workload,
    choice: &Choice<'_>,
    catalogue: &Catalogue,
    moved: &Moved,
    seconds: f64,
) -> Usage {
    let spot = workload.compute.spot && matches!(workload.compute.place, Place::Machine(_));
    let rate = if spot { spot::interruptions_per_hour(workload.compute.interrupted) } else { 0.0 };
    // An interrupted job begins again.
    let seconds = 3_600.0 * spot::expected_hours(seconds / 3_600.0, rate, None);
    let mut items =
        if choice.keeps_machine() { kept(workload) } else { compute(workload, catalogue, seconds) };
    items.extend(choice.model.bills.iter().filter_map(|bill| {
        let item = amount(workload, choice, moved, seconds, bill.of)?;
        Some(match item {
            Amount::Job(quantity, unit) => Item::per_job(&bill.price, quantity, unit),
            Amount::Month(quantity, unit) => Item::per_month(&bill.price, quantity, unit),
        })
    }));
    let hours = seconds / 3_600.0;
    let waiting = workload.goal.waiting.map(|per_hour| Waiting { hours, per_hour });
    Usage { items, waiting }
}

fn compute(workload: &Workload, catalogue: &Catalogue, seconds: f64) -> Vec<Item> {
    match &workload.compute.place {
        Place::Lambda(memory) => vec![
            Item::per_job("lambda/x86", memory / GIB * seconds, Unit::GiBSeconds),
            Item::per_job("lambda/requests", 1.0, Unit::Requests),
        ],
        Place::Machine(name) => match (name.strip_prefix("fargate:"), catalogue.machines.get(name)) {
            (Some(_), Some(machine)) => vec![
                Item::per_job("fargate/vcpu", machine.vcpus * seconds / 3_600.0, Unit::VcpuHours),
                Item::per_job("fargate/memory", machine.memory / GIB * seconds / 3_600.0, Unit::GiBHours),
            ],
            _ => {
                let kind = if workload.compute.spot { "ec2-spot" } else { "ec2" };
                vec![Item::per_job(&format!("{kind}/{name}"), seconds / 3_600.0, Unit::Hours)]
            }
        },
    }
}

/// Machines that run all month because the data is on their disks.
fn kept(workload: &Workload) -> Vec<Item> {
    let Place::Machine(name) = &workload.compute.place else { return Vec::new() };
    let hours = HOURS_PER_MONTH * workload.jobs.at_once;
    vec![Item::per_month(&format!("ec2/{name}"), hours, Unit::Hours)]
}

/// An amount, for each job or for each month.
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
    let stored = workload.data.bytes / GIB;
    let jobs = workload.jobs.at_once;
    let rate = choice.model.number("total_rate").map_or(0.0, |number| number.value);
    Some(match of {
        Billed::Stored => Amount::Month(stored, Unit::GiBMonth),
        Billed::StoredPerClient => Amount::Month(stored * jobs, Unit::GiBMonth),
        Billed::StoredDuringJob => Amount::Job(stored * seconds / (30.0 * 86_400.0), Unit::GiBMonth),
        Billed::StoredSmall if !moved.direct => Amount::Month(stored, Unit::GiBMonth),
        Billed::ReadSmall if !moved.direct => Amount::Job(moved.bytes / GIB, Unit::GiB),
        Billed::DirectRequests if moved.direct => Amount::Job(moved.requests, Unit::Requests),
        Billed::HydrationRequests if !choice.hydrated => {
            Amount::Job((moved.whole / CHUNK).max(moved.files), Unit::Requests)
        }
        Billed::StoredSmall | Billed::ReadSmall | Billed::DirectRequests | Billed::HydrationRequests => {
            return None;
        }
        Billed::Read => Amount::Job(moved.bytes / GIB, Unit::GiB),
        Billed::Requests => Amount::Job(moved.requests, Unit::Requests),
        Billed::Capacity => Amount::Month(choice.capacity / GIB, Unit::GiBMonth),
        Billed::ProvisionedRate => Amount::Month(rate / 1_048_576.0, Unit::MiBpsMonth),
        Billed::VolumeRate => {
            Amount::Month((rate - INCLUDED_RATE).max(0.0) / 1_048_576.0 * jobs, Unit::MiBpsMonth)
        }
    })
}
