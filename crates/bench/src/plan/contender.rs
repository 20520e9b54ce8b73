//! A contender of a plan: what it runs, within which limits, in which cache state, and how its
//! content is checked.

use std::collections::BTreeMap;

use crate::result::{Basis, CacheState};
use firstbyte_location::units;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::job::program;
use crate::modelled::Modelled;
use crate::words::Words;

/// The words of a command, with placeholders.
pub type Command = Vec<String>;

/// One way to do the work of a case.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Contender {
    /// Unique in its case.
    pub name: String,
    /// The command that is run and timed.
    pub command: Command,
    /// Instead of a command: a workload of our own, run by `{firstbyte} bench job`. Its strings
    /// may have placeholders. It prints metrics.
    pub job: Option<Value>,
    /// Instead of a command: a call of a function. Each job is one call.
    pub invoke: Option<Invoke>,
    /// Instead of a command or a job: what a service model predicts.
    pub modelled: Option<Modelled>,
    /// Words before those of a job: a program that runs it on another machine with the same files.
    pub through: Command,
    /// Environment variables beside those of the engine.
    pub env: BTreeMap<String, String>,
    /// The meaning of its standard output.
    pub prints: Prints,
    /// Jobs that run at once, each with a placeholder `{job}` from 0.
    pub jobs: Option<Count>,
    /// Greatest memory of all its processes and their page cache: a size.
    pub memory_limit: Option<String>,
    /// Processors that it may use, all jobs together.
    pub cpus: Option<f64>,
    /// The memory of a serverless function, a size: each job has that memory and the share of a
    /// processor that goes with it to itself. Its figures are emulated.
    pub function: Option<String>,
    /// The behaviour if the machine does not hold all these functions at once. If true, as many as
    /// fit run at once, then the next. If false, the measurement is refused.
    pub waves: bool,
    /// The check of its content after each run.
    pub check: Check,
    /// The cache state that it is measured in.
    pub cache: Cache,
    /// A service that counts its requests and bytes: a link.
    pub link: Option<String>,
    /// A service whose memory is watched. Its greatest resident memory, with that of its child
    /// processes, is the metric `server_peak_bytes`.
    pub server: Option<String>,
    /// Bytes of data that one job moves or reads: a size.
    pub bytes: Option<String>,
    /// What a run reads of a service that bills it, where `target` and `bytes` do not say it.
    pub billed: Option<Billed>,
    /// The origin of its figures.
    pub basis: Basis,
    /// The workload, for reports.
    pub workload: String,
    /// The location, for reports.
    pub target: String,
    /// Parameters, for charts: numbers, or sizes as text.
    #[serde(deserialize_with = "numbers")]
    pub parameters: BTreeMap<String, f64>,
    /// True: the contender is left out, with a note, if its program is not installed. That of a job
    /// is fio or blastn.
    pub optional: bool,
    /// More programs that it needs, besides that of its command.
    pub requires: Vec<String>,
    /// The way to install them, for that note.
    pub install: String,
}

/// What a run reads of a service, where a contender's `bytes` do not say it. All texts may have
/// placeholders.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Billed {
    /// The location that is billed; empty: the contender's target.
    pub target: String,
    /// Bytes that one job brings: a size.
    pub bytes: String,
    /// Requests for data of one job; empty: one for each block of 128 KiB.
    pub gets: String,
    /// Requests for names of one job; empty: one.
    pub lists: String,
    /// True: only the first run reads it, later ones find it in a cache.
    pub once: bool,
}

/// A call of a function. All texts may have placeholders. For the cache state `cold`, all calls get
/// new environments.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Invoke {
    /// The function's name.
    pub function: String,
    /// The endpoint of the Invoke API; empty: that of AWS.
    pub endpoint: String,
    /// The memory that the function gets: a size.
    pub memory: String,
    /// The timeout that the function gets, in seconds.
    pub timeout: String,
    /// What the function is to do.
    pub event: Value,
}

/// A number from 1 on, or text that is one once its placeholders are filled.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Count {
    /// A number.
    Number(u32),
    /// Text with placeholders.
    Text(String),
}

impl Count {
    /// The number.
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
    /// Nothing to the engine; wall time is measured from outside.
    #[default]
    Nothing,
    /// Its last line is a JSON object of numbers: metrics. `seconds` among them replaces the wall
    /// time, `bytes` the bytes.
    Metrics,
    /// Its last line is a receipt of firstbyte: metrics, but for its `seconds`, which are those of
    /// the verb. Wall time is measured from outside. `bound_by` is the limit of the run.
    Receipt,
}

