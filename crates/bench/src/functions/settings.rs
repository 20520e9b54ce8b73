//! Settings of a host: a function, its size and surroundings. Made by the command line.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::code::Source;
use super::size::FunctionSize;

/// The longest timeout of a function.
pub(super) const MAX_TIMEOUT: Duration = Duration::from_secs(900);

/// A function to serve.
#[derive(Clone, Debug)]
pub struct HostSettings {
    /// Name of the function.
    pub name: String,
    /// Code of the function.
    pub source: Source,
    /// Memory, and with it the share of a processor; `None` for no limits.
    pub size: Option<FunctionSize>,
    /// Longest time of an invocation.
    pub timeout: Duration,
    /// Largest number of environments at once.
    pub concurrency: usize,
    /// Loopback address for callers.
    pub listen: SocketAddr,
    /// `HOST:PORT` that each environment reaches through its own link. The link's address is in the
    /// variable `AWS_ENDPOINT_URL`.
    pub link_to: Option<String>,
    /// Directory that each environment sees as `/mnt/data`, through its own slow file system.
    pub directory: Option<SlowDirectory>,
    /// Size of `/tmp` in bytes; `None` for the disk's free space.
    pub tmp_bytes: Option<u64>,
    /// Variables of the function's role, such as `AWS_ACCESS_KEY_ID`. The configuration does not
    /// show them to callers.
    pub role: BTreeMap<String, String>,
    /// Variables of the function in addition to Lambda's. Callers may read and change them.
    pub variables: BTreeMap<String, String>,
    /// Environment variables for the link processes and the programs that the host starts.
    pub env: BTreeMap<OsString, OsString>,
    /// Path of the firstbyte program, which also runs as the link.
    pub firstbyte: PathBuf,
    /// Directory on a disk for the host's files.
    pub disk: PathBuf,
}

/// A directory behind a slow file system.
#[derive(Clone, Debug)]
pub struct SlowDirectory {
    /// The directory.
    pub path: PathBuf,
    /// Delay of each request, in the syntax of `firstbyte link`.
    pub rtt: String,
    /// Rate, in the syntax of `firstbyte link`.
    pub rate: String,
}
