//! How to reach stores. The edges fill this in from flags and environment; nothing below reads either, but for the
//! credential chain, whose places are AWS's own.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use firstbyte_location::redacted;

use crate::wire::Origin;
use crate::{Error, Result};

/// Whether S3 requests are signed, and as whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Signing {
    /// With credentials from the AWS chain.
    #[default]
    Chain,
    /// With these, and no others.
    Keys(Keys),
    /// Not at all: public buckets.
    Anonymous,
}

/// Which redirects of web servers are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redirects {
    /// All but those from https to http.
    #[default]
    KeepTls,
    /// Those too.
    AllowPlain,
}

/// An access key. Printed without its secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    /// The key's name, which is no secret.
    pub access_key_id: String,
    /// The secret.
    pub secret_access_key: String,
    /// The session's token, for temporary keys.
    pub session_token: Option<String>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("access_key_id", &self.access_key_id).finish_non_exhaustive()
    }
}

/// What becomes of a control call (a stat, a page of a listing) whose endpoint has stopped answering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outages {
    /// It is tried again, as often as after other failures: for transfers, which have time.
    #[default]
    WaitFor,
    /// It fails: for readers, each of whom waits for one deadline and no longer.
    FailFast,
}

/// Proxies for outgoing requests, as the usual variables give them. Printed without their passwords.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// Proxy URL for `http://` (absolute-form requests).
    pub http: Option<String>,
    /// Proxy URL for `https://` (CONNECT).
    pub https: Option<String>,
    /// Hosts reached directly: names, domain suffixes, addresses, or `*`.
    pub bypass: Vec<String>,
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |url: &Option<String>| url.as_deref().map(|url| redacted(url).into_owned());
        f.debug_struct("Proxies")
            .field("http", &shown(&self.http))
            .field("https", &shown(&self.https))
            .field("bypass", &self.bypass)
            .finish()
    }
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
    /// Which redirects of web servers are followed.
    pub redirects: Redirects,
    /// Outgoing proxies.
    pub proxies: Proxies,
    /// Longest silence on a connection before it counts as dead.
    pub read_deadline: Duration,
    /// Longest wait for a connection.
    pub connect_deadline: Duration,
    /// How often a control call, or a request refused with SlowDown or 5xx, is tried again.
    pub retries: u32,
    /// What becomes of a control call whose endpoint has stopped answering.
    pub outages: Outages,
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
            redirects: Redirects::KeepTls,
            proxies: Proxies::default(),
            // DESIGN promise 3: a dead endpoint gives an error within 30 s.
            read_deadline: Duration::from_secs(30),
            connect_deadline: Duration::from_secs(10),
            retries: 5,
            outages: Outages::WaitFor,
        }
    }
}

impl Options {
    /// Refuses texts that cannot stand where they go: into host names, headers and signatures.
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
            ("--sse-kms-key-id", key),
        ];
        for (name, text) in texts.into_iter().filter_map(|(name, text)| Some((name, text?))) {
            // A profile's name is looked up and never sent, so it may have letters of any kind, and spaces.
            let checked = match name {
                "--profile" if text.contains(char::is_control) => Err(CONTROL),
                "--profile" => Ok(()),
                _ if text.contains(' ') => Err("has a space"),
                _ => header_value(text),
            };
            checked.map_err(|why| Error::Options {
                what: name.to_owned(),
                why: format!("`{}` {why}", text.escape_debug()),
            })?;
        }
        if let Some(url) = self.endpoint_url.as_ref().filter(|url| Origin::parse_url(url).is_none()) {
            let why = format!("`{url}` is no endpoint; write http(s)://HOST[:PORT]");
            return Err(Error::Options { what: "--endpoint-url".to_owned(), why });
        }
        let region = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        match &self.region {
            Some(text) if !text.bytes().all(region) => Err(Error::Options {
                what: "--region".to_owned(),
                why: format!("`{text}` is no region's name; write one such as eu-west-1"),
            }),
            _ => Ok(()),
        }
    }
}

const CONTROL: &str = "has a line break or another control character";

/// Whether a text can be the value of a header as it is.
///
/// # Errors
/// What is wrong with it, to be put behind its name.
pub fn header_value(text: &str) -> std::result::Result<(), &'static str> {
    if text.contains(char::is_control) {
        Err(CONTROL)
    } else if !text.is_ascii() {
        Err("has characters that are not ASCII")
    } else if text.trim().is_empty() {
        Err("is empty")
    } else {
        Ok(())
    }
}
