//! Holds the configuration of a server. Every policy is an enum. The caller fills in the values;
//! this module reads no environment variables.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use firstbyte_hydrate::Hydrator;
use firstbyte_location::{Entry, Location, shown};
use firstbyte_store::Via;

use crate::access::keys::ServerKeys;

/// The content to serve.
#[derive(Clone, Debug)]
pub enum ServeSource {
    /// A directory; nothing outside it is reachable.
    Directory(PathBuf),
    /// A remote location, through the block cache. It is read-only.
    Gateway(GatewayConfig),
}

impl std::fmt::Display for ServeSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Directory(path) => shown(path).fmt(f),
            Self::Gateway(gateway) => gateway.location.fmt(f),
        }
    }
}

/// The settings of a gateway.
#[derive(Clone)]
pub struct GatewayConfig {
    /// The location at the origin: a bucket, a prefix, all buckets of a service, or a directory of
    /// a web server or an SFTP host.
    pub location: Location,
    /// The cache, and the store that reads the origin.
    pub hydrator: Hydrator,
    /// Time for which a look-up of an object is valid. With zero, every request asks the origin.
    pub fresh: Duration,
    /// Additional time for which a look-up is used while the origin is down.
    pub stale: Duration,
    /// Bytes of memory for clients that wait, and for content that is not in the cached file.
    pub memory: u64,
    /// Deadline of one call of the origin.
    pub deadline: Duration,
    /// Sets the header `Via` of the store's requests, by which gateways detect loops.
    pub via: Via,
    /// The price in USD of one request to the origin, for the counters.
    pub usd_per_request: Option<f64>,
    /// Manifest of the objects that listings show. `None`: listings show the origin's objects.
    pub names: Option<NameSource>,
}

/// Objects of a manifest.
pub type PlannedObjects = Box<dyn Iterator<Item = io::Result<(Location, Entry)>> + Send>;

/// Opens a manifest. Its objects may be in any order, and may lie outside the served location.
pub type NameSource = Arc<dyn Fn() -> io::Result<PlannedObjects> + Send + Sync>;

impl std::fmt::Debug for GatewayConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { location, fresh, stale, .. } = self;
        f.debug_struct("GatewayConfig")
            .field("location", location)
            .field("fresh", fresh)
            .field("stale", stale)
            .finish_non_exhaustive()
    }
}

/// The settings of a [`crate::Server`]. [`Config::new`] has safe defaults: read-only, loopback, no
/// keys.
#[derive(Clone, Debug)]
pub struct Config {
    /// The content to serve.
    pub source: ServeSource,
    /// The address to listen on. Port 0 takes any free port, which [`crate::Server::url`] returns.
    pub listen: SocketAddr,
    /// The clients' permission to change the directory.
    pub writing: WritePolicy,
    /// How the directory maps to S3 buckets.
    pub buckets: Buckets,
    /// The clients that are admitted.
    pub authentication: Authentication,
    /// The versions of S3 signatures that are accepted.
    pub signatures: SignatureVersions,
    /// Permission to listen beyond loopback without keys.
    pub exposure: UnauthenticatedListening,
    /// Certificate and key, for HTTPS.
    pub tls: Option<TlsFiles>,
    /// The rights of web pages from other origins in a browser.
    pub cors: Cors,
    /// Further names of the server, in addition to the machine's and the certificate's. A request
    /// for another name is refused.
    pub names: Vec<String>,
    /// Names of the server that may have a bucket in front. With `s3.lab.example`,
    /// `bucket.s3.lab.example/key` is `/bucket/key`.
    pub host_style: Vec<String>,
    /// Path prefix that a reverse proxy adds, such as `/data`; empty for none.
    pub base_path: String,
    /// The receiver of log lines for requests.
    pub access_log: AccessLog,
    /// Bounds on connections, time and rate.
    pub limits: ServerLimits,
}

impl Config {
    /// Serves `directory` read-only on a free loopback port, without keys.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self::of(ServeSource::Directory(directory.into()))
    }

    /// Serves `source` read-only on a free loopback port, without keys.
    #[must_use]
    pub fn of(source: ServeSource) -> Self {
        Self {
            source,
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            writing: WritePolicy::Refused,
            buckets: Buckets::FirstLevel,
            authentication: Authentication::None,
            signatures: SignatureVersions::V4Only,
            exposure: UnauthenticatedListening::Guarded,
            tls: None,
            cors: Cors::default(),
            names: Vec::new(),
            host_style: Vec::new(),
            base_path: String::new(),
            access_log: AccessLog::Off,
            limits: ServerLimits::default(),
        }
    }
}

