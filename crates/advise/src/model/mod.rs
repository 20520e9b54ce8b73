//! The model: capabilities and bills of a service, a machine, a function or a program, as a TOML
//! file of format 1.
//!
//! Quantities have their unit in the value. Each figure names its source, and each source its place
//! and day. `probe` writes this format, `link` replays it, the advice predicts with it, and
//! receipts are graded against it. Rates are in bytes per second, times in seconds. The embedded
//! models are in `crates/advise/models`; a model in a user's file replaces the one of the same
//! name.

mod catalogue;
mod check;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use catalogue::ModelCatalogue;

use crate::prices::Day;
use crate::units::{Bytes, Rate, Seconds};

/// The version of the format that this program reads and writes.
pub const FORMAT: u32 = 1;

/// Name of the machine from which a model was measured. It is the user's own and is not billed.
pub const HERE: &str = "here";

/// The 95th percentile of a normal distribution, in standard deviations.
const P95: f64 = 1.645;

/// The origin of one or more figures.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FigureSource {
    /// The page, table or measurement.
    pub what: String,
    /// Region, zone or machine; empty if the source holds everywhere.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// Day of the measurement, or the day on which an undated page was read.
    pub day: Day,
}

/// A figure with the name of its source.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Figure<T> {
    /// The value.
    pub value: T,
    /// Name of the source.
    pub source: String,
}

/// A latency as a distribution.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// Median.
    pub p50: Seconds,
    /// 95th percentile.
    #[serde(default)]
    pub p95: Option<Seconds>,
    /// 99th percentile.
    #[serde(default)]
    pub p99: Option<Seconds>,
    /// Name of the source.
    pub source: String,
}

impl Latency {
    /// Returns the mean latency: that of a log-normal distribution with these quantiles.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let spread = self.p95.map_or(0.0, |p95| (p95.0 / self.p50.0).ln() / P95);
        self.p50.0 * (spread * spread / 2.0).exp()
    }
}

/// The unit by which a flow is multiplied.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Each {
    /// The whole service.
    #[default]
    Service,
    /// Each TiB of capacity, or of stored data if the service has no provisioned capacity.
    Tib,
}

/// A rate limit with a bucket for bursts.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Sustained bytes per second.
    pub rate: Rate,
    /// Bytes per second while the bucket is not empty.
    #[serde(default)]
    pub burst: Option<Rate>,
    /// Bytes above `rate` in a full bucket; `None` if a burst never ends.
    #[serde(default)]
    pub bucket: Option<Bytes>,
    /// Bytes above `rate` some seconds after the bucket was emptied.
    #[serde(default)]
    pub reused: Option<Bytes>,
    /// Lower bound of a burst that grows with the capacity.
    #[serde(default)]
    pub least_burst: Option<Rate>,
    /// The unit for which rate, burst and bucket are stated.
    #[serde(default)]
    pub each: Each,
    /// Name of the source.
    pub source: String,
}

/// Access protocol of a service.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceKind {
    /// Requests for objects: downloaded, opened lazily, or through our mount.
    Object,
    /// A network file system, mounted by the kernel.
    FileSystem,
    /// A volume that is attached to one machine.
    Volume,
    /// A local disk of the machine, which also determines its size and rate.
    LocalDisk,
}

impl ServiceKind {
    /// Returns true if only one machine can read it, without its network.
    #[must_use]
    pub fn is_of_one_machine(self) -> bool {
        matches!(self, Self::Volume | Self::LocalDisk)
    }
}

/// The provider whose machines can use the service.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cloud {
    /// Amazon Web Services.
    #[default]
    Aws,
    /// Google Cloud.
    Google,
    /// Microsoft Azure.
    Azure,
    /// Any provider: a stand-in, or the user's own storage.
    Any,
}

/// Latencies of a service.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServiceLatencies {
    /// Time until a mount or a client is usable.
    pub ready: Option<Latency>,
    /// Time from a request to its first byte.
    pub first_byte: Option<Latency>,
    /// Time to the first byte of large reads, which a file system sends to the bucket behind it.
    pub direct: Option<Latency>,
    /// Time to open and close a file, without its first byte.
    pub open: Option<Latency>,
    /// Time per name of a listing, for one lister.
    pub list: Option<Latency>,
    /// Time to read the metadata of a file, for one caller.
    pub stat: Option<Latency>,
    /// Time to create an empty file, for one caller.
    pub create: Option<Latency>,
}

