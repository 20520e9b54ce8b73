//! The schema of a results file: JSON lines, one [`Record`] each.
//!
//! The first line is a [`Header`]. Every other line is a [`Run`], written as soon as it ended. A
//! file is never rewritten, so a killed process loses at most the current run. Readers compute
//! summaries (see [`crate::statistics`]); the file has none. Called by `bench`, which writes and
//! reads files, and by `advise`, which calibrates its models by them.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::table::Table;

/// Version of this schema. A reader refuses a file with a higher version in its header.
pub const SCHEMA: u32 = 1;

/// A line of a results file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// Facts common to all runs of the file.
    Header(Box<Header>),
    /// A measurement.
    Run(Box<Run>),
}

/// Facts common to all runs of a file.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Header {
    /// Version of the schema, see [`SCHEMA`].
    pub schema: u32,
    /// Version of the firstbyte that made the measurement.
    pub firstbyte: String,
    /// Command line, without the program's name.
    pub command: Vec<String>,
    /// Digest of the plan. A file is continued only by the same plan.
    pub plan_digest: String,
    /// Time at which the measurement began, RFC 3339 in UTC.
    pub started: String,
    /// Machine that made the measurement.
    pub machine: Machine,
    /// Cases of the plan, in order.
    pub cases: Vec<Case>,
    /// Tables that set published figures beside those of the runs.
    pub tables: Vec<Table>,
}

/// The machine that made the measurement.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Machine {
    /// Name of the processor, as reported by the kernel.
    pub cpu: String,
    /// Number of processors that the process may use.
    pub processors: usize,
    /// Memory that the process may use, in bytes: the machine's, or its cgroup's limit if less.
    pub memory_bytes: u64,
    /// Name and release of the kernel.
    pub kernel: String,
    /// Architecture, for example `x86_64`.
    pub architecture: String,
    /// The cgroup and its limits, one `name=value` each. Empty without limits.
    pub cgroup: Vec<String>,
    /// File systems of targets and stages: `PATH: TYPE on DEVICE (OPTIONS)`.
    pub mounts: Vec<String>,
    /// Versions of the contenders' programs, by name.
    pub versions: BTreeMap<String, String>,
    /// Region, from the metadata of the instance or function, if available.
    pub region: Option<String>,
    /// Instance type or function memory, from metadata or the environment, if available.
    pub instance_type: Option<String>,
}

/// A comparison: contenders that do the same work.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Case {
    /// Name, unique in the file: letters, digits, `-`, `_`, `/`, `.`.
    pub name: String,
    /// Title for readers, one line.
    pub title: String,
    /// Notes for readers, one paragraph each.
    pub notes: Vec<String>,
    /// Contender that goals check, and with which ratios compare the others; empty for the first.
    pub subject: String,
    /// Contenders, in order, each with a command line that a reader can repeat.
    pub contenders: Vec<ContenderLine>,
    /// Bounds that the case's figures must keep.
    pub goals: Vec<Goal>,
    /// Rounds planned; each contender runs once per round.
    pub rounds: u32,
    /// Stand-ins between the contenders and their targets, each with its numbers: `link function:
    /// 0.6 Gbit/s sustained, 20 ms`.
    pub stand_ins: Vec<String>,
}

/// A contender, with the command line for readers.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct ContenderLine {
    /// Name, unique in its case.
    pub name: String,
    /// Command line. Generated paths are replaced by words such as `$OUT`.
    pub command: String,
    /// Workload, for example `one-big`; empty for a plain command.
    pub workload: String,
    /// Location that is read; empty if only the command names it.
    pub target: String,
    /// Parameters by name, for charts: `size_bytes`, `jobs`, `memory_bytes`, `chunk_bytes`, ...
    pub parameters: BTreeMap<String, f64>,
    /// True if the program was found on the `PATH`, and the user has not named it.
    pub found: bool,
}

/// A bound on a figure of a case.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Goal {
    /// Figure: `seconds`, `user_seconds`, `system_seconds`, `peak_memory_bytes`, or the name of one
    /// of a run's metrics.
    pub metric: String,
    /// Contender to which the bound applies; empty for the case's subject.
    pub of: String,
    /// Contender by whose figure to divide, or `best` for the best other contender. `None` bounds
    /// the figure itself.
    pub over: Option<String>,
    /// Largest value that meets the goal.
    pub at_most: Option<f64>,
    /// Smallest value that meets the goal.
    pub at_least: Option<f64>,
}

impl Case {
    /// Returns the contender that goals check, and with which ratios compare the others. Empty
    /// without contenders.
    #[must_use]
    pub fn subject(&self) -> &str {
        subject(&self.subject, self.contenders.first().map(|first| &first.name))
    }
}

