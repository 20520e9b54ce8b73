//! Prepares a case before its first run: makes data from seeds, starts services, and runs the
//! commands that fill them. Called by the engine.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use firstbyte_location::units;
use rustix::process::{Pid, Signal, kill_process_group};

use super::Settings;
use crate::data::{self, FileSizes};
use crate::error::{Error, Result};
use crate::plan::{Case, Data, DataKind, Medium, Plan, Service};
use crate::process::last_line;
use crate::services::{self, RunningService};
use crate::stage::MediumStages;
use crate::words::Words;

/// Environment variables.
pub(super) type EnvironmentVariables = BTreeMap<OsString, OsString>;

/// A case that is ready to run. Dropping it ends its services and removes its data.
pub(super) struct PreparedCase {
    /// Values of all placeholders except those of a run.
    pub(super) words: Words,
    /// Environment of contenders and commands.
    pub(super) env: EnvironmentVariables,
    /// Values of all placeholders for each job, including those of its own services.
    pub(super) jobs: Vec<Words>,
    /// Running services, in the order of their start.
    pub(super) services: Vec<RunningService>,
    /// Data and directories to remove at the end.
    made: Vec<PathBuf>,
}

impl Drop for PreparedCase {
    fn drop(&mut self) {
        while self.services.pop().is_some() {}
        for path in &self.made {
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

/// Prepares a case.
pub(super) fn prepare(
    plan: &Plan,
    case: &Case,
    stage: &MediumStages,
    settings: &Settings<'_>,
) -> Result<PreparedCase> {
    let wrong = |what: String| Error::in_case(&plan.name, &case.name, what);
    let mut words = Words::default();
    words.set("firstbyte", settings.firstbyte.display());
    words.set("memory", stage.path(Medium::Memory).display());
    words.set("disk", stage.path(Medium::Disk).display());
    for (name, value) in plan.vars.iter().chain(&case.vars).chain(&settings.words) {
        words.set(name, value);
    }
    let mut prepared = PreparedCase {
        words,
        jobs: Vec::new(),
        env: settings.env.clone(),
        services: Vec::new(),
        made: Vec::new(),
    };
    for (medium, name) in [(Medium::Memory, "data"), (Medium::Disk, "data.disk")] {
        let root = stage.directory(medium, &format!("data-{}", file_name(&case.name)))?;
        prepared.words.set(name, root.display());
        if !(settings.keep && medium == Medium::Disk) {
            prepared.made.push(root);
        }
    }
    for data in plan.data_of(case) {
        check_not_stopped(settings)?;
        let (path, bytes) = make(data, case, stage, &prepared.words).map_err(|error| match error {
            DataFailure::Plan(what) => wrong(what),
            DataFailure::File(error) => error,
        })?;
        prepared.words.set(format!("data.{}", data.name), path.display());
        prepared.words.set(format!("data.{}.bytes", data.name), bytes);
    }
    let root = stage.directory(Medium::Memory, &format!("services-{}", file_name(&case.name)))?;
    prepared.made.push(root.clone());
    for service in plan.services_of(case).filter(|service| !service.for_each_job) {
        let Some(running) = start(service, &root, &mut prepared.words, settings)? else { continue };
        prepared.services.push(running);
        for (name, value) in plan.env.iter().chain(&case.env) {
            // The value may name a service that starts later.
            if let Ok(value) = prepared.words.fill(value) {
                prepared.env.insert(name.into(), value.into());
            }
        }
        run_commands(&service.setup, &prepared.words, &prepared.env, settings, &wrong)?;
    }
    for (name, value) in plan.env.iter().chain(&case.env) {
        let value = prepared.words.fill(value).map_err(|what| wrong(format!("env {name}: {what}")))?;
        prepared.env.insert(name.into(), value.into());
    }
    start_for_each_job(plan, case, &mut prepared, &root, settings)?;
    run_commands(&case.setup, &prepared.words, &prepared.env, settings, &wrong)?;
    Ok(prepared)
}

/// Starts a service. `None` if it requires a program that is missing.
fn start(
    service: &Service,
    root: &Path,
    words: &mut Words,
    settings: &Settings<'_>,
) -> Result<Option<RunningService>> {
    check_not_stopped(settings)?;
    if service.requires.iter().any(|program| !settings.has_program(program)) {
        services::set_words_of_missing(service, root, words);
        return Ok(None);
    }
    services::start(service, root, words, &settings.env).map(Some)
}

/// Starts the services of which each job has its own instance, for the largest number of jobs of
/// the case.
fn start_for_each_job(
    plan: &Plan,
    case: &Case,
    prepared: &mut PreparedCase,
    root: &Path,
    settings: &Settings<'_>,
) -> Result<()> {
    let wrong = |what: String| Error::in_case(&plan.name, &case.name, what);
    let services: Vec<&Service> = plan.services_of(case).filter(|service| service.for_each_job).collect();
    if services.is_empty() {
        return Ok(());
    }
    let jobs = case.contenders.iter().map(|contender| contender.jobs(&prepared.words));
    let jobs = jobs.collect::<std::result::Result<Vec<_>, _>>().map_err(wrong)?;
    for job in 0..jobs.into_iter().max().unwrap_or(1) {
        let mut words = prepared.words.clone();
        words.set("job", job);
        let root = root.join(format!("job-{job}"));
        for service in &services {
            let Some(running) = start(service, &root, &mut words, settings)? else { continue };
            prepared.services.push(running);
            run_commands(&service.setup, &words, &prepared.env, settings, &wrong)?;
        }
        prepared.jobs.push(words);
    }
    Ok(())
}

fn check_not_stopped(settings: &Settings<'_>) -> Result<()> {
    if (settings.stop)() { Err(Error::Interrupted) } else { Ok(()) }
}

/// Runs unmeasured commands, one after another. `wrong` makes an error from a mistake in the plan.
pub(super) fn run_commands(
    commands: &[Vec<String>],
    words: &Words,
    env: &EnvironmentVariables,
    settings: &Settings<'_>,
    wrong: &dyn Fn(String) -> Error,
) -> Result<()> {
    commands.iter().try_for_each(|command| {
        check_not_stopped(settings)?;
        run_command(&words.fill_all(command).map_err(wrong)?, env, settings.stop)
    })
}

/// Timeout of an unmeasured command. A command may build a program or fill a server, but a hanging
/// one must not block a measurement for ever.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// Runs an unmeasured command. If the user stops the measurement, or after [`COMMAND_TIMEOUT`],
/// kills the command with its process group.
pub(super) fn run_command(
    command: &[String],
    env: &EnvironmentVariables,
    stop: &dyn Fn() -> bool,
) -> Result<()> {
    let failed = |what: String| Error::Prepare { command: command.join(" "), what };
    let Some((program, words)) = command.split_first() else { return Ok(()) };
    let output = || -> io::Result<(File, Child)> {
        let output = tempfile::tempfile()?;
        let mut process = Command::new(program);
        process.args(words).env_clear().envs(env).process_group(0).stdin(Stdio::null());
        let child = process.stdout(output.try_clone()?).stderr(output.try_clone()?).spawn()?;
        Ok((output, child))
    };
    let (mut output, mut child) = output().map_err(|error| failed(error.to_string()))?;
    let until = Instant::now() + COMMAND_TIMEOUT;
    let status = loop {
        match child.try_wait().map_err(|error| failed(error.to_string()))? {
            Some(status) => break status,
            None if stop() || Instant::now() > until => {
                let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
                let _ = child.wait();
                let late = || failed(format!("not done within {} s", COMMAND_TIMEOUT.as_secs()));
                return Err(if stop() { Error::Interrupted } else { late() });
            }
            None => thread::sleep(Duration::from_millis(2)),
        }
    };
    if status.success() {
        return Ok(());
    }
    let mut said = Vec::new();
    let _ = output.rewind().and_then(|()| output.read_to_end(&mut said));
    let said = String::from_utf8_lossy(&said);
    let last = last_line(&said).unwrap_or("no message");
    Err(failed(format!("{status}: {last}")))
}

/// The reason why data was not made.
enum DataFailure {
    Plan(String),
    File(Error),
}

/// Makes data. Returns its path and the bytes of its files.
fn make(
    data: &Data,
    case: &Case,
    stage: &MediumStages,
    words: &Words,
) -> std::result::Result<(PathBuf, u64), DataFailure> {
    let filled = |text: &Option<String>, what: &str| {
        let text = text
            .as_deref()
            .ok_or_else(|| DataFailure::Plan(format!("data {}: {what} is missing", data.name)))?;
        words.fill(text).map_err(DataFailure::Plan)
    };
    let unit = |error: units::UnitError| DataFailure::Plan(format!("data {}: {error}", data.name));
    let size = |text, what| units::parse_size(&filled(text, what)?).map_err(unit);
    let count = |text: &Option<String>, what: &str| {
        let text = filled(text, what)?;
        text.parse::<u64>()
            .map_err(|_| DataFailure::Plan(format!("data {}: {what} = {text:?} is no number", data.name)))
    };
    let root =
        stage.directory(data.place, &format!("data-{}", file_name(&case.name))).map_err(DataFailure::File)?;
    let directory = root.join(&data.under);
    std::fs::create_dir_all(&directory).map_err(Error::file(&directory)).map_err(DataFailure::File)?;
    let path = directory.join(&data.name);
    let bytes = match data.kind {
        DataKind::File => {
            let size = size(&data.size, "size")?;
            data::file(&path, size, data.seed).map(|()| size)
        }
        DataKind::Files => {
            let sizes = FileSizes::parse(&filled(&data.file_size, "file_size")?);
            let sizes = sizes.map_err(|error| DataFailure::Plan(error.to_string()))?;
            data::files(&path, count(&data.files, "files")?, &sizes, data.seed)
        }
        DataKind::Names => data::names(&path, count(&data.files, "files")?).map(|()| 0),
        DataKind::Links => data::links(&path, count(&data.files, "files")?).map(|()| 0),
        DataKind::Tree => {
            data::tree(&path, count(&data.files, "files")?, count(&data.directories, "directories")?)
                .map(|()| 0)
        }
        DataKind::Directory => {
            std::fs::create_dir_all(&path).map_err(Error::file(&path)).map_err(DataFailure::File)?;
            Ok(0)
        }
        DataKind::Blast => {
            let (size, volume) = (size(&data.size, "size")?, size(&data.volume, "volume")?);
            data::database(&path, size, volume, data.seed).map(|_| size)
        }
        DataKind::Queries => {
            let sequences = data::sequences_of(size(&data.size, "size")?);
            data::queries(&path, count(&data.sequences, "sequences")?, sequences, data.seed).map(|_| 0)
        }
    }
    .map_err(|error| {
        DataFailure::File(Error::Prepare { command: data.name.clone(), what: error.to_string() })
    })?;
    Ok((path, bytes))
}

/// Replaces characters that have a meaning in paths.
fn file_name(name: &str) -> String {
    name.chars().map(|c| if c.is_alphanumeric() || c == '-' { c } else { '_' }).collect()
}
