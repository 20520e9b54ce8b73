//! What a host serves: a function, its size and surroundings. Made by the command line.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::code::Source;
use super::size::FunctionSize;

/// The longest timeout of a function.
pub(super) const LONGEST: Duration = Duration::from_secs(900);

/// A function to serve.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name.
    pub name: String,
    /// Its code.
    pub source: Source,
    /// Its memory and share of a processor; `None` for no limits.
    pub size: Option<FunctionSize>,
    /// The time that an invocation may take.
    pub timeout: Duration,
    /// The greatest number of environments.
    pub concurrency: usize,
    /// Where callers connect, on loopback.
    pub listen: SocketAddr,
    /// `HOST:PORT` that each environment reaches by a link of its own; its address is in the
    /// variable `AWS_ENDPOINT_URL`.
    pub link_to: Option<String>,
    /// A directory that each environment sees as `/mnt/data`, by a slow file system of its own.
    pub directory: Option<SlowDirectory>,
    /// Bytes of `/tmp`; `None` for those of the disk.
    pub tmp_bytes: Option<u64>,
    /// The variables with which the function's role comes, for example `AWS_ACCESS_KEY_ID`. They
    /// are never shown.
    pub role: BTreeMap<String, String>,
    /// Variables of the environments, beside those of Lambda. Callers may read and change them.
    pub variables: BTreeMap<String, String>,
    /// The environment of links, and of the programs that are needed.
    pub env: BTreeMap<OsString, OsString>,
    /// This program, which is also the link.
    pub firstbyte: PathBuf,
    /// The directory for files.
    pub disk: PathBuf,
}

/// A directory behind a slow file system.
#[derive(Clone, Debug)]
pub struct SlowDirectory {
    /// The directory.
    pub path: PathBuf,
    /// The delay of each request, as `firstbyte link` takes it.
    pub rtt: String,
    /// The rate, as `firstbyte link` takes it.
    pub rate: String,
}
