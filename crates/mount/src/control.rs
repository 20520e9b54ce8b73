//! The socket by which other processes ask a mount: whether it still lives, what is here, what is to be brought here.
//!
//! A request is a line of JSON, `{"verb": ..., ...}`; so is each answer. The connection stays open until either side closes
//! it, and ends with the daemon: who waits for that waits for its end. Only the mount's owner can connect.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::filesystem::FileSystem;
use crate::{Error, Result};

/// Longest request, bytes: a path of 4,096, written as JSON.
const LONGEST: u64 = 64 << 10;
/// Stack of a connection's thread.
const STACK: usize = 256 << 10;

/// A socket being listened on; removed when dropped.
pub(crate) struct Listening {
    path: PathBuf,
}

impl Listening {
    /// Answers requests about `core` at `path`.
    pub(crate) fn start(path: &Path, core: Arc<FileSystem>) -> Result<Self> {
        let failed = |error: io::Error| Error::io(path, "cannot listen for requests", error);
        // A socket left by a daemon that died; a living one would have its mount where ours is to be.
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
        let accept = move || {
            for connection in listener.incoming().flatten() {
                let core = Arc::clone(&core);
                let thread = thread::Builder::new().name("control".into()).stack_size(STACK);
                if let Err(error) = thread.spawn(move || answer(&connection, &core)) {
                    tracing::warn!("a request could not be taken: {error}");
                }
            }
        };
        // It lives as long as the process: there is nothing to join.
        thread::Builder::new().name("control".into()).stack_size(STACK).spawn(accept).map_err(failed)?;
        Ok(Self { path: path.to_owned() })
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // Gone already, or somebody else's by now: either way nobody misses it.
        let _ = fs::remove_file(&self.path);
    }
}

fn answer(connection: &UnixStream, core: &FileSystem) {
    let mut reader = BufReader::new(connection);
    let mut line = Vec::new();
    loop {
        line.clear();
        match io::Read::take(&mut reader, LONGEST).read_until(b'\n', &mut line) {
            Ok(read) if read > 0 && line.ends_with(b"\n") => {}
            _ => return,
        }
        let answer = match serde_json::from_slice::<Value>(&line) {
            Ok(request) => core.answer(&request),
            Err(error) => json!({ "error": format!("not a request: {error}") }),
        };
        let mut writer = connection;
        if writeln!(writer, "{answer}").is_err() {
            return;
        }
    }
}

impl FileSystem {
    fn answer(&self, request: &Value) -> Value {
        match request["verb"].as_str() {
            Some("about") => json!({ "source": self.source.root().to_string(), "pid": std::process::id() }),
            Some("hydrate") => self.jobs.begin(self, request),
            Some("progress") => self.jobs.progress(request),
            Some("cancel") => self.jobs.cancel(request),
            Some(other) => json!({ "error": format!("{other}: not a request this mount knows") }),
            None => json!({ "error": "a request has a verb" }),
        }
    }
}

/// What a mount of ours tells of a path below it, as its attribute `user.firstbyte.NAME`; `None` for any other path.
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
    /// The daemon behind `path`, which lies below a mount of ours; `None` where it does not, or cannot be asked.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let socket = PathBuf::from(attribute(path, "control")?);
        Some(Self { connection: UnixStream::connect(socket).ok()? })
    }

    /// Asks one question.
    ///
    /// # Errors
    /// The daemon is gone, or does not answer in JSON.
    pub fn ask(&mut self, request: &Value) -> io::Result<Value> {
        let mut writer = &self.connection;
        writeln!(writer, "{request}")?;
        let mut line = String::new();
        BufReader::new(&self.connection).read_line(&mut line)?;
        serde_json::from_str(&line).map_err(Into::into)
    }

    /// Waits until the daemon has gone, for `patience` at the most; whether it has.
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
                // Reset: it went with our bytes unread.
                Err(_) => return true,
            }
        }
    }
}
