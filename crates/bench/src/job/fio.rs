//! The parameters of a job that runs fio. `crate::fio` runs it.

use serde::Deserialize;

/// Parameters that only fio has; sizes and numbers common to all workloads are the job's.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Fio {
    /// The pattern.
    pub pattern: Pattern,
    /// Requests in flight for each of its processes; more than 1 takes an asynchronous `engine`.
    pub depth: Option<u32>,
    /// fio's engine: `psync` unless given, `libaio` for a depth above 1.
    pub engine: Option<String>,
    /// Whether the page cache is bypassed.
    pub direct: bool,
    /// Seconds after which it ends although not everything was read.
    pub seconds: Option<u32>,
}

/// The blocks that are read, and their order.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// From the start to the end; every process has its own part of the file.
    #[default]
    Read,
    /// In random order.
    RandRead,
}
