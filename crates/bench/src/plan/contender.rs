//! A contender of a plan: its command, its limits, its cache state, and the check of its content.

use std::collections::BTreeMap;

use crate::result::{Basis, CacheState};
use firstbyte_location::units;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::job::program;
use crate::modelled::Modelled;
use crate::words::Words;

/// Smallest number of processors that the kernel shares out.
const MIN_CPUS: f64 = 0.01;
/// Largest number of processors.
const MAX_CPUS: f64 = 8_192.0;
/// Smallest limit of memory in bytes.
const MIN_MEMORY_BYTES: u64 = 1 << 20;

/// The words of a command, with placeholders.
pub type Command = Vec<String>;

/// A program or access that does the work of a case.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Contender {
    /// Name, unique in its case.
    pub name: String,
    /// Command to run and time.
    pub command: Command,
    /// Job to run instead of a command, by `{firstbyte} bench job`, which prints metrics. Its
    /// strings may contain placeholders.
    pub job: Option<Value>,
    /// Call of a function instead of a command. Each job makes one call.
    pub invoke: Option<Invoke>,
    /// Prediction by a service model instead of a command.
    pub modelled: Option<Modelled>,
    /// Words before a job's command, such as `srun`: they run the job on another machine with the
    /// same files.
    pub through: Command,
    /// Environment variables in addition to the engine's.
    pub env: BTreeMap<String, String>,
    /// Meaning of the standard output.
    pub prints: Prints,
    /// Number of jobs at once. `{job}` stands for a job's number, from 0.
    pub jobs: Option<Count>,
    /// Limit of the memory of all processes and their page cache, as a size.
    pub memory_limit: Option<String>,
    /// Limit of processors for all jobs together.
    pub cpus: Option<f64>,
    /// Memory of an emulated serverless function, as a size. Each job has this memory and the
    /// matching share of a processor to itself.
    pub function: Option<String>,
    /// True if functions may run in waves when the machine has no room for all at once: as many as
    /// fit, then the next. If false, the measurement is refused.
    pub waves: bool,
    /// Check of the content after each run.
    pub check: ContentCheck,
    /// Cache state of the runs.
    pub cache: CachePlan,
    /// Name of the link, a service that counts the contender's requests and bytes.
    pub link: Option<String>,
    /// Name of a service whose memory is sampled. Its largest resident memory, with its
    /// descendants, is the metric `server_peak_bytes`.
    pub server: Option<String>,
    /// Bytes of data that one job moves or reads, as a size.
    pub bytes: Option<String>,
    /// Billed reads of a run, if `target` and `bytes` do not define them.
    pub billed: Option<BilledReads>,
    /// Origin of the figures.
    pub basis: Basis,
    /// Workload, for reports.
    pub workload: String,
    /// Location, for reports.
    pub target: String,
    /// Parameters for charts: numbers, or sizes as text.
    #[serde(deserialize_with = "numbers")]
    pub parameters: BTreeMap<String, f64>,
    /// True if the contender is skipped, with a note, when its program is not installed. A job's
    /// program is fio or blastn.
    pub optional: bool,
    /// True if the program was found on the `PATH`, and the user has not named it. When it fails,
    /// it is left out with a note, and the measurement is complete without it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub found: bool,
    /// Programs that the contender needs in addition to its command's.
    pub requires: Vec<String>,
    /// Hint for installing the programs, shown in the note.
    pub install: String,
}

/// Billed reads of a run, if a contender's `bytes` do not define them. All texts may contain
/// placeholders.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct BilledReads {
    /// Location that is billed; empty for the contender's target.
    pub target: String,
    /// Bytes that one job reads from the service, as a size.
    pub bytes: String,
    /// Data requests of one job; empty for one request per block of 128 KiB.
    pub gets: String,
    /// List requests of one job; empty for one.
    pub lists: String,
    /// True if only the first run reads from the service, and later runs from a cache.
    pub once: bool,
    /// Storage class of the data, if its prices are not those of the service; otherwise empty.
    pub class: String,
}

/// A call of a function. All texts may contain placeholders. For the cache state `cold`, all calls
/// get new environments.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Invoke {
    /// Name of the function.
    pub function: String,
    /// Endpoint of the Invoke API; empty for AWS.
    pub endpoint: String,
    /// Memory of the function, as a size.
    pub memory: String,
    /// Timeout of the function in seconds.
    pub timeout: String,
    /// Event that describes the function's work.
    pub event: Value,
}

/// A number from 1, or text that becomes one when its placeholders are filled.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Count {
    /// A number.
    Number(u32),
    /// Text with placeholders.
    Text(String),
}

impl Count {
    /// Returns the number.
    pub(crate) fn number(&self, words: &Words) -> std::result::Result<u32, String> {
        let number = match self {
            Self::Number(number) => Ok(*number),
            Self::Text(text) => {
                let text = words.fill(text)?;
                text.trim().parse().map_err(|_| format!("{text:?} is no number from 1 on"))
            }
        };
        number.and_then(|number| if number == 0 { Err("at least one is needed".into()) } else { Ok(number) })
    }
}

/// The meaning of a contender's standard output.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Prints {
    /// No figures. Wall time is measured from outside.
    #[default]
    Nothing,
    /// The last line is a JSON object of numbers, the metrics. `seconds` replaces the wall time,
    /// `bytes` the bytes.
    Metrics,
    /// The last line is a receipt of firstbyte, whose numbers become metrics. Its `seconds` are the
    /// verb's own, so wall time is still measured from outside. `bound_by` is the limit of the run.
    Receipt,
}

