//! The model of a service, machine, serverless function or program: its capabilities, and for a
//! service its bills. A model is a TOML file of format 1.
//!
//! Quantities contain their unit. Each figure names its source, and each source states its place
//! and day. `probe` writes this format, `link` replays models, the advice predicts with them, and
//! receipts are graded against them. In memory, rates are in bytes per second and times in seconds.
//! The embedded models are in `crates/advise/models`. A model in a user's file replaces the
//! embedded model of the same name.

mod catalogue;
mod check;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use catalogue::ModelCatalogue;

use crate::prices::Day;
use crate::units::{Bytes, Rate, Seconds};

/// The newest version of the file format that this program reads, and the version that it writes.
pub const FORMAT: u32 = 1;

/// Name of the machine from which a model was measured. The machine is the user's own, so it is not
/// billed.
pub const HERE: &str = "here";

/// Distance of the 95th percentile of a normal distribution from its mean, in standard deviations.
const P95_DEVIATIONS: f64 = 1.645;

/// The source of one or more figures.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FigureSource {
    /// The page, table or measurement.
    pub what: String,
    /// Region, zone or machine; empty if the figures are valid everywhere.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// Day of the measurement, or the day on which an undated page was read.
    pub day: Day,
}

/// A figure, and the name of its source.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Figure<T> {
    /// The value.
    pub value: T,
    /// Name of the source.
    pub source: String,
}

/// The distribution of a latency.
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
    /// Returns the mean latency. The distribution is assumed to be log-normal, with these
    /// quantiles.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let spread = self.p95.map_or(0.0, |p95| (p95.0 / self.p50.0).ln() / P95_DEVIATIONS);
        self.p50.0 * (spread * spread / 2.0).exp()
    }
}

/// The factor of a flow's figures.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Each {
    /// Nothing: the figures are those of the whole service.
    #[default]
    Service,
    /// The number of TiB of capacity, or of stored data if the service is not sold by capacity.
    Tib,
}

/// A rate limit with a token bucket for bursts.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Sustained bytes per second.
    pub rate: Rate,
    /// Bytes per second while the bucket is not empty.
    #[serde(default)]
    pub burst: Option<Rate>,
    /// Bytes above `rate` that a full bucket holds; `None` if a burst never ends.
    #[serde(default)]
    pub bucket: Option<Bytes>,
    /// Bytes above `rate` that the bucket holds some seconds after it was emptied.
    #[serde(default)]
    pub reused: Option<Bytes>,
    /// Minimum of the sustained rate, for a rate that grows with the capacity.
    #[serde(default)]
    pub least_rate: Option<Rate>,
    /// Minimum burst rate, for a burst that grows with the capacity.
    #[serde(default)]
    pub least_burst: Option<Rate>,
    /// Minimum of the full bucket, for a bucket that grows with the capacity.
    #[serde(default)]
    pub least_bucket: Option<Bytes>,
    /// The factor of rate, burst and bucket.
    #[serde(default)]
    pub each: Each,
    /// Name of the source.
    pub source: String,
}

impl Flow {
    /// Makes a flow without a bucket.
    #[must_use]
    pub fn steady(rate: Rate, source: &str) -> Self {
        Self {
            rate,
            burst: None,
            bucket: None,
            reused: None,
            least_rate: None,
            least_burst: None,
            least_bucket: None,
            each: Each::Service,
            source: source.to_owned(),
        }
    }
}

/// Access protocol of a service.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceKind {
    /// Requests for objects. Objects are downloaded, opened lazily, or read through our mount.
    Object,
    /// A network file system, mounted by the kernel.
    FileSystem,
    /// A volume that is attached to one machine.
    Volume,
    /// A local disk of the machine. The size and rate of the disk are in the model of the machine.
    LocalDisk,
}

impl ServiceKind {
    /// Returns whether only one machine can read the storage, without using the machine's network.
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
    /// Cloudflare, which has no machines.
    Cloudflare,
    /// Any provider: a stand-in, or the user's own storage.
    Any,
}

impl Cloud {
    /// Returns the region under which all prices of the provider are listed, if it has only one.
    /// R2's own name of a bucket's region is `auto`.
    #[must_use]
    pub fn only_region(self) -> Option<&'static str> {
        (self == Self::Cloudflare).then_some("auto")
    }

    /// Returns the provider that bills what the key of a price stands for.
    #[must_use]
    pub fn of_price(key: &str) -> Self {
        match key.split('/').next() {
            Some("gcs" | "gce" | "gce-spot") => Self::Google,
            Some("azure-blob" | "azure-vm" | "azure-vm-spot") => Self::Azure,
            Some("r2") => Self::Cloudflare,
            _ => Self::Aws,
        }
    }

    /// Returns whether a region in the settings of AWS may be that of the service.
    #[must_use]
    pub fn has_aws_regions(self) -> bool {
        matches!(self, Self::Aws | Self::Any)
    }
}

