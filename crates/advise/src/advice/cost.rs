//! Computes what an option is billed for: compute time per job, and the storage, bytes and requests
//! of the service, per job or per month. The one-time cost of loading the data is computed
//! separately, in dollars. Called by `row`, which converts the [`OptionUsage`] to dollars with the
//! price list.

use super::Inputs;
use super::choice::{Choice, DataState};
use super::moved::{DOWNLOAD_REQUEST_BYTES, MovedAmounts};
use crate::model::{BilledQuantity, Each, Flow, HERE, ModelCatalogue, ServiceModel};
use crate::prices::spot;
use crate::units::{GIB, TIB};
use crate::usage::{HOURS_PER_MONTH, OptionUsage, Unit, UsageItem, WaitingPeople};
use crate::workload::{ComputePlace, Workload};

/// Rate in bytes per second, and operations per second, that the price of a gp3 volume includes.
const GP3_INCLUDED: (f64, f64) = (125.0 * 1_048_576.0, 3_000.0);

/// Shortest time that a container on Fargate is billed for, in seconds.
const LEAST_FARGATE_SECONDS: f64 = 60.0;

/// Number of names that one listing request returns.
const NAMES_PER_PAGE: f64 = 1_000.0;

/// Computes the billed usage: of each job, which takes `seconds`, and of each month, even without
/// jobs.
pub(super) fn usage(
    workload: &Workload,
    choice: &Choice<'_>,
    catalogue: &ModelCatalogue,
    moved: &MovedAmounts,
    seconds: f64,
) -> OptionUsage {
    let spot = workload.compute.spot && matches!(workload.compute.place, ComputePlace::Machine(_));
    let rate = if spot { spot::interruptions_per_hour(workload.compute.interrupted) } else { 0.0 };
    // An interrupted job starts from the beginning.
    let seconds = 3_600.0 * spot::expected_hours(seconds / 3_600.0, rate);
    let mut items = if choice.needs_machine_all_month() {
        machines_all_month(workload)
    } else {
        compute_usage(workload, catalogue, seconds)
    };
    for bill in &choice.model.bills {
        match amount(workload, choice, moved, seconds, bill.of) {
            Some(Amount::Job(quantity, unit)) => items.push(UsageItem::per_job(&bill.price, quantity, unit)),
            Some(Amount::Month(quantity, unit)) => {
                items.push(UsageItem::per_month(&bill.price, quantity, unit))
            }
            None => {}
        }
        let names = (workload.names.list / NAMES_PER_PAGE).ceil() + workload.names.create;
        if let (BilledQuantity::Requests, Some(service), true) =
            (bill.of, bill.price.strip_suffix("/get"), names > 0.0)
        {
            items.push(UsageItem::per_job(&format!("{service}/put"), names, Unit::Requests));
        }
    }
    let hours = seconds / 3_600.0;
    let waiting = workload.goal.waiting.map(|per_hour| WaitingPeople { hours, per_hour });
    OptionUsage { items, waiting }
}

/// Computes the dollars for loading the data set once. `None` if loading costs nothing, or if its
/// price is not known.
pub(super) fn loading_cost(workload: &Workload, choice: &Choice<'_>, inputs: &Inputs<'_>) -> Option<f64> {
    let loaded = choice.model.bills.iter().filter(|bill| bill.of == BilledQuantity::Loaded);
    let items: Vec<UsageItem> =
        loaded.map(|bill| UsageItem::per_job(&bill.price, workload.data.bytes / GIB, Unit::GiB)).collect();
    let cost = inputs.prices.cost(&OptionUsage { items, waiting: None }, &workload.region, inputs.day);
    (cost.is_complete() && !cost.lines.is_empty()).then_some(cost.per_job)
}

fn compute_usage(workload: &Workload, catalogue: &ModelCatalogue, seconds: f64) -> Vec<UsageItem> {
    match &workload.compute.place {
        ComputePlace::Lambda(memory) => vec![
            UsageItem::per_job("lambda/x86", memory / GIB * seconds, Unit::GiBSeconds),
            UsageItem::per_job("lambda/requests", 1.0, Unit::Requests),
        ],
        ComputePlace::Machine(name) if name == HERE => Vec::new(),
        ComputePlace::Machine(name) => match (name.strip_prefix("fargate:"), catalogue.machines.get(name)) {
            (Some(_), Some(machine)) => {
                let hours = seconds.max(LEAST_FARGATE_SECONDS) / 3_600.0;
                vec![
                    UsageItem::per_job("fargate/vcpu", machine.vcpus * hours, Unit::VcpuHours),
                    UsageItem::per_job("fargate/memory", machine.memory.0 / GIB * hours, Unit::GiBHours),
                ]
            }
            _ => {
                let kind = if workload.compute.spot { "ec2-spot" } else { "ec2" };
                vec![UsageItem::per_job(&format!("{kind}/{name}"), seconds / 3_600.0, Unit::Hours)]
            }
        },
    }
}