/// Rates of a service.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServiceRates {
    /// Rate of one connection, or of one thread's stream.
    pub connection: Option<Flow>,
    /// Rate of one client.
    pub client: Option<Flow>,
    /// Rate of the whole service, shared by all clients.
    pub total: Option<Flow>,
    /// Rate of the disks behind its servers, shared by all clients.
    pub disk: Option<Flow>,
    /// Total rate of bringing data from the bucket or snapshot behind it.
    pub hydration: Option<Flow>,
    /// Rate of bringing one file from there.
    pub hydration_file: Option<Flow>,
}

/// Operations per second.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct OperationRates {
    /// Operations per second of one client.
    pub client: Option<Figure<f64>>,
    /// Operations per second of the whole service, shared by all clients.
    pub total: Option<Figure<f64>>,
    /// Bytes of the largest read that counts as one operation.
    pub largest: Option<Figure<Bytes>>,
}

/// Properties of reading from a service.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReadProperties {
    /// Concurrent requests of our client, if the workload does not state them.
    pub parallel: Option<Figure<f64>>,
    /// Least bytes that a lazy open fetches.
    pub block: Option<Figure<Bytes>>,
    /// Bytes that the kernel reads ahead of a sequential reader.
    pub read_ahead: Option<Figure<Bytes>>,
    /// Round trips of `first_byte` each that opening and closing a file takes.
    pub trips_per_file: Option<Figure<f64>>,
    /// Least size of files that are read from the bucket behind the service.
    pub direct_from: Option<Figure<Bytes>>,
    /// Metered bytes per byte read.
    pub metered: Option<Figure<f64>>,
}

/// Sizes in which a service is sold.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Capacity {
    /// Least provisioned size; `None` if storage grows by itself.
    pub least: Option<Figure<Bytes>>,
    /// Step between larger sizes.
    pub step: Option<Figure<Bytes>>,
    /// The largest size.
    pub most: Option<Figure<Bytes>>,
    /// Memory of the servers per TiB of capacity.
    pub cache_per_tib: Option<Figure<Bytes>>,
    /// Time to create the service. With it, each job can have a separate one.
    pub creation: Option<Figure<Seconds>>,
}

/// The quantity that a bill counts.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BilledQuantity {
    /// Bytes of the data set, each month.
    Stored,
    /// Bytes of the data set on a volume of each machine, each month.
    StoredPerClient,
    /// Bytes of the data set on a volume of each machine while a job runs.
    StoredDuringJob,
    /// Bytes of the data set, if reads come from the file system's own storage.
    StoredSmall,
    /// Bytes that each job reads from the service.
    Read,
    /// Bytes that each job reads from the file system's own storage.
    ReadSmall,
    /// Requests to the service in each job.
    Requests,
    /// Requests that a file system sends to the bucket for large reads.
    DirectRequests,
    /// Requests in each job to the bucket behind a service, for data that was not brought ahead.
    HydrationRequests,
    /// Provisioned bytes each month, or while the service exists if each job makes its own.
    Capacity,
    /// Hours of a machine that serves all jobs each month, or while the service exists if each job
    /// makes its own.
    Hours,
    /// Provisioned bytes per second, each month.
    ProvisionedRate,
    /// Bytes per second of a volume above the included 125 MiB/s, for each machine.
    VolumeRate,
    /// Operations per second of a volume above the included 3,000, for each machine.
    VolumeOperations,
    /// Bytes of the data set, once, when it is loaded.
    Loaded,
}

/// A billed item of a service.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceBill {
    /// Key of the price, see [`crate::usage::KEYS`].
    pub price: String,
    /// The quantity that is counted.
    pub of: BilledQuantity,
}

