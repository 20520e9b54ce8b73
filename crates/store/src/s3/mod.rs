//! Reads and writes S3. Every call is one signed HTTP request, sent by [`WireClient`].
//!
//! An S3 SDK would put heap-allocated streams between the socket and the caller, and hide the
//! response heads that version checks need. Only the search for credentials uses the SDK.
//!
//! A call is repeated after a transient failure, after the service reports that the bucket is in
//! another region (the region is remembered), and once after the service rejects the credentials as
//! expired.

mod bucket;
#[cfg_attr(not(feature = "aws-config"), path = "no_chain.rs")]
mod chain;
mod completed;
#[cfg(feature = "aws-config")]
mod config_files;
mod credentials;
mod customer_key;
mod delete;
mod dialect;
mod endpoint;
mod endpoints;
mod environment;
mod errors;
mod express;
mod key;
mod list;
mod multipart;
mod names;
mod operation;
mod presign;
#[cfg_attr(not(feature = "aws-config"), path = "no_profile.rs")]
mod profile;
#[cfg(feature = "aws-config")]
mod provider_client;
mod read;
#[cfg(feature = "aws-config")]
mod runtime;
mod service;
mod settings;
mod sign;
mod signature;
mod unusable_setting;
mod write;
pub(crate) mod xml;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use firstbyte_location::{ObjectLocation, redacted};
use firstbyte_pacing::Throttle;
use rustix_futex_sync::Mutex;

use crate::cancel::Cancel;
use crate::error::{AddressSource, EXPECTS_TLS, Error, RequestAuthentication, Result};
use crate::order::is_directory_bucket;
use crate::partitions::Partition;
use crate::retry::Retry;
use crate::signing::Signing;
use crate::upload::Payload;
use crate::wire::{Incoming, ResponseHead, WireClient, WireRequest};

use credentials::S3Credentials;
use customer_key::ReadKeyHeaders;
use dialect::{ListVersion, is_region};
use endpoint::BucketAddress;
use endpoints::EndpointSettings;
pub(crate) use endpoints::NamedServices;
pub(crate) use environment::variable;
use errors::S3Refusal;
pub(crate) use errors::retry_after;
use express::ExpressSessions;
use names::LearntNames;
use operation::S3Operation;
pub use presign::{Presign, PresignMethod, Presigned};
pub use service::{ServiceAnswer, ServiceMethod, ServiceRequest};
use settings::ChecksumHeaders;
pub use settings::EndpointSource;
pub(crate) use settings::ca_bundle;
use sign::SigningRules;

/// Maximum length of an XML response, in bytes. A page of 1,000 percent-encoded keys of 1,024 bytes
/// is shorter.
const MAX_XML_BYTES: usize = 16 << 20;

/// The S3-compatible service that the options name.
pub(crate) struct S3 {
    client: Arc<WireClient>,
    identity: Arc<S3Credentials>,
    /// The regions of buckets, learnt from responses.
    regions: Arc<Mutex<HashMap<String, String>>>,
    /// True once the service has refused checksum headers. They are then no longer sent.
    without_checksums: Arc<AtomicBool>,
    /// True after the service has required `Content-MD5` of a write.
    with_md5: Arc<AtomicBool>,
    /// The encoding of names in listings, learnt from responses.
    names: Arc<LearntNames>,
    /// True once the service has shown that it supports only version 1 of the listing request.
    first_list_version: Arc<AtomicBool>,
    sessions: Arc<ExpressSessions>,
}

/// A request to S3 before it has an address and a signature.
pub(super) struct S3Call<'a> {
    operation: S3Operation,
    object: &'a ObjectLocation,
    query: Vec<(&'static str, String)>,
    headers: Vec<(String, String)>,
    payload: Payload<'a>,
    /// Bytes that the service processes before it responds: see [`WireRequest::work`].
    work: u64,
    cancel: &'a Cancel,
    throttle: Throttle,
}

impl<'a> S3Call<'a> {
    fn new(operation: S3Operation, object: &'a ObjectLocation, cancel: &'a Cancel) -> Self {
        let (query, headers, payload) = (Vec::new(), Vec::new(), Payload::Bytes(b""));
        Self { operation, object, query, headers, payload, work: 0, cancel, throttle: Throttle::default() }
    }

    fn header(&mut self, name: &str, value: impl Into<String>) {
        self.headers.push((name.to_owned(), value.into()));
    }

    fn place(&self) -> String {
        self.object.to_string()
    }
}

