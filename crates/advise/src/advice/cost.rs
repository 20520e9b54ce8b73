//! Computes what an option is billed for: compute time per job, and the storage, bytes and requests
//! of the service, per job or per month. The one-time cost of loading the data is computed
//! separately, in dollars. Called by `row`, which converts the [`OptionUsage`] to dollars with the
//! price list.

use super::Inputs;
use super::choice::{Choice, DataState, ReadMethod};
use super::moved::{DOWNLOAD_REQUEST_BYTES, MovedAmounts};
use crate::model::{BilledQuantity, Each, Figure, Flow, HERE, ModelCatalogue, ServiceModel};
use crate::prices::{Cost, spot};
use crate::units::{Bytes, GIB, TIB};
use crate::usage::{HOURS_PER_MONTH, OptionUsage, Unit, UsageItem, WaitingPeople};
use crate::workload::{ComputePlace, Workload};

/// Rate in bytes per second, and operations per second, that the price of a gp3 volume includes.
const GP3_INCLUDED: (f64, f64) = (125.0 * 1_048_576.0, 3_000.0);

/// Shortest time that a container on Fargate is billed for, in seconds.
const LEAST_FARGATE_SECONDS: f64 = 60.0;

/// Bytes of a serverless function's disk that every function has, and that are not billed.
pub(super) const FREE_DISK_BYTES: f64 = 512.0 * 1_048_576.0;

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
        let copied = if choice.method == ReadMethod::Download { moved.whole } else { 0.0 };
        compute_usage(workload, catalogue, copied, seconds)
    };
    for bill in &choice.model.bills {
        match amount(workload, choice, moved, seconds, bill.of) {
            Some(Amount::Job(quantity, unit)) => items.push(UsageItem::per_job(&bill.price, quantity, unit)),
            Some(Amount::Month(quantity, unit)) => {
                items.push(UsageItem::per_month(&bill.price, quantity, unit))
            }
            None => {}
        }
    }
    items.extend(name_requests(workload, choice));
    let hours = seconds / 3_600.0;
    let waiting = workload.goal.waiting.map(|per_hour| WaitingPeople { hours, per_hour });
    OptionUsage { items, waiting }
}

/// Returns the requests of each job for names, if the service bills requests: lists and new objects
/// by the price of PUT, metadata by that of GET.
fn name_requests(workload: &Workload, choice: &Choice<'_>) -> Vec<UsageItem> {
    let names = &workload.names;
    let mut bills = choice.model.bills.iter().filter(|bill| bill.of == BilledQuantity::Requests);
    let Some(service) = bills.find_map(|bill| bill.price.strip_suffix("/get")) else { return Vec::new() };
    let puts = (names.list / NAMES_PER_PAGE).ceil() + names.create;
    let counted = [("put", puts), ("get", names.stat)].into_iter().filter(|(_, count)| *count > 0.0);
    counted
        .map(|(kind, count)| UsageItem::per_job(&format!("{service}/{kind}"), count, Unit::Requests))
        .collect()
}

/// Computes the cost of a usage of an option, by the prices of the workload's region.
pub(super) fn priced(
    workload: &Workload,
    choice: &Choice<'_>,
    inputs: &Inputs<'_>,
    usage: &OptionUsage,
) -> Cost {
    let region = choice.model.cloud.only_region().unwrap_or(&workload.region);
    inputs.prices.cost(usage, region, inputs.day)
}

/// Computes the dollars for loading the data set once. `None` if loading costs nothing, or if its
/// price is not known.
pub(super) fn loading_cost(workload: &Workload, choice: &Choice<'_>, inputs: &Inputs<'_>) -> Option<f64> {
    let loaded = choice.model.bills.iter().filter(|bill| bill.of == BilledQuantity::Loaded);
    let items: Vec<UsageItem> =
        loaded.map(|bill| UsageItem::per_job(&bill.price, workload.data.bytes / GIB, Unit::GiB)).collect();
    let cost = priced(workload, choice, inputs, &OptionUsage { items, waiting: None });
    (cost.is_complete() && !cost.lines.is_empty()).then_some(cost.per_job)
}

/// Returns the billed compute of a job that takes `seconds`, and keeps a copy of `copied` bytes.
fn compute_usage(
    workload: &Workload,
    catalogue: &ModelCatalogue,
    copied: f64,
    seconds: f64,
) -> Vec<UsageItem> {
    match &workload.compute.place {
        ComputePlace::Lambda(memory) => {
            let more = (copied - FREE_DISK_BYTES).max(0.0);
            let mut items = vec![
                UsageItem::per_job("lambda/x86", memory / GIB * seconds, Unit::GiBSeconds),
                UsageItem::per_job("lambda/requests", 1.0, Unit::Requests),
                UsageItem::per_job("lambda/tmp", more / GIB * seconds, Unit::GiBSeconds),
            ];
            items.retain(|item| item.quantity > 0.0);
            items
        }
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
                let key = machine_key(name, workload.compute.spot);
                vec![UsageItem::per_job(&key, seconds / 3_600.0, Unit::Hours)]
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
    vec![UsageItem::per_month(&machine_key(name, false), hours, Unit::Hours)]
}

/// Returns the key of the price of a machine. Names of machines of other providers than AWS have
/// the provider in front.
fn machine_key(name: &str, spot: bool) -> String {
    let of = |provider: &str, kind| name.strip_prefix(provider).map(|name| (kind, name));
    let (kind, name) = of("gcp:", "gce").or_else(|| of("azure:", "azure-vm")).unwrap_or(("ec2", name));
    format!("{kind}{}/{name}", if spot { "-spot" } else { "" })
}

/// Returns the provisioned bytes per second that are billed: those above the rate that the price of
/// `stored` bytes of data includes.
fn billed_provisioned_rate(model: &ServiceModel, stored: f64) -> f64 {
    let Some(flow) = &model.rates.total else { return 0.0 };
    let included = if flow.each == Each::Tib { flow.rate.0 * stored / TIB } else { 0.0 };
    (flow.least_rate.unwrap_or(flow.rate).0 - included).max(0.0)
}

/// Returns the bytes that are billed for the reads of a job. Some services bill each read and each
/// operation on a name as a minimum number of bytes.
fn metered_bytes(workload: &Workload, model: &ServiceModel, moved: &MovedAmounts) -> f64 {
    let least = |figure: &Option<Figure<Bytes>>| figure.as_ref().map_or(0.0, |least| least.value.0);
    let (read, name) = (least(&model.reading.least_read), least(&model.reading.least_name));
    moved.bytes.max(moved.requests * read) + (moved.files + workload.names.stat) * name
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
        BilledQuantity::Read => Amount::Job(metered_bytes(workload, model, moved) / GIB, Unit::GiB),
        BilledQuantity::Requests => Amount::Job(moved.requests, Unit::Requests),
        BilledQuantity::Capacity if choice.life == DataState::Made => {
            Amount::Job(choice.capacity / GIB * seconds / month, Unit::GiBMonth)
        }
        BilledQuantity::Capacity => Amount::Month(choice.capacity / GIB, Unit::GiBMonth),
        BilledQuantity::Hours if choice.life == DataState::Made => {
            Amount::Job(seconds / 3_600.0, Unit::Hours)
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
