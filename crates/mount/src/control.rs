//! Serves the control socket of a mount, and connects to it. Other processes use the socket to ask
//! which files are cached, and to hydrate files.
//!
//! A request is one line of JSON, and so is each answer (`protocol`). The connection stays open
//! until either side closes it. The connection ends with the daemon, so a client can wait for the
//! daemon's end. Only the mount's owner can connect.

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

use rustix::fs::{AtFlags, CWD, StatxFlags};

use crate::bounded::bounded;
use crate::error::{Error, Result};
use crate::mount_table::Mounts;
use crate::mountpoint::{FS_TYPE, is_dead};
pub use protocol::{ControlRequest, ControlResponse, HydrateRequest, JobFailure, JobProgress, MountCounts};
pub(crate) use server::ControlListener;

/// Time within which the daemon has to answer a request. The daemon answers from memory.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads the attribute `user.firstbyte.NAME` of a path below a mount. Returns `None` for any other
/// path.
///
/// # Errors
/// [`Error::Io`]: this user cannot access the path, or the daemon of the mount does not answer.
pub fn attribute(path: &Path, name: &str) -> Result<Option<OsString>> {
    /// Maximum length of a value, bytes. The longest value is a location: a key has up to 1,024
    /// bytes and a path up to 4,096, and both may be percent-encoded.
    const MAX_VALUE_LENGTH: usize = 16 << 10;
    let mounts = Mounts::current().unwrap_or_default();
    let numbers: Vec<String> =
        mounts.iter().filter(|mount| mount.kind == FS_TYPE).map(|mount| mount.number.clone()).collect();
    // Without a mount of this type, no thread has to wait for an answer.
    if numbers.is_empty() {
        return Ok(None);
    }
    let (queried_path, attribute) = (path.to_owned(), format!("user.firstbyte.{name}"));
    let found = bounded(move || {
        let mut value = vec![0; MAX_VALUE_LENGTH];
        let length = rustix::fs::getxattr(&queried_path, attribute, &mut value)?;
        // A file on another file system may have a copy of the attribute, which says nothing about
        // the file.
        let found = rustix::fs::statx(CWD, &queried_path, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE)?;
        if !numbers.contains(&format!("{}:{}", found.stx_dev_major, found.stx_dev_minor)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        value.truncate(length);
        Ok(value)
    });
    match found {
        Ok(value) => Ok(Some(OsString::from_vec(value))),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            let what = "the daemon of its mount does not answer; unmount it with --lazy";
            Err(Error::io(path, what, error))
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(Error::io(path, "only its owner, or the user who mounted it, can access it", error))
        }
        Err(error) if is_dead(&error) => {
            Err(Error::io(path, "the daemon of its mount has ended; unmount it, and mount it again", error))
        }
        Err(_) => Ok(None),
    }
}

/// A connection to the daemon behind a mount.
pub struct Control {
    connection: UnixStream,
}

impl Control {
    /// Connects to the daemon of the mount that contains `path`. Returns `None` if there is no
    /// mount, or no daemon listens.
    ///
    /// # Errors
    /// The errors of [`attribute`].
    pub fn of(path: &Path) -> Result<Option<Self>> {
        let socket = attribute(path, "control")?.map(PathBuf::from);
        Ok(socket.and_then(|socket| Self::at(&socket).ok()))
    }

    /// Connects to the daemon that listens on the socket at the path `socket`.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn at(socket: &Path) -> io::Result<Self> {
        let address = address::ControlAddress::of(socket)?;
        let connection = UnixStream::connect(address.path())?;
        connection.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        connection.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Self { connection })
    }

    /// Sends a request and waits for the answer.
    ///
    /// # Errors
    /// The daemon has ended, or its answer is not a [`ControlResponse`].
    pub fn ask(&mut self, request: &ControlRequest) -> io::Result<ControlResponse> {
        let mut writer = &self.connection;
        writeln!(writer, "{}", serde_json::to_string(request)?)?;
        let mut line = String::new();
        BufReader::new(&self.connection).read_line(&mut line)?;
        serde_json::from_str(&line).map_err(Into::into)
    }

    /// Sends a request like [`ask`](Self::ask), but waits no longer than `patience`.
    ///
    /// # Errors
    /// The errors of [`ask`](Self::ask), and a timeout if there is no answer within that time.
    pub fn ask_within(
        &mut self,
        request: &ControlRequest,
        patience: Duration,
    ) -> io::Result<ControlResponse> {
        self.connection.set_read_timeout(Some(patience))?;
        let answer = self.ask(request);
        self.connection.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        answer
    }

    /// Waits until the daemon has ended or `patience` has passed. Returns whether the daemon has
    /// ended.
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
                // The connection was reset, because the daemon ended before it read the last
                // request.
                Err(_) => return true,
            }
        }
    }
}
