//! A plan: the data, services and contenders of a measurement, as TOML or made by the command line.
//!
//! A plan is a value: this module touches neither files nor processes. Every word of a command may
//! contain placeholders such as `{data}`, see `words.rs`. The engine executes a plan. `bench run`
//! and the suites make plans; `peers/*.toml` are the plans of the published benchmarks.

mod checks;
mod contender;

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::result::{Goal, subject};
use crate::table::Table;
use serde::{Deserialize, Serialize};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{Error, Result};
use crate::inherit;
use crate::sweep;
use crate::words::Words;

pub use contender::{BilledReads, CachePlan, Command, Contender, ContentCheck, Count, Invoke, Prints};

/// A measurement: data, services, and cases one after another.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    /// Name of the plan, for messages.
    pub name: String,
    /// Variables that a command line may replace, by name: `size = "1GiB"`.
    pub vars: BTreeMap<String, String>,
    /// Environment variables of contenders and commands, not of services.
    pub env: BTreeMap<String, String>,
    /// Services shared by the cases. Each case starts its own instances.
    pub services: Vec<Service>,
    /// Data shared by the cases. Each case makes its own copy.
    pub data: Vec<Data>,
    /// Cases to measure.
    #[serde(rename = "case")]
    pub cases: Vec<Case>,
    /// Tables that show figures of these cases beside published ones.
    #[serde(rename = "table")]
    pub tables: Vec<Table>,
}

/// A comparison: contenders that do the same work.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Case {
    /// Name, unique in the plan.
    pub name: String,
    /// Title for readers, one line.
    pub title: String,
    /// Notes for readers, one paragraph each.
    pub notes: Vec<String>,
    /// Name of an earlier case. Fields that this case does not set are copied from it; `vars` and
    /// `env` are merged.
    pub like: Option<String>,
    /// Names of the plan's data and services that this case needs; `None` for all of them.
    pub uses: Option<Vec<String>>,
    /// Variables of the plan that the case needs; if one is empty, the case is skipped. A suite has
    /// two kinds of cases: those that need a target, and those that start a local stand-in instead.
    /// [`Plan::choose_cases`] chooses between them.
    pub needs: Vec<String>,
    /// Values of placeholders. They take precedence over the plan's.
    pub vars: BTreeMap<String, String>,
    /// Environment variables. They take precedence over the plan's.
    pub env: BTreeMap<String, String>,
    /// Data of this case only, made before its services start.
    pub data: Vec<Data>,
    /// Services of this case only, started in order and ended with the case.
    pub services: Vec<Service>,
    /// Commands that prepare the services or the data, run once.
    pub setup: Vec<Command>,
    /// Commands before each run, untimed. They give all contenders the same initial state.
    pub before: Vec<Command>,
    /// Commands after each run, untimed, after the check of its content.
    pub after: Vec<Command>,
    /// The contenders.
    #[serde(rename = "contender")]
    pub contenders: Vec<Contender>,
    /// Contender with which ratios compare the others; empty for the first.
    pub subject: String,
    /// Bounds that the figures must keep.
    pub goals: Vec<Goal>,
    /// Number of measured rounds.
    pub rounds: u32,
    /// True if an unmeasured round comes first. Cases of copies over a slow link do without it,
    /// because nothing gets warm.
    pub warm_up: bool,
    /// Seconds after which the case ends, but not before its third round.
    pub seconds: f64,
    /// Timeout of a run in seconds.
    pub timeout: f64,
    /// Medium of the destinations: `memory` or `disk`.
    pub destination: Medium,
    /// True if destinations stay until the measurement ends. ext4 does not reuse an inode within
    /// half a minute of its deletion, so deleting a thousand files would slow down the next
    /// thousand.
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
            warm_up: true,
            seconds: 150.0,
            timeout: 240.0,
            destination: Medium::Memory,
            keep: false,
        }
    }
}

impl Case {
    /// Returns the number of runs of each contender, warm-up included. `rounds` replaces the
    /// plan's.
    #[must_use]
    pub fn runs(&self, rounds: Option<u32>) -> u32 {
        rounds.unwrap_or(self.rounds) + u32::from(self.warm_up)
    }
}

