//! A plan: the data, services and contenders of a measurement, as TOML or made by the command line.
//!
//! A plan is a value: nothing here touches files or processes. Every word of a command may have
//! placeholders such as `{data}`, see `words.rs`. The engine executes a plan; `bench run` and the
//! suites make plans, and `peers/*.toml` are those of the published benchmarks.

mod checks;

use std::borrow::Cow;
use std::collections::BTreeMap;

use firstbyte_advise::result::{Basis, CacheState, Goal};
use firstbyte_advise::table::Table;
use firstbyte_location::units;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{Error, Result};
use crate::inherit;
use crate::job::program;
use crate::modelled::Modelled;
use crate::sweep;
use crate::words::Words;

/// A measurement: data, services, and cases one after another.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    /// Name, for messages.
    pub name: String,
    /// Values that a command line may replace, by name: `size = "1GiB"`.
    pub vars: BTreeMap<String, String>,
    /// Environment variables of contenders and commands, not of services.
    pub env: BTreeMap<String, String>,
    /// The services that cases have in common. Each case starts its own.
    pub services: Vec<Service>,
    /// The data that cases have in common. Each case makes its own.
    pub data: Vec<Data>,
    /// The comparisons.
    #[serde(rename = "case")]
    pub cases: Vec<Case>,
    /// Tables that set figures of these cases beside published ones.
    #[serde(rename = "table")]
    pub tables: Vec<Table>,
}

/// A comparison: contenders that do the same work.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Case {
    /// Unique in the plan.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Notes for readers, a paragraph each.
    pub notes: Vec<String>,
    /// Name of an earlier case. Fields that this case does not set are copied from it; `vars` and
    /// `env` are merged.
    pub like: Option<String>,
    /// Names of the plan's data and services that this case needs; absent: all of them.
    pub uses: Option<Vec<String>>,
    /// Variables of the plan that must not be empty; otherwise the case is left out. A suite has
    /// two kinds of cases: those that need a target, and those that start a local stand-in instead.
    /// [`Plan::choose_cases`] chooses between them.
    pub needs: Vec<String>,
    /// Values of placeholders, before those of the plan.
    pub vars: BTreeMap<String, String>,
    /// Environment variables, before those of the plan.
    pub env: BTreeMap<String, String>,
    /// Data of this case alone, made before its services start.
    pub data: Vec<Data>,
    /// Services of this case alone, started in order and ended with the case.
    pub services: Vec<Service>,
    /// Commands that prepare the services or the data, run once.
    pub setup: Vec<Command>,
    /// Commands before each run, untimed: they bring all contenders to the same state.
    pub before: Vec<Command>,
    /// Commands after each run, untimed, after its content was checked.
    pub after: Vec<Command>,
    /// The contenders.
    #[serde(rename = "contender")]
    pub contenders: Vec<Contender>,
    /// The contender that ratios are about; empty: the first.
    pub subject: String,
    /// Bounds to hold.
    pub goals: Vec<Goal>,
    /// Rounds that are measured, after one that is not.
    pub rounds: u32,
    /// After so many seconds the case ends with its third round.
    pub seconds: f64,
    /// The longest that a run may take, seconds.
    pub timeout: f64,
    /// The place of destinations: `memory` or `disk`.
    pub destination: Place,
    /// True: destinations stay until the case ends. ext4 makes no inode of one that was deleted
    /// within the last half minute, so deleting a thousand slows the next thousand down.
    pub keep: bool,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            name: String::new(),
            title: String::new(),
            notes: Vec::new(),
            like: None,
            uses: None,
            needs: Vec::new(),
            vars: BTreeMap::new(),
            env: BTreeMap::new(),
            data: Vec::new(),
            services: Vec::new(),
            setup: Vec::new(),
            before: Vec::new(),
            after: Vec::new(),
            contenders: Vec::new(),
            subject: String::new(),
            goals: Vec::new(),
            rounds: 5,
            seconds: 150.0,
            timeout: 240.0,
            destination: Place::Memory,
            keep: false,
        }
    }
}

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
    /// Instead of a command or a job: what a service model predicts.
    pub modelled: Option<Modelled>,
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
    ///
    /// # Errors
    /// A placeholder has no value, or the text is no such number.
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