/// Returns the usage of machines that run all month because the data is on their own disks.
fn machines_all_month(workload: &Workload) -> Vec<UsageItem> {
    let ComputePlace::Machine(name) = &workload.compute.place else { return Vec::new() };
    if name == HERE {
        return Vec::new();
    }
    let hours = HOURS_PER_MONTH * workload.jobs.at_once;
    vec![UsageItem::per_month(&format!("ec2/{name}"), hours, Unit::Hours)]
}

/// Returns the provisioned bytes per second that are billed: those above the rate that the price of
/// `stored` bytes of data includes.
fn billed_provisioned_rate(model: &ServiceModel, stored: f64) -> f64 {
    let Some(flow) = &model.rates.total else { return 0.0 };
    let included = if flow.each == Each::Tib { flow.rate.0 * stored / TIB } else { 0.0 };
    (flow.least_rate.unwrap_or(flow.rate).0 - included).max(0.0)
}

/// A billed amount, per job or per month.
enum Amount {
    Job(f64, Unit),
    Month(f64, Unit),
}

fn amount(
    workload: &Workload,
    choice: &Choice<'_>,
    moved: &MovedAmounts,
    seconds: f64,
    of: BilledQuantity,
) -> Option<Amount> {
    let model = choice.model;
    let stored = workload.data.bytes / GIB;
    let jobs = workload.jobs.at_once;
    let month = HOURS_PER_MONTH * 3_600.0;
    let total = |flow: &Option<Flow>| flow.as_ref().map_or(0.0, |flow| flow.rate.0);
    let rate = total(&model.rates.total);
    Some(match of {
        BilledQuantity::Stored => Amount::Month(stored, Unit::GiBMonth),
        BilledQuantity::StoredPerClient => Amount::Month(stored * jobs, Unit::GiBMonth),
        BilledQuantity::StoredDuringJob => Amount::Job(stored * seconds / month, Unit::GiBMonth),
        BilledQuantity::StoredSmall if !moved.direct => Amount::Month(stored, Unit::GiBMonth),
        BilledQuantity::ReadSmall if !moved.direct => Amount::Job(moved.bytes / GIB, Unit::GiB),
        BilledQuantity::DirectRequests if moved.direct => Amount::Job(moved.requests, Unit::Requests),
        BilledQuantity::HydrationRequests if choice.life != DataState::Ready => {
            Amount::Job((moved.whole / DOWNLOAD_REQUEST_BYTES).max(moved.files), Unit::Requests)
        }
        BilledQuantity::StoredSmall
        | BilledQuantity::ReadSmall
        | BilledQuantity::DirectRequests
        | BilledQuantity::HydrationRequests
        | BilledQuantity::Loaded => return None,
        BilledQuantity::Read => Amount::Job(moved.bytes / GIB, Unit::GiB),
        BilledQuantity::Requests => Amount::Job(moved.requests, Unit::Requests),
        // Concurrent jobs share one service, and so its price.
        BilledQuantity::Capacity if choice.life == DataState::Made => {
            Amount::Job(choice.capacity / GIB * seconds / month / jobs, Unit::GiBMonth)
        }
        BilledQuantity::Capacity => Amount::Month(choice.capacity / GIB, Unit::GiBMonth),
        BilledQuantity::Hours if choice.life == DataState::Made => {
            Amount::Job(seconds / 3_600.0 / jobs, Unit::Hours)
        }
        BilledQuantity::Hours => Amount::Month(HOURS_PER_MONTH, Unit::Hours),
        BilledQuantity::ProvisionedRate => {
            Amount::Month(billed_provisioned_rate(model, workload.data.bytes) / 1_048_576.0, Unit::MiBpsMonth)
        }
        BilledQuantity::VolumeRate => {
            Amount::Month((rate - GP3_INCLUDED.0).max(0.0) / 1_048_576.0 * jobs, Unit::MiBpsMonth)
        }
        BilledQuantity::VolumeOperations => {
            let operations = model.operations.total.as_ref().map_or(0.0, |total| total.value);
            Amount::Month((operations - GP3_INCLUDED.1).max(0.0) * jobs, Unit::IopsMonth)
        }
    })
}