/// The endpoint to which a store sends requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The URL: `http(s)://HOST[:PORT]`, optionally with a path.
    pub url: String,
    /// The configured region.
    pub region: Option<String>,
    /// The setting that gave the URL.
    pub source: EndpointSource,
}

/// A response whose body has not been read yet, or a refusal with its body.
type Reply = std::result::Result<(ResponseHead, Incoming), S3Refusal>;

impl S3 {
    pub(crate) fn new(client: Arc<WireClient>) -> Self {
        Self {
            identity: Arc::new(S3Credentials::new(&client, None)),
            client,
            regions: Arc::default(),
            without_checksums: Arc::default(),
            with_md5: Arc::default(),
            names: Arc::default(),
            first_list_version: Arc::default(),
            sessions: Arc::default(),
        }
    }

    /// Returns the service of a named endpoint.
    fn named(client: Arc<WireClient>, endpoint: EndpointSettings) -> Self {
        let identity = Arc::new(S3Credentials::new(&client, Some(endpoint)));
        Self { identity, ..Self::new(client) }
    }

    /// Returns the same service with the scope of another client.
    fn in_scope_of(&self, client: &WireClient) -> Self {
        self.with_client(Arc::new(self.client.in_scope_of(client)))
    }

    /// Returns the same service for requests that end only when `cancel`, or the request's own
    /// handle, is cancelled.
    pub(crate) fn with_scope(&self, cancel: Cancel) -> Self {
        self.with_client(Arc::new(self.client.with_scope(cancel)))
    }

    /// Returns the same service with another client.
    pub(crate) fn with_client(&self, client: Arc<WireClient>) -> Self {
        Self {
            client,
            identity: Arc::clone(&self.identity),
            regions: Arc::clone(&self.regions),
            without_checksums: Arc::clone(&self.without_checksums),
            with_md5: Arc::clone(&self.with_md5),
            names: Arc::clone(&self.names),
            first_list_version: Arc::clone(&self.first_list_version),
            sessions: Arc::clone(&self.sessions),
        }
    }

    /// Returns the URL of the service, the configured region if there is one, and the setting that
    /// gave the URL.
    pub(crate) fn endpoint(&self) -> Result<Endpoint> {
        let settings = self.identity.settings(&self.client.options)?;
        Ok(Endpoint {
            url: endpoint::url(settings, settings.region.as_deref().unwrap_or(endpoint::FIRST_REGION)),
            region: settings.region.clone(),
            source: settings.endpoint_source,
        })
    }

    /// Returns the region in which a bucket was found, if it is not the configured one.
    pub(crate) fn found_region(&self, bucket: &str) -> Option<String> {
        self.regions.lock().get(bucket).cloned()
    }

    /// Returns the configured URL of the service. For AWS it is empty or names the partition. If
    /// the configuration is unusable, it is empty, and every request reports that.
    pub(crate) fn configured_url(&self) -> String {
        let Ok(settings) = self.identity.settings(&self.client.options) else { return String::new() };
        // The name of a bucket is unique within a partition of AWS.
        let partition = Partition::of(settings.region.as_deref().unwrap_or_default());
        settings.endpoint_url.clone().unwrap_or_else(|| partition.regions.to_owned())
    }

    /// Sends a call and retries it after transient failures, except those for which `is_final` is
    /// true.
    fn call_unless(
        &self,
        call: &S3Call<'_>,
        is_final: impl Fn(&Error) -> bool,
    ) -> Result<(ResponseHead, Incoming)> {
        let sent = self.retrying(call, |reply| match reply.map_err(|refusal| refusal.into_error(call)) {
            Err(error) if is_final(&error) => Ok(Err(error)),
            other => other.map(Ok),
        });
        sent?
    }

    /// Sends a call and retries it after transient failures. The response is a short text, which
    /// may be an error.
    fn call_text(&self, call: &S3Call<'_>) -> Result<(ResponseHead, Vec<u8>)> {
        self.retrying(call, |reply| self.text_of(call, reply))
    }

    /// Reads the text of a response. An error inside a 200 counts as an error, for every operation.
    fn text_of(&self, call: &S3Call<'_>, reply: Reply) -> Result<(ResponseHead, Vec<u8>)> {
        let (head, incoming) = reply.map_err(|refusal| refusal.into_error(call))?;
        let body = incoming.collect(MAX_XML_BYTES)?;
        match S3Refusal::in_success(&head, &body, self.authentication()) {
            Some(refusal) => Err(refusal.into_error(call)),
            None => Ok((head, body)),
        }
    }

