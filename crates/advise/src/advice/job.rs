//! The numbers of one job that uses one option. Converts a workload, an option and the models into
//! a [`JobInput`], from which the job is predicted. Called by `row`.

use super::choice::{Choice, DataState, ReadMethod};
use super::host::{JobHost, host, token_bucket};
use super::moved::{MovedAmounts, moved};
use crate::limits::{JobInput, Lanes, Limit, RatePool};
use crate::model::{ClientModel, Each, Flow, Latency, ModelCatalogue, ServiceKind};
use crate::units::TIB;
use crate::workload::{AccessPattern, BucketState, Loading, Workload};

/// Round trips that our mount takes, in addition, for the first read of a file.
const MOUNT_OPEN_TRIPS: f64 = 0.2;

/// One job: the input of its prediction, and the amounts that the job moves.
pub(super) struct AdvisedJob {
    pub(super) page: JobInput,
    pub(super) moved: MovedAmounts,
}

/// Makes the job of a workload that uses one option. If `computes_while_reading` is false, the job
/// reads everything before it computes.
pub(super) fn job(
    workload: &Workload,
    choice: &Choice<'_>,
    catalogue: &ModelCatalogue,
    computes_while_reading: bool,
) -> AdvisedJob {
    let host = host(workload, catalogue);
    let service = choice.model.reading.read_ahead.as_ref().map_or(131_072.0, |ahead| ahead.value.0);
    let kernel = if choice.model.kind == ServiceKind::FileSystem { host.read_ahead } else { None };
    let moved = |ahead| moved(workload, choice, &host, ahead);
    // Large files are read from the bucket by the client of the service, so the kernel does not
    // read ahead in them.
    let ahead = kernel.filter(|_| !moved(service).direct).unwrap_or(service);
    let moved = moved(ahead);
    let client =
        catalogue.clients.get(&workload.compute.client).filter(|_| choice.model.kind == ServiceKind::Object);
    let builder = JobBuilder { workload, choice, host: &host, moved, client, read_ahead_bytes: ahead };
    let (compute, computes_while_reading) =
        (&workload.compute, computes_while_reading && choice.method != ReadMethod::Download);
    let cpu = builder.client_cpu();
    let mut pools = builder.pools();
    if let Some(client) = client {
        pools.push(RatePool::steady(Limit::Cpu, cpu, host.vcpus.min(client.processors)));
    }
    if computes_while_reading {
        pools.push(RatePool::steady(Limit::Cpu, cpu + compute.cpu_seconds, host.vcpus));
    }
    let readers = compute.threads.min(host.vcpus.max(1.0));
    let page = JobInput {
        start: compute.startup + builder.ready_seconds(),
        names: builder.names_seconds(),
        lanes: builder.lanes(cpu),
        pools,
        restored: builder.restore_seconds(),
        cached: moved.cached / (host.copy * readers),
        local: host.store.map_or(0.0, |rate| moved.local / rate.min(host.copy * readers)),
        compute: compute.cpu_seconds / compute.threads.min(host.vcpus),
        before: !computes_while_reading,
    };
    AdvisedJob { page, moved }
}

/// Returns whether a job computes while it reads. If the workload does not state this, returns both
/// values.
pub(super) fn loadings(workload: &Workload) -> &'static [bool] {
    match workload.compute.loading {
        Loading::Before => &[false],
        Loading::Beside => &[true],
        Loading::Either => &[false, true],
    }
}

struct JobBuilder<'a> {
    workload: &'a Workload,
    choice: &'a Choice<'a>,
    host: &'a JobHost,
    moved: MovedAmounts,
    client: Option<&'a ClientModel>,
    read_ahead_bytes: f64,
}

