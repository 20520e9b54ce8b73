//! Turns a workload, an option and a draw of all uncertain numbers into a system to simulate.

use super::choice::{Choice, Method};
use super::moved::{Moved, moved};
use crate::models::{Catalogue, Draw, Kind, Number};
use crate::simulator::{Group, Limit, Phase, Resource, Stage, System};
use crate::workload::{Access, Loading, Place, Workload};

/// Bytes of a TiB.
const TIB: f64 = 1_099_511_627_776.0;

/// The machine of a job, with all numbers drawn.
struct Host {
    vcpus: f64,
    memory: f64,
    network: Resource,
    flow_rate: f64,
    /// Bytes per second of its own disk.
    store_rate: Option<f64>,
}

/// A system to simulate, and the bytes and requests of a job in it.
pub(super) struct Scene {
    pub(super) system: System,
    pub(super) moved: Moved,
    /// Seconds until the first read can be made, if nothing is downloaded before.
    pub(super) open: f64,
}

/// The memory of the place, in bytes.
pub(super) fn memory(workload: &Workload, catalogue: &Catalogue) -> f64 {
    match &workload.compute.place {
        Place::Lambda(memory) => *memory,
        Place::Machine(name) => catalogue.machines.get(name).map_or(0.0, |machine| machine.memory),
    }
}

/// Builds the system to simulate. `beside`: the job computes while it reads.
pub(super) fn scene(
    workload: &Workload,
    choice: &Choice<'_>,
    catalogue: &Catalogue,
    draw: &mut Draw,
    beside: bool,
) -> Scene {
    let host = host(workload, catalogue, draw);
    let moved = moved(workload, choice, host.memory);
    let mut builder = Builder { workload, choice, draw, moved, resources: Vec::new(), needs: Vec::new() };
    if !choice.model.kind.is_of_one_machine() {
        builder.need(host.network, moved.bytes);
    } else if !choice.hydrated {
        builder.need(host.network, moved.whole);
    }
    if let (Kind::LocalDisk, Some(rate)) = (choice.model.kind, host.store_rate) {
        builder.need(Resource::steady(Limit::LocalDisk, rate), moved.bytes);
    }
    builder.service();
    let (client_cpu, processors) = builder.client_cpu(catalogue);
    let least = builder.least(&host, client_cpu / host.vcpus.min(processors));
    let open = workload.compute.startup + builder.number("mount").unwrap_or(0.0);
    let latency = builder.first_byte();
    let Builder { resources, needs, .. } = builder;
    let system =
        phases(workload, choice, &host, (resources, needs), (client_cpu, least), (open, beside), moved);
    Scene { system, moved, open: open + if moved.bytes > 0.0 { latency } else { 0.0 } }
}

fn phases(
    workload: &Workload,
    choice: &Choice<'_>,
    host: &Host,
    (mut resources, mut needs): (Vec<Resource>, Vec<(usize, f64)>),
    (client_cpu, least): (f64, (f64, Limit)),
    (open, beside): (f64, bool),
    moved: Moved,
) -> System {
    let processors = resources.len();
    resources.push(Resource::steady(Limit::Cpu, host.vcpus));
    let compute = &workload.compute;
    let computing = (compute.cpu_seconds / compute.threads.min(host.vcpus), Limit::Cpu);
    let start = Phase { stage: Stage::Start, needs: Vec::new(), least: (open, Limit::Start), bytes: 0.0 };
    let mut group = vec![start];
    if beside && choice.method != Method::Download {
        needs.push((processors, client_cpu + compute.cpu_seconds));
        let least = if computing.0 > least.0 { computing } else { least };
        group.push(Phase { stage: Stage::Run, needs, least, bytes: moved.bytes });
    } else {
        needs.push((processors, client_cpu));
        group.push(Phase { stage: Stage::Load, needs, least, bytes: moved.bytes });
        let needs = vec![(processors, compute.cpu_seconds)];
        group.push(Phase { stage: Stage::Run, needs, least: computing, bytes: 0.0 });
    }
    System { resources, groups: vec![Group { phases: group }] }
}

fn host(workload: &Workload, catalogue: &Catalogue, draw: &mut Draw) -> Host {
    let mut of = |number: Option<&Number>, default: f64| number.map_or(default, |number| draw.of(number));
    let common = |name: &str| catalogue.common.get(name);
    let (burst_time, payload) = (of(common("burst_time"), 0.0), of(common("payload"), 1.0));
    let flow_rate = of(common("flow_rate"), f64::INFINITY);
    match &workload.compute.place {
        Place::Lambda(memory) => {
            let rate = of(catalogue.lambda.get("network"), f64::INFINITY);
            let per_processor = of(catalogue.lambda.get("memory_per_processor"), *memory);
            let network = Resource::steady(Limit::ClientNetwork, rate);
            let vcpus = memory / per_processor;
            Host { vcpus, memory: *memory, network, flow_rate, store_rate: None }
        }
        Place::Machine(name) => {
            let Some(machine) = catalogue.machines.get(name) else {
                let network = Resource::steady(Limit::ClientNetwork, f64::INFINITY);
                return Host { vcpus: 1.0, memory: 0.0, network, flow_rate, store_rate: None };
            };
            let (base, burst) = (machine.network * payload, machine.network_burst * payload);
            let credit = (burst - base) * burst_time;
            let network = Resource { limit: Limit::ClientNetwork, base, burst, credit };
            let store_rate = machine.store_rate.as_ref().map(|rate| draw.of(rate));
            Host { vcpus: machine.vcpus, memory: machine.memory, network, flow_rate, store_rate }
        }
    }
}

struct Builder<'a, 'b> {
    workload: &'a Workload,
    choice: &'a Choice<'b>,
    draw: &'a mut Draw,
    moved: Moved,
    resources: Vec<Resource>,
    needs: Vec<(usize, f64)>,
}

