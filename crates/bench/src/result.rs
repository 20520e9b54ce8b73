//! The schema of a results file: JSON lines, one [`Record`] each.
//!
//! The first line is a [`Header`], every other line one [`Run`], written at once when it ended. A
//! file is never rewritten, so a process that is killed loses at most the run under way.
//! Summaries are not stored: readers compute them (see [`crate::statistics`]). Called by `bench`,
//! which writes and reads, and by `advise`, which calibrates its models by results.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::table::Table;

/// Version of this schema. A reader refuses a file whose header has a higher one.
pub const SCHEMA: u32 = 1;

/// One line of a results file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// Facts that all runs of the file have in common.
    Header(Box<Header>),
    /// One measurement.
    Run(Box<Run>),
}

/// Facts that all runs of a file have in common.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Header {
    /// Version of the schema, see [`SCHEMA`].
    pub schema: u32,
    /// Version of the firstbyte that measured.
    pub firstbyte: String,
    /// The command line, without its program.
    pub command: Vec<String>,
    /// Digest of the plan. A file is continued only by the same plan.
    pub plan_digest: String,
    /// The moment of the first run, RFC 3339 in UTC.
    pub started: String,
    /// The machine.
    pub machine: Machine,
    /// The cases of the plan, in order.
    pub cases: Vec<Case>,
    /// Tables of published figures beside those of the runs.
    pub tables: Vec<Table>,
}

/// The machine that measured.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Machine {
    /// The processor's name as the kernel gives it.
    pub cpu: String,
    /// Processors that the process may use.
    pub processors: usize,
    /// Memory in bytes that the process may use: the least of the machine's and its cgroup's.
    pub memory_bytes: u64,
    /// Name and release of the kernel.
    pub kernel: String,
    /// Architecture, for example `x86_64`.
    pub architecture: String,
    /// The cgroup and its limits, one `name=value` each; empty without limits.
    pub cgroup: Vec<String>,
    /// File systems that targets and stages are on: `PATH: TYPE on DEVICE (OPTIONS)`.
    pub mounts: Vec<String>,
    /// Versions of contenders' programs, by name.
    pub versions: BTreeMap<String, String>,
    /// Region, if the metadata of the instance or function gives it.
    pub region: Option<String>,
    /// Instance type or function memory, if metadata or environment give it.
    pub instance_type: Option<String>,
}

/// A comparison: contenders that do the same work.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Case {
    /// Unique in the file: letters, digits, `-`, `_`, `/`, `.`.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Notes for readers, a paragraph each.
    pub notes: Vec<String>,
    /// The contender that goals and ratios are about; else the first.
    pub subject: String,
    /// Names of the contenders, in order, with the command line that a reader can repeat.
    pub contenders: Vec<ContenderLine>,
    /// Goals: bounds that the case's figures must keep.
    pub goals: Vec<Goal>,
    /// Rounds planned; each contender runs once per round.
    pub rounds: u32,
    /// Stand-ins in the way, each with its numbers: `link function: 0.6 Gbit/s sustained, 20 ms`.
    pub stand_ins: Vec<String>,
}

/// A contender as a reader sees it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct ContenderLine {
    /// Unique in its case.
    pub name: String,
    /// The command line; generated paths are replaced by words such as `$OUT`.
    pub command: String,
    /// The workload that it runs, for example `one-big`; empty for a plain command.
    pub workload: String,
    /// The location that it reads, empty if that is in the command only.
    pub target: String,
    /// Parameters by name, for charts: `size_bytes`, `jobs`, `memory_bytes`, `chunk_bytes`, ...
    pub parameters: BTreeMap<String, f64>,
}

/// A bound.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Goal {
    /// The figure: `seconds`, `user_seconds`, `system_seconds`, `peak_memory_bytes`, or the name of
    /// one of a run's metrics.
    pub metric: String,
    /// The contender that is bounded; empty: the case's subject.
    pub of: String,
    /// The contender that it is divided by; `None`: the figure itself is bounded. `best` is the
    /// fastest other contender.
    pub over: Option<String>,
    /// The greatest value that meets the goal.
    pub at_most: Option<f64>,
    /// The least value that meets the goal.
    pub at_least: Option<f64>,
}

impl Case {
    /// The contender that goals and ratios are about; empty if there are no contenders.
    #[must_use]
    pub fn subject(&self) -> &str {
        subject(&self.subject, self.contenders.first().map(|first| &first.name))
    }
}

