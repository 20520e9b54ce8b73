//! Runs one process from start to exit, and measures its time, processor time and peak memory.
//!
//! The kernel's figure for a process's peak memory includes its parent's memory at the moment of
//! the fork. The engine holds plans and results, so it does not start contenders itself. It starts
//! a *launcher*, a small process (this program under a hidden name), which starts the contender.
//! The launcher waits until its standard input ends, so that parallel jobs begin at one moment. It
//! writes its figures into a file. Services also start under a launcher, which replaces itself by
//! the service. They therefore end with the engine even if the engine is killed.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::functions::sandbox::Sandbox;

/// First argument of a launcher, checked before arguments are parsed. It is not a verb.
const LAUNCHER: &str = "bench-launcher";

/// Bytes kept from the end of each output.
const TAIL_BYTES: u64 = 64 << 10;

/// Figures that a launcher measured.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Figures {
    /// Wall time in seconds.
    pub(crate) seconds: f64,
    /// Processor time in user mode, in seconds.
    pub(crate) user_seconds: f64,
    /// Processor time in the kernel, in seconds.
    pub(crate) system_seconds: f64,
    /// Largest resident set of any single process, in bytes.
    pub(crate) peak_memory_bytes: u64,
    /// Exit code; `None` after a signal.
    pub(crate) code: Option<i32>,
    /// Signal that ended the process.
    pub(crate) signal: Option<i32>,
    /// Reason why the program could not be started.
    pub(crate) error: Option<String>,
}

/// A command to run, and its surroundings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Launch {
    /// Program and arguments.
    pub(crate) command: Vec<String>,
    /// Complete environment; no variable is inherited.
    pub(crate) env: BTreeMap<OsString, OsString>,
    /// Working directory.
    pub(crate) working_directory: PathBuf,
    /// Files of cgroups. The launcher writes its process id into them, and so joins the cgroups.
    pub(crate) cgroup_files: Vec<PathBuf>,
    /// For a command that runs on another machine: the words before it, and a file on a file system
    /// that both machines share. The launcher on the other machine writes its figures into that
    /// file.
    pub(crate) remote: Option<(Vec<String>, PathBuf)>,
}

/// The result of a launched command.
#[derive(Debug)]
pub(crate) struct EndedCommand {
    /// Figures that the launcher measured.
    pub(crate) figures: Figures,
    /// End of its standard output.
    pub(crate) output: String,
    /// End of its standard error.
    pub(crate) errors: String,
    /// True if the engine ended the command, after the timeout or because the user stopped it.
    pub(crate) killed: bool,
}

/// A launcher that waits for the start signal.
struct WaitingLauncher {
    child: Child,
    figures: PathBuf,
    /// File with the figures of a launcher on another machine.
    remote_figures: Option<PathBuf>,
    output: PathBuf,
    errors: PathBuf,
}

