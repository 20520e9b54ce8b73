//! Writes objects, copies them within the service, and creates and deletes buckets.
//!
//! A small object is sent in one request, with its description before its bytes. For a larger
//! object, a first request sends the description, and a second one sends the bytes without copying
//! them in memory. The service gets the CRC-32C before the bytes, and stores only bytes that match
//! it.

use std::hash::{BuildHasher, RandomState};

use firstbyte_location::{Algorithm, Checksum, ObjectLocation, Version};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Google, JSON_PATH, credentials, json_path, version};
use crate::answer;
use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::header_text;
use crate::object::Metadata;
use crate::rest::{RestCall, RestStore as _, encoded, protocol, refuse_s3_options};
use crate::retry::Retry;
use crate::upload::{Payload, Precondition, PutOptions, Written};
use crate::wire::HttpMethod;

/// Size limit, in bytes, of an object that is copied into memory and sent in one request with its
/// description.
const MAX_SINGLE_REQUEST_BYTES: u64 = 256 << 10;

/// The description of an object in a response.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Resource {
    generation: String,
    size: String,
    crc32c: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RewriteResponse {
    done: bool,
    rewrite_token: Option<String>,
    resource: Option<Resource>,
}

impl Google {
    pub(crate) fn put(
        &self,
        object: &ObjectLocation,
        payload: Payload<'_>,
        options: &PutOptions,
    ) -> Result<Written> {
        let place = object.to_string();
        let crc = payload.checksum(Algorithm::Crc32c, &place)?;
        let mut description = self.describe(options)?;
        description.insert("name".to_owned(), Value::from(object.key.as_str()));
        description.insert("crc32c".to_owned(), Value::from(crc.to_base64()));
        let description = Value::from(description).to_string();
        let body = if payload.length() <= MAX_SINGLE_REQUEST_BYTES {
            self.put_in_one_request(object, &description, payload, options)?
        } else {
            self.put_in_session(object, &description, payload, options)?
        };
        let stored: Resource = serde_json::from_slice(&body)
            .map_err(|error| protocol(&place, format!("no object in the response: {error}")))?;
        let theirs = stored.crc32c.as_deref().and_then(|text| Checksum::from_base64(Algorithm::Crc32c, text));
        if let Some(theirs) = &theirs {
            crc.verify(theirs, &place)?;
        }
        Ok(Written { version: version(stored.generation, Some(payload.length())), verified: theirs })
    }

    /// Writes an object, description and bytes, with one request.
    fn put_in_one_request(
        &self,
        object: &ObjectLocation,
        description: &str,
        payload: Payload<'_>,
        options: &PutOptions,
    ) -> Result<Vec<u8>> {
        // Content cannot be made to contain the boundary, because it is random.
        let random = RandomState::new();
        let boundary = format!("{:016x}{:016x}", random.hash_one(0), random.hash_one(1));
        let content_type = options.metadata.content_type.as_deref().unwrap_or("application/octet-stream");
        let mut body = format!(
            "--{boundary}\r\ncontent-type: application/json; charset=UTF-8\r\n\r\n{description}\r\n\
             --{boundary}\r\ncontent-type: {content_type}\r\n\r\n"
        )
        .into_bytes();
        payload.append_to(&mut body, &object.to_string())?;
        body.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        let mut call = upload_call(object, "multipart", options);
        call.header("content-type", format!("multipart/related; boundary={boundary}"));
        call.payload = Payload::Bytes(&body);
        self.call(&call).map(|(_, body)| body)
    }

    /// Writes an object in an upload session. After a failure, begins a new session.
    fn put_in_session(
        &self,
        object: &ObjectLocation,
        description: &str,
        payload: Payload<'_>,
        options: &PutOptions,
    ) -> Result<Vec<u8>> {
        let mut begin = upload_call(object, "resumable", options);
        begin.throttle = firstbyte_pacing::Throttle::default();
        begin.header("content-type", "application/json; charset=UTF-8");
        begin.header("x-upload-content-length", payload.length().to_string());
        begin.payload = Payload::Bytes(description.as_bytes());
        let mut retry = Retry::new(&self.client, begin.cancel);
        loop {
            let (head, _) = self.call(&begin)?;
            // The session is at the same service, so only the path and query of the URL are needed.
            let session = head
                .get("location")
                .and_then(|url| Some(url.split_once("://")?.1))
                .and_then(|rest| Some(rest[rest.find('/')?..].to_owned()))
                .ok_or_else(|| {
                    protocol(&begin.place(), "no session in the response").traced(|| head.trace())
                })?;
            let mut send = RestCall::new(HttpMethod::Put, object, session, begin.cancel);
            send.payload = payload;
            send.throttle = options.sending.throttle.clone();
            let sent = self.send(&send).and_then(|reply| match reply {
                Ok((_, incoming)) => incoming.collect(1 << 20),
                Err(refusal) => Err(self.refusal(&send, refusal)),
            });
            match sent {
                Ok(body) => return Ok(body),
                Err(error) => retry.wait_or_give_up(error)?,
            }
        }
    }

