//! Defines the options of a store. The command line and Python set them from flags and environment
//! variables. Below these two, only the search for credentials reads the environment.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use firstbyte_location::{Algorithm, Hasher, redacted_operand};
use firstbyte_pacing::{DEADLINE, RETRIES};

use crate::deferred::DeferredSetting;
use crate::error::{Error, Result};
use crate::header_text::{CONTROL, check_header_value};
use crate::origin::Origin;
use crate::signing::Signing;
use crate::spending::Spending;
use crate::via::{Gateways, Via};

/// The redirects of web servers that are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redirects {
    /// All redirects except those from https to http.
    #[default]
    KeepTls,
    /// All redirects.
    AllowPlain,
}

/// The connection string of an Azure storage account. `Debug` omits the string, because it holds
/// the account's key.
#[derive(Clone, PartialEq, Eq)]
pub struct AzureConnection(pub String);

impl fmt::Debug for AzureConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AzureConnection")
    }
}

/// Headers for a web server. `Debug` omits the values.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct HttpHeaders(pub Vec<(String, String)>);

impl HttpHeaders {
    /// Returns the headers, if all of them may be sent.
    ///
    /// # Errors
    /// [`Error::Options`]. Its message omits the values.
    pub(crate) fn checked(&self) -> Result<&[(String, String)]> {
        let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        for (name, value) in &self.0 {
            let checked = match name.as_str() {
                "" => Err("has no name; write NAME: VALUE, or @FILE"),
                name if !name.bytes().all(token) => Err("has a name that is no word"),
                _ => check_header_value(value),
            };
            checked.map_err(|why| Error::Options { what: "--header".to_owned(), why: why.to_owned() })?;
        }
        Ok(&self.0)
    }
}

impl fmt::Debug for HttpHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// Behaviour of control requests, such as a stat or a page of a listing, if their endpoint has
/// stopped responding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outages {
    /// The request is retried as after other failures. For transfers, which can wait.
    #[default]
    WaitFor,
    /// The request fails. For reads, which wait for at most one deadline.
    FailFast,
}

/// A proxy, as an environment variable names it. The URL is parsed when a request first needs the
/// proxy. `Debug` omits the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    /// The URL, or `HOST:PORT`.
    pub url: String,
    /// The name of the variable, for messages.
    pub variable: String,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.variable, redacted_operand(&self.url))
    }
}

/// The proxies for outgoing requests, from the usual environment variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    /// The proxy for `http://` (absolute-form requests).
    pub http: Option<Proxy>,
    /// The proxy for `https://` (CONNECT).
    pub https: Option<Proxy>,
    /// Hosts that are reached directly: names, domain suffixes, addresses, or `*` for all hosts.
    pub bypass: Vec<String>,
}

/// A customer-provided encryption key (SSE-C), which S3 does not store. `Debug` omits the key.
#[derive(Clone, PartialEq, Eq)]
pub struct CustomerKey([u8; 32]);

impl CustomerKey {
    /// Reads a key from a file. Keys are not given as arguments, because other users can see
    /// arguments.
    ///
    /// # Errors
    /// A message that names the fault and the path.
    pub fn read(path: &Path) -> std::result::Result<Self, String> {
        let shown = path.display();
        let content = std::fs::read(path).map_err(|error| format!("{shown}: {error}"))?;
        Self::parse(&content)
            .ok_or_else(|| format!("{shown}: no key; write 32 bytes, or their base64 or hex"))
    }

    /// Parses the content of a key file: 32 bytes, or the base64 or hexadecimal text of 32 bytes.
    /// Returns `None` for any other content.
    #[must_use]
    pub fn parse(content: &[u8]) -> Option<Self> {
        if let Ok(bytes) = content.try_into() {
            return Some(Self(bytes));
        }
        let text = std::str::from_utf8(content).ok()?.trim();
        let bytes = hex::decode(text).or_else(|_| STANDARD.decode(text).map_err(drop)).ok()?;
        Some(Self(bytes.try_into().ok()?))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for CustomerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The digest identifies the key without revealing it. S3 gets the digest too.
        write!(f, "CustomerKey({})", Hasher::of(Algorithm::Md5, &self.0).to_hex())
    }
}

/// Server-side encryption of writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerSideEncryption {
    /// SSE-S3 (`AES256`).
    S3,
    /// SSE-KMS with the key that has this id; without an id, with the bucket's default key.
    Kms(Option<String>),
}