/// The medium of a stage.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// tmpfs: no disk hides a difference. Its files are always in memory, so they are never cold.
    #[default]
    Memory,
    /// The file system of the temporary directory.
    Disk,
}

/// Data made from a seed.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Data {
    /// Its path is `{data.NAME}`; that of all data of a case is `{data}`, or `{data.disk}`.
    pub name: String,
    /// The kind of data.
    pub kind: DataKind,
    /// A subdirectory of the stage, for data below the root of a service.
    pub under: String,
    /// Bytes of a file.
    pub size: Option<String>,
    /// Number of files.
    pub files: Option<String>,
    /// Directories of a tree.
    pub directories: Option<String>,
    /// Bytes of each of many files: `10KiB..100KiB`.
    pub file_size: Option<String>,
    /// Most bytes of a volume of a BLAST database.
    pub volume: Option<String>,
    /// Number of BLAST queries.
    pub sequences: Option<String>,
    /// Content is a function of the seed.
    pub seed: u64,
    /// The medium that the data is made on.
    pub place: Place,
}

/// Kinds of data.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DataKind {
    /// One file that does not compress.
    #[default]
    File,
    /// One directory of files that do not compress.
    Files,
    /// One directory of empty files.
    Names,
    /// The same names, as links to few inodes. To a listing they are alike, and they are made in a
    /// tenth of the time.
    Links,
    /// Directories of empty files.
    Tree,
    /// An empty directory.
    Directory,
    /// A directory with a BLAST database `db` of about `size` bytes in volumes.
    Blast,
    /// A file of queries, each a piece of the BLAST database of that `size` and seed.
    Queries,
}

/// A server that runs while its case does.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Service {
    /// Its placeholders are `{NAME.port}`, `{NAME.url}`, `{NAME.dir}`, `{NAME.pid}`.
    pub name: String,
    /// The command; `{port}` is a free port and `{dir}` a directory of its own.
    pub command: Command,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// Files below `{dir}` with placeholders, by name: configurations.
    pub files: BTreeMap<String, String>,
    /// The sign that the service is ready.
    pub ready: Ready,
    /// Commands that fill it once it is ready.
    pub setup: Vec<Command>,
    /// `http` unless given.
    pub scheme: String,
    /// Programs without which it is not started, and has port 0: contenders that are left out for
    /// the same reason need it.
    pub requires: Vec<String>,
    /// The stand-in that this service provides, with its numbers: `link function: 0.6 Gbit/s, 20
    /// ms`.
    pub stand_in: Option<String>,
    /// True: each job of a run has one of its own, and its placeholders are those of the job's own
    /// in what is about one job: its command, environment, cache state and check.
    pub for_each_job: bool,
}

/// The sign that a service is ready.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ready {
    /// Once it accepts connections on `{port}`.
    #[default]
    Port,
    /// Once it prints a line with `HOST:PORT`, as `serve` and `link` do: that is `{NAME.port}`.
    Address,
    /// Once it prints any line.
    Line,
}

impl Plan {
    /// Parses a plan and replaces `vars` by those given.
    ///
    /// # Errors
    /// The text is no plan, a variable is not one of its own, or the plan contradicts itself.
    pub fn parse(name: &str, text: &str, vars: &BTreeMap<String, String>) -> Result<Self> {
        let wrong = |what: String| Error::Plan { plan: name.to_owned(), what };
        let located = |error: toml::de::Error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            wrong(format!("line {line}: {}", error.message().replace('\n', ", ")))
        };
        let mut table = DeTable::parse(text).map_err(located)?;
        inherit::complete_cases(table.get_mut()).map_err(wrong)?;
        let words = set_vars(table.get_mut(), vars).map_err(wrong)?;
        sweep::expand(table.get_mut(), &words).map_err(wrong)?;
        let mut plan = Self::deserialize(toml::Deserializer::from(table)).map_err(located)?;
        if plan.name.is_empty() {
            name.clone_into(&mut plan.name);
        }
        plan.fill_texts(&words);
        plan.validate().map_err(wrong)?;
        Ok(plan)
    }

    /// The data of a case: what it uses of the plan's, then its own.
    pub(crate) fn data_of<'a>(&'a self, case: &'a Case) -> impl Iterator<Item = &'a Data> {
        self.data.iter().filter(|data| case.needs(&data.name)).chain(&case.data)
    }

    /// The services of a case: what it uses of the plan's, then its own.
    pub(crate) fn services_of<'a>(&'a self, case: &'a Case) -> impl Iterator<Item = &'a Service> {
        self.services.iter().filter(|service| case.needs(&service.name)).chain(&case.services)
    }
}