/// The medium of a stage, the directory for the data or the destinations of a case.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Medium {
    /// tmpfs, where no slow disk hides a difference. Files are always in memory, so they are never
    /// cold.
    #[default]
    Memory,
    /// The file system of the directory for temporary files.
    Disk,
}

/// Data made from a seed.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Data {
    /// Name. `{data.NAME}` is the path of this data. `{data}` and `{data.disk}` are the directories
    /// of all data of a case, one per medium.
    pub name: String,
    /// The kind of data.
    pub kind: DataKind,
    /// Subdirectory of the stage, for data below the root of a service.
    pub under: String,
    /// Size of a file in bytes.
    pub size: Option<String>,
    /// Number of files.
    pub files: Option<String>,
    /// Number of directories of a tree.
    pub directories: Option<String>,
    /// Sizes of many files, such as `10KiB..100KiB`.
    pub file_size: Option<String>,
    /// Largest volume of a BLAST database, in bytes.
    pub volume: Option<String>,
    /// Number of BLAST queries.
    pub sequences: Option<String>,
    /// Seed of the content.
    pub seed: u64,
    /// Medium that the data is made on.
    pub place: Medium,
}

/// Kinds of data.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DataKind {
    /// A file that does not compress.
    #[default]
    File,
    /// A directory of files that do not compress.
    Files,
    /// A directory of empty files.
    Names,
    /// The same names, as links to few inodes. A listing shows no difference, and making links
    /// takes a tenth of the time.
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

/// A server that runs during its case.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Service {
    /// Name, for the placeholders `{NAME.port}`, `{NAME.url}`, `{NAME.dir}` and `{NAME.pid}`.
    pub name: String,
    /// Command. `{port}` stands for a free port and `{dir}` for the service's directory.
    pub command: Command,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// Files to make below `{dir}`, by name, such as configurations. Their text may have
    /// placeholders.
    pub files: BTreeMap<String, String>,
    /// The sign that the service is ready.
    pub ready: Ready,
    /// Commands that fill the service once it is ready.
    pub setup: Vec<Command>,
    /// URL scheme; `http` if empty.
    pub scheme: String,
    /// Programs without which the service is not started. Its port is then 0, and contenders that
    /// require the same programs are skipped.
    pub requires: Vec<String>,
    /// Stand-in that this service provides, with its numbers: `link function: 0.6 Gbit/s, 20 ms`.
    pub stand_in: Option<String>,
    /// True if each job of a run has its own instance. In a job's command, environment, cache state
    /// and check, the placeholders are then those of the job's instance.
    pub for_each_job: bool,
}

/// The sign that a service is ready.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ready {
    /// The service accepts connections on `{port}`.
    #[default]
    Port,
    /// The service prints a line with `HOST:PORT`, as `serve` and `link` do; this sets
    /// `{NAME.port}`.
    Address,
    /// The service prints any line.
    Line,
}

impl Plan {
    /// Parses a plan, with `vars` replacing its variables.
    ///
    /// # Errors
    /// The text is not a plan, has no variable of a given name, or contradicts itself.
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

    /// Returns the data of a case: the plan's that it uses, then its own.
    pub(crate) fn data_of<'a>(&'a self, case: &'a Case) -> impl Iterator<Item = &'a Data> {
        self.data.iter().filter(|data| case.needs(&data.name)).chain(&case.data)
    }

    /// Returns the services of a case: the plan's that it uses, then its own.
    pub(crate) fn services_of<'a>(&'a self, case: &'a Case) -> impl Iterator<Item = &'a Service> {
        self.services.iter().filter(|service| case.needs(&service.name)).chain(&case.services)
    }
}

impl Case {
    /// Returns the contender with which ratios compare the others.
    #[must_use]
    pub fn subject(&self) -> &str {
        subject(&self.subject, self.contenders.first().map(|first| &first.name))
    }

    /// True if the case has a contender of this name.
    fn has(&self, name: &str) -> bool {
        self.contenders.iter().any(|contender| contender.name == name)
    }

    /// True if the case needs the plan's data or service of this name.
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

/// Replaces variables of a plan by `given` ones, and returns all of them.
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

/// Checks that names are unique and not empty.
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
