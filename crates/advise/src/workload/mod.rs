//! The workload of a user: bytes that a job reads, number of jobs, machine, and deadline.
//!
//! A [`Workload`] is complete and consistent: `read` fills in defaults and lists them in
//! [`Workload::assumed`]. It refuses contradictory values, and the error states the line and the
//! field. Sizes are in bytes and times in seconds; all are finite and not negative. Called by the
//! advice and its callers.

mod read;
mod template;

use serde::Deserialize;

pub use read::{of_options, of_text};
pub use template::{Measured, commented, commented_from};

/// A workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Name for display.
    pub name: String,
    /// The data that a job reads.
    pub data: WorkloadData,
    /// Names that a job lists, looks up or creates.
    pub names: NameOperations,
    /// The computation of a job, and its machine.
    pub compute: Compute,
    /// Number of jobs.
    pub jobs: JobCounts,
    /// Requirements.
    pub goal: WorkloadGoal,
    /// Region, as AWS names it.
    pub region: String,
    /// Descriptions of the assumed values on which time or cost depends.
    pub assumed: Vec<String>,
}

impl Workload {
    /// Sets the region, which then is no longer assumed.
    pub fn set_region(&mut self, region: &str) {
        self.assumed.retain(|assumed| *assumed != self.region);
        region.clone_into(&mut self.region);
    }
}

/// The data that a job reads.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadData {
    /// All bytes of the data set.
    pub bytes: f64,
    /// Number of files, at least 1.
    pub files: f64,
    /// Bytes that a job reads in one pass, at most `bytes`.
    pub read: f64,
    /// Passes over these bytes, at least 1.
    pub passes: f64,
    /// Number of bytes of one read call.
    pub request: f64,
    /// Order of the reads.
    pub access: AccessPattern,
    /// Number of requests that a job keeps in flight; `None` if the program decides that.
    pub in_flight: Option<f64>,
    /// Number of the bytes in `read` that the machine has cached before the job starts.
    pub warm: f64,
    /// Interface through which the program reads.
    pub needs: ReadInterface,
}

/// The order of reads.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum AccessPattern {
    /// A job reads each file from its start to its end. The kernel reads ahead.
    #[default]
    Sequential,
    /// A job reads at random positions.
    Random,
    /// A job reads through a memory mapping. Each thread waits for one page fault after another.
    Mapped,
}

/// Interface through which a program reads.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum ReadInterface {
    /// Requests or files.
    #[default]
    Any,
    /// Paths of a file system.
    Files,
}

/// Names that a job lists, looks up or creates before it reads.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct NameOperations {
    /// Names that the job lists.
    pub list: f64,
    /// Names whose metadata the job reads.
    pub stat: f64,
    /// Files that the job creates.
    pub create: f64,
}

/// The computation of a job, and its machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Compute {
    /// The machine or serverless function.
    pub place: ComputePlace,
    /// Processor time of the job if all data is in memory, in seconds.
    pub cpu_seconds: f64,
    /// Threads that read and compute, at least 1.
    pub threads: f64,
    /// Bytes of memory that the program itself needs. The remaining memory caches data.
    pub program_memory: f64,
    /// Seconds before the work of a job starts: image, runtime, mount scripts.
    pub startup: f64,
    /// Order of reading and computing.
    pub loading: Loading,
    /// The program that reads from an object store.
    pub client: String,
    /// State of the network's burst bucket when a job starts.
    pub network: BucketState,
    /// True if spot instances are acceptable.
    pub spot: bool,
    /// The fraction of spot instances of this type that is interrupted within a month, from 0 to
    /// less than 1.
    pub interrupted: f64,
}

/// The machine or serverless function that a job runs on.
#[derive(Clone, Debug, PartialEq)]
pub enum ComputePlace {
    /// A function of AWS Lambda with this memory, in bytes.
    Lambda(f64),
    /// An instance type of EC2, or another machine that a model describes.
    Machine(String),
}

/// Order of reading and computing.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Loading {
    /// Reading ends before computing starts.
    Before,
    /// Reading and computing overlap.
    Beside,
    /// Not known. The predicted range includes both cases.
    #[default]
    Either,
}

/// Number of bytes in a bucket for bursts.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum BucketState {
    /// Full, as on a fresh machine.
    #[default]
    Fresh,
    /// Emptied some seconds ago.
    Reused,
    /// Empty, as in sustained use.
    Empty,
}

/// Number of jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct JobCounts {
    /// Number of concurrent jobs, at least 1. Each job has a machine of its own.
    pub at_once: f64,
    /// Jobs per day.
    pub per_day: f64,
}

/// Requirements of the user.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadGoal {
    /// Maximum duration of a job, in seconds.
    pub deadline: Option<f64>,
    /// Value of an hour of waiting time, in dollars.
    pub waiting: Option<f64>,
    /// True if several machines must see the same data.
    pub shared: bool,
    /// True if data must survive the loss of a machine or volume.
    pub durable: bool,
}