/// Returns the subject of a case: the contender `named`, or the `first` one if that name is empty.
pub(crate) fn subject<'a>(named: &'a str, first: Option<&'a String>) -> &'a str {
    first.filter(|_| named.is_empty()).map_or(named, String::as_str)
}

/// The origin of a figure. A less certain origin compares greater.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Measured on the real service or machine.
    #[default]
    Measured,
    /// Measured through a stand-in.
    Emulated,
    /// Computed by a model.
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
    /// The state is not controlled.
    #[default]
    Any,
    /// No data is cached on this machine.
    Cold,
    /// All data is in the page cache.
    Warm,
    /// All data is in firstbyte's cache on disk.
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
    /// State that the plan requires.
    pub wanted: CacheState,
    /// True if evidence proves that state, false if evidence contradicts it, `None` if neither.
    pub held: Option<bool>,
    /// Observations before and after the run, one sentence each: `before: 0 of 268435456 bytes in
    /// the page cache (cachestat)`.
    pub evidence: Vec<String>,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Completed, with the right content.
    #[default]
    Ok,
    /// Failed with an error.
    Failed,
    /// Ended by the engine at the timeout of a run.
    TimedOut,
    /// Delivered wrong content.
    Wrong,
}

/// A measurement of a contender.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Run {
    /// Name of the case.
    pub case: String,
    /// Name of the contender.
    pub contender: String,
    /// Round, from 1; 0 is the warm-up, which is kept out of summaries.
    pub round: u32,
    /// Position within the round, from 0.
    pub position: u32,
    /// Start time, RFC 3339 in UTC.
    pub at: String,
    /// The origin of the figures.
    pub basis: Basis,
    /// The result of the run.
    pub outcome: Outcome,
    /// Error of a run that was not [`Ok`](Outcome::Ok), in one line.
    pub error: Option<String>,
    /// Reasons to keep this run out of the summary, one sentence each; usually empty.
    pub marks: Vec<String>,
    /// Limiting resource according to a model, or to `bound_by` of a receipt.
    pub limit: Option<String>,
    /// Wall time in seconds.
    pub seconds: f64,
    /// Processor time in user mode, in seconds.
    pub user_seconds: f64,
    /// Processor time in the kernel, in seconds.
    pub system_seconds: f64,
    /// Largest resident set of the process, in bytes.
    pub peak_memory_bytes: u64,
    /// Bytes of data that the work reads or moves.
    pub bytes: Option<u64>,
    /// Bytes sent and received over the network, if counted. A link counts only the received ones.
    pub wire_bytes: Option<u64>,
    /// Requests on the network or to the file system, if counted.
    pub requests: Option<u64>,
    /// Repeated requests.
    pub retries: Option<u64>,
    /// Bytes read from storage.
    pub storage_bytes: Option<u64>,
    /// Figures that the contender printed itself: `ready_seconds`, `first_byte_seconds`,
    /// `operations_per_second`, ... Each name contains the unit. For several jobs, each figure is
    /// their median.
    pub metrics: BTreeMap<String, f64>,
    /// Parallel jobs of the run, in order; empty for a single job.
    pub jobs: Vec<JobFigures>,
    /// Progress: seconds since the start, with the bytes so far.
    pub throughput: Vec<(f64, u64)>,
    /// The cache state and its evidence.
    pub cache: CacheEvidence,
    /// Disturbance of the machine during the run.
    pub noise: Noise,
}

/// Figures of one of the parallel jobs of a run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct JobFigures {
    /// Wall time in seconds, from the common start.
    pub seconds: f64,
    /// Processor time in seconds.
    pub cpu_seconds: f64,
    /// Largest resident set in bytes.
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
    /// Processor seconds used on the machine, without those of the run and of the plan's services.
    pub other_cpu_seconds: Option<f64>,
    /// Processor seconds that the host of a virtual machine gave to other machines.
    pub steal_seconds: Option<f64>,
}

impl Run {
    /// True if the run belongs in a summary: it succeeded, is not a warm-up and has no mark.
    #[must_use]
    pub fn is_in_summary(&self) -> bool {
        self.round > 0 && self.outcome == Outcome::Ok && self.marks.is_empty()
    }

    /// Returns a figure by its name: see [`Goal::metric`].
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
            // Through a link or a mount, the bytes on the wire are those read from storage.
            "passes" => Some(self.wire_bytes.or(self.storage_bytes)? as f64 / self.bytes? as f64),
            name => self.metrics.get(name).copied(),
        }
    }
}

