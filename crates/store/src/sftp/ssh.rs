//! Runs the `ssh` process of a session: builds the command line, ends the process, and finds the
//! reason of its end in its last messages.
//!
//! The process has its own process group. So Ctrl-C does not reach it. If `ssh` starts further
//! processes for a jump host, they are in the same group and are ended together with it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::Instant;

use firstbyte_location::{SftpPath, one_line};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::{CertificateFault, Error, Result};
use crate::limits::{POLL_INTERVAL, SHORT_WAIT};
use crate::options::StoreOptions;

/// Size of the pipes to and from `ssh`, in bytes: the maximum that Linux allows without privileges.
const PIPE_BYTES: usize = 1 << 20;
/// Number of bytes, counted from the end of what `ssh` printed, in which the reason is searched.
const REASON_BYTES: u64 = 8 << 10;

/// A running `ssh` process. Dropping the value ends the process and waits for its end.
pub(super) struct Ssh {
    child: Child,
    /// The file that receives the standard error of the process.
    printed: File,
    /// The host in messages: `sftp://HOST`, with the port if one is given.
    endpoint: String,
    /// True once the process has ended and its status was read. From then on, its process id may
    /// belong to another process.
    has_ended: bool,
}

impl Ssh {
    /// Starts the process. Returns it with its standard input and output.
    pub(super) fn start(options: &StoreOptions, place: &SftpPath) -> Result<(Self, ChildStdin, ChildStdout)> {
        let (user, host, port) = place.parts();
        let endpoint = port.map_or_else(|| format!("sftp://{host}"), |port| format!("sftp://{host}:{port}"));
        let given = options.ssh.as_deref().unwrap_or_default();
        let mut words = given.split_whitespace();
        let program = words.next().unwrap_or("ssh");
        let failed = |error: io::Error| Error::Options {
            what: format!("`{program}`, which connects to {host}"),
            why: match error.kind() {
                io::ErrorKind::NotFound => {
                    "is not installed; install OpenSSH's client, or set FIRSTBYTE_SSH".into()
                }
                _ => format!("cannot be started ({error})"),
            },
        };
        let printed =
            File::from(memfd_create("ssh", MemfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?);
        let mut command = Command::new(program);
        command.args(words).args(SSH_OPTIONS);
        command.arg(format!("-oConnectTimeout={}", options.connect_deadline.as_secs().max(1)));
        if let Some(port) = port {
            command.args(["-p", port]);
        }
        if let Some(user) = user {
            command.args(["-l", user]);
        }
        command.args(["-s", host, "sftp"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        command.stderr(printed.try_clone().map_err(failed)?);
        tracing::debug!(?command, "session");
        let mut child = command.spawn().map_err(failed)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let ssh = Self { child, printed, endpoint, has_ended: false };
        let (Some(input), Some(output)) = (input, output) else {
            return Err(failed(io::ErrorKind::BrokenPipe.into()));
        };
        // The total size of a user's pipes is limited. If these calls fail, smaller pipes suffice.
        let _ = (fcntl_setpipe_size(&input, PIPE_BYTES), fcntl_setpipe_size(&output, PIPE_BYTES));
        Ok((ssh, input, output))
    }

    /// Asks the process to end.
    pub(super) fn stop(&self) {
        self.signal(Signal::TERM);
    }

    fn signal(&self, signal: Signal) {
        if let Ok(Some(group)) = i32::try_from(self.child.id()).map(Pid::from_raw) {
            // The signal fails if the process has ended.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Waits for the end of the process, which has closed its output. Returns the reason of the
    /// end.
    pub(super) fn end(mut self) -> SessionEnd {
        let status = self.wait();
        let mut text = Vec::new();
        let length = self.printed.metadata().map_or(0, |metadata| metadata.len());
        // If the messages cannot be read, the exit status gives the reason.
        let _ = self
            .printed
            .seek(SeekFrom::Start(length.saturating_sub(REASON_BYTES)))
            .and_then(|_| self.printed.read_to_end(&mut text));
        SessionEnd::new(&String::from_utf8_lossy(&text), status, self.endpoint.clone())
    }

    /// Waits for the process, which is about to end. Ends it by signals if that takes too long.
    fn wait(&mut self) -> Option<ExitStatus> {
        self.has_ended = true;
        for signal in [None, Some(Signal::TERM), Some(Signal::KILL)] {
            signal.into_iter().for_each(|signal| self.signal(signal));
            let began = Instant::now();
            while began.elapsed() < SHORT_WAIT {
                match self.child.try_wait() {
                    Ok(None) => sleep(POLL_INTERVAL / 10),
                    other => return other.ok().flatten(),
                }
            }
        }
        None
    }
}

impl Drop for Ssh {
    fn drop(&mut self) {
        if !self.has_ended {
            self.stop();
            self.wait();
        }
    }
}

/// Options that keep `ssh` from prompting, and from doing anything but SFTP. `ssh` may use a
/// connection that another `ssh` process shares, but starts no shared connection itself. If the
/// network is dead, `ssh` exits by itself, even when this program has already exited.
const SSH_OPTIONS: [&str; 9] = [
    "-oBatchMode=yes",
    "-oControlMaster=no",
    "-oClearAllForwardings=yes",
    "-oForwardAgent=no",
    "-oForwardX11=no",
    "-oPermitLocalCommand=no",
    "-oRequestTTY=no",
    "-oServerAliveInterval=15",
    "-oServerAliveCountMax=3",
];

/// The reason why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The host refuses the login of this user.
    Login,
    /// The host's key is unknown or has changed.
    HostKey,
    /// The host does not exist, or has no SFTP.
    Address,
    /// The connection was lost.
    Cut,
}

/// The end of a session, and the reason.
#[derive(Clone, Debug)]
pub(super) struct SessionEnd {
    cause: Cause,
    endpoint: String,
    /// The last line that `ssh` printed, or how `ssh` ended, or what was wrong with its output.
    detail: String,
}

impl SessionEnd {
    fn new(printed: &str, status: Option<ExitStatus>, endpoint: String) -> Self {
        let last = printed.lines().map(str::trim).rfind(|line| !line.is_empty());
        let detail = match (last, status) {
            (Some(line), _) => one_line(line),
            (None, Some(status)) => format!("ssh ended, {status}"),
            (None, None) => "ssh ended".to_owned(),
        };
        let has = |words: &[&str]| words.iter().any(|word| printed.contains(word));
        let cause = if has(&["Host key verification failed", "HOST IDENTIFICATION HAS CHANGED"]) {
            Cause::HostKey
        } else if has(&["Permission denied", "Too many authentication failures"]) {
            Cause::Login
        } else if has(&["Connection closed", "Connection reset", "Broken pipe", "not responding"])
            || (printed.is_empty() && status.is_none_or(|status| status.code().is_none()))
        {
            Cause::Cut
        } else {
            Cause::Address
        };
        Self { cause, endpoint, detail }
    }

    /// Changes the reason: the server does not send SFTP packets.
    pub(super) fn garbled(mut self, why: &str) -> Self {
        self.cause = Cause::Address;
        self.detail = format!("the host does not answer by SFTP: {why}");
        self
    }

    /// Returns the error for a session that did not start.
    pub(super) fn at_start(self, location: String) -> Error {
        let Self { cause, endpoint, detail } = self;
        match cause {
            Cause::Login => Error::Credentials { location, detail, trace: None },
            Cause::HostKey => Error::Certificate { endpoint, fault: CertificateFault::HostKey, detail },
            Cause::Address => {
                Error::Unreachable { endpoint, named_by: Box::default(), detail, number: None, trace: None }
            }
            Cause::Cut => Error::Disconnected { location, detail, trace: None },
        }
    }

    /// Returns the error for a request whose session has ended.
    pub(super) fn under_way(self, location: String) -> Error {
        Error::Disconnected { location, detail: self.detail, trace: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_ssh_name_the_cause() {
        let at_start =
            |printed: &str| SessionEnd::new(printed, None, "h:22".into()).at_start("sftp://h/x".into());
        let denied = at_start("Warning: Permanently added\r\nme@h: Permission denied (publickey).\r\n");
        assert!(matches!(&denied, Error::Credentials { detail, .. } if detail.ends_with("(publickey).")));
        assert!(matches!(at_start("x\nHost key verification failed.\n"), Error::Certificate { .. }));
        for address in ["ssh: Could not resolve hostname h", "subsystem request failed on channel 0"] {
            assert!(matches!(at_start(address), Error::Unreachable { .. }), "{address}");
        }
        for cut in ["", "kex_exchange_identification: Connection closed by remote host"] {
            assert!(at_start(cut).is_transient(), "{cut}");
        }
        assert!(SessionEnd::new("", None, "h".into()).under_way("sftp://h/x".into()).is_transient());
    }
}