impl Builder<'_, '_> {
    /// A number of the model, drawn.
    fn number(&mut self, name: &str) -> Option<f64> {
        self.choice.model.number(name).map(|number| self.draw.of(number))
    }

    fn need(&mut self, resource: Resource, amount: f64) {
        self.needs.push((self.resources.len(), amount));
        self.resources.push(resource);
    }

    /// Adds the resources that the service offers to one client and to all.
    fn service(&mut self) {
        let moved = self.moved;
        let jobs = self.workload.jobs.at_once;
        // Each machine has a volume of its own; anything else is shared.
        let own = self.choice.model.kind.is_of_one_machine();
        let all = if own { 1.0 } else { jobs };
        if let Some(rate) = self.number("client_rate") {
            self.need(Resource::steady(Limit::ClientLimit, rate), moved.bytes);
        }
        if let Some(rate) = self.number("total_rate") {
            let limit = if own { Limit::Disk } else { Limit::StorageNetwork };
            let burst = self.number("total_burst").unwrap_or(rate).max(rate);
            let credit = if burst > rate { self.number("burst_credit").unwrap_or(0.0) } else { 0.0 };
            self.need(Resource { limit, base: rate, burst, credit }, moved.bytes * all);
        }
        if let Some(rate) = self.number("client_requests") {
            self.need(Resource::steady(Limit::Requests, rate), moved.requests);
        }
        if let Some(rate) = self.number("total_requests") {
            self.need(Resource::steady(Limit::Requests, rate), moved.requests * all);
        }
        if let Some(rate) = self.number("hydration_rate") {
            self.need(Resource::steady(Limit::Hydration, rate), moved.first);
        }
        self.storage_network(moved.bytes * all);
        self.disks(jobs);
    }

    /// The network of a file system that grows with its capacity, or with what it stores.
    fn storage_network(&mut self, bytes: f64) {
        let Some(per_tib) = self.number("network_per_tib") else { return };
        let size = if self.choice.capacity > 0.0 { self.choice.capacity } else { self.workload.data.bytes };
        let base = per_tib * size / TIB;
        let burst = self.number("network_burst_per_tib").unwrap_or(per_tib) * size / TIB;
        let burst = burst.max(self.number("network_burst_least").unwrap_or(0.0)).max(base);
        let credit = self.number("burst_credit").unwrap_or(0.0);
        self.need(Resource { limit: Limit::StorageNetwork, base, burst, credit }, bytes);
    }

    /// Disks behind servers with a cache. What jobs touch first is brought once for all of them.
    fn disks(&mut self, jobs: f64) {
        let Some(per_tib) = self.number("disk_per_tib") else { return };
        let moved = self.moved;
        let rate = per_tib * self.choice.capacity / TIB;
        let cache = self.number("cache_per_tib").unwrap_or(0.0) * self.choice.capacity / TIB;
        let bytes = match (self.choice.hydrated, moved.first <= cache) {
            (true, true) => moved.first,
            (true, false) => moved.bytes * jobs,
            (false, true) => moved.whole,
            (false, false) => moved.whole + moved.bytes * jobs - moved.first,
        };
        self.need(Resource::steady(Limit::Disk, rate), bytes);
    }

    /// Processor seconds that the reading program spends, and processors that it can use at once.
    fn client_cpu(&mut self, catalogue: &Catalogue) -> (f64, f64) {
        let client = catalogue.clients.get(&self.workload.compute.client);
        let Some(client) = client.filter(|_| self.choice.model.kind == Kind::Object) else {
            return (0.0, 1.0);
        };
        let per_gb = self.draw.of(&client.cpu_per_gb);
        let per_request = self.draw.of(&client.cpu_per_request);
        (per_gb * self.moved.bytes / 1e9 + per_request * self.moved.requests, client.processors.value)
    }

    /// Seconds until a first byte comes.
    fn first_byte(&mut self) -> f64 {
        let name = if self.moved.direct { "direct_first_byte" } else { "first_byte" };
        self.number(name).or_else(|| self.number("first_byte")).unwrap_or(0.0)
    }

    /// Seconds that reading takes at least: round trips, what connections carry, and what the
    /// program's own processors need, which are `computing` seconds.
    fn least(&mut self, host: &Host, computing: f64) -> (f64, Limit) {
        let data = &self.workload.data;
        let object = self.choice.model.kind == Kind::Object;
        let one_by_one = data.access != Access::Sequential && self.choice.method != Method::Download;
        let parallel = self.number("parallel").unwrap_or(self.workload.compute.threads);
        let in_flight = data.in_flight.unwrap_or(if one_by_one || !object {
            self.workload.compute.threads
        } else {
            parallel
        });
        let trips = self.number("round_trips_per_file").unwrap_or(0.0) * self.moved.files;
        // The kernel reads ahead of sequential reads, which hides their round trips.
        let waits = if object || one_by_one { self.moved.requests + trips } else { trips };
        let first_byte = self.first_byte();
        let mut least = (waits / in_flight * first_byte, Limit::Latency);
        let flow_rate = self.number("flow_rate").map_or(host.flow_rate, |rate| rate.min(host.flow_rate));
        let carried = self.moved.bytes / (flow_rate * in_flight);
        if object && carried > least.0 {
            least = (carried, Limit::Connection);
        }
        if computing > least.0 { (computing, Limit::Cpu) } else { least }
    }
}

/// Whether computing continues beside reading in the draw of this index.
pub(super) fn beside(workload: &Workload, index: u64) -> bool {
    match workload.compute.loading {
        Loading::Before => false,
        Loading::Beside => true,
        Loading::Either => index % 2 == 1,
    }
}