impl JobBuilder<'_> {
    /// Returns a latency in seconds: the median if there is one request, the mean if there are
    /// several.
    fn latency_seconds(&self, latency: Option<&Latency>) -> f64 {
        latency.map_or(0.0, |latency| if self.moved.requests > 1.0 { latency.mean() } else { latency.p50.0 })
    }

    fn ready_seconds(&self) -> f64 {
        let model = self.choice.model;
        let creation = model.capacity.creation.as_ref().filter(|_| self.choice.life == DataState::Made);
        model.latency.ready.as_ref().map_or(0.0, |ready| ready.p50.0)
            + creation.map_or(0.0, |creation| creation.value.0)
    }

    /// Returns the seconds for listing names by one caller, and for looking up and creating names
    /// by all threads.
    fn names_seconds(&self) -> f64 {
        let (names, latency) = (&self.workload.names, &self.choice.model.latency);
        let mean = |latency: &Option<Latency>| latency.as_ref().map_or(0.0, Latency::mean);
        let each = names.stat * mean(&latency.stat) + names.create * mean(&latency.create);
        names.list * mean(&latency.list) + each / self.workload.compute.threads
    }

    /// Returns the processor time, in seconds, that the reading program takes.
    fn client_cpu(&self) -> f64 {
        self.client.map_or(0.0, |client| {
            client.cpu_per_gb.0 * self.moved.bytes / 1e9 + client.cpu_per_request.0 * self.moved.requests
        })
    }

    fn first_byte(&self) -> f64 {
        let latency = &self.choice.model.latency;
        let direct = latency.direct.as_ref().filter(|_| self.moved.direct);
        self.latency_seconds(direct.or(latency.first_byte.as_ref()))
    }

    fn lanes(&self, cpu: f64) -> Lanes {
        let (data, compute, model) = (&self.workload.data, &self.workload.compute, self.choice.model);
        let one_by_one = data.access != AccessPattern::Sequential;
        let first_byte = self.first_byte();
        let parallel = self.client.and_then(|client| client.parallel);
        let parallel = parallel.or(model.reading.parallel.as_ref().map(|parallel| parallel.value));
        let program = data.in_flight.or(parallel).unwrap_or(compute.threads);
        let callers = data.in_flight.unwrap_or(compute.threads);
        let trips = model.reading.trips_per_file.as_ref().map_or(0.0, |trips| trips.value) * first_byte;
        let open = model.latency.open.as_ref().map_or(trips, Latency::mean);
        let (files_at_once, open, at_once) = match self.choice.method {
            ReadMethod::Download => (program, 0.0, program),
            ReadMethod::Lazy => (callers, 0.0, if one_by_one { callers } else { program }),
            ReadMethod::Mount => {
                (compute.threads, MOUNT_OPEN_TRIPS * first_byte, if one_by_one { callers } else { program })
            }
            ReadMethod::InPlace if one_by_one => (callers, open, callers),
            ReadMethod::InPlace => {
                let unit = self.moved.bytes / self.moved.requests.max(1.0);
                (callers, open, callers * (self.read_ahead_bytes / unit.max(1.0)).max(1.0))
            }
        };
        let streams = if model.kind == ServiceKind::Object { at_once } else { callers };
        let connection = model.rates.connection.as_ref().map_or(f64::INFINITY, |flow| flow.rate.0);
        let flow = if model.kind.is_of_one_machine() { f64::INFINITY } else { self.host.flow };
        Lanes {
            files: self.moved.files,
            files_at_once,
            open,
            requests: self.moved.requests,
            at_once,
            first_byte,
            bytes: self.moved.bytes,
            streams,
            connection: connection.min(flow),
            cpu,
            speed: self.host.vcpus.min(1.0),
        }
    }

    fn flow_pool(&self, limit: Limit, flow: Option<&Flow>, amount: f64) -> Option<RatePool> {
        let flow = flow?;
        let capacity =
            if self.choice.capacity > 0.0 { self.choice.capacity } else { self.workload.data.bytes };
        let times = if flow.each == Each::Tib { capacity / TIB } else { 1.0 };
        let (rate, burst, bucket) = token_bucket(flow, times, BucketState::Fresh);
        Some(RatePool { limit, amount, rate, burst, bucket })
    }

    /// Returns the limits that apply to all bytes and requests together.
    fn pools(&self) -> Vec<RatePool> {
        let (model, moved) = (self.choice.model, self.moved);
        let own = model.kind.is_of_one_machine();
        let all = self.choice.sharing_jobs(self.workload);
        let copied = model.kind == ServiceKind::LocalDisk && self.choice.life == DataState::FirstTouch;
        let network = if !own {
            moved.bytes
        } else if copied {
            moved.whole
        } else {
            0.0
        };
        let (rate, burst, bucket) = self.host.network;
        let mut pools = vec![RatePool { limit: Limit::ClientNetwork, amount: network, rate, burst, bucket }];
        let metered = model.reading.metered.as_ref().map_or(1.0, |metered| metered.value);
        let total = if own { Limit::Disk } else { Limit::StorageNetwork };
        let rates = &model.rates;
        pools.extend(self.flow_pool(Limit::ClientLimit, rates.client.as_ref(), moved.bytes));
        pools.extend(self.flow_pool(total, rates.total.as_ref(), moved.bytes * all * metered));
        pools.extend(self.backend_limits());
        let operations = &model.operations;
        let steady = |rate: f64, amount: f64| RatePool::steady(Limit::Requests, amount, rate);
        pools.extend(operations.client.as_ref().map(|rate| steady(rate.value, moved.requests)));
        pools.extend(operations.total.as_ref().map(|rate| steady(rate.value, moved.requests * all)));
        match (model.kind, self.host.store) {
            (ServiceKind::LocalDisk, Some(rate)) => {
                pools.push(RatePool::steady(Limit::LocalDisk, moved.bytes, rate))
            }
            (ServiceKind::Object, Some(rate)) if moved.local > 0.0 => {
                pools.push(RatePool::steady(Limit::LocalDisk, moved.first, rate));
            }
            (ServiceKind::Volume, _) => {
                let (rate, burst, bucket) = self.host.volumes;
                let amount = moved.bytes;
                pools.push(RatePool { limit: Limit::ClientLimit, amount, rate, burst, bucket });
            }
            _ => {}
        }
        let reader = self.client.and_then(|client| client.reader);
        if let (ReadMethod::Mount, Some(rate)) = (self.choice.method, reader) {
            pools.push(RatePool::steady(
                Limit::ClientLimit,
                moved.bytes,
                rate.0 * self.workload.compute.threads,
            ));
        }
        pools
    }

    /// Returns the seconds until the first file is completely restored. The file cannot be read
    /// before that.
    fn restore_seconds(&self) -> f64 {
        let file = self.choice.model.rates.hydration_file.as_ref();
        let first_touch = self.choice.life != DataState::Ready && self.moved.first > 0.0;
        let file = file.filter(|_| first_touch && self.choice.model.kind == ServiceKind::FileSystem);
        file.map_or(0.0, |file| self.moved.whole / self.moved.files.max(1.0) / file.rate.0)
    }

    /// Returns the limits behind the service: its disks, for the bytes that its own memory cache
    /// does not hold; and, on first access, the rates at which it fetches data from the bucket or
    /// snapshot.
    fn backend_limits(&self) -> Vec<RatePool> {
        let (model, moved) = (self.choice.model, self.moved);
        let jobs = self.choice.sharing_jobs(self.workload);
        let first_touch = self.choice.life != DataState::Ready && moved.first > 0.0;
        let cache = model.capacity.cache_per_tib.as_ref().map_or(0.0, |cache| cache.value.0);
        let again = moved.bytes * jobs - moved.first;
        let disk = match (first_touch, moved.first <= cache * self.choice.capacity / TIB) {
            (false, true) => moved.first,
            (false, false) => moved.bytes * jobs,
            (true, true) => moved.whole,
            (true, false) => moved.whole + again,
        };
        let mut pools = Vec::new();
        pools.extend(self.flow_pool(Limit::Disk, model.rates.disk.as_ref(), disk));
        if first_touch {
            let whole = if model.rates.hydration_file.is_some() { moved.whole } else { moved.first };
            pools.extend(self.flow_pool(Limit::Hydration, model.rates.hydration.as_ref(), whole));
            let at_once = self.workload.compute.threads.min(moved.files).max(1.0);
            let file = model.rates.hydration_file.as_ref();
            pools.extend(file.map(|flow| RatePool::steady(Limit::Hydration, whole, flow.rate.0 * at_once)));
        }
        pools
    }
}
