//! The daemon: this program again, in a session of its own, started by the one the user ran.
//!
//! A fork would have to happen before any thread and any connection; a new process needs no such care, and its start costs
//! milliseconds. It tells its outcome as one line of JSON on the pipe that is its standard output; its standard error is the log.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{MountArgs, described, serve};
use crate::args::Globals;
use crate::error::{Error, Exit, Result};

/// Starts the daemon and returns when it is ready, or has failed.
pub(super) fn start(args: &MountArgs, globals: &Globals) -> Result<Exit> {
    let place = args.place()?;
    let log = open_log(&place.log)?;
    let program = std::env::current_exe().map_err(|error| Error::io("this program", &error))?;
    let mut child = Command::new(program)
        .args(std::env::args_os().skip(1))
        .args(["--foreground", "--report"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(|error| Error::io("the daemon cannot be started", &error))?;
    let mut line = String::new();
    if let Some(pipe) = child.stdout.take() {
        BufReader::new(pipe).read_line(&mut line).map_err(|error| Error::io("the daemon", &error))?;
    }
    let Ok(mut outcome) = serde_json::from_str::<Value>(&line) else {
        let ended = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        return Err(Error::failed(format!("the daemon ended before it was ready ({ended})"))
            .advise(format!("see {}", place.log.display())));
    };
    if let Some(message) = outcome["error"].as_str() {
        // Nothing is in the log that is not told here.
        let _ = child.wait();
        remove_if_empty(&place.log);
        let exit = if outcome["usage"] == true { Exit::Usage } else { Exit::Failed };
        return Err(Error { exit, message: message.into(), advice: None });
    }
    outcome["log"] = json!(place.log);
    if globals.json {
        println!("{outcome}");
    } else if !globals.quiet {
        println!("{}", described(&outcome));
    }
    Ok(Exit::Done)
}

/// Is the daemon.
pub(super) fn run(args: &MountArgs, globals: &Globals) -> Result<Exit> {
    // Out of the terminal's reach. It fails only for a process that leads a group, which then has a session already.
    let _ = rustix::process::setsid();
    // By its whole path, as the current directory changes.
    let log = args.place().ok().and_then(|place| std::path::absolute(place.log).ok());
    let mut told = false;
    let ended = serve(args, globals, &mut |receipt| {
        told = true;
        tell(receipt)?;
        // The directory it was started in can be unmounted and removed.
        std::env::set_current_dir("/").map_err(|error| Error::io("/", &error))
    });
    if ended.is_ok() {
        log.iter().for_each(|log| remove_if_empty(log));
    }
    if let (Err(error), false) = (&ended, told) {
        tell(&json!({ "error": error.to_string(), "usage": error.exit == Exit::Usage }))?;
    }
    ended
}

/// Writes the outcome and closes the pipe, so that nothing else ever gets into it.
fn tell(outcome: &Value) -> Result<()> {
    let failed = |error: std::io::Error| Error::io("who started the daemon", &error);
    let mut out = std::io::stdout();
    writeln!(out, "{outcome}").and_then(|()| out.flush()).map_err(failed)?;
    let nothing = OpenOptions::new().write(true).open("/dev/null").map_err(failed)?;
    rustix::stdio::dup2_stdout(&nothing).map_err(|error| failed(error.into()))
}

/// A mount of which there was nothing to tell leaves nothing.
fn remove_if_empty(log: &Path) {
    if fs::metadata(log).is_ok_and(|found| found.is_file() && found.len() == 0) {
        // Then it stays: it is empty.
        let _ = fs::remove_file(log);
    }
}

/// The log is begun anew with each mount, and only its owner reads it: it may name what is private.
fn open_log(path: &Path) -> Result<File> {
    let failed = |error: std::io::Error| Error::io(format!("--log {}", path.display()), &error);
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(path).map_err(failed)
}
