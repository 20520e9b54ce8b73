//! How to reach stores. The edges fill this in from flags and environment; nothing below reads either, but for the
//! credential chain, whose places are AWS's own.

use std::path::PathBuf;
use std::time::Duration;

use crate::wire::Origin;
use crate::{Error, Result};

/// Whether S3 requests are signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Signing {
    /// With credentials from the AWS chain.
    #[default]
    Chain,
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