/// A storage service.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceModel {
    /// Version of the file format.
    pub format: u32,
    /// Unique name: letters, digits, dashes.
    pub name: String,
    /// Name for display.
    pub title: String,
    /// Access protocol.
    pub kind: ServiceKind,
    /// The provider.
    #[serde(default)]
    pub cloud: Cloud,
    /// Whether several machines see the same data.
    pub shared: bool,
    /// Whether data survives the loss of a machine, a server or a zone.
    pub durable: bool,
    /// Whether functions can mount it or send requests to it.
    #[serde(default)]
    pub functions: bool,
    /// Effects that the model does not cover.
    pub leaves_out: String,
    /// Costs that the catalogue's prices do not cover: loading, initialisation, other zones.
    #[serde(default)]
    pub unbilled: String,
    /// Sources by name.
    pub sources: BTreeMap<String, FigureSource>,
    /// Latencies.
    #[serde(default)]
    pub latency: ServiceLatencies,
    /// Rates.
    #[serde(default)]
    pub rates: ServiceRates,
    /// Operations per second.
    #[serde(default)]
    pub operations: OperationRates,
    /// Properties of reading.
    #[serde(default)]
    pub reading: ReadProperties,
    /// Sizes in which it is sold.
    #[serde(default)]
    pub capacity: Capacity,
    /// Billed items.
    #[serde(default)]
    pub bills: Vec<ServiceBill>,
    /// The measurement that overrides figures; `None` without one.
    #[serde(default)]
    pub measured: Option<String>,
    /// Spread of that measurement, as a factor. It replaces [`crate::ranges`] as the range of
    /// predictions.
    #[serde(default)]
    pub spread: Option<f64>,
    /// The machine from which it was measured: the machine [`HERE`] of the catalogue.
    #[serde(default)]
    pub here: Option<MachineModel>,
}

/// A program that reads from an object store.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ClientModel {
    /// Processor time per 10^9 bytes.
    pub cpu_per_gb: Seconds,
    /// Processor time per request.
    pub cpu_per_request: Seconds,
    /// Most processors that it can use.
    pub processors: f64,
    /// Most concurrent requests; `None` leaves this to the service.
    #[serde(default)]
    pub parallel: Option<f64>,
    /// Rate of one reader through its mount.
    #[serde(default)]
    pub reader: Option<Rate>,
    /// Name of the source.
    pub source: String,
}

/// A local disk of a machine.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DiskModel {
    /// Size of the disk.
    pub size: Bytes,
    /// Rate of reading.
    pub read: Rate,
    /// Name of the source.
    pub source: String,
}

/// A machine type.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MachineModel {
    /// Virtual processors.
    pub vcpus: f64,
    /// Memory.
    pub memory: Bytes,
    /// Sustained rate of its network.
    pub network: Rate,
    /// Rate of its network while the bucket is not empty.
    #[serde(default)]
    pub burst: Option<Rate>,
    /// Bytes above `network` in a full bucket; `None` for the rule of all machines.
    #[serde(default)]
    pub bucket: Option<Bytes>,
    /// Rate of access to its volumes.
    #[serde(default)]
    pub volumes: Option<Rate>,
    /// Graphics processors.
    #[serde(default)]
    pub gpus: f64,
    /// Its instance store, a local disk.
    #[serde(default)]
    pub store: Option<DiskModel>,
    /// The provider.
    #[serde(default)]
    pub cloud: Cloud,
    /// Name of the source.
    #[serde(default = "guide")]
    pub source: String,
}

fn guide() -> String {
    "guide".to_owned()
}

/// A kind of function, or one size of it: `lambda`, `lambda:512MB`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Function {
    /// Its network.
    pub network: Flow,
    /// Memory for which a function gets one processor.
    pub memory_per_processor: Bytes,
    /// Size of its local disk.
    pub local: Bytes,
    /// Bytes that its kernel reads ahead of a mounted file.
    pub read_ahead: Bytes,
    /// Concurrent functions that an account is allowed by default.
    pub at_once: f64,
    /// Longest duration of a run.
    pub longest: Seconds,
    /// Name of the source.
    pub source: String,
}

/// Figures common to all machines.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MachineRules {
    /// Seconds that a full burst lasts on a fresh machine, per Gbit/s of its sustained rate.
    pub burst_per_gbit: Figure<Seconds>,
    /// Part of a network's rate that carries data.
    pub payload: Figure<f64>,
    /// Rate of one connection over the network.
    pub flow: Figure<Rate>,
    /// Rate of one thread that reads from the page cache.
    pub copy: Figure<Rate>,
}
