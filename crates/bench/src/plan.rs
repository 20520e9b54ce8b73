//! A plan: the data, services and contenders of a measurement, as TOML or made by the command line.
//!
//! A plan is a value: nothing here touches files or processes. Every word of a command may have
//! placeholders such as `{data}`, see `words.rs`. The engine executes a plan; `bench run` and the
//! suites make plans, and `peers/*.toml` are those of the published benchmarks.

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

pub use contender::{Billed, Cache, Check, Command, Contender, Count, Invoke, Prints};

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
    /// Rounds that are measured.
    pub rounds: u32,
    /// True: a round that is not measured comes first. A copy behind a slow link warms nothing.
    pub warm_up: bool,
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
            warm_up: true,
            seconds: 150.0,
            timeout: 240.0,
            destination: Place::Memory,
            keep: false,
        }
    }
}

impl Case {
    /// Number of runs of each contender, the warm-up included; `rounds` replaces those of the plan.
    #[must_use]
    pub fn runs(&self, rounds: Option<u32>) -> u32 {
        rounds.unwrap_or(self.rounds) + u32::from(self.warm_up)
    }
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
        subject(&self.subject, self.contenders.first().map(|first| &first.name))
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