/// Returns the contender that ratios are about: the `named` one, else the first, else none.
pub(crate) fn subject<'a>(named: &'a str, first: Option<&'a String>) -> &'a str {
    first.filter(|_| named.is_empty()).map_or(named, String::as_str)
}

/// The origin of a figure, the less certain the greater.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Of the real thing.
    #[default]
    Measured,
    /// Measured through a stand-in.
    Emulated,
    /// Computed.
    Modelled,
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The state of the caches between the reader and the storage.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheState {
    /// Not controlled.
    #[default]
    Any,
    /// Nothing is cached on this machine.
    Cold,
    /// Everything is in the page cache.
    Warm,
    /// Everything is in firstbyte's cache on disk.
    Hydrated,
}

impl fmt::Display for CacheState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The cache state of a run, and the evidence for it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct CacheEvidence {
    /// The state that the plan asks for.
    pub wanted: CacheState,
    /// True if evidence shows that state; false if evidence contradicts it; `None` if there is no
    /// evidence.
    pub held: Option<bool>,
    /// Observations before and after the run, a sentence each:
    /// `before: 0 of 268435456 bytes in the page cache (cachestat)`.
    pub evidence: Vec<String>,
}

/// The way in which a run ended.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// To its end, with the right content.
    #[default]
    Ok,
    /// With an error.
    Failed,
    /// Ended by the engine after the time that a run may take.
    TimedOut,
    /// Wrong content.
    Wrong,
}

/// One measurement of one contender.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Run {
    /// Name of the case.
    pub case: String,
    /// Name of the contender.
    pub contender: String,
    /// From 1; 0 is the warm-up, which is kept out of summaries.
    pub round: u32,
    /// Place within its round, from 0.
    pub position: u32,
    /// The moment it began, RFC 3339 in UTC.
    pub at: String,
    /// The origin of the figures.
    pub basis: Basis,
    /// The way in which the run ended.
    pub outcome: Outcome,
    /// The error of a run that did not end well, in one line.
    pub error: Option<String>,
    /// Reasons to keep this run out of the summary, a sentence each; empty: it counts.
    pub marks: Vec<String>,
    /// What a model names as the limit, or a receipt as `bound_by`.
    pub limit: Option<String>,
    /// Wall time in seconds.
    pub seconds: f64,
    /// Processor time in user mode, seconds.
    pub user_seconds: f64,
    /// Processor time in the kernel, seconds.
    pub system_seconds: f64,
    /// Largest resident set of the process, bytes.
    pub peak_memory_bytes: u64,
    /// Bytes of data that the work is about.
    pub bytes: Option<u64>,
    /// Bytes that came over the wire, where something counts them.
    pub wire_bytes: Option<u64>,
    /// Requests on the wire or to the file system, where something counts them.
    pub requests: Option<u64>,
    /// Requests that were repeated.
    pub retries: Option<u64>,
    /// Bytes read from storage; divided by `bytes` these are the passes over the data.
    pub storage_bytes: Option<u64>,
    /// Figures that the contender printed itself: `ready_seconds`, `first_byte_seconds`,
    /// `operations_per_second`, ... Units are in the names. Of several jobs, the median of each.
    pub metrics: BTreeMap<String, f64>,
    /// The parallel jobs of the run, in order; empty for a run of one.
    pub jobs: Vec<Job>,
    /// Progress: seconds since the start and bytes so far.
    pub throughput: Vec<(f64, u64)>,
    /// The cache state and its evidence.
    pub cache: CacheEvidence,
    /// Disturbance of the machine during the run.
    pub noise: Noise,
}

/// One of the parallel jobs of a run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Job {
    /// Wall time in seconds, from the common start.
    pub seconds: f64,
    /// Processor time, seconds.
    pub cpu_seconds: f64,
    /// Largest resident set, bytes.
    pub peak_memory_bytes: u64,
    /// Bytes of data.
    pub bytes: Option<u64>,
    /// Figures that the job printed.
    pub metrics: BTreeMap<String, f64>,
}

/// Disturbance of the machine during a run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Noise {
    /// Processor seconds of the whole machine that neither the run nor the engine's own services
    /// used.
    pub other_cpu_seconds: Option<f64>,
    /// Processor seconds that the host gave to other machines.
    pub steal_seconds: Option<f64>,
}

