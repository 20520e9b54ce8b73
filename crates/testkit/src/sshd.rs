//! Runs OpenSSH's server for one test, with its own keys, known hosts and client configuration.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::process::Process;

/// A running `sshd`. It gives this user access to the whole file system by SFTP.
#[derive(Debug)]
pub struct Sshd {
    process: Process,
    /// Directory with the keys and configurations.
    directory: PathBuf,
}

/// The key and the known hosts of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SshClientKind {
    /// The server accepts the client's key, and the client knows the server's key.
    Friend,
    /// The server does not accept the client's key.
    Stranger,
    /// The client does not know the server's key.
    Newcomer,
}

impl SshClientKind {
    fn file(self) -> &'static str {
        match self {
            Self::Friend => "friend.config",
            Self::Stranger => "stranger.config",
            Self::Newcomer => "newcomer.config",
        }
    }
}

impl Sshd {
    /// Starts the server with its files in `state`, a path without blanks.
    ///
    /// # Panics
    /// OpenSSH is not installed, or does not start.
    #[must_use]
    pub fn start(state: &Path) -> Self {
        let directory = state.join("ssh");
        fs::create_dir(&directory).expect("a directory for keys");
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).expect("its mode");
        ["host", "friend", "stranger"].iter().for_each(|name| make_key(&directory.join(name)));
        fs::copy(directory.join("friend.pub"), directory.join("authorized")).expect("the accepted key");
        if rustix::process::geteuid().is_root() {
            // `sshd` requires this empty directory to drop its privileges.
            fs::create_dir_all("/run/sshd").expect("/run/sshd");
        }
        let configuration = directory.join("sshd_config");
        let process = Process::start("sshd", |command, address| {
            let (at, port) = (directory.display(), address.port());
            let text = format!(
                "ListenAddress {address}\nHostKey {at}/host\nAuthorizedKeysFile {at}/authorized\nPidFile none\n\
                 StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
                 MaxStartups 100\nPermitRootLogin prohibit-password\nSubsystem sftp internal-sftp\n"
            );
            fs::write(&configuration, text).expect("sshd_config");
            let key = fs::read_to_string(directory.join("host.pub")).expect("the host's key");
            fs::write(directory.join("known"), format!("[127.0.0.1]:{port} {key}")).expect("known hosts");
            fs::write(directory.join("unknown"), "").expect("known hosts");
            command.args(["-D", "-f"]).arg(&configuration);
        });
        for (client, key, known) in [
            (SshClientKind::Friend, "friend", "known"),
            (SshClientKind::Stranger, "stranger", "known"),
            (SshClientKind::Newcomer, "friend", "unknown"),
        ] {
            let at = directory.display();
            let text = format!(
                "IdentityFile {at}/{key}\nIdentitiesOnly yes\nIdentityAgent none\nUserKnownHostsFile {at}/{known}\n\
                 GlobalKnownHostsFile none\nStrictHostKeyChecking yes\nPreferredAuthentications publickey\n"
            );
            fs::write(directory.join(client.file()), text).expect("ssh's configuration");
        }
        Self { process, directory }
    }

    /// Returns the URL of the host, without a `/` at the end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("sftp://{}", self.process.address())
    }

    /// Returns the `ssh` command that connects to the server, with its arguments.
    #[must_use]
    pub fn ssh(&self, client: SshClientKind) -> String {
        format!("ssh -F {}", self.directory.join(client.file()).display())
    }

    /// Ends all sessions of the server. The server still accepts new sessions.
    pub fn cut(&self) {
        let mut sessions = children(self.process.id());
        while let Some(session) = sessions.pop() {
            sessions.extend(children(session.as_raw_nonzero().get().cast_unsigned()));
            // The call fails if the session has ended in the meantime.
            let _ = kill_process(session, Signal::KILL);
        }
    }

    /// Suspends the server, so that new connections get no answer.
    ///
    /// # Panics
    /// The server has ended.
    pub fn freeze(&self) {
        let process = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw).expect("its number");
        kill_process(process, Signal::STOP).expect("a process to stop");
    }
}

fn children(process: u32) -> Vec<Pid> {
    let list = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    let numbers = list.split_whitespace().filter_map(|number| number.parse().ok());
    numbers.filter_map(Pid::from_raw).collect()
}

fn make_key(path: &Path) {
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"]).arg(path).stdin(Stdio::null());
    let made = command.status().expect("ssh-keygen; `scripts/need.sh servers` installs it");
    assert!(made.success(), "{command:?}: {made}");
}
