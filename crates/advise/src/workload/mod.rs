//! The workload of a user: bytes that a job reads, how often, where, and by when it must end.
//!
//! A [`Workload`] is complete and consistent: `read` fills in defaults, lists them in
//! [`Workload::assumed`], and refuses contradictory values with the line and the field. Sizes are
//! in bytes, times in seconds, all finite and not negative. Called by the advice and its callers.

mod read;
mod template;

use serde::Deserialize;

pub use read::{of_options, of_text};
pub use template::{Measured, commented, commented_from};

/// A workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// A name for people.
    pub name: String,
    /// The data that a job reads.
    pub data: Data,
    /// Names that a job lists, looks up or creates.
    pub names: Names,
    /// The work of a job, and its machine.
    pub compute: Compute,
    /// Number of jobs.
    pub jobs: Jobs,
    /// Requirements.
    pub goal: Goal,
    /// Region, as AWS names it.
    pub region: String,
    /// Defaults that decide time or cost, in words.
    pub assumed: Vec<String>,
}

/// The data that a job reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Data {
    /// All bytes of the data set.
    pub bytes: f64,
    /// Files that they are in, at least 1.
    pub files: f64,
    /// Bytes that a job reads in one pass, at most `bytes`.
    pub read: f64,
    /// Times that a job reads them, at least 1.
    pub passes: f64,
    /// Bytes of one read call.
    pub request: f64,
    /// Order of the reads.
    pub access: Access,
    /// Requests that a job keeps in flight; `None`: the number of the program.
    pub in_flight: Option<f64>,
    /// Bytes of `read` that are cached where the job runs before it starts.
    pub warm: f64,
    /// Interface that the program reads through.
    pub needs: Needs,
}

/// The order of reads.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// From the start of a file to its end; the kernel reads ahead.
    #[default]
    Sequential,
    /// Anywhere.
    Random,
    /// Through a mapping: page faults, which wait one by one in each thread.
    Mapped,
}

/// Interface that a program reads through.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Needs {
    /// Requests or files.
    #[default]
    Any,
    /// Paths of a file system.
    Files,
}

/// Names that a job lists, looks up or creates before it reads.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Names {
    /// Names that it lists.
    pub list: f64,
    /// Names whose metadata it reads.
    pub stat: f64,
    /// Files that it creates.
    pub create: f64,
}

/// The work of a job, and its machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Compute {
    /// The machine or function.
    pub place: Place,
    /// Processor seconds if all data were in memory.
    pub cpu_seconds: f64,
    /// Threads that read and compute, at least 1.
    pub threads: f64,
    /// Bytes of memory that the program itself needs; the rest caches data.
    pub program_memory: f64,
    /// Seconds before a job's own work: image, runtime, mount scripts.
    pub startup: f64,
    /// Order of reading and computing.
    pub loading: Loading,
    /// The program that reads from an object store.
    pub client: String,
    /// State of the network's bucket when a job starts.
    pub network: BucketState,
    /// Spot instances are acceptable.
    pub spot: bool,
    /// The part of spot instances of this type that is interrupted in a month, 0 to below 1.
    pub interrupted: f64,
}

/// The machine or function that a job runs on.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// A function of AWS Lambda with this memory, in bytes.
    Lambda(f64),
    /// An instance type of EC2, or another machine that a model describes.
    Machine(String),
}

/// Order of reading and computing.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Loading {
    /// All is read, then computing begins.
    Before,
    /// Computing continues beside reading.
    Beside,
    /// Not known: the range spans both.
    #[default]
    Either,
}

/// State of a bucket of burst bytes.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum BucketState {
    /// Full, as on a fresh machine.
    #[default]
    Fresh,
    /// Emptied seconds ago.
    Reused,
    /// Empty, as in sustained use.
    Empty,
}

/// Number of jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct Jobs {
    /// Jobs at the same moment, at least 1. Each has a machine of its own.
    pub at_once: f64,
    /// Jobs in a day.
    pub per_day: f64,
}

/// Requirements.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// Seconds within which a job must end.
    pub deadline: Option<f64>,
    /// Value of an hour of waiting, in dollars.
    pub waiting: Option<f64>,
    /// Several machines must see the same data.
    pub shared: bool,
    /// Data must survive the loss of a machine or of a volume without a copy elsewhere.
    pub durable: bool,
}