impl Run {
    /// True if the run belongs in a summary: it ended well, is no warm-up and bears no mark.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.round > 0 && self.outcome == Outcome::Ok && self.marks.is_empty()
    }

    /// A figure by its name: see [`Goal::metric`].
    #[must_use]
    pub fn figure(&self, metric: &str) -> Option<f64> {
        let optional = |value: Option<u64>| value.map(|value| value as f64);
        match metric {
            "seconds" => Some(self.seconds),
            "user_seconds" => Some(self.user_seconds),
            "system_seconds" => Some(self.system_seconds),
            "cpu_seconds" => Some(self.user_seconds + self.system_seconds),
            "peak_memory_bytes" => Some(self.peak_memory_bytes as f64),
            "bytes_per_second" => self.bytes.map(|bytes| bytes as f64 / self.seconds),
            "wire_bytes" => optional(self.wire_bytes),
            "requests" => optional(self.requests),
            "retries" => optional(self.retries),
            // Behind a link or a mount, what crossed is what came from storage.
            "passes" => Some(self.wire_bytes.or(self.storage_bytes)? as f64 / self.bytes? as f64),
            name => self.metrics.get(name).copied(),
        }
    }
}

/// All of a results file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// Facts that all runs have in common.
    pub header: Header,
    /// The runs in the order in which they ended.
    pub runs: Vec<Run>,
}

/// The reason for which text is not a results file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The first line is something else.
    #[error("no results of firstbyte: the first line is no header")]
    NoHeader,
    /// The file comes from a newer build.
    #[error("these results have schema {0}, this build reads up to {SCHEMA}: use a newer firstbyte")]
    Newer(u32),
    /// A line is malformed. An incomplete last line is not an error: a process that was killed
    /// leaves one.
    #[error("line {line}: {cause}")]
    Line {
        /// From 1.
        line: usize,
        /// The parser's error.
        cause: serde_json::Error,
    },
}

impl Results {
    /// Reads the text of a results file. An incomplete last line is left out.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut lines = text.split_inclusive('\n').enumerate();
        let header = match lines.next().map(|(_, line)| serde_json::from_str(line)) {
            Some(Ok(Record::Header(header))) => *header,
            _ => return Err(Self::newer(text).unwrap_or(Error::NoHeader)),
        };
        if header.schema > SCHEMA {
            return Err(Error::Newer(header.schema));
        }
        let mut runs = Vec::new();
        for (index, line) in lines {
            match serde_json::from_str(line) {
                Ok(Record::Run(run)) => runs.push(*run),
                Ok(Record::Header(_)) => {}
                Err(_) if !line.ends_with('\n') || line.trim().is_empty() => {}
                Err(cause) => return Err(Error::Line { line: index + 1, cause }),
            }
        }
        Ok(Self { header, runs })
    }

    /// The error for a header of a newer schema, whatever else that header has.
    fn newer(text: &str) -> Option<Error> {
        let first: serde_json::Value = serde_json::from_str(text.lines().next()?).ok()?;
        let schema = u32::try_from(first.get("schema")?.as_u64()?).ok()?;
        (schema > SCHEMA).then_some(Error::Newer(schema))
    }

    /// The runs of one contender that count, in order.
    pub fn counted<'a>(&'a self, case: &'a str, contender: &'a str) -> impl Iterator<Item = &'a Run> {
        self.runs.iter().filter(move |run| run.case == case && run.contender == contender && run.counts())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(lines: &[&str]) -> String {
        let header = Record::Header(Box::new(Header { schema: SCHEMA, ..Header::default() }));
        let mut text = serde_json::to_string(&header).unwrap() + "\n";
        text.extend(lines.iter().copied());
        text
    }

    #[test]
    fn a_run_survives_writing_and_reading() {
        let run = Run {
            case: "one".into(),
            metrics: BTreeMap::from([("ready_seconds".into(), 0.5)]),
            throughput: vec![(0.1, 5)],
            ..Run::default()
        };
        let line = serde_json::to_string(&Record::Run(Box::new(run.clone()))).unwrap() + "\n";
        assert_eq!(Results::parse(&file(&[&line])).unwrap().runs, [run]);
    }

    #[test]
    fn an_incomplete_last_line_is_left_out_and_any_other_is_an_error() {
        assert!(Results::parse(&file(&["{\"record\":\"run\",\"ca"])).unwrap().runs.is_empty());
        assert!(matches!(Results::parse(&file(&["{\"rec\n"])), Err(Error::Line { line: 2, .. })));
    }

    #[test]
    fn other_text_and_newer_files_are_refused() {
        assert!(matches!(Results::parse("hello\n"), Err(Error::NoHeader)));
        assert!(matches!(Results::parse(""), Err(Error::NoHeader)));
        let newer = "{\"record\":\"preface\",\"schema\":99}\n";
        assert!(matches!(Results::parse(newer), Err(Error::Newer(99))));
    }
}