    /// Sends a call, and repeats it while `accept` makes a transient error of the reply.
    fn retrying<T>(&self, call: &S3Call<'_>, accept: impl Fn(Reply) -> Result<T>) -> Result<T> {
        let mut retry = Retry::new(&self.client, call.cancel);
        loop {
            match self.send(call).and_then(&accept) {
                Ok(done) => return Ok(done),
                Err(error) => retry.wait_or_give_up(error)?,
            }
        }
    }

    /// Sends a call once, and again if the bucket is in another region, if the credentials have
    /// expired, or if the object may have been stored without the customer's key.
    fn send(&self, call: &S3Call<'_>) -> Result<Reply> {
        let place = call.place();
        let mut renewed = false;
        let mut moved = false;
        let mut reading = ReadKeyHeaders::WithKey;
        loop {
            let region = self.region(&call.object.bucket)?;
            let (head, incoming) = self.send_to(call, &place, &region, reading)?;
            if head.status < 300 {
                return Ok(Ok((head, incoming)));
            }
            let refusal = self.refusal(call, &region, head, incoming)?;
            let right = match refusal.hides_region() && !moved {
                true => self.region_of_bucket(call, &region),
                false => refusal.region().map(ToOwned::to_owned),
            };
            match right {
                Some(right) if !moved && right != region => {
                    tracing::debug!(bucket = call.object.bucket, %right, "bucket lives in another region");
                    self.client.check_priced_region(&right, &place)?;
                    self.regions.lock().insert(call.object.bucket.clone(), right);
                    moved = true;
                }
                _ if refusal.means_expired() && !renewed => {
                    self.identity.forget();
                    self.sessions.forget(&call.object.bucket);
                    renewed = true;
                }
                _ if self.client.options.customer_key.is_some()
                    && reading == ReadKeyHeaders::WithKey
                    && customer_key::may_be_plain(call.operation, refusal.head.status) =>
                {
                    reading = ReadKeyHeaders::Plain;
                }
                _ => return Ok(Err(refusal)),
            }
            self.client.counters.retries.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Requests the region of a bucket, as botocore does (`utils.S3RegionRedirectorv2`). `None` if
    /// no response names it, or if the call creates the bucket.
    fn region_of_bucket(&self, call: &S3Call<'_>, region: &str) -> Option<String> {
        if matches!(call.operation, S3Operation::CreateBucket | S3Operation::HeadBucket) {
            return None;
        }
        let bucket = call.object.with_key("");
        let asked = S3Call::new(S3Operation::HeadBucket, &bucket, call.cancel);
        // Any status has the header.
        let (head, _) = self.send_to(&asked, &asked.place(), region, ReadKeyHeaders::Plain).ok()?;
        head.get("x-amz-bucket-region").filter(|region| is_region(region)).map(ToOwned::to_owned)
    }

    /// Reads a refusal. If the server expects TLS, fails with an error about the endpoint instead.
    fn refusal(
        &self,
        call: &S3Call<'_>,
        region: &str,
        head: ResponseHead,
        incoming: Incoming,
    ) -> Result<S3Refusal> {
        // A wrong clock is a common cause of refusals.
        self.client.clocks.learn(call.object.service, &head);
        let refusal = S3Refusal::read(head, incoming, self.authentication())?;
        if !refusal.expects_tls {
            return Ok(refusal);
        }
        let settings = self.identity.settings(&self.client.options)?;
        let origin = BucketAddress::of(&call.object.bucket, settings, region)?.origin;
        let error = Error::unreachable(&origin, EXPECTS_TLS.to_owned(), None);
        Err(self.with_setting(error.traced(|| refusal.trace())))
    }

    fn send_to(
        &self,
        call: &S3Call<'_>,
        place: &str,
        region: &str,
        reading: ReadKeyHeaders,
    ) -> Result<(ResponseHead, Incoming)> {
        endpoint::check_bucket(&call.object.bucket)?;
        let cancel = self.client.scoped_cancel(call.cancel);
        let options = &self.client.options;
        let settings = self.identity.settings(options)?;
        let address = match call.operation {
            S3Operation::CreateBucket | S3Operation::DeleteBucket => {
                BucketAddress::for_control(&call.object.bucket, settings, region)?
            }
            _ => BucketAddress::of(&call.object.bucket, settings, region)?,
        };
        let mut request = WireRequest {
            place,
            operation: Some(&call.operation),
            origin: &address.origin,
            method: call.operation.method(),
            kind: call.operation.kind(),
            target: address.target(&call.object.key, &call.query),
            headers: call.headers.clone(),
            payload: call.payload,
            work: call.work,
            cancel: &cancel,
            throttle: &call.throttle,
        };
        if options.request_payer {
            request.headers.push(("x-amz-request-payer".to_owned(), "requester".to_owned()));
        }
        if let Some(key) = &options.customer_key
            && customer_key::is_needed(call.operation, reading)
        {
            customer_key::add_headers(call.operation, key.get()?, reading, &mut request.headers);
        }
        if let Some(credentials) = self.identity.credentials(place, options, &cancel)? {
            let (rules, credentials) = match is_directory_bucket(call.object) {
                false => (SigningRules::S3, credentials),
                true if !express::needs_session(call.operation) => (SigningRules::Express, credentials),
                true => (SigningRules::ExpressSession, self.session(call.object, &cancel)?),
            };
            sign::sign_request(&mut request, &credentials, (rules, region), SystemTime::now())?;
        }
        tracing::trace!(operation = ?call.operation, place, query = ?call.query, region, "asking");
        self.client.send(&request).map_err(|error| self.with_setting(error))
    }

    /// Adds the setting that gave the endpoint's address to an error about an unreachable endpoint.
    fn with_setting(&self, error: Error) -> Error {
        let options = &self.client.options;
        let settings = self.identity.settings(options).ok();
        let source = settings.and_then(|found| {
            let name = found.endpoint_source.setting(options.endpoint_setting)?.to_owned();
            let url = redacted(found.endpoint_url.as_deref()?).to_string();
            Some(AddressSource::Setting { name, url })
        });
        source.into_iter().fold(error, Error::named_by)
    }

    fn region(&self, bucket: &str) -> Result<String> {
        let configured = &self.identity.settings(&self.client.options)?.region;
        let found = self.regions.lock().get(bucket).or(configured.as_ref()).cloned();
        Ok(found.unwrap_or_else(|| endpoint::FIRST_REGION.to_owned()))
    }

    fn authentication(&self) -> RequestAuthentication {
        if self.client.options.signing == Signing::Anonymous {
            RequestAuthentication::Unsigned
        } else {
            RequestAuthentication::Signed
        }
    }

    fn list_version(&self) -> Result<ListVersion> {
        let set = self.identity.settings(&self.client.options)?.list_version;
        let learnt = self.first_list_version.load(Ordering::Relaxed);
        Ok(set.unwrap_or(if learnt { ListVersion::V1 } else { ListVersion::V2 }))
    }

    fn uses_checksums(&self) -> bool {
        let settings = self.identity.settings(&self.client.options).ok();
        let off = settings.is_some_and(|settings| settings.checksums == ChecksumHeaders::Off);
        !off && !self.without_checksums.load(Ordering::Relaxed)
    }

    /// Runs a write with checksum headers. If the service refuses them, runs it again without them.
    /// If the service requires `Content-MD5`, runs it again with that header. The first argument of
    /// `write` says whether to send checksum headers, and the second whether to send `Content-MD5`.
    fn with_checksums<T>(&self, write: impl Fn(bool, bool) -> Result<T>) -> Result<T> {
        let with_md5 = self.with_md5.load(Ordering::Relaxed);
        match self.with_crc(|checked| write(checked, with_md5)) {
            Err(error) if !with_md5 && errors::requires_md5(&error) => {
                tracing::debug!(%error, "the service requires Content-MD5");
                self.with_md5.store(true, Ordering::Relaxed);
                self.with_crc(|checked| write(checked, true))
            }
            other => other,
        }
    }

    fn with_crc<T>(&self, write: impl Fn(bool) -> Result<T>) -> Result<T> {
        // Another thread may find out during the write that the service refuses checksums.
        let checked = self.uses_checksums();
        match write(checked) {
            Err(error) if checked && errors::refuses_checksums(&error) => {
                tracing::debug!(%error, "the service does not support checksums; continuing without them");
                self.without_checksums.store(true, Ordering::Relaxed);
                write(false)
            }
            other => other,
        }
    }
}

fn protocol(place: &str, detail: impl ToString) -> Error {
    Error::Protocol { location: place.to_owned(), detail: detail.to_string(), trace: None }
}