/// Latencies of a service; `None` if one is not known.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServiceLatencies {
    /// Time until a mount or a client is usable.
    pub ready: Option<Latency>,
    /// Time from a request to its first byte.
    pub first_byte: Option<Latency>,
    /// Time from a request to the first byte for large files, which a file system reads from the
    /// bucket behind it.
    pub direct: Option<Latency>,
    /// Time to open and close a file, excluding the first byte.
    pub open: Option<Latency>,
    /// Time per listed name, for one listing caller.
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
    /// Rate of one connection, or of the stream of one thread.
    pub connection: Option<Flow>,
    /// Rate of one client.
    pub client: Option<Flow>,
    /// Rate of the whole service, shared by all clients.
    pub total: Option<Flow>,
    /// Rate of the disks behind the service's servers, shared by all clients.
    pub disk: Option<Flow>,
    /// Total rate of bringing data to the service from the bucket or snapshot behind it.
    pub hydration: Option<Flow>,
    /// Rate of bringing one file from that bucket or snapshot.
    pub hydration_file: Option<Flow>,
}

/// Rates of operations.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct OperationRates {
    /// Operations per second of one client.
    pub client: Option<Figure<f64>>,
    /// Operations per second of the whole service, shared by all clients.
    pub total: Option<Figure<f64>>,
    /// Maximum number of bytes of a read that counts as one operation.
    pub largest: Option<Figure<Bytes>>,
}

/// Properties of reading from a service.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReadProperties {
    /// Number of concurrent requests of our client, if the workload does not state a number.
    pub parallel: Option<Figure<f64>>,
    /// Minimum number of bytes that a read of a lazily opened object fetches.
    pub block: Option<Figure<Bytes>>,
    /// Bytes that the kernel reads ahead of a sequential reader.
    pub read_ahead: Option<Figure<Bytes>>,
    /// Number of round trips, each as long as `first_byte`, for opening and closing a file.
    pub trips_per_file: Option<Figure<f64>>,
    /// Minimum size of files that are read from the bucket behind the service.
    pub direct_from: Option<Figure<Bytes>>,
    /// Number of bytes that are metered per byte read.
    pub metered: Option<Figure<f64>>,
    /// Minimum number of bytes that are billed for one read.
    pub least_read: Option<Figure<Bytes>>,
    /// Minimum number of bytes that are billed for one operation on a name, such as opening.
    pub least_name: Option<Figure<Bytes>>,
}

/// Sizes in which a service is sold.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Capacity {
    /// Minimum provisioned size; `None` if the service is not sold by capacity.
    pub least: Option<Figure<Bytes>>,
    /// Sizes above the minimum are multiples of this.
    pub step: Option<Figure<Bytes>>,
    /// Maximum size.
    pub most: Option<Figure<Bytes>>,
    /// Memory of the servers for caching, per TiB of capacity.
    pub cache_per_tib: Option<Figure<Bytes>>,
    /// Time to create the service. If it is known, the service can be created for a job.
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
    /// Bytes of the data set, each month, for the part that is read from the file system's own
    /// storage.
    StoredSmall,
    /// Bytes that each job reads from the service.
    Read,
    /// Bytes that each job reads from the file system's own storage.
    ReadSmall,
    /// Requests to the service in each job.
    Requests,
    /// Requests of each job that a file system sends to the bucket, for large files.
    DirectRequests,
    /// Requests of each job to the bucket behind a service, for data that was not brought to the
    /// service before the job.
    HydrationRequests,
    /// Provisioned bytes: each month, or, if the service is created for a job, while it exists.
    Capacity,
    /// Hours of a machine that serves all jobs: each month, or, if the service is created for a
    /// job, while it exists.
    Hours,
    /// Provisioned bytes per second above the rate that stored data includes, each month.
    ProvisionedRate,
    /// Bytes per second of a volume above the 125 MiB/s that its price includes, for each machine.
    VolumeRate,
    /// Operations per second of a volume above the 3,000 that its price includes, for each machine.
    VolumeOperations,
    /// Bytes of the data set, once, when it is loaded.
    Loaded,
}

