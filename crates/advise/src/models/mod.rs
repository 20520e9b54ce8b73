//! Models of storage services, machines and programs. A model is a set of numbers, each with its
//! source and the day on which that was read.
//!
//! The models are data files in `crates/advise/models`, embedded in the program. Users add their
//! own, and results of `bench` override a model's numbers (see [`Model::calibrate`]). Rates are in
//! bytes per second, times in seconds, sizes in bytes. Called by the advice.

mod calibrate;
mod draw;
mod read;

use std::collections::BTreeMap;

use serde::Serialize;

pub use calibrate::{Calibration, calibrations};
pub use draw::Draw;

use crate::fields::{FieldError, nearest};

/// A number of a model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Number {
    /// The likeliest value.
    pub value: f64,
    /// The least that is believed.
    pub low: f64,
    /// The greatest that is believed.
    pub high: f64,
    /// Name of its source.
    pub source: String,
}

/// The source of numbers.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Source {
    /// The page, table or measurement.
    pub what: String,
    /// The day on which it was read, `2026-11-20`.
    pub read: String,
}

/// The way in which programs read a service.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// By requests for objects: downloaded, opened lazily, or through our mount.
    Object,
    /// Mounted, over the network.
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

/// The quantity that a bill counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
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
    /// Requests to the bucket behind a service for what was not brought ahead, each job.
    HydrationRequests,
    /// Provisioned bytes, each month.
    Capacity,
    /// Provisioned bytes per second, each month.
    ProvisionedRate,
    /// Bytes per second of a volume above what its price includes, for each machine.
    VolumeRate,
}

/// A billed item of a service.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Bill {
    /// Key of the price, see [`crate::usage::KEYS`].
    pub price: String,
    /// The quantity that is counted.
    pub of: Billed,
}

/// A service.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Model {
    /// Unique: letters, digits, dashes.
    pub name: String,
    /// For people.
    pub title: String,
    /// The way in which programs read it.
    pub kind: Kind,
    /// Several machines see the same data.
    pub shared: bool,
    /// Data survives the loss of a machine, a server or a zone.
    pub durable: bool,
    /// Effects that the model does not cover.
    pub leaves_out: String,
    /// Sources by name.
    pub sources: BTreeMap<String, Source>,
    /// Numbers by name.
    pub numbers: BTreeMap<String, Number>,
    /// Billed items.
    pub bills: Vec<Bill>,
    /// The measurement that overrides the numbers; `None` without one.
    pub measured: Option<String>,
}

/// A program that reads from an object store.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Client {
    /// Processor seconds for 10^9 bytes.
    pub cpu_per_gb: Number,
    /// Processor seconds for a request.
    pub cpu_per_request: Number,
    /// Processors that it can use at once.
    pub processors: Number,
}

/// A type of machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Machine {
    /// Virtual processors.
    pub vcpus: f64,
    /// Bytes of memory.
    pub memory: f64,
    /// Bytes per second of its network, always.
    pub network: f64,
    /// Bytes per second of its network while its burst credit lasts.
    pub network_burst: f64,
    /// Bytes of its instance store; `None` without one.
    pub store: Option<Number>,
    /// Bytes per second that the instance store reads.
    pub store_rate: Option<Number>,
    /// Name of the source.
    pub source: String,
}

/// Everything that the advice knows of services, machines and programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Catalogue {
    /// Services in the order of the report.
    pub services: Vec<Model>,
    /// Programs by name.
    pub clients: BTreeMap<String, Client>,
    /// Sources of `clients`.
    pub client_sources: BTreeMap<String, Source>,
    /// Types of machines by name.
    pub machines: BTreeMap<String, Machine>,
    /// Numbers that all machines have in common.
    pub common: BTreeMap<String, Number>,
    /// Numbers of functions.
    pub lambda: BTreeMap<String, Number>,
    /// Sources of `machines`, `common` and `lambda`.
    pub machine_sources: BTreeMap<String, Source>,
}

/// The embedded services.
const SERVICES: [&str; 14] = [
    include_str!("../../models/s3-standard.toml"),
    include_str!("../../models/s3-express.toml"),
    include_str!("../../models/s3-files.toml"),
    include_str!("../../models/efs-elastic.toml"),
    include_str!("../../models/efs-provisioned.toml"),
    include_str!("../../models/efs-bursting.toml"),
    include_str!("../../models/fsx-scratch-2.toml"),
    include_str!("../../models/fsx-persistent-2-125.toml"),
    include_str!("../../models/fsx-persistent-2-250.toml"),
    include_str!("../../models/fsx-persistent-2-500.toml"),
    include_str!("../../models/fsx-persistent-2-1000.toml"),
    include_str!("../../models/ebs-gp3.toml"),
    include_str!("../../models/ebs-gp3-snapshot.toml"),
    include_str!("../../models/instance-store.toml"),
];

impl Model {
    /// Reads a model.
    ///
    /// # Errors
    /// The first wrong field; also a number without source or a source without its day.
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        read::model(text)
    }

    /// A number by name.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<&Number> {
        self.numbers.get(name)
    }
}

impl Catalogue {
    /// The embedded models.
    ///
    /// # Panics
    /// Never: a test reads them all.
    #[must_use]
    pub fn current() -> Self {
        read::catalogue(
            &SERVICES,
            include_str!("../../models/clients.toml"),
            include_str!("../../models/machines.toml"),
        )
        .expect("embedded models are valid")
    }

    /// Adds the service or the machines that a file describes. An entry of the same name is
    /// replaced.
    ///
    /// # Errors
    /// The first wrong field.
    pub fn add_text(&mut self, text: &str) -> Result<(), FieldError> {
        match read::added(text)? {
            read::Added::Service(model) => self.add(*model),
            read::Added::Machines(machines, sources) => {
                self.machines.extend(machines);
                self.machine_sources.extend(sources);
            }
        }
        Ok(())
    }

    /// Adds a model, or replaces the one of the same name.
    pub fn add(&mut self, model: Model) {
        match self.services.iter_mut().find(|known| known.name == model.name) {
            Some(known) => *known = model,
            None => self.services.push(model),
        }
    }

    /// The service of this name.
    #[must_use]
    pub fn service(&self, name: &str) -> Option<&Model> {
        self.services.iter().find(|model| model.name == name)
    }

    /// The type of machine that is most like `name`, for an error.
    #[must_use]
    pub fn nearest_machine(&self, name: &str) -> Option<&str> {
        nearest(name, self.machines.keys().map(String::as_str))
    }
}

#[cfg(test)]
mod tests;
