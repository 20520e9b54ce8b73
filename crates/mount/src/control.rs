//! The control socket of a mount: other processes ask it which files are cached, and to hydrate
//! files.
//!
//! A request is a line of JSON, and so is each answer (`protocol`). The connection stays open until
//! either side closes it, and ends with the daemon, so a client can wait for the daemon's end. Only
//! the mount's owner can connect.

mod address;
mod jobs;
mod protocol;
mod server;

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use protocol::{HydrateRequest, JobFailure, JobProgress, Request, Response};
pub(crate) use server::Listening;

/// The attribute `user.firstbyte.NAME` of a path below a mount; `None` for any other path.
#[must_use]
pub fn attribute(path: &Path, name: &str) -> Option<OsString> {
    /// A location: a key has up to 1,024 bytes, a path 4,096, and either may be percent-encoded.
    const LONGEST: usize = 16 << 10;
    let mut value = vec![0; LONGEST];
    let length = rustix::fs::getxattr(path, format!("user.firstbyte.{name}"), &mut value).ok()?;
    value.truncate(length);
    Some(OsString::from_vec(value))
}

/// A connection to the daemon behind a mount.
pub struct Control {
    connection: UnixStream,
}

impl Control {
    /// Connects to the daemon of the mount that `path` lies below; `None` if there is no mount, or
    /// no daemon that answers.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let socket = PathBuf::from(attribute(path, "control")?);
        let address = address::Address::of(&socket).ok()?;
        Some(Self { connection: UnixStream::connect(address.path()).ok()? })
    }

    /// Sends a request and waits for the answer.
    ///
    /// # Errors
    /// The daemon is gone, or its answer is not a [`Response`].
    pub fn ask(&mut self, request: &Request) -> io::Result<Response> {
        let mut writer = &self.connection;
        writeln!(writer, "{}", serde_json::to_string(request)?)?;
        let mut line = String::new();
        BufReader::new(&self.connection).read_line(&mut line)?;
        serde_json::from_str(&line).map_err(Into::into)
    }

    /// Waits until the daemon has gone, at most for `patience`. True if it has.
    #[must_use]
    pub fn wait_for_end(self, patience: Duration) -> bool {
        let until = std::time::Instant::now() + patience;
        let mut byte = [0; 1];
        loop {
            let left = until.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() || self.connection.set_read_timeout(Some(left)).is_err() {
                return false;
            }
            match io::Read::read(&mut &self.connection, &mut byte) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return false;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Connection reset: the daemon ended before it read the last request.
                Err(_) => return true,
            }
        }
    }
}
