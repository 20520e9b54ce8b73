//! How to reach stores. The edges fill this in from flags and environment; nothing below reads either, but for the
//! credential chain, whose places are AWS's own.

use std::path::PathBuf;
use std::time::Duration;

/// Whether S3 requests are signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Signing {
    /// With credentials from the AWS chain.
    #[default]
    Chain,
    /// Not at all: public buckets.
    Anonymous,
}

/// Proxies for outgoing requests, as the usual variables give them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    /// Proxy URL for `http://` (absolute-form requests).
    pub http: Option<String>,
    /// Proxy URL for `https://` (CONNECT).
    pub https: Option<String>,
    /// Hosts reached directly: names, domain suffixes, addresses, or `*`.
    pub bypass: Vec<String>,
}

/// Server-side encryption asked for on writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerSideEncryption {
    /// SSE-S3 (`AES256`).
    S3,
    /// SSE-KMS, with this key id or the bucket's default.
    Kms(Option<String>),
}

/// How a [`Store`](crate::Store) reaches the places it opens.
#[derive(Clone, Debug)]
pub struct Options {
    /// S3 endpoint instead of AWS's, `http(s)://HOST[:PORT]`. Buckets are addressed by path there, unless it is AWS's own.
    pub endpoint_url: Option<String>,
    /// Profile in the AWS configuration files.
    pub profile: Option<String>,
    /// Region; found from the chain, and corrected from the bucket's answer, where it is not given.
    pub region: Option<String>,
    /// Whether S3 requests are signed.
    pub signing: Signing,
    /// Whether the requester pays (`x-amz-request-payer`).
    pub request_payer: bool,
    /// Encryption asked for on S3 writes.
    pub encryption: Option<ServerSideEncryption>,
    /// Storage class asked for on S3 writes, as the service names it (`STANDARD_IA`); the bucket's default where none is.
    pub storage_class: Option<String>,
    /// PEM file of certificate authorities to trust instead of the system's.
    pub ca_bundle: Option<PathBuf>,
    /// Outgoing proxies.
    pub proxies: Proxies,
    /// Longest silence on a connection before it counts as dead.
    pub read_deadline: Duration,
    /// Longest wait for a connection.
    pub connect_deadline: Duration,
    /// How often a control call, or a request refused with SlowDown or 5xx, is tried again.
    pub retries: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            endpoint_url: None,
            profile: None,
            region: None,
            signing: Signing::Chain,
            request_payer: false,
            encryption: None,
            storage_class: None,
            ca_bundle: None,
            proxies: Proxies::default(),
            // DESIGN promise 3: a dead endpoint gives an error within 30 s.
            read_deadline: Duration::from_secs(30),
            connect_deadline: Duration::from_secs(10),
            retries: 5,
        }
    }
}