/// The clients' permission to change the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritePolicy {
    /// Every write is refused.
    Refused,
    /// Writes are accepted from clients with the right to write.
    Allowed,
}

/// How the directory maps to S3 buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Buckets {
    /// Each first-level directory is a bucket.
    FirstLevel,
    /// The directory itself is the only bucket, under this name.
    Named(String),
}

impl Buckets {
    /// Returns the path of an object below the directory, against which rights are checked.
    pub(crate) fn path_of(&self, bucket: &str, key: &str) -> String {
        match self {
            Self::FirstLevel => format!("{bucket}/{key}"),
            Self::Named(_) => key.to_owned(),
        }
    }

    /// Splits the path of a plain HTTP request after the name of the only bucket. `None` if the
    /// path does not begin with that name. The rest is empty or begins with `/`.
    pub(crate) fn split<'a>(&self, path: &'a str) -> Option<(&'a str, &'a str)> {
        let Self::Named(name) = self else { return None };
        let end = path.strip_prefix('/')?.find('/').map_or(path.len(), |at| at + 1);
        let is_bucket = percent_encoding::percent_decode_str(&path[1..end]).eq(name.bytes());
        is_bucket.then(|| path.split_at(end))
    }
}

/// The clients that are admitted.
#[derive(Clone, Debug)]
pub enum Authentication {
    /// All clients are admitted, and signatures are not checked.
    None,
    /// Holders of these keys, each within its rights.
    Keys(ServerKeys),
}

/// The versions of S3 signatures that are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureVersions {
    /// Version 4 only. Version 2 covers neither the host nor most of the query.
    V4Only,
    /// Version 2 too, for clients that support nothing else. A version 2 signature is valid within
    /// 15 minutes of its date.
    V2Too,
}

/// Permission to listen beyond loopback without keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnauthenticatedListening {
    /// Without keys, refuse to listen beyond loopback.
    Guarded,
    /// The user has confirmed that access without keys is intended.
    Public,
}

/// The destination of the lines that report answered requests.
#[derive(Clone, Copy, Debug)]
pub enum AccessLog {
    /// Requests are not reported.
    Off,
    /// Each line is passed to this function, with its line feed. The function must not block or
    /// panic.
    To(fn(&str)),
}

/// Certificate chain and private key, both PEM files.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The chain, leaf first.
    pub certificate: PathBuf,
    /// The leaf's key.
    pub key: PathBuf,
}

/// The rights of web pages from other origins in a browser.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cors {
    /// Origins that may read.
    pub read: Origins,
    /// Origins that may read and write.
    pub write: Origins,
}

/// A set of web origins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origins {
    /// No origin.
    #[default]
    None,
    /// All origins are allowed, but without credentials.
    Any,
    /// The listed origins, such as `https://lab.example`.
    Listed(Vec<String>),
}

/// Bounds on connections, time and rate.
#[derive(Clone, Debug)]
pub struct ServerLimits {
    /// Maximum number of open connections. Further connections wait in the kernel's queue.
    pub connections: usize,
    /// Maximum time from the first byte of a request head to its last byte.
    pub head: Duration,
    /// Maximum time for which a kept-alive connection may wait for its next request.
    pub idle: Duration,
    /// Maximum time in the middle of a body during which a peer sends and receives no byte.
    pub stall: Duration,
    /// Time for which running requests may continue after the server was asked to stop.
    pub drain: Duration,
    /// Age at which unfinished uploads, abandoned temporary files and the page's trash are removed.
    pub abandoned: Duration,
    /// Minimum size in bytes of each part of a multipart upload except the last.
    pub smallest_part: u64,
    /// Bytes per second over all connections; `None` for no limit.
    pub rate: Option<u64>,
    /// Bytes per second for one connection; `None` for no limit.
    pub connection_rate: Option<u64>,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            // A connection takes one descriptor, and up to three more during a request. On most
            // hosts a process may open more than this after it has raised its soft limit. If not,
            // the listener accepts fewer connections.
            connections: 16_384,
            // Long enough for a head over a bad mobile link, and short enough to make a slowloris
            // attack ineffective.
            head: Duration::from_secs(15),
            idle: Duration::from_secs(75),
            stall: Duration::from_secs(60),
            drain: Duration::from_secs(30),
            // Longer than a user's intended pause. S3 recommends the same value for its lifecycle
            // rule.
            abandoned: Duration::from_secs(7 * 24 * 3600),
            // S3's limit.
            smallest_part: 5 << 20,
            rate: None,
            connection_rate: None,
        }
    }
}
