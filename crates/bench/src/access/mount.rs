//! Mounts the target for the duration of a job. The mount is a child process in the foreground. The
//! kernel therefore adds the child's processor time to that of the job. The job's peak memory is
//! that of the larger process.
//!
//! The mount always ends with the job: on an error when the session is dropped, and by a signal
//! from the kernel if the job's process dies.

use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, set_parent_process_death_signal};
use tempfile::TempDir;

use crate::job::{Error, Job, Metrics, Result};
use crate::process::{end, last_line, lines_of};

/// Longest wait for a mount to become ready. After it, the mount counts as failed.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest wait for a mount to end. Without open files it only has its last requests to finish.
const END_TIMEOUT: Duration = Duration::from_secs(20);
/// Longest wait for the mount's counters.
const COUNTERS_TIMEOUT: Duration = Duration::from_secs(5);

/// A mounted target.
pub(super) struct MountedTarget {
    root: PathBuf,
    child: Option<Child>,
    /// Address of the mount's counters: `http://HOST:PORT/metrics`.
    counters: Option<String>,
    /// Temporary directory for the mount point or the cache. `None` if the job names both.
    _temporary: Option<TempDir>,
}

impl MountedTarget {
    /// Mounts the target of `job` and waits until it is ready.
    pub(super) fn start(job: &Job) -> Result<Self> {
        let own = match (&job.mount, &job.cache) {
            (Some(_), Some(_)) => None,
            _ => Some(tempfile::tempdir().map_err(Error::at(&std::env::temp_dir()))?),
        };
        let below = |given: &Option<PathBuf>, name: &str| match (given, &own) {
            (Some(given), _) => given.clone(),
            (None, Some(own)) => own.path().join(name),
            (None, None) => PathBuf::from(name),
        };
        let (root, cache) = (below(&job.mount, "mnt"), below(&job.cache, "cache"));
        fs::create_dir_all(&root).map_err(Error::at(&root))?;
        let mut command = command(job, &root, &cache)?;
        let mut child = command.spawn().map_err(Error::at(Path::new(command.get_program())))?;
        let printed = child.stdout.take().map(lines_of);
        let receipt = printed.and_then(|lines| lines.recv_timeout(READY_TIMEOUT).ok());
        let mut mounted = Self { root, child: Some(child), counters: None, _temporary: own };
        match receipt.as_deref().map(serde_json::from_str::<serde_json::Value>) {
            // A failed mount prints a receipt too, with its failures in `failed`.
            Some(Ok(receipt)) if receipt.get("failed").is_none_or(serde_json::Value::is_null) => {
                mounted.counters = receipt["metrics"].as_str().map(str::to_owned);
                Ok(mounted)
            }
            _ => Err(mounted.readiness_error()),
        }
    }

    /// Returns the directory that shows the target.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Unmounts and waits for the end. Returns the metrics that the mount counted.
    pub(super) fn end(mut self) -> Result<Metrics> {
        let mut metrics = Metrics::new();
        if let Some(text) = self.counters.as_deref().and_then(|url| fetch(url).ok()) {
            let count = |name: &str| {
                let of =
                    |line: &str| line.strip_prefix(&format!("firstbyte_mount_{name} "))?.parse::<f64>().ok();
                text.lines().find_map(of)
            };
            for (metric, counter) in [
                ("requests", "store_requests_total"),
                ("retries", "store_retries_total"),
                ("wire_bytes", "store_received_bytes_total"),
            ] {
                metrics.extend(count(counter).map(|value| (metric.to_owned(), value)));
            }
        }
        let Some(mut child) = self.child.take() else { return Ok(metrics) };
        match end(&mut child, END_TIMEOUT) {
            Ok(status) if status.success() => Ok(metrics),
            Ok(status) => Err(self.error(format!("ended with {status}{}", last_error_line(&mut child)))),
            Err(cause) => Err(Error::Io { place: self.root.display().to_string(), cause }),
        }
    }

    /// Returns the error for a mount that did not become ready.
    fn readiness_error(&mut self) -> Error {
        let Some(mut child) = self.child.take() else { return self.error("not mounted".into()) };
        let ended = matches!(child.try_wait(), Ok(Some(_)));
        let status =
            end(&mut child, END_TIMEOUT).map_or_else(|error| error.to_string(), |status| status.to_string());
        let how = if ended { status } else { format!("not ready within {} s", READY_TIMEOUT.as_secs()) };
        self.error(format!("{how}{}", last_error_line(&mut child)))
    }

    fn error(&self, what: String) -> Error {
        Error::Program { program: format!("firstbyte mount {}", self.root.display()), what }
    }
}

impl Drop for MountedTarget {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // The job has already failed with an error of its own, which is the one to report.
            let _ = end(&mut child, END_TIMEOUT);
        }
    }
}

/// Returns the command that mounts.
fn command(job: &Job, root: &Path, cache: &Path) -> Result<Command> {
    let mut command = if job.firstbyte.as_os_str().is_empty() {
        Command::new(std::env::current_exe().map_err(Error::at(Path::new("/proc/self/exe")))?)
    } else {
        Command::new(&job.firstbyte)
    };
    command.args(&job.options).args(["--json", "mount", &job.target]).arg(root).arg("--cache").arg(cache);
    command.args(["--foreground", "--metrics", "127.0.0.1:0"]).args(&job.mount_options);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // The mount has its own process group: killing the job's group must not leave a dead mount
    // behind.
    command.process_group(0);
    let parent = std::process::id();
    let ends_with_parent = move || {
        set_parent_process_death_signal(Some(Signal::TERM))?;
        // The parent may have died before the signal was requested.
        match rustix::process::getppid().map(Pid::as_raw_pid) {
            Some(now) if now.cast_unsigned() == parent => Ok(()),
            _ => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        }
    };
    // SAFETY: between fork and exec the closure makes two system calls and allocates nothing.
    unsafe { command.pre_exec(ends_with_parent) };
    Ok(command)
}

/// Returns a colon and the last line of the child's standard error, or an empty text.
fn last_error_line(child: &mut Child) -> String {
    let mut text = String::new();
    let read = child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut text));
    match (read, last_line(&text)) {
        (Some(Ok(_)), Some(line)) => format!(": {line}"),
        _ => String::new(),
    }
}

/// Gets the body of `http://HOST:PORT/PATH`.
fn fetch(url: &str) -> io::Result<String> {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut connection = TcpStream::connect(host)?;
    connection.set_read_timeout(Some(COUNTERS_TIMEOUT))?;
    write!(connection, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    connection.read_to_string(&mut text)?;
    Ok(text)
}
