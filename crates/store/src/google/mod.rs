//! Reads and writes Google Cloud Storage.
//!
//! Bytes and descriptions are read by the XML API, because only that API sends an object's metadata
//! in the head of the response that has its bytes. The JSON API does everything else. The
//! generation of an object is its version.

mod credentials;
mod list;
mod write;

use std::sync::Arc;

use firstbyte_location::{Algorithm, ObjectLocation, Version};

use crate::answer;
use crate::body::Body;
use crate::cancel::Cancel;
use crate::error::{Error, RequestAuthentication, Result};
use crate::object::Stat;
use crate::query::Get;
use crate::rest::{CallAddress, RestCall, RestPage, RestQuery, RestRefusal, RestStore, encoded};
use crate::signing::Signing;
use crate::wire::{HttpMethod, ResponseHead, WireClient};

use credentials::GoogleCredentials;

/// Path of the JSON API's buckets.
const JSON_PATH: &str = "/storage/v1/b";

/// Google Cloud Storage, or an emulator of it.
pub(crate) struct Google {
    client: Arc<WireClient>,
    identity: Arc<GoogleCredentials>,
}

impl Google {
    pub(crate) fn new(client: Arc<WireClient>) -> Self {
        Self { client, identity: Arc::default() }
    }

    /// Returns the same service with another client.
    pub(crate) fn with_client(&self, client: Arc<WireClient>) -> Self {
        Self { client, identity: Arc::clone(&self.identity) }
    }

    /// Sends a `GET`. If the server refuses a range from byte 0, or answers it unusably, sends one
    /// more without a range.
    pub(crate) fn get(&self, object: &ObjectLocation, get: &Get) -> Result<Body> {
        let mut call = RestCall::new(HttpMethod::Get, object, read_path(object), &get.cancel);
        call.throttle = get.throttle.clone();
        // Without this header, objects stored as gzip would be sent decompressed.
        call.header("accept-encoding", "gzip");
        if let Some(range) = get.range {
            call.header("range", answer::range_header(range));
        }
        if let Some(version) = &get.version {
            call.query.extend(version.version_id.clone().map(|id| ("generation", id)));
        }
        self.open(&call, get, with_s3_headers, |get| self.get(object, get))
    }

    /// Describes one generation of an object, by default the current one.
    pub(crate) fn stat_version(&self, object: &ObjectLocation, generation: Option<&str>) -> Result<Stat> {
        let cancel = Cancel::new();
        let mut call = RestCall::new(HttpMethod::Head, object, read_path(object), &cancel);
        call.header("accept-encoding", "gzip");
        if let Some(generation) = generation {
            if !generation.bytes().all(|b| b.is_ascii_digit()) {
                return Err(Error::NotFound {
                    location: format!("{object}, generation {generation}"),
                    trace: None,
                });
            }
            call.query.push(("generation", generation.to_owned()));
        }
        let (head, _) = self.call(&call)?;
        let mut stat = answer::stat(&with_s3_headers(head.clone()), head.content_length(&call.place())?);
        stat.ranges = Some(true);
        Ok(stat)
    }
}

impl Google {
    /// Returns the address of the service or of its emulator. `None` for an unusable configuration.
    pub(crate) fn address(&self) -> Option<String> {
        self.identity.place(&self.client.options).ok().map(|place| place.origin.to_string())
    }

    /// Returns the address of the emulator. Returns an empty string for the service itself. Also
    /// returns an empty string for an unusable configuration, because every request then fails with
    /// the reason.
    pub(crate) fn emulator(&self) -> String {
        let place = self.identity.place(&self.client.options).ok();
        place.filter(|place| place.is_emulator).map_or_else(String::new, |place| place.origin.to_string())
    }
}

impl RestStore for Google {
    fn client(&self) -> &Arc<WireClient> {
        &self.client
    }

    fn address(&self, call: &RestCall<'_>, cancel: &Cancel) -> Result<CallAddress> {
        let mut headers = call.headers.clone();
        let place = self.identity.place(&self.client.options)?;
        if !place.is_emulator && self.client.options.signing != Signing::Anonymous {
            let authorization = self.identity.authorization(call.object, &self.client, cancel)?;
            headers.push(("authorization".to_owned(), authorization));
        }
        if self.client.options.request_payer {
            headers.push(("x-goog-user-project".to_owned(), credentials::project()?));
        }
        Ok(CallAddress { origin: place.origin.clone(), target: call.target(), headers })
    }

    fn renew(&self) -> bool {
        self.identity.forget()
    }

    fn untraced_error(&self, call: &RestCall<'_>, refusal: RestRefusal) -> Error {
        let asked = match self.client.options.signing {
            Signing::Anonymous => RequestAuthentication::Unsigned,
            _ => RequestAuthentication::Google,
        };
        // If the call names no object, a 404 means that the bucket is missing.
        let location = match call.object.key.is_empty() {
            true => call.place().trim_end_matches('/').to_owned(),
            false => call.place(),
        };
        refusal.into_error(location, asked)
    }

    fn head(&self, object: &ObjectLocation) -> Result<Stat> {
        self.stat_version(object, None)
    }

    fn page(&self, query: &RestQuery, token: Option<&str>, most: Option<u32>) -> Result<RestPage> {
        if query.bucket.bucket.is_empty() {
            self.bucket_page(query, token)
        } else {
            self.object_page(query, token, most)
        }
    }

    fn delete(&self, object: &ObjectLocation) -> Result<()> {
        let cancel = Cancel::new();
        match self.call(&RestCall::new(HttpMethod::Delete, object, json_path(object), &cancel)) {
            Err(Error::NotFound { .. }) => Ok(()),
            other => other.map(drop),
        }
    }
}

/// Returns the path of an object in the XML API.
fn read_path(object: &ObjectLocation) -> String {
    format!("/{}/{}", encoded(&object.bucket), encoded(&object.key))
}

/// Returns the path of an object or bucket in the JSON API.
fn json_path(object: &ObjectLocation) -> String {
    let bucket = encoded(&object.bucket);
    if object.key.is_empty() {
        format!("{JSON_PATH}/{bucket}")
    } else {
        format!("{JSON_PATH}/{bucket}/o/{}", encoded(&object.key))
    }
}

/// Converts the headers of a response to those of S3. Drops headers that S3 would not send.
fn with_s3_headers(head: ResponseHead) -> ResponseHead {
    head.renamed(|name, value| {
        let renamed = match name {
            // The generation of the object is used as its version instead, because both APIs return
            // it.
            "etag" => return None,
            "x-goog-generation" => "x-amz-version-id",
            "x-goog-storage-class" if value == "STANDARD" => return None,
            "x-goog-storage-class" => "x-amz-storage-class",
            "x-goog-hash" => {
                let crc = value.split(',').find_map(|hash| hash.trim().strip_prefix("crc32c="))?;
                return Some((Algorithm::Crc32c.header()?.to_owned(), crc.to_owned()));
            }
            _ => match name.strip_prefix("x-goog-meta-") {
                Some(key) => return Some((format!("{}{key}", answer::USER_PREFIX), value.to_owned())),
                None => name,
            },
        };
        Some((renamed.to_owned(), value.to_owned()))
    })
}

fn version(generation: String, size: Option<u64>) -> Version {
    Version { size, version_id: Some(generation), ..Version::default() }
}
