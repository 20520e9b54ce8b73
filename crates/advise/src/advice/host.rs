//! The machine or serverless function that a job runs on: its memory, processors, network and local
//! disk. Called by `job`, `moved` and `feasible`.

use crate::model::{Cloud, Flow, ModelCatalogue};
use crate::units::Rate;
use crate::workload::{BucketState, ComputePlace, Workload};

/// Bytes per second in 1 Gbit/s.
const GBIT_PER_SECOND: f64 = 1.25e8;

/// The machine or serverless function of a job.
#[derive(Clone, Copy, Default)]
pub(super) struct JobHost {
    pub(super) vcpus: f64,
    pub(super) memory: f64,
    /// Token bucket of the network: sustained rate, burst rate, bytes in the bucket.
    pub(super) network: (f64, f64, f64),
    /// Maximum bytes per second of one connection; infinite outside of EC2, whose rule it is.
    pub(super) flow: f64,
    /// Bytes per second that one thread copies from the page cache.
    pub(super) copy: f64,
    /// Bytes per second that can be read from the local disk; `None` if there is no such disk.
    pub(super) store: Option<f64>,
    /// Token bucket of all volumes: sustained rate, burst rate, bytes in the bucket.
    pub(super) volumes: (f64, f64, f64),
    /// Bytes that the kernel of the host reads ahead in mounted files; `None` if the service
    /// decides that.
    pub(super) read_ahead: Option<f64>,
}

/// Returns the host of a workload. For an unknown machine, returns a small host; the advice has
/// already refused such a machine.
pub(super) fn host(workload: &Workload, catalogue: &ModelCatalogue) -> JobHost {
    let (rules, state) = (&catalogue.rules, workload.compute.network);
    let (flow, copy) = (rules.flow.value.0, rules.copy.value.0);
    let volumes = (f64::INFINITY, f64::INFINITY, 0.0);
    let empty = JobHost { vcpus: 1.0, network: (1.0, 1.0, 0.0), flow, copy, volumes, ..JobHost::default() };
    match &workload.compute.place {
        ComputePlace::Lambda(memory) => catalogue.function(*memory).map_or(empty, |function| {
            let vcpus = memory / function.memory_per_processor.0;
            let network = token_bucket(&function.network, 1.0, state);
            let (copy, read_ahead) = (copy * vcpus.min(1.0), Some(function.read_ahead.0));
            JobHost { vcpus, memory: *memory, network, copy, read_ahead, ..empty }
        }),
        ComputePlace::Machine(name) => catalogue.machines.get(name).map_or(empty, |machine| {
            let payload = rules.payload.value;
            let rate = machine.network.0 * payload;
            let burst = machine.burst.map_or(rate, |burst| burst.0 * payload);
            let seconds = rules.burst_per_gbit.value.0 * machine.network.0 / GBIT_PER_SECOND;
            let full = machine.bucket.map_or((burst - rate) * seconds, |bucket| bucket.0);
            let bucket = if state == BucketState::Fresh { full } else { 0.0 };
            let disks = machine.volumes.map_or(f64::INFINITY, |rate| rate.0);
            let fast = machine.volumes_burst.map_or(disks, |burst| burst.0);
            let more = if fast > disks { (fast - disks) * rules.volumes_burst.value.0 } else { 0.0 };
            JobHost {
                vcpus: machine.vcpus,
                memory: machine.memory.0,
                network: (rate, burst, bucket),
                flow: if machine.cloud == Cloud::Aws { flow } else { f64::INFINITY },
                store: machine.store.as_ref().map(|store| store.read.0),
                volumes: (disks, fast, if state == BucketState::Fresh { more } else { 0.0 }),
                ..empty
            }
        }),
    }
}

/// Returns the token bucket of a flow, multiplied by `times`: sustained rate, burst rate, and bytes
/// in the bucket.
pub(super) fn token_bucket(flow: &Flow, times: f64, state: BucketState) -> (f64, f64, f64) {
    let least = |rate: Option<Rate>| rate.map_or(0.0, |least| least.0);
    let rate = (flow.rate.0 * times).max(least(flow.least_rate));
    let burst = flow.burst.map_or(rate, |burst| burst.0 * times).max(least(flow.least_burst)).max(rate);
    let full = || {
        let least = flow.least_bucket.map_or(0.0, |least| least.0);
        flow.bucket.map_or(f64::INFINITY, |bucket| (bucket.0 * times).max(least))
    };
    let bucket = match state {
        BucketState::Fresh if burst > rate => full(),
        BucketState::Reused if burst > rate => flow.reused.map_or(0.0, |bucket| bucket.0 * times),
        _ => 0.0,
    };
    (rate, burst, bucket)
}