/// Starts all `launches` at one moment, and waits for their end. A failed command is not an error.
///
/// The outputs go to the directory `scratch`. After `timeout`, or once `stop` returns true, the
/// remaining commands are killed.
pub(crate) fn run_together(
    launches: &[Launch],
    scratch: &Path,
    timeout: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<EndedCommand>> {
    let mut waiting = Vec::with_capacity(launches.len());
    let (start, hold) = io::pipe().map_err(Error::file("pipe"))?;
    for (index, launch) in launches.iter().enumerate() {
        let started = start.try_clone().map_err(Error::file("pipe"))?;
        waiting.push(prepare(launch, started, &scratch.join(format!("job-{index}")))?);
    }
    drop(start);
    // A launcher creates its file of figures once it waits for the start signal.
    let ready = Instant::now() + Duration::from_secs(10);
    while waiting.iter().any(|one| !one.figures.exists()) && Instant::now() < ready && !stop() {
        thread::sleep(Duration::from_millis(1));
    }
    drop(hold);
    wait_for_all(waiting, timeout, stop)
}

/// Runs `launches` in waves of `at_once`, each by [`run_together`]. `timeout` applies to all waves
/// together; `before` is called before each wave.
pub(crate) fn run_in_waves(
    launches: &[Launch],
    at_once: usize,
    scratch: &Path,
    timeout: Duration,
    stop: &dyn Fn() -> bool,
    before: &dyn Fn() -> Result<()>,
) -> Result<Vec<EndedCommand>> {
    let until = Instant::now() + timeout;
    let mut ended = Vec::with_capacity(launches.len());
    for wave in launches.chunks(at_once.max(1)) {
        before()?;
        let left = until.saturating_duration_since(Instant::now());
        ended.extend(run_together(wave, scratch, left, stop)?);
    }
    Ok(ended)
}

/// Starts the launcher of one command. The launcher waits until `start` ends.
fn prepare(launch: &Launch, start: io::PipeReader, scratch: &Path) -> Result<WaitingLauncher> {
    let [figures, output, errors] = ["figures", "out", "err"].map(|kind| scratch.with_extension(kind));
    let create = |path: &PathBuf| File::create(path).map_err(Error::file(path));
    let _ = std::fs::remove_file(&figures);
    let mut command = launcher();
    command.arg("run").arg(&figures).args(&launch.cgroup_files).arg("--");
    if let Some((words, figures)) = &launch.remote {
        let program = std::env::current_exe().map_err(Error::file("/proc/self/exe"))?;
        command.args(words).arg(program).args([LAUNCHER, "run"]).arg(figures).arg("--");
    }
    command.args(&launch.command);
    command.env_clear().envs(&launch.env).current_dir(&launch.working_directory);
    command.stdin(start).stdout(create(&output)?).stderr(create(&errors)?).process_group(0);
    let child = command.spawn().map_err(Error::file("/proc/self/exe"))?;
    let remote_figures = launch.remote.as_ref().map(|(_, figures)| figures.clone());
    Ok(WaitingLauncher { child, figures, remote_figures, output, errors })
}

/// Returns the command that starts this program as a launcher.
pub(crate) fn launcher() -> Command {
    // The path `/proc/self/exe` names the running program even if its file was replaced or removed.
    let mut command = Command::new("/proc/self/exe");
    command.arg(LAUNCHER);
    command
}

/// Returns the command of a launcher that enters a sandbox and becomes `command`.
pub(crate) fn environment(sandbox: &Sandbox, command: &[PathBuf]) -> Command {
    let mut launcher = launcher();
    let sandbox = serde_json::to_string(sandbox).unwrap_or_default();
    launcher.args(["environment", &sandbox, "--"]).args(command);
    launcher
}

fn wait_for_all(
    waiting: Vec<WaitingLauncher>,
    timeout: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<EndedCommand>> {
    let until = Instant::now() + timeout;
    let groups: Vec<Pid> = waiting.iter().map(|one| Pid::from_child(&one.child)).collect();
    let (ended, all) = mpsc::channel();
    for (index, mut one) in waiting.into_iter().enumerate() {
        let ended = ended.clone();
        thread::spawn(move || {
            let status = one.child.wait();
            let _ = ended.send((index, status.map(|_| one)));
        });
    }
    let mut results: Vec<Option<EndedCommand>> = groups.iter().map(|_| None).collect();
    let mut killed = false;
    for _ in 0..groups.len() {
        let (index, one) = loop {
            match all.recv_timeout(Duration::from_millis(50)) {
                Ok(one) => break one,
                Err(_) if !killed && (Instant::now() > until || stop()) => {
                    killed = true;
                    for group in &groups {
                        let _ = kill_process_group(*group, Signal::KILL);
                    }
                }
                Err(_) => {}
            }
        };
        results[index] = Some(read(&one.map_err(Error::file("wait"))?, killed)?);
    }
    Ok(results.into_iter().flatten().collect())
}

/// Reads the files that an ended launcher wrote.
fn read(one: &WaitingLauncher, killed: bool) -> Result<EndedCommand> {
    let text = std::fs::read(&one.figures).map_err(Error::file(&one.figures))?;
    // A killed launcher wrote no figures.
    let figures: Figures = serde_json::from_slice(&text).unwrap_or_default();
    // If the program that reaches the other machine failed, its own figures have the reason.
    let remote_figures = one.remote_figures.as_ref().filter(|_| figures.code == Some(0));
    let figures = match remote_figures.map(std::fs::read) {
        Some(Ok(text)) => serde_json::from_slice(&text).unwrap_or(figures),
        _ => figures,
    };
    Ok(EndedCommand { figures, output: tail(&one.output)?, errors: tail(&one.errors)?, killed })
}

/// Returns the end of a file as text.
pub(crate) fn tail(path: &Path) -> Result<String> {
    let read = || {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        io::Seek::seek(&mut file, io::SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    read().map_err(Error::file(path))
}

/// True if the program's arguments are those of a launcher.
#[must_use]
pub fn is_launcher(mut arguments: impl Iterator<Item = OsString>) -> bool {
    arguments.nth(1).is_some_and(|first| first == LAUNCHER)
}

/// Runs this process as a launcher, until the process ends or becomes another program. Takes the
/// program's arguments, and returns the exit code.
///
/// `run FIGURES [FILE...] -- COMMAND...` measures a command; `serve -- COMMAND...` becomes it;
/// `environment SANDBOX -- COMMAND...` enters a sandbox and becomes it.
pub fn launcher_main(arguments: impl Iterator<Item = OsString>) -> u8 {
    // Services and launchers end with the engine.
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
    let mut arguments = arguments.skip(2);
    let kind = arguments.next().unwrap_or_default();
    let rest: Vec<OsString> = arguments.collect();
    let Some(dashes) = rest.iter().position(|word| word == "--") else { return 2 };
    let (options, command) = (&rest[..dashes], &rest[dashes + 1..]);
    let Some((program, words)) = command.split_first() else { return 2 };
    if kind == "environment"
        && let Err(error) = enter(options)
    {
        eprintln!("{error}");
        return 126;
    }
    if kind == "serve" || kind == "environment" {
        let error = Command::new(program).args(words).exec();
        eprintln!("{}: {error}", program.display());
        return 127;
    }
    let Some((figures, cgroup_files)) = options.split_first() else { return 2 };
    measure(Path::new(figures), cgroup_files, program, words)
}

/// Enters the sandbox described by the first option.
fn enter(options: &[OsString]) -> std::result::Result<(), String> {
    let text = options.first().and_then(|text| text.to_str()).unwrap_or_default();
    let sandbox: Sandbox = serde_json::from_str(text).map_err(|error| error.to_string())?;
    sandbox.enter()
}

fn measure(path: &Path, cgroup_files: &[OsString], program: &OsStr, words: &[OsString]) -> u8 {
    for file in cgroup_files {
        if let Err(error) = std::fs::write(file, std::process::id().to_string()) {
            let error = Some(format!("{}: cannot join the cgroup: {error}", Path::new(file).display()));
            return write_figures(path, &Figures { error, ..Figures::default() });
        }
    }
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null());
    if std::fs::write(path, "").is_err() {
        return 2;
    }
    // The end of standard input is the start signal. All launchers see it at one moment.
    let _ = io::stdin().read(&mut [0]);
    let began = Instant::now();
    let status = command.spawn().and_then(|mut child| child.wait());
    let seconds = began.elapsed().as_secs_f64();
    let figures = match status {
        Ok(status) => Figures { code: status.code(), signal: status.signal(), ..usage_of_children(seconds) },
        Err(error) => {
            Figures { error: Some(format!("{}: {error}", program.display())), ..Figures::default() }
        }
    };
    write_figures(path, &figures)
}

fn write_figures(path: &Path, figures: &Figures) -> u8 {
    let text = serde_json::to_vec(figures).unwrap_or_default();
    u8::from(std::fs::write(path, text).is_err())
}

/// Returns the resource usage of all children that have ended.
fn usage_of_children(seconds: f64) -> Figures {
    // SAFETY: a `rusage` of zeros is valid, and the call writes only to it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let of = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Figures {
        seconds,
        user_seconds: of(usage.ru_utime),
        system_seconds: of(usage.ru_stime),
        // Linux reports KiB.
        peak_memory_bytes: usage.ru_maxrss as u64 * 1024,
        ..Figures::default()
    }
}
