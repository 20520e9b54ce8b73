//! Starts the servers of a case on free ports, and ends them by their process ids.
//!
//! A service is any command. A service runs under a launcher, which replaces itself by the service,
//! so the service ends with the engine even if the engine is killed. Called by the engine.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::launch;
use crate::plan::{Ready, Service};
use crate::process;
use crate::words::Words;

/// Longest wait for a service to become ready.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest wait for a service to end before it is killed.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait for a link to report its counters.
const COUNTERS_TIMEOUT: Duration = Duration::from_secs(2);

/// Counters of a link since its start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    /// Bytes sent to clients.
    pub(crate) bytes: u64,
    /// Number of requests.
    pub(crate) requests: u64,
}

/// A running service. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct RunningService {
    name: String,
    child: Child,
    /// Lines that the service prints.
    lines: Receiver<String>,
}

/// Starts a service and sets its placeholders in `words`. `root` contains the directories of
/// services.
pub(crate) fn start(
    service: &Service,
    root: &Path,
    words: &mut Words,
    env: &BTreeMap<OsString, OsString>,
) -> Result<RunningService> {
    let wrong = |what: String| Error::Service { name: service.name.clone(), what };
    let dir = root.join(&service.name);
    fs::create_dir_all(&dir).map_err(Error::file(&dir))?;
    let port = free_port().map_err(|error| wrong(format!("no free port: {error}")))?;
    let mut own = words.clone();
    own.set("dir", dir.display());
    own.set("port", port);
    for (name, content) in &service.files {
        let path = dir.join(name);
        fs::write(&path, own.fill(content).map_err(wrong)?).map_err(Error::file(&path))?;
    }
    let command = own.fill_all(&service.command).map_err(wrong)?;
    let log = dir.join("service.log");
    let file = File::create(&log).map_err(Error::file(&log))?;
    let mut launcher = launch::launcher();
    launcher.args(["serve", "--"]).args(&command).env_clear().envs(env).current_dir(&dir);
    for (name, value) in &service.env {
        launcher.env(name, own.fill(value).map_err(wrong)?);
    }
    launcher.stdin(Stdio::null()).stderr(file).stdout(Stdio::piped());
    let mut child = launcher.spawn().map_err(Error::file("/proc/self/exe"))?;
    let lines = child.stdout.take().map_or_else(|| mpsc::channel().1, process::lines_of);
    let mut running = RunningService { name: service.name.clone(), child, lines };
    let port = running.wait(service.ready, port, &log)?;
    set_words(service, port, &dir, running.child.id(), words);
    Ok(running)
}

/// Sets the placeholders of a service that is not started, so that commands can still be filled.
pub(crate) fn set_words_of_missing(service: &Service, root: &Path, words: &mut Words) {
    set_words(service, 0, &root.join(&service.name), 0, words);
}

fn set_words(service: &Service, port: u16, dir: &Path, pid: u32, words: &mut Words) {
    let scheme = if service.scheme.is_empty() { "http" } else { &service.scheme };
    let name = &service.name;
    words.set(format!("{name}.port"), port);
    words.set(format!("{name}.url"), format!("{scheme}://127.0.0.1:{port}"));
    words.set(format!("{name}.dir"), dir.display());
    words.set(format!("{name}.pid"), pid);
}

impl RunningService {
    /// Returns the service's name in the plan.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the id of the service's process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Requests the counters since the start. `None` if the service does not count or does not
    /// answer.
    pub(crate) fn counters(&self) -> Option<Counters> {
        while self.lines.try_recv().is_ok() {}
        kill_process(Pid::from_child(&self.child), Signal::USR1).ok()?;
        let line = self.lines.recv_timeout(COUNTERS_TIMEOUT).ok()?;
        let counted: Value = serde_json::from_str(&line).ok()?;
        Some(Counters {
            bytes: counted.get("bytes_to_client")?.as_u64()?,
            requests: counted.get("requests").and_then(Value::as_u64).unwrap_or_default(),
        })
    }

    /// Waits until the service is ready. Returns its port.
    fn wait(&mut self, ready: Ready, port: u16, log: &Path) -> Result<u16> {
        let until = Instant::now() + START_TIMEOUT;
        let mut printed = String::new();
        while Instant::now() < until {
            match ready {
                Ready::Port if TcpStream::connect(("127.0.0.1", port)).is_ok() => return Ok(port),
                Ready::Port => thread::sleep(Duration::from_millis(10)),
                Ready::Address | Ready::Line => match self.lines.recv_timeout(Duration::from_millis(50)) {
                    Ok(line) if ready == Ready::Line => return Ok(port_in(&line).unwrap_or(port)),
                    Ok(line) => match port_in(&line) {
                        Some(port) => return Ok(port),
                        None => printed = line,
                    },
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => thread::sleep(Duration::from_millis(10)),
                },
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(self.start_error(&format!("ended at its start ({status})"), &printed, log));
            }
        }
        Err(self.start_error(&format!("not ready after {} s", START_TIMEOUT.as_secs()), &printed, log))
    }

    fn start_error(&self, what: &str, printed: &str, log: &Path) -> Error {
        let text = launch::tail(log).unwrap_or_default();
        let last = process::last_line(&text).unwrap_or(printed);
        Error::Service { name: self.name.clone(), what: format!("{what}: {last}") }
    }
}

impl Drop for RunningService {
    fn drop(&mut self) {
        let _ = process::end(&mut self.child, END_TIMEOUT);
    }
}

/// Returns the port of a loopback `HOST:PORT` in a line, alone or in a URL.
fn port_in(line: &str) -> Option<u16> {
    let after = line.rsplit_once("127.0.0.1:").or_else(|| line.rsplit_once("localhost:"))?.1;
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// Returns a port on which no process listens now.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Returns the path of a program, found in the directories of `path`. `None` if it is not
/// installed.
pub(crate) fn find_program(name: &str, path: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_file());
    }
    std::env::split_paths(path).map(|directory| directory.join(name)).find(|path| path.is_file())
}
