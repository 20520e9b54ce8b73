//! The model: capabilities and bills of a service, a machine, a function or a program, as a TOML
//! file of format 1.
//!
//! Quantities carry their unit in the value. Each figure names its source, and each source its
//! place and day. `probe` writes this format, `link` replays it, the advice predicts with it, and
//! receipts are graded against it. Rates are in bytes per second, times in seconds. Embedded models
//! are in `crates/advise/models`; a model of the same name in a user's file replaces one.

mod catalogue;
mod check;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use catalogue::Catalogue;

use crate::prices::Day;
use crate::units::{Bytes, Rate, Seconds};

/// The version of the format that this program reads and writes.
pub const FORMAT: u32 = 1;

/// Name of the machine that a model was measured from. It is the user's own, and bills nothing.
pub const HERE: &str = "here";

/// The 95th percentile of a normal distribution, in standard deviations.
const P95: f64 = 1.645;

/// The origin of figures.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The page, table or measurement.
    pub what: String,
    /// Region, zone or machine; empty where the source holds everywhere.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// The day of the measurement, or of reading an undated page.
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
    /// Mean of many requests: that of a log-normal distribution with these quantiles.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let spread = self.p95.map_or(0.0, |p95| (p95.0 / self.p50.0).ln() / P95);
        self.p50.0 * (spread * spread / 2.0).exp()
    }
}

/// A unit whose number multiplies a flow.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Each {
    /// The whole service.
    #[default]
    Service,
    /// Each TiB of capacity, or of stored data where no capacity is provisioned.
    Tib,
}

/// A rate, with the bucket of what may pass above it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Bytes per second, always.
    pub rate: Rate,
    /// Bytes per second while the bucket has bytes.
    #[serde(default)]
    pub burst: Option<Rate>,
    /// Bytes above `rate` of a full bucket; without it a burst never ends.
    #[serde(default)]
    pub bucket: Option<Bytes>,
    /// The same some seconds after the bucket was emptied.
    #[serde(default)]
    pub reused: Option<Bytes>,
    /// The least burst, where it grows with the capacity.
    #[serde(default)]
    pub least_burst: Option<Rate>,
    /// The unit that rate, burst and bucket are stated for.
    #[serde(default)]
    pub each: Each,
    /// Name of the source.
    pub source: String,
}

/// Access protocol of a service.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Requests for objects: downloaded, opened lazily, or through our mount.
    Object,
    /// A network file system, mounted by the kernel.
    FileSystem,
    /// A volume that is attached to one machine.
    Volume,
    /// A disk of the machine itself, whose size and rate are the machine's.
    LocalDisk,
}

impl Kind {
    /// True if only one machine reads it, and not over its network.
    #[must_use]
    pub fn is_of_one_machine(self) -> bool {
        matches!(self, Self::Volume | Self::LocalDisk)
    }
}

/// The provider, whose machines can use the service.
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
    /// Reachable from anywhere: a stand-in, or storage of one's own.
    Any,
}

/// Latencies of a service.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Latencies {
    /// Until a mount or a client is usable.
    pub ready: Option<Latency>,
    /// From a request to its first byte.
    pub first_byte: Option<Latency>,
    /// The same for large reads that a file system sends to the bucket behind it.
    pub direct: Option<Latency>,
    /// Opening and closing a file, beyond its first byte.
    pub open: Option<Latency>,
    /// A name of a listing, one lister.
    pub list: Option<Latency>,
    /// Metadata of a file, one caller.
    pub stat: Option<Latency>,
    /// Creating an empty file, one caller.
    pub create: Option<Latency>,
}

/// Rates of a service.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rates {
    /// One connection, or one thread's stream.
    pub connection: Option<Flow>,
    /// One client.
    pub client: Option<Flow>,
    /// The whole service, shared by all clients.
    pub total: Option<Flow>,
    /// The disks behind its servers, shared by all clients.
    pub disk: Option<Flow>,
    /// Bringing data from the bucket or snapshot behind it, in total.
    pub hydration: Option<Flow>,
    /// The same for one file.
    pub hydration_file: Option<Flow>,
}

/// Operations per second.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Operations {
    /// One client.
    pub client: Option<Figure<f64>>,
    /// The whole service, shared by all clients.
    pub total: Option<Figure<f64>>,
    /// Bytes of the largest read that counts as one.
    pub largest: Option<Figure<Bytes>>,
}

/// Properties of reading.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reading {
    /// Requests of our client at once, where the workload states none.
    pub parallel: Option<Figure<f64>>,
    /// The least bytes that a lazy open fetches.
    pub block: Option<Figure<Bytes>>,
    /// Bytes that the kernel reads ahead of a sequential reader.
    pub read_ahead: Option<Figure<Bytes>>,
    /// Round trips to open and close a file, of `first_byte` each.
    pub trips_per_file: Option<Figure<f64>>,
    /// Files of this size and larger are read from the bucket behind the service.
    pub direct_from: Option<Figure<Bytes>>,
    /// Metered bytes of each byte read.
    pub metered: Option<Figure<f64>>,
}

/// Sizes that a service is sold in.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Capacity {
    /// The least that can be provisioned; without it storage grows by itself.
    pub least: Option<Figure<Bytes>>,
    /// Sizes above the least are multiples of it.
    pub step: Option<Figure<Bytes>>,
    /// The largest size.
    pub most: Option<Figure<Bytes>>,
    /// Memory of the servers for each TiB.
    pub cache_per_tib: Option<Figure<Bytes>>,
    /// Time to create it; with it a job can have one of its own.
    pub creation: Option<Figure<Seconds>>,
}