/// The check of delivered content.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Check {
    /// A file or a directory that the destination has to hold byte for byte.
    pub same: Option<String>,
    /// The place of the content; `None` for the run's destination.
    pub at: Option<String>,
    /// A command that has to end with exit code 0.
    pub command: Command,
}

/// The cache state that a contender is measured in, and what the evidence is taken from.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cache {
    /// The state.
    pub state: CacheState,
    /// Local files that the run reads.
    pub files: Vec<String>,
    /// Directories whose names the run lists.
    pub names: Vec<String>,
    /// A command before a cold run: the program on something small. Dropping names drops programs
    /// too, and their start from a disk is not what is measured.
    pub start: Command,
    /// The object that the run reads through firstbyte's cache.
    pub object: Option<String>,
    /// The directory of that cache.
    pub dir: Option<String>,
}

impl Contender {
    /// The words to run: the command, or the program with the job.
    pub(crate) fn words(&self, words: &Words) -> std::result::Result<Vec<String>, String> {
        let (verb, what) = match (&self.job, &self.invoke) {
            (Some(job), _) => ("job", filled(job, words)?),
            (None, Some(invoke)) => ("invoke", filled(&serde_json::json!(invoke), words)?),
            (None, None) => return words.fill_all(&self.command),
        };
        Ok(vec![words.fill("{firstbyte}")?, "bench".into(), verb.into(), what.to_string()])
    }

    /// The global options of firstbyte that its job has. They may have placeholders.
    pub(crate) fn job_options(&self) -> impl Iterator<Item = &str> {
        let options = self.job.as_ref().and_then(|job| job.get("options")?.as_array());
        options.into_iter().flatten().filter_map(Value::as_str)
    }

    /// The number of its jobs.
    pub(crate) fn jobs(&self, words: &Words) -> std::result::Result<u32, String> {
        let number = self.jobs.as_ref().map_or(Ok(1), |jobs| jobs.number(words));
        number.map_err(|what| format!("contender {}: jobs: {what}", self.name))
    }

    /// The program that its job runs and Debian's package of it.
    pub(crate) fn needed_program(&self) -> Option<(&'static str, &'static str)> {
        match self.job.as_ref()?.get("workload")?.as_str()? {
            "fio" => Some(("fio", "fio")),
            "blast" => Some(("blastn", program::BLAST)),
            _ => None,
        }
    }

    /// The meaning of its standard output.
    pub(crate) fn prints(&self) -> Prints {
        if self.job.is_some() || self.invoke.is_some() { Prints::Metrics } else { self.prints }
    }

    /// Whether its parts fit together.
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
        if self.cpus.is_some_and(|cpus| cpus <= 0.0 || !cpus.is_finite()) {
            return Err("cpus: a number above 0 is needed".into());
        }
        // One with a placeholder is read before its run.
        if let Some(size) = self.memory_limit.as_ref().filter(|size| !size.contains('{')) {
            units::parse_size(size).map_err(|error| format!("memory_limit: {error}"))?;
        }
        Ok(())
    }
}

/// Numbers, also as text: a number or a size.
fn numbers<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<BTreeMap<String, f64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        Number(f64),
        Text(String),
    }
    let number = |(name, given): (String, Given)| {
        let value = match given {
            Given::Number(value) => value,
            Given::Text(text) => match text.parse() {
                Ok(value) => value,
                Err(_) => units::parse_size(&text).map_err(serde::de::Error::custom)? as f64,
            },
        };
        Ok((name, value))
    };
    BTreeMap::deserialize(from)?.into_iter().map(number).collect()
}

/// A value with the placeholders in all its strings filled.
fn filled(value: &Value, words: &Words) -> std::result::Result<Value, String> {
    Ok(match value {
        Value::String(text) => Value::String(words.fill(text)?),
        Value::Array(all) => {
            Value::Array(all.iter().map(|one| filled(one, words)).collect::<std::result::Result<_, _>>()?)
        }
        Value::Object(all) => {
            let pair = |(name, value): (&String, &Value)| Ok((name.clone(), filled(value, words)?));
            Value::Object(all.iter().map(pair).collect::<std::result::Result<_, String>>()?)
        }
        other => other.clone(),
    })
}
