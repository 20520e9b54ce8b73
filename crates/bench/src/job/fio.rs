//! The parameters of a job that runs fio. `crate::fio` runs it.

use serde::Deserialize;

/// Parameters that only fio has. Sizes and numbers common to all workloads are in the job.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Fio {
    /// Order of the reads.
    pub pattern: ReadPattern,
    /// Requests in flight for each process. More than 1 needs an asynchronous `engine`.
    pub depth: Option<u32>,
    /// fio's engine. Default: `psync`, or `libaio` for a depth above 1.
    pub engine: Option<String>,
    /// True to bypass the page cache.
    pub direct: bool,
    /// Seconds after which fio ends even if not all bytes were read.
    pub seconds: Option<u32>,
}

/// The order in which blocks are read.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum ReadPattern {
    /// Blocks from start to end. Each process has its own part of the file.
    #[default]
    Read,
    /// Blocks at random offsets.
    RandRead,
}
