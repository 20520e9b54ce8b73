//! The configuration of a server. Every policy is an enum. The caller fills it in; nothing here
//! reads the environment.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use firstbyte_hydrate::Hydrator;
use firstbyte_location::{Entry, Location, shown};
use firstbyte_store::Via;

use crate::access::keys::Keys;

/// Source of a server.
#[derive(Clone, Debug)]
pub enum Source {
    /// A directory; nothing outside it is reachable.
    Directory(PathBuf),
    /// A remote location, through the block cache. It is read-only.
    Gateway(GatewayConfig),
}

impl std::fmt::Display for Source {
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
    /// How long an object is served before it is looked up again; zero: each time.
    pub fresh: Duration,
    /// How long after that it is still served while the origin is down.
    pub stale: Duration,
    /// Bytes of memory for clients that wait, and for bytes that are not in the cached file.
    pub memory: u64,
    /// How long a call of the origin may take.
    pub deadline: Duration,
    /// The header `Via` of the store's requests, which the gateway sets to detect loops.
    pub via: Via,
    /// The price of a request to the origin, for the counters.
    pub usd_per_request: Option<f64>,
    /// The objects that listings show. `None`: those that the origin lists.
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

/// Everything a [`crate::Server`] needs to know. [`Config::new`] is the safe start: read-only,
/// loopback, no keys.
#[derive(Clone, Debug)]
pub struct Config {
    /// Source to serve.
    pub source: Source,
    /// The address to listen on; port 0 for any free one, see [`crate::Server::url`].
    pub listen: SocketAddr,
    /// Whether clients may change the directory.
    pub writing: Writing,
    /// How the directory maps to S3 buckets.
    pub buckets: Buckets,
    /// Who may come in.
    pub authentication: Authentication,
    /// The versions of S3 signatures that are accepted.
    pub signatures: SignatureVersions,
    /// Whether the server may listen beyond loopback without keys.
    pub exposure: Exposure,
    /// Certificate and key, for HTTPS.
    pub tls: Option<Tls>,
    /// What pages of other origins may do from a browser.
    pub cors: Cors,
    /// Names of the server, beside the machine's and those of its certificate. A request for
    /// another name is refused.
    pub names: Vec<String>,
    /// Names of the server that may have a bucket in front, such as `s3.lab.example`: then
    /// `bucket.s3.lab.example/key` is `/bucket/key`.
    pub host_style: Vec<String>,
    /// Path prefix a reverse proxy puts before everything, such as `/data`; empty for none.
    pub base_path: String,
    /// True to log each request on stderr.
    pub access_log: AccessLog,
    /// Bounds on connections, time and rate.
    pub limits: Limits,
}

impl Config {
    /// Serves `directory` read-only on a free loopback port, without keys.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self::of(Source::Directory(directory.into()))
    }

    /// Serves `source` read-only on a free loopback port, without keys.
    #[must_use]
    pub fn of(source: Source) -> Self {
        Self {
            source,
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            writing: Writing::Refused,
            buckets: Buckets::FirstLevel,
            authentication: Authentication::None,
            signatures: SignatureVersions::V4Only,
            exposure: Exposure::Guarded,
            tls: None,
            cors: Cors::default(),
            names: Vec::new(),
            host_style: Vec::new(),
            base_path: String::new(),
            access_log: AccessLog::Off,
            limits: Limits::default(),
        }
    }
}

/// Whether clients may change the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writing {
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
    /// The directory itself is the one bucket, under this name.
    Named(String),
}

impl Buckets {
    /// Cuts a plain `path` that begins in the one bucket behind the bucket's name. The rest is
    /// empty or begins with `/`.
    pub(crate) fn split<'a>(&self, path: &'a str) -> Option<(&'a str, &'a str)> {
        let Self::Named(name) = self else { return None };
        let end = path.strip_prefix('/')?.find('/').map_or(path.len(), |at| at + 1);
        let is_bucket = percent_encoding::percent_decode_str(&path[1..end]).eq(name.bytes());
        is_bucket.then(|| path.split_at(end))
    }
}

/// Who may come in.
#[derive(Clone, Debug)]
pub enum Authentication {
    /// Anyone; signatures are accepted unread.
    None,
    /// Holders of these keys, each within its rights.
    Keys(Keys),
}

/// The versions of S3 signatures that are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureVersions {
    /// Version 4 only. Version 2 covers neither the host nor most of the query.
    V4Only,
    /// Version 2 as well, for clients that know nothing else; within 15 minutes of its date.
    V2Too,
}

/// Whether the server may listen beyond loopback without keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// Without keys, refuse to listen beyond loopback.
    Guarded,
    /// The user has confirmed that access without keys is intended.
    Public,
}

/// Whether each answered request is reported.
#[derive(Clone, Copy, Debug)]
pub enum AccessLog {
    /// It is not.
    Off,
    /// A line each, its end included, is given to this, which must neither block nor panic.
    To(fn(&str)),
}

/// Certificate chain and private key, both PEM files.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The chain, leaf first.
    pub certificate: PathBuf,
    /// The leaf's key.
    pub key: PathBuf,
}

/// What pages of other origins may do from a browser.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cors {
    /// Those that may read.
    pub read: Origins,
    /// Those that may read and write.
    pub write: Origins,
}

/// Some origins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origins {
    /// None.
    #[default]
    None,
    /// All, without credentials.
    Any,
    /// These, such as `https://lab.example`.
    Listed(Vec<String>),
}

/// Bounds on connections, time and rate.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections held at once; further ones wait in the kernel's queue.
    pub connections: usize,
    /// How long a request head may take from its first byte to its last.
    pub head: Duration,
    /// How long a kept-alive connection may wait for its next request.
    pub idle: Duration,
    /// How long a peer may neither send nor take a byte in the middle of a body.
    pub stall: Duration,
    /// How long running requests may continue after a stop was asked for.
    pub drain: Duration,
    /// How long a multipart upload may lie untouched before what it holds is removed.
    pub abandoned: Duration,
    /// Bytes in the smallest part of a multipart upload but its last.
    pub smallest_part: u64,
    /// Bytes per second over all connections; none for no limit.
    pub rate: Option<u64>,
    /// Bytes per second for one connection; none for no limit.
    pub connection_rate: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // Each costs a descriptor or two; most hosts allow a process far more after raising its
            // soft limit.
            connections: 16_384,
            // Long enough for a head over a bad mobile link, short enough that slowloris gains
            // little.
            head: Duration::from_secs(15),
            idle: Duration::from_secs(75),
            stall: Duration::from_secs(60),
            drain: Duration::from_secs(30),
            // Longer than an intended pause; the value that S3 recommends for its lifecycle rule.
            abandoned: Duration::from_secs(7 * 24 * 3600),
            // S3's own.
            smallest_part: 5 << 20,
            rate: None,
            connection_rate: None,
        }
    }
}
