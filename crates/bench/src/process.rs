//! Runs processes that are not measured: reads their output, ends them, and describes their
//! failure.

use std::io::{self, BufRead, BufReader};
use std::process::{Child, ChildStdout, ExitStatus, Output};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Returns the last line that is not blank.
pub(crate) fn last_line(text: &str) -> Option<&str> {
    text.lines().rfind(|line| !line.trim().is_empty())
}

/// Describes the end of a program: its status and the last line of its standard error.
pub(crate) fn exit_description(output: &Output) -> String {
    match last_line(&String::from_utf8_lossy(&output.stderr)) {
        Some(line) => format!("{}: {}", output.status, line.trim()),
        None => output.status.to_string(),
    }
}

/// Returns the lines that a child prints. A thread reads them, so that the child never waits. Drops
/// lines beyond 1024 unread ones.
pub(crate) fn lines_of(output: ChildStdout) -> Receiver<String> {
    let (line, lines) = mpsc::sync_channel(1024);
    thread::spawn(move || {
        for text in BufReader::new(output).lines().map_while(Result::ok) {
            let _ = line.try_send(text);
        }
    });
    lines
}

/// Requests a child to end and waits for it. Kills it after `kill_after`.
pub(crate) fn end(child: &mut Child, kill_after: Duration) -> io::Result<ExitStatus> {
    if let Some(status) = child.try_wait()? {
        return Ok(status);
    }
    kill_process(Pid::from_child(child), Signal::TERM)?;
    let until = Instant::now() + kill_after;
    while Instant::now() < until {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        thread::sleep(Duration::from_millis(1));
    }
    child.kill()?;
    child.wait()
}
