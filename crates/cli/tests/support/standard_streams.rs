//! Standard streams in various states: read, never read, full, closed.

use std::fs::{File, OpenOptions};
use std::io::{PipeReader, Write as _};
use std::process::{Command, Stdio};

/// The state of a standard stream of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// A pipe whose reader reads everything.
    Read,
    /// A pipe that is full and never read.
    Stuck,
    /// A pipe whose reader has closed it.
    Broken,
    /// A full disk.
    Full,
    /// The descriptor is not open.
    Closed,
}

impl Stream {
    pub const ALL: [Self; 5] = [Self::Read, Self::Stuck, Self::Broken, Self::Full, Self::Closed];

    /// Returns the stream to give to a child, and the pipe's reader, which must live as long as the
    /// child.
    pub fn open(self) -> (Stdio, Option<PipeReader>) {
        match self {
            Self::Read => (Stdio::piped(), None),
            Self::Stuck => {
                let (reader, mut writer) = std::io::pipe().unwrap();
                rustix::io::ioctl_fionbio(&writer, true).unwrap();
                while writer.write(&[b'.'; 4096]).is_ok() {}
                rustix::io::ioctl_fionbio(&writer, false).unwrap();
                (writer.into(), Some(reader))
            }
            Self::Broken => (std::io::pipe().unwrap().1.into(), None),
            Self::Full => (full().into(), None),
            Self::Closed => (Stdio::null(), None),
        }
    }
}

fn full() -> File {
    OpenOptions::new().write(true).open("/dev/full").unwrap()
}

/// Wraps the command in a shell, which closes those streams that are to be closed.
pub fn closing(command: &Command, stdout: Stream, stderr: Stream) -> Command {
    let closed = |stream: Stream, words| if stream == Stream::Closed { words } else { "" };
    let script = format!("exec \"$0\" \"$@\"{}{}", closed(stdout, " >&-"), closed(stderr, " 2>&-"));
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(script).arg(command.get_program()).args(command.get_args());
    shell.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.current_dir(command.get_current_dir().unwrap());
    shell
}