/// The contents of a results file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// Facts that all runs have in common.
    pub header: Header,
    /// The runs in the order in which they ended.
    pub runs: Vec<Run>,
}

/// The reason why text is not a results file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The first line is not a header.
    #[error("no results of firstbyte: the first line is no header")]
    NoHeader,
    /// The file was written by a newer build.
    #[error("these results have schema {0}, this build reads up to {SCHEMA}: use a newer firstbyte")]
    Newer(u32),
    /// A line is malformed. An incomplete last line is not an error, because a killed process
    /// leaves one.
    #[error("line {line}: {cause}")]
    Line {
        /// Line number, from 1.
        line: usize,
        /// The parser's error.
        cause: serde_json::Error,
    },
}

impl Results {
    /// Parses the text of a results file. Ignores an incomplete last line.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut lines = text.split_inclusive('\n').enumerate();
        let header = match lines.next().map(|(_, line)| serde_json::from_str(line)) {
            Some(Ok(Record::Header(header))) => *header,
            _ => return Err(Self::newer_schema_error(text).unwrap_or(Error::NoHeader)),
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

    /// Returns the error for a header of a newer schema, even if the rest of the header cannot be
    /// parsed.
    fn newer_schema_error(text: &str) -> Option<Error> {
        let first: serde_json::Value = serde_json::from_str(text.lines().next()?).ok()?;
        let schema = u32::try_from(first.get("schema")?.as_u64()?).ok()?;
        (schema > SCHEMA).then_some(Error::Newer(schema))
    }

    /// Returns the runs that failed. A program that was found and fails is left out, so its runs do
    /// not count as failed.
    pub fn failed(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| run.outcome != Outcome::Ok && !self.is_found(run))
    }

    /// True for a run of a program that was found on the `PATH` and that the user has not named.
    fn is_found(&self, run: &Run) -> bool {
        let of = self.header.cases.iter().find(|case| case.name == run.case);
        let line = of.and_then(|case| case.contenders.iter().find(|line| line.name == run.contender));
        line.is_some_and(|line| line.found)
    }

    /// Returns the error of a contender's last failed run. `None` if a summary has any of its runs.
    #[must_use]
    pub fn error_of(&self, case: &str, contender: &str) -> Option<&str> {
        let failed =
            |run: &&Run| run.case == case && run.contender == contender && run.outcome != Outcome::Ok;
        let last = self.runs.iter().rfind(failed)?;
        self.counted(case, contender).next().is_none().then(|| last.error.as_deref().unwrap_or_default())
    }

    /// Returns the runs of one contender that belong in a summary, in order.
    pub fn counted<'a>(&'a self, case: &'a str, contender: &'a str) -> impl Iterator<Item = &'a Run> {
        let of = move |run: &&Run| run.case == case && run.contender == contender;
        self.runs.iter().filter(of).filter(|run| run.is_in_summary())
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
    fn an_incomplete_last_line_is_ignored_and_any_other_is_an_error() {
        assert!(Results::parse(&file(&["{\"record\":\"run\",\"ca"])).unwrap().runs.is_empty());
        assert!(matches!(Results::parse(&file(&["{\"rec\n"])), Err(Error::Line { line: 2, .. })));
    }

    #[test]
    fn a_program_that_was_found_and_fails_is_no_failure_of_the_measurement() {
        let line = |name: &str, found| ContenderLine { name: name.into(), found, ..Default::default() };
        let case = Case {
            name: "one".into(),
            contenders: vec![line("own", false), line("rclone", true)],
            ..Default::default()
        };
        let run = |contender: &str, outcome| Run {
            case: "one".into(),
            contender: contender.into(),
            round: 1,
            outcome,
            error: Some(format!("{contender} failed")),
            ..Run::default()
        };
        let runs = vec![run("own", Outcome::Ok), run("rclone", Outcome::Failed)];
        let mut results = Results { header: Header { cases: vec![case], ..Default::default() }, runs };
        assert_eq!(results.failed().count(), 0);
        assert_eq!(results.error_of("one", "rclone"), Some("rclone failed"));
        assert_eq!(results.error_of("one", "own"), None);
        results.runs.push(run("own", Outcome::Wrong));
        assert_eq!((results.failed().count(), results.error_of("one", "own")), (1, None));
    }

    #[test]
    fn other_text_and_newer_files_are_refused() {
        assert!(matches!(Results::parse("hello\n"), Err(Error::NoHeader)));
        assert!(matches!(Results::parse(""), Err(Error::NoHeader)));
        let newer = "{\"record\":\"preface\",\"schema\":99}\n";
        assert!(matches!(Results::parse(newer), Err(Error::Newer(99))));
    }
}