/// Options of a [`Store`](crate::Store).
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// S3 endpoint to use instead of AWS, `http(s)://HOST[:PORT]`. Requests use path-style
    /// addresses, unless the endpoint is one of AWS.
    pub endpoint_url: Option<String>,
    /// The setting that gave the endpoint, for errors about the endpoint.
    pub endpoint_setting: &'static str,
    /// The TOML file that defines named S3 endpoints, for `s3+NAME://`.
    pub config_file: Option<PathBuf>,
    /// An emulator of Google Cloud Storage, `http(s)://HOST[:PORT]`. The emulator gets no
    /// credentials. `None`: the emulator in `STORAGE_EMULATOR_HOST`; if that is not set, the
    /// service itself.
    pub google_endpoint: Option<String>,
    /// The connection string of an Azure storage account. `None`: the environment variables of
    /// Azure's own clients.
    pub azure_connection: Option<AzureConnection>,
    /// Profile in the AWS configuration files.
    pub profile: Option<String>,
    /// Region. `None`: the region in the AWS configuration, corrected by the bucket's response.
    pub region: Option<String>,
    /// Whether S3 requests are signed.
    pub signing: Signing,
    /// Whether the requester pays (`x-amz-request-payer`).
    pub request_payer: bool,
    /// Encryption of S3 writes.
    pub encryption: Option<ServerSideEncryption>,
    /// Customer-provided encryption key (SSE-C) for S3 reads and writes. Objects that are not
    /// encrypted by such a key can be read too.
    pub customer_key: Option<DeferredSetting<CustomerKey>>,
    /// Storage class of S3 writes, as the service calls it (`STANDARD_IA`). `None`: the bucket's
    /// default.
    pub storage_class: Option<String>,
    /// Canned access control list of S3 writes (`bucket-owner-full-control`). `None`: the bucket's
    /// own rules.
    pub acl: Option<String>,
    /// Tags of S3 writes. Without tags here, a copy within S3 keeps the tags of its source.
    pub tags: Vec<(String, String)>,
    /// Headers for the first web server to which a request is sent. No other server gets them.
    pub http_headers: DeferredSetting<HttpHeaders>,
    /// File with the users and passwords of web servers, in the format of curl's `.netrc`.
    pub netrc: Option<PathBuf>,
    /// PEM file with the certificate authorities to trust instead of those of the system.
    pub ca_bundle: Option<PathBuf>,
    /// The redirects of web servers that are followed.
    pub redirects: Redirects,
    /// Outgoing proxies.
    pub proxies: Proxies,
    /// The program that connects to `sftp` hosts, optionally followed by its first arguments,
    /// separated by blanks. `None`: `ssh`.
    pub ssh: Option<String>,
    /// Longest time without data after which a connection counts as dead.
    pub read_deadline: Duration,
    /// Longest time that connecting may take.
    pub connect_deadline: Duration,
    /// Number of retries of a control request, and of a request refused with SlowDown or 5xx.
    pub retries: u32,
    /// The limit on the cost of all requests, and the prices of requests.
    pub spending: Option<Spending>,
    /// Behaviour of control requests if their endpoint has stopped responding.
    pub outages: Outages,
    /// The gateways on whose behalf requests are sent, for the header `Via`.
    pub via: Via,
    /// The gateways through which ranges of objects are read.
    pub gateways: Gateways,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            endpoint_url: None,
            endpoint_setting: "endpoint_url",
            config_file: None,
            google_endpoint: None,
            azure_connection: None,
            profile: None,
            region: None,
            signing: Signing::Chain,
            request_payer: false,
            encryption: None,
            customer_key: None,
            storage_class: None,
            acl: None,
            tags: Vec::new(),
            http_headers: DeferredSetting::default(),
            netrc: None,
            ca_bundle: None,
            redirects: Redirects::KeepTls,
            proxies: Proxies::default(),
            ssh: None,
            // With this deadline, a dead endpoint gives an error within 30 s.
            read_deadline: DEADLINE,
            connect_deadline: Duration::from_secs(10),
            retries: RETRIES,
            spending: None,
            outages: Outages::WaitFor,
            via: Via::default(),
            gateways: Gateways::default(),
        }
    }
}

impl StoreOptions {
    /// Returns the options that determine the content or the owner of written objects.
    pub(crate) fn of_writes(&self) -> impl fmt::Debug + '_ {
        // All options are named here: a new option must be included or ignored deliberately.
        let Self {
            profile,
            encryption,
            customer_key,
            storage_class,
            acl,
            tags,
            // The following options only determine where and how requests are sent.
            http_headers: _,
            endpoint_url: _,
            endpoint_setting: _,
            config_file: _,
            google_endpoint: _,
            azure_connection: _,
            region: _,
            signing: _,
            request_payer: _,
            netrc: _,
            ca_bundle: _,
            redirects: _,
            proxies: _,
            ssh: _,
            read_deadline: _,
            connect_deadline: _,
            retries: _,
            spending: _,
            outages: _,
            via: _,
            gateways: _,
        } = self;
        (profile, encryption, customer_key, storage_class, acl, tags)
    }

    /// Returns true if an option determines how objects are stored.
    pub(crate) fn describes_writes(&self) -> bool {
        self.encryption.is_some()
            || self.customer_key.is_some()
            || self.storage_class.is_some()
            || self.acl.is_some()
            || !self.tags.is_empty()
    }

    /// Checks that option values may be used in host names, headers and signatures.
    pub(crate) fn check(&self) -> Result<()> {
        let key = match &self.encryption {
            Some(ServerSideEncryption::Kms(key)) => key.as_ref(),
            _ => None,
        };
        let texts = [
            ("--endpoint-url", self.endpoint_url.as_ref()),
            ("--profile", self.profile.as_ref()),
            ("--region", self.region.as_ref()),
            ("--storage-class", self.storage_class.as_ref()),
            ("--acl", self.acl.as_ref()),
            ("--sse-kms-key-id", key),
        ];
        for (name, text) in texts.into_iter().filter_map(|(name, text)| Some((name, text?))) {
            // The name of a profile is never sent, so it may have any letters and spaces.
            let checked = match name {
                "--profile" if text.contains(char::is_control) => Err(CONTROL),
                "--profile" => Ok(()),
                _ if text.contains(' ') => Err("has a space"),
                _ => check_header_value(text),
            };
            checked.map_err(|why| Error::Options {
                what: name.to_owned(),
                why: format!("`{}` {why}", redacted_operand(text).escape_debug()),
            })?;
        }
        if let Some(url) = self.endpoint_url.as_ref().filter(|url| Origin::parse_url(url).is_none()) {
            let url = redacted_operand(url);
            let why = format!("`{url}` is not an endpoint; write http(s)://HOST[:PORT]");
            return Err(Error::Options { what: "--endpoint-url".to_owned(), why });
        }
        let region = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        match &self.region {
            Some(text) if !text.bytes().all(region) => Err(Error::Options {
                what: "--region".to_owned(),
                why: format!("`{text}` is not a region; write one such as eu-west-1"),
            }),
            _ => Ok(()),
        }
    }
}