/// The quantity that a bill counts.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Billed {
    /// Bytes of the data set, each month.
    Stored,
    /// Bytes of the data set on a volume of each machine, each month.
    StoredPerClient,
    /// Bytes of the data set on a volume of each machine while a job runs.
    StoredDuringJob,
    /// Bytes of the data set where reads come from the file system's own storage.
    StoredSmall,
    /// Bytes that come from the service, each job.
    Read,
    /// Bytes of each job that come from the file system's own storage.
    ReadSmall,
    /// Requests to the service, each job.
    Requests,
    /// Requests that a file system makes to the bucket for large reads.
    DirectRequests,
    /// Requests to the bucket behind a service for data that was not brought ahead, each job.
    HydrationRequests,
    /// Provisioned bytes, each month; while it exists, if each job makes its own.
    Capacity,
    /// Hours of a machine that serves all jobs, each month; while it exists, if each job makes its
    /// own.
    Hours,
    /// Provisioned bytes per second, each month.
    ProvisionedRate,
    /// Bytes per second of a volume above the included 125 MiB/s, for each machine.
    VolumeRate,
    /// Operations per second of a volume above the included 3,000, for each machine.
    VolumeOperations,
    /// Bytes of the data set, once, when they are brought in.
    Loaded,
}

/// A billed item of a service.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Bill {
    /// Key of the price, see [`crate::usage::KEYS`].
    pub price: String,
    /// The quantity that is counted.
    pub of: Billed,
}

/// A storage service.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Version of the file format.
    pub format: u32,
    /// Unique: letters, digits, dashes.
    pub name: String,
    /// For people.
    pub title: String,
    /// Access protocol.
    pub kind: Kind,
    /// The provider.
    #[serde(default)]
    pub cloud: Cloud,
    /// Several machines see the same data.
    pub shared: bool,
    /// Data survives the loss of a machine, a server or a zone.
    pub durable: bool,
    /// Functions can mount it or send requests to it.
    #[serde(default)]
    pub functions: bool,
    /// Effects that the model does not cover.
    pub leaves_out: String,
    /// Costs that no price here covers: loading, initialisation, other zones.
    #[serde(default)]
    pub unbilled: String,
    /// Sources by name.
    pub sources: BTreeMap<String, Source>,
    /// Latencies.
    #[serde(default)]
    pub latency: Latencies,
    /// Rates.
    #[serde(default)]
    pub rates: Rates,
    /// Operations per second.
    #[serde(default)]
    pub operations: Operations,
    /// Properties of reading.
    #[serde(default)]
    pub reading: Reading,
    /// Sizes.
    #[serde(default)]
    pub capacity: Capacity,
    /// Billed items.
    #[serde(default)]
    pub bills: Vec<Bill>,
    /// The measurement that overrides figures; `None` without one.
    #[serde(default)]
    pub measured: Option<String>,
    /// Spread of that measurement, as a factor: the range of predictions in place of
    /// [`crate::ranges`].
    #[serde(default)]
    pub spread: Option<f64>,
    /// The machine that it was measured from: the machine [`HERE`] of the catalogue.
    #[serde(default)]
    pub here: Option<Machine>,
}

/// A program that reads from an object store.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// Processor time for 10^9 bytes.
    pub cpu_per_gb: Seconds,
    /// Processor time for a request.
    pub cpu_per_request: Seconds,
    /// Processors that it can use at once.
    pub processors: f64,
    /// Largest number of requests at once; the service's number without it.
    #[serde(default)]
    pub parallel: Option<f64>,
    /// Rate of one reader through its mount.
    #[serde(default)]
    pub reader: Option<Rate>,
    /// Name of the source.
    pub source: String,
}

/// A disk of a machine.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// Bytes.
    pub size: Bytes,
    /// Bytes per second that it reads.
    pub read: Rate,
    /// Name of the source.
    pub source: String,
}

/// A type of machine.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Virtual processors.
    pub vcpus: f64,
    /// Memory.
    pub memory: Bytes,
    /// Rate of its network, always.
    pub network: Rate,
    /// Rate of its network while its bucket has bytes.
    #[serde(default)]
    pub burst: Option<Rate>,
    /// Bytes above `network` of a full bucket; by the rule for all machines without it.
    #[serde(default)]
    pub bucket: Option<Bytes>,
    /// Rate to its volumes.
    #[serde(default)]
    pub volumes: Option<Rate>,
    /// Graphics processors.
    #[serde(default)]
    pub gpus: f64,
    /// Instance store.
    #[serde(default)]
    pub store: Option<Store>,
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
    /// Memory that brings one processor.
    pub memory_per_processor: Bytes,
    /// Bytes of its own disk.
    pub local: Bytes,
    /// Bytes that its kernel reads ahead of a mounted file.
    pub read_ahead: Bytes,
    /// Functions at once that an account has before it asks for more.
    pub at_once: f64,
    /// Longest run.
    pub longest: Seconds,
    /// Name of the source.
    pub source: String,
}

/// Figures that all machines have in common.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// Seconds that a fresh machine's burst lasts for each Gbit/s of its own rate.
    pub burst_per_gbit: Figure<Seconds>,
    /// Part of a network's rate that carries data.
    pub payload: Figure<f64>,
    /// One connection over the network.
    pub flow: Figure<Rate>,
    /// One thread reading from the page cache.
    pub copy: Figure<Rate>,
}
