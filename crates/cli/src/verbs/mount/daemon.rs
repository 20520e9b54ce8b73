//! Starts the daemon of a mount. Forks this process, before it has further threads or connections,
//! and puts the child into a session of its own. Called by `mount`.
//!
//! Forking takes 2 ms less than starting the program again. The daemon writes its outcome, one line
//! of JSON, to a pipe that is its standard output. Its standard error is the log.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use firstbyte_location::shown;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, set_parent_process_death_signal, setsid, waitpid,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use serde_json::{Value, json};

use super::place::MountPaths;
use super::{MountArgs, describe, serve};
use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};

/// Starts the daemon. In the starting process, returns when the daemon is ready or has failed. In
/// the daemon, returns when the mount has ended.
pub(super) fn start(args: &MountArgs, globals: &Globals) -> Result<Exit> {
    let place = args.place()?;
    let log = place.open_log()?;
    let failed = |error: io::Error| Error::io("the daemon cannot be started", &error);
    let (outcome, outcome_writer) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
    let parent = getpid();
    let Some(child) = fork().map_err(failed)? else {
        drop(outcome);
        become_daemon(parent, &log, outcome_writer).map_err(failed)?;
        return run(args, globals, &place);
    };
    drop((log, outcome_writer));
    let mut line = String::new();
    BufReader::new(File::from(outcome)).read_line(&mut line).map_err(failed)?;
    let Ok(mut outcome) = serde_json::from_str::<Value>(&line) else {
        let ended = wait_for(child).map_or_else(|error| error.to_string(), |status| status.to_string());
        return Err(Error::failed(format!("the daemon ended before it was ready ({ended})"))
            .advise(format!("see {}", shown(&place.log))));
    };
    if let Some(message) = outcome["error"].as_str() {
        // The message says why the daemon failed, so the exit status of the daemon is not needed.
        let _ = wait_for(child);
        if args.log.is_none() {
            // If removing fails, a log without a mount is left.
            let _ = fs::remove_file(&place.log);
        }
        let exit = if outcome["usage"] == true { Exit::Usage } else { Exit::Failed };
        return Err(Error { exit, ..Error::failed(message) });
    }
    outcome["log"] = json!(place.log);
    if globals.json {
        console::print(&outcome)?;
    } else if !globals.quiet {
        console::print(describe(&outcome))?;
    }
    Ok(Exit::Done)
}

/// Forks. Returns `None` in the child.
fn fork() -> io::Result<Option<Pid>> {
    debug_assert!(
        fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1),
        "a thread was started"
    );
    // SAFETY: this is the only thread, so the child cannot depend on a thread that exists only in
    // the parent.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        child => Ok(Pid::from_raw(child)),
    }
}

fn wait_for(child: Pid) -> io::Result<ExitStatus> {
    let ended = waitpid(Some(child), WaitOptions::empty())?;
    Ok(ended.map_or_else(ExitStatus::default, |(_, status)| ExitStatus::from_raw(status.as_raw())))
}

/// Leaves the terminal, and the parent's input and output. Until the mount is reported, the daemon
/// ends when its parent ends. So Ctrl-C, which reaches only the parent, ends both.
fn become_daemon(parent: Pid, log: &File, outcome_writer: OwnedFd) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::TERM))?;
    if getppid() != Some(parent) {
        return Err(io::Error::other("its parent has ended"));
    }
    // `setsid` fails only for the leader of a process group, and a forked child is not a leader.
    let _ = setsid();
    dup2_stdin(OpenOptions::new().read(true).write(true).open("/dev/null")?)?;
    dup2_stdout(outcome_writer)?;
    Ok(dup2_stderr(log)?)
}

/// Serves the mount, in the daemon.
fn run(args: &MountArgs, globals: &Globals, place: &MountPaths) -> Result<Exit> {
    let mut is_reported = false;
    let ended = serve(args, globals, place, &mut |receipt| {
        is_reported = true;
        set_parent_process_death_signal(None).map_err(|error| Error::io("the daemon", &error.into()))?;
        report_outcome(receipt)?;
        // After this, the directory in which the mount was started can be unmounted or removed.
        std::env::set_current_dir("/").map_err(|error| Error::io("/", &error))
    });
    // The log in the runtime directory, whose path is absolute, is this daemon's alone. A file that
    // the user has named may be the log of other mounts too.
    if ended.is_ok() && args.log.is_none() {
        remove_if_empty(&place.log);
    }
    if let (Err(error), false) = (&ended, is_reported) {
        report_outcome(&json!({ "error": error.to_string(), "usage": error.exit == Exit::Usage }))?;
    }
    ended
}

/// Writes the outcome, and closes the pipe so that nothing else can be written to it.
fn report_outcome(outcome: &Value) -> Result<()> {
    let failed = |error: io::Error| Error::io("who started the daemon", &error);
    console::write_output(format!("{outcome}\n").as_bytes()).map_err(failed)?;
    // Standard output becomes a copy of standard input, which is /dev/null. Opening /dev/null could
    // fail at the limit of descriptors, although the mount is ready.
    dup2_stdout(io::stdin()).map_err(|error| failed(error.into()))
}

/// Removes the log of a mount if it is an empty file.
fn remove_if_empty(log: &Path) {
    if fs::metadata(log).is_ok_and(|found| found.is_file() && found.len() == 0) {
        // If removing fails, an empty file is left.
        let _ = fs::remove_file(log);
    }
}