    /// Copies an object within the service. Repeats the request until the service has finished the
    /// copy.
    pub(crate) fn copy(
        &self,
        source: &ObjectLocation,
        pinned: &Version,
        object: &ObjectLocation,
        options: &PutOptions,
    ) -> Result<Written> {
        let path =
            format!("{}/rewriteTo{}", json_path(source), json_path(object).trim_start_matches("/storage/v1"));
        let described = self.describe(options)?;
        let keeps = options.metadata == Metadata::default();
        let body = if keeps { String::new() } else { Value::from(described).to_string() };
        let mut token: Option<String> = None;
        loop {
            let mut call = RestCall::new(HttpMethod::Post, object, path.clone(), &options.sending.cancel);
            if let Some(generation) = &pinned.version_id {
                call.query.push(("sourceGeneration", generation.clone()));
            }
            call.query.extend(condition(&options.precondition));
            call.query.extend(token.clone().map(|token| ("rewriteToken", token)));
            call.header("content-type", "application/json; charset=UTF-8");
            call.payload = Payload::Bytes(body.as_bytes());
            let (head, answer) =
                self.call(&call).map_err(|error| self.source_changed(error, source, pinned))?;
            let rewritten: RewriteResponse = serde_json::from_slice(&answer).map_err(|error| {
                protocol(&call.place(), format!("no copy in the response: {error}")).traced(|| head.trace())
            })?;
            match (rewritten.resource.filter(|_| rewritten.done), rewritten.rewrite_token) {
                (Some(stored), _) => {
                    let size = stored.size.parse().ok().or(pinned.size);
                    return Ok(Written { version: version(stored.generation, size), verified: None });
                }
                (None, Some(next)) if token.as_ref() != Some(&next) => token = Some(next),
                _ => return Err(protocol(&call.place(), "a copy that neither ends nor continues")),
            }
        }
    }

    /// Converts a missing source to `Changed` if the source now has another generation. When an
    /// object is replaced, its old generation no longer exists.
    fn source_changed(&self, error: Error, source: &ObjectLocation, pinned: &Version) -> Error {
        if !matches!(error, Error::NotFound { .. }) {
            return error;
        }
        match self.head(source) {
            Ok(stat) if stat.version.agrees_with(pinned) => error,
            Ok(stat) => Error::Changed {
                location: source.to_string(),
                expected: Box::new(pinned.clone()),
                found: Box::new(stat.version),
                trace: None,
            },
            Err(other) => other,
        }
    }

    /// Returns the JSON description of an object to write.
    fn describe(&self, options: &PutOptions) -> Result<Map<String, Value>> {
        let metadata = &options.metadata;
        refuse_s3_options(&self.client.options)?;
        let mut user = Map::new();
        for (name, value) in &metadata.user {
            user.insert(name.clone(), Value::from(header_text::encode(value)));
        }
        if let Some(modified) = metadata.modified {
            user.insert(answer::MTIME.to_owned(), Value::from(answer::format_rfc3339(modified)));
        }
        let mut description = Map::new();
        let mut say = |name: &str, value: Option<&String>| {
            description.extend(value.map(|value| (name.to_owned(), Value::from(value.as_str()))));
        };
        say("contentType", metadata.content_type.as_ref());
        say("cacheControl", metadata.headers.get("cache-control"));
        say("contentDisposition", metadata.headers.get("content-disposition"));
        say("contentEncoding", metadata.headers.get("content-encoding"));
        say("contentLanguage", metadata.headers.get("content-language"));
        let class = self.client.options.storage_class.as_ref();
        say("storageClass", class.or(options.storage_class.as_ref()));
        if !user.is_empty() {
            description.insert("metadata".to_owned(), Value::from(user));
        }
        Ok(description)
    }

    /// Creates a bucket in the region that the options name.
    pub(crate) fn create_bucket(&self, bucket: &ObjectLocation) -> Result<()> {
        let mut description = json!({ "name": bucket.bucket });
        if let Some(region) = &self.client.options.region {
            description["location"] = Value::from(region.as_str());
        }
        let (body, cancel) = (description.to_string(), Cancel::new());
        let mut call = RestCall::new(HttpMethod::Post, bucket, JSON_PATH.to_owned(), &cancel);
        if !self.identity.place(&self.client.options)?.is_emulator {
            call.query.push(("project", credentials::project()?));
        }
        call.header("content-type", "application/json; charset=UTF-8");
        call.payload = Payload::Bytes(body.as_bytes());
        self.call(&call).map(drop)
    }

    /// Deletes a bucket. The service refuses to delete a bucket that is not empty.
    pub(crate) fn delete_bucket(&self, bucket: &ObjectLocation) -> Result<()> {
        let cancel = Cancel::new();
        self.call(&RestCall::new(HttpMethod::Delete, bucket, json_path(bucket), &cancel)).map(drop)
    }
}

fn upload_call<'a>(object: &'a ObjectLocation, kind: &str, options: &'a PutOptions) -> RestCall<'a> {
    let path = format!("/upload{JSON_PATH}/{}/o", encoded(&object.bucket));
    let mut call = RestCall::new(HttpMethod::Post, object, path, &options.sending.cancel);
    call.throttle = options.sending.throttle.clone();
    call.query.push(("uploadType", kind.to_owned()));
    call.query.push(("name", object.key.clone()));
    call.query.extend(condition(&options.precondition));
    call
}

/// Returns the query parameter for a write's precondition. A missing object has generation 0.
fn condition(precondition: &Precondition) -> Option<(&'static str, String)> {
    let generation = match precondition {
        Precondition::None => return None,
        Precondition::Absent => "0".to_owned(),
        Precondition::Matches(version) => version.version_id.clone()?,
    };
    Some(("ifGenerationMatch", generation))
}