/// A bill of a service.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceBill {
    /// Key of the price, see [`crate::usage::KEYS`].
    pub price: String,
    /// The quantity that the bill counts.
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
    /// Whether several machines can access the same data.
    pub shared: bool,
    /// Whether data survives the loss of a machine, a server or a zone.
    pub durable: bool,
    /// Whether serverless functions can mount the service or send requests to it.
    #[serde(default)]
    pub functions: bool,
    /// Effects that the model does not cover.
    pub leaves_out: String,
    /// Costs that the catalogue's prices do not cover: loading, initialisation, other zones.
    #[serde(default)]
    pub unbilled: String,
    /// The sources of the figures, by the name that a figure gives as its `source`.
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
    /// Sizes in which the service is sold.
    #[serde(default)]
    pub capacity: Capacity,
    /// Billed items.
    #[serde(default)]
    pub bills: Vec<ServiceBill>,
    /// Name of the measurement that has replaced figures of the model; `None` if there is none.
    #[serde(default)]
    pub measured: Option<String>,
    /// Spread of that measurement, as a factor. If given, it determines the range of predictions,
    /// instead of [`crate::ranges`].
    #[serde(default)]
    pub spread: Option<f64>,
    /// The machine from which the service was measured. The catalogue names it [`HERE`].
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
    /// Maximum number of processors that the program can use.
    pub processors: f64,
    /// Maximum number of concurrent requests; `None` if the service decides that.
    #[serde(default)]
    pub parallel: Option<f64>,
    /// Rate of one reader that reads through the program's mount.
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
    /// Sustained rate of the machine's network.
    pub network: Rate,
    /// Rate of the machine's network while the token bucket is not empty.
    #[serde(default)]
    pub burst: Option<Rate>,
    /// Bytes above `network` that a full bucket holds; `None` if the rule for all machines applies.
    #[serde(default)]
    pub bucket: Option<Bytes>,
    /// Sustained total rate of all volumes of the machine.
    #[serde(default)]
    pub volumes: Option<Rate>,
    /// Total rate of all volumes during their burst, which lasts for
    /// [`CommonMachineFigures::volumes_burst`].
    #[serde(default)]
    pub volumes_burst: Option<Rate>,
    /// Graphics processors.
    #[serde(default)]
    pub gpus: f64,
    /// The instance store of the machine: a local disk.
    #[serde(default)]
    pub store: Option<DiskModel>,
    /// The provider.
    #[serde(default)]
    pub cloud: Cloud,
    /// Name of the source.
    #[serde(default = "default_source")]
    pub source: String,
}

impl MachineModel {
    /// Makes a machine without bursts, volumes, graphics processors and local disk, whose provider
    /// does not matter.
    #[must_use]
    pub fn new(vcpus: f64, memory: Bytes, network: Rate, source: &str) -> Self {
        Self {
            vcpus,
            memory,
            network,
            burst: None,
            bucket: None,
            volumes: None,
            volumes_burst: None,
            gpus: 0.0,
            store: None,
            cloud: Cloud::Any,
            source: source.to_owned(),
        }
    }
}

fn default_source() -> String {
    "guide".to_owned()
}

/// A kind of serverless function, such as `lambda`, or one size of it, such as `lambda:512MB`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Function {
    /// Network of the function.
    pub network: Flow,
    /// Bytes of memory with which the function gets one whole processor.
    pub memory_per_processor: Bytes,
    /// Size of the function's local disk.
    pub local: Bytes,
    /// Bytes that the kernel of the function reads ahead in a mounted file.
    pub read_ahead: Bytes,
    /// Number of concurrent functions that an account may run by default.
    pub at_once: f64,
    /// Maximum duration of a run.
    pub longest: Seconds,
    /// Name of the source.
    pub source: String,
}

/// Figures common to all machines.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CommonMachineFigures {
    /// Duration of a full burst on a fresh machine, in seconds per Gbit/s of the machine's
    /// sustained rate.
    pub burst_per_gbit: Figure<Seconds>,
    /// Duration of a full burst of all volumes of a machine.
    pub volumes_burst: Figure<Seconds>,
    /// Fraction of a network's rate that is left for data.
    pub payload: Figure<f64>,
    /// Maximum rate of one connection over the network of AWS.
    pub flow: Figure<Rate>,
    /// Rate of one thread that reads from the page cache.
    pub copy: Figure<Rate>,
}