impl Case {
    /// The contender that ratios are about.
    #[must_use]
    pub fn subject(&self) -> &str {
        match self.contenders.first() {
            Some(first) if self.subject.is_empty() => &first.name,
            _ => &self.subject,
        }
    }

    /// True if it has a contender of this name.
    fn has(&self, name: &str) -> bool {
        self.contenders.iter().any(|contender| contender.name == name)
    }

    /// True if it needs the data or the service of this name, which the plan has.
    fn needs(&self, name: &String) -> bool {
        self.uses.as_ref().is_none_or(|uses| uses.contains(name))
    }

    fn validate(&self) -> std::result::Result<(), String> {
        if self.contenders.is_empty() {
            return Err("no contenders".into());
        }
        unique("contender", self.contenders.iter().map(|contender| &contender.name))?;
        for goal in &self.goals {
            let named = [Some(goal.of.as_str()).filter(|of| !of.is_empty()), goal.over.as_deref()];
            if let Some(unknown) = named.into_iter().flatten().find(|name| *name != "best" && !self.has(name))
            {
                return Err(format!("a goal names {unknown:?}, which is not a contender"));
            }
        }
        for contender in &self.contenders {
            contender.validate().map_err(|what| format!("contender {}: {what}", contender.name))?;
        }
        Ok(())
    }
}

impl Contender {
    /// The words to run: the command, or the program with the job.
    ///
    /// # Errors
    /// A placeholder has no value.
    pub(crate) fn words(&self, words: &Words) -> std::result::Result<Vec<String>, String> {
        let Some(job) = &self.job else { return words.fill_all(&self.command) };
        let job = filled(job, words)?.to_string();
        Ok(vec![words.fill("{firstbyte}")?, "bench".into(), "job".into(), job])
    }

    /// The number of its jobs.
    ///
    /// # Errors
    /// A placeholder has no value, or it is no number from 1 on.
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
        if self.job.is_some() { Prints::Metrics } else { self.prints }
    }

    fn validate(&self) -> std::result::Result<(), String> {
        let ways = [!self.command.is_empty(), self.job.is_some(), self.modelled.is_some()];
        if ways.into_iter().filter(|given| *given).count() != 1 {
            return Err("either a command, a job or a model is needed".into());
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

/// Replaces the variables of a plan by those given, and returns all of them.
fn set_vars(plan: &mut DeTable<'_>, given: &BTreeMap<String, String>) -> std::result::Result<Words, String> {
    let mut none = DeTable::new();
    let vars = match plan.get_mut("vars").map(Spanned::get_mut) {
        Some(DeValue::Table(vars)) => vars,
        _ => &mut none,
    };
    for (name, value) in given {
        let Some(old) = vars.get_mut(name.as_str()) else {
            let known = vars.keys().map(|known| known.get_ref().as_ref()).collect::<Vec<_>>().join(", ");
            return Err(format!("no variable {name}; it has: {known}"));
        };
        *old.get_mut() = DeValue::String(Cow::Owned(value.clone()));
    }
    let mut words = Words::default();
    for (name, value) in &*vars {
        words.set(name.get_ref().as_ref(), value.get_ref().as_str().unwrap_or_default());
    }
    Ok(words)
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

/// Whether names are unique and fit for the names of files.
fn unique<'a>(what: &str, names: impl Iterator<Item = &'a String>) -> std::result::Result<(), String> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        if name.is_empty() {
            return Err(format!("a {what} without a name"));
        }
        if !seen.insert(name) {
            return Err(format!("two {what}s are called {name:?}"));
        }
    }
    Ok(())
}