/// The check of delivered content.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ContentCheck {
    /// File or directory that the destination must equal byte for byte.
    pub same: Option<String>,
    /// Path of the content; `None` for the run's destination.
    pub at: Option<String>,
    /// Command that must end with exit code 0.
    pub command: Command,
}

/// The cache state of a contender's runs, and the files and objects that are evidence for it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct CachePlan {
    /// The state.
    pub state: CacheState,
    /// Local files that the run reads.
    pub files: Vec<String>,
    /// Directories whose names the run lists.
    pub names: Vec<String>,
    /// Command before a cold run, which runs the program on a small input. Dropping names from the
    /// cache also drops programs, whose loading from a disk is not part of the measurement.
    pub start: Command,
    /// Object that the run reads through firstbyte's cache.
    pub object: Option<String>,
    /// Directory of that cache.
    pub dir: Option<String>,
}

impl Contender {
    /// Returns the words to run: the command, or this program with the job or call.
    pub(crate) fn words(&self, words: &Words) -> std::result::Result<Vec<String>, String> {
        let (verb, what) = match (&self.job, &self.invoke) {
            (Some(job), _) => ("job", fill_value(job, words)?),
            (None, Some(invoke)) => ("invoke", fill_value(&serde_json::json!(invoke), words)?),
            (None, None) => return words.fill_all(&self.command),
        };
        Ok(vec![words.fill("{firstbyte}")?, "bench".into(), verb.into(), what.to_string()])
    }

    /// Returns the global options of firstbyte in the job. They may contain placeholders.
    pub(crate) fn job_options(&self) -> impl Iterator<Item = &str> {
        let options = self.job.as_ref().and_then(|job| job.get("options")?.as_array());
        options.into_iter().flatten().filter_map(Value::as_str)
    }

    /// Returns the number of jobs.
    pub(crate) fn jobs(&self, words: &Words) -> std::result::Result<u32, String> {
        let number = self.jobs.as_ref().map_or(Ok(1), |jobs| jobs.number(words));
        number.map_err(|what| format!("contender {}: jobs: {what}", self.name))
    }

    /// Returns the program that the job runs, and its Debian package.
    pub(crate) fn needed_program(&self) -> Option<(&'static str, &'static str)> {
        match self.job.as_ref()?.get("workload")?.as_str()? {
            "fio" => Some(("fio", "fio")),
            "blast" => Some(("blastn", program::BLAST_PACKAGE)),
            _ => None,
        }
    }

    /// Returns the meaning of the standard output.
    pub(crate) fn prints(&self) -> Prints {
        if self.job.is_some() || self.invoke.is_some() { Prints::Metrics } else { self.prints }
    }

    /// Checks that the parts fit together.
    pub(super) fn validate(&self) -> std::result::Result<(), String> {
        let ways =
            [!self.command.is_empty(), self.job.is_some(), self.invoke.is_some(), self.modelled.is_some()];
        if ways.into_iter().filter(|given| *given).count() != 1 {
            return Err("either a command, a job, a call of a function or a model is needed".into());
        }
        if self.jobs == Some(Count::Number(0)) {
            return Err("0 jobs: at least one is needed".into());
        }
        if self.function.is_some() && (self.memory_limit.is_some() || self.cpus.is_some()) {
            return Err("function states memory and processors: leave out memory_limit and cpus".into());
        }
        if self.waves && self.function.is_none() {
            return Err("waves are of functions: say how large with function".into());
        }
        if let Some(cpus) = self.cpus.filter(|cpus| !(MIN_CPUS..=MAX_CPUS).contains(cpus)) {
            return Err(format!("cpus: {cpus} is not between {MIN_CPUS} and {MAX_CPUS}"));
        }
        // A size with a placeholder is parsed only before its run.
        if let Some(size) = self.memory_limit.as_ref().filter(|size| !size.contains('{')) {
            let bytes = units::parse_size(size).map_err(|error| format!("memory_limit: {error}"))?;
            if bytes < MIN_MEMORY_BYTES {
                return Err(format!("memory_limit: {size}: no program runs in less than 1MiB"));
            }
        }
        Ok(())
    }
}

/// Parses numbers and sizes, given as numbers or text.
fn numbers<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<BTreeMap<String, f64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum GivenNumber {
        Number(f64),
        Text(String),
    }
    let number = |(name, given): (String, GivenNumber)| {
        let value = match given {
            GivenNumber::Number(value) => value,
            GivenNumber::Text(text) => match text.parse() {
                Ok(value) => value,
                Err(_) => units::parse_size(&text).map_err(serde::de::Error::custom)? as f64,
            },
        };
        Ok((name, value))
    };
    BTreeMap::deserialize(from)?.into_iter().map(number).collect()
}

/// Returns a value with the placeholders in all its strings filled.
fn fill_value(value: &Value, words: &Words) -> std::result::Result<Value, String> {
    Ok(match value {
        Value::String(text) => Value::String(words.fill(text)?),
        Value::Array(all) => {
            Value::Array(all.iter().map(|one| fill_value(one, words)).collect::<std::result::Result<_, _>>()?)
        }
        Value::Object(all) => {
            let pair = |(name, value): (&String, &Value)| Ok((name.clone(), fill_value(value, words)?));
            Value::Object(all.iter().map(pair).collect::<std::result::Result<_, String>>()?)
        }
        other => other.clone(),
    })
}
