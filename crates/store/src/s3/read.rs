//! Describes and reads objects, by HeadObject and GetObject.

use std::cell::Cell;

use firstbyte_location::{ByteRange, EntryKind, ObjectLocation, Version};

use crate::body::Body;
use crate::cancel::Cancel;
use crate::error::{Error, Result, VERSION_SEPARATOR};
use crate::object::Stat;
use crate::query::{Get, Integrity};
use crate::{answer, conditions};

use super::operation::S3Operation;
use super::{S3, S3Call};
use crate::gateways::frames::FRAMES;
use crate::retry::Retry;

/// Maximum number of attempts at HEAD. If the last one fails, GET is sent.
const MAX_HEAD_ATTEMPTS: u32 = 3;

impl S3 {
    /// Describes an object. Without such an object, describes a prefix with keys below it as a
    /// directory.
    pub(crate) fn stat(&self, object: &ObjectLocation) -> Result<Stat> {
        let cancel = Cancel::new();
        if object.key.is_empty() {
            let operation =
                if object.bucket.is_empty() { S3Operation::ListBuckets } else { S3Operation::HeadBucket };
            return self.call_text(&S3Call::new(operation, object, &cancel)).map(|_| Stat::directory());
        }
        match self.head(object, None) {
            // An empty object `NAME/` is a directory marker.
            Ok(marker) if object.key.ends_with('/') && marker.size() == Some(0) => {
                Ok(Stat { kind: EntryKind::Directory, ..marker })
            }
            Err(Error::NotFound { .. }) if self.has_below(object)? => Ok(Stat::directory()),
            other => other,
        }
    }

    /// Returns true if any key begins with this key and a `/`.
    pub(crate) fn has_below(&self, object: &ObjectLocation) -> Result<bool> {
        let key = format!("{}/", object.key.trim_end_matches('/'));
        self.has_keys_under(&object.with_key(key))
    }

    /// Sends `HeadObject`, for a version if one is given. If HEAD is refused, has failed three
    /// times, or returns an implausible length, sends `GetObject` for one byte.
    pub(crate) fn head(&self, object: &ObjectLocation, version_id: Option<&str>) -> Result<Stat> {
        let cancel = Cancel::new();
        let mut call = S3Call::new(S3Operation::HeadObject, object, &cancel);
        call.query.extend(version_id.map(|id| ("versionId", id.to_owned())));
        call.header("x-amz-checksum-mode", "ENABLED");
        // Some servers fail at every HEAD (https://github.com/scireum/sirius-biz/issues/1178, as of
        // 28 November 2026). GET is not sent first, because its ranges have no checksum.
        let (tries, is_failed) = (Cell::new(0), Cell::new(false));
        let is_final = |error: &Error| {
            tries.set(tries.get() + 1);
            let is_refused = answer::refuses_head(error);
            is_failed.set(is_refused || (error.is_transient() && tries.get() == MAX_HEAD_ATTEMPTS));
            is_failed.get()
        };
        let described = match self.call_unless(&call, is_final) {
            Ok((head, _)) => {
                self.client.clocks.learn(object.service, &head);
                Some(answer::stat(&head, answer::stated_length(&call.place(), &head)?))
            }
            Err(_) if is_failed.get() => None,
            Err(error) => return Err(of_version(error, version_id)),
        };
        let mut stat = match described.filter(|stat| stat.version.has_credible_length()) {
            Some(stat) => stat,
            None => self.stat_by_get(object, version_id)?,
        };
        if stat.version.version_id.is_none() {
            stat.version.version_id = version_id.map(ToOwned::to_owned);
        }
        // S3 serves ranges of every object. Some compatible services omit the header that says so.
        stat.ranges = Some(true);
        Ok(stat)
    }

    fn stat_by_get(&self, object: &ObjectLocation, version_id: Option<&str>) -> Result<Stat> {
        let version_id = version_id.map(ToOwned::to_owned);
        let version = version_id.map(|id| Version { version_id: Some(id), ..Version::default() });
        let get = Get { range: Some(ByteRange::new(0, 1)), version, ..Get::default() };
        let cancel = get.cancel.clone();
        let mut retry = Retry::new(&self.client, &cancel);
        loop {
            match self.get(object, &get) {
                Ok(body) => return Ok(body.stat().clone()),
                Err(error) => retry.wait_or_give_up(error)?,
            }
        }
    }

    /// Sends `GetObject` once.
    pub(crate) fn get(&self, object: &ObjectLocation, get: &Get) -> Result<Body> {
        let mut call = S3Call::new(S3Operation::GetObject, object, &get.cancel);
        call.throttle = get.throttle.clone();
        if let Some(range) = get.range {
            call.header("range", answer::range_header(range));
        }
        let (server, mut is_conditional) = (object.with_key("").to_string(), false);
        if let Some(version) = &get.version {
            match (&version.version_id, version.if_match()) {
                (Some(id), _) => call.query.push(("versionId", id.clone())),
                (None, Some(etag)) if self.client.own_tags.are_accepted_by(&server) => {
                    call.header("if-match", etag);
                    is_conditional = true;
                }
                (None, _) => {}
            }
        }
        if get.checksum {
            call.header("x-amz-checksum-mode", "ENABLED");
        }
        if get.integrity == Integrity::Blocks {
            call.header(FRAMES, "1");
        }
        let place = call.place();
        match self.send(&call)? {
            Ok((head, incoming)) => answer::open(&place, get, &head, incoming, |get| self.get(object, get)),
            Err(refusal) if refusal.head.status == 416 => {
                answer::unsatisfied(&place, get, &refusal.head, |get| self.get(object, get))
            }
            Err(refusal) if refusal.head.status == 412 => {
                match self.precondition_error(object, get.version.as_ref()) {
                    Error::Changed { expected, found, .. } if is_respelled(&expected, &found) => {
                        let version = Version { etag: found.etag, ..*expected };
                        self.get(object, &Get { version: Some(version), ..get.clone() })
                    }
                    Error::OwnTagRefused { .. } if is_conditional => {
                        self.client.own_tags.record_refusal_by(&server);
                        self.get(object, get)
                    }
                    error => Err(error.traced(|| refusal.trace())),
                }
            }
            Err(refusal) => {
                let id = get.version.as_ref().and_then(|version| version.version_id.as_deref());
                Err(of_version(refusal.into_error(&call), id))
            }
        }
    }

    /// Returns the error for a request with a condition that failed for the version `expected`.
    pub(super) fn precondition_error(&self, object: &ObjectLocation, expected: Option<&Version>) -> Error {
        let found = self.head(object, None).map(|stat| stat.version);
        conditions::precondition_error(&object.to_string(), expected, found)
    }
}

/// Adds the requested version to the error "not found", if a version was requested.
fn of_version(error: Error, version_id: Option<&str>) -> Error {
    match (error, version_id) {
        (Error::NotFound { location, trace }, Some(id)) => {
            Error::NotFound { location: format!("{location}{VERSION_SEPARATOR}{id}"), trace }
        }
        (other, _) => other,
    }
}

/// Returns true if an object has the expected version although its tag differs: some stores write a
/// tag differently in a response than in a listing.
fn is_respelled(expected: &Version, found: &Version) -> bool {
    found.etag.is_some() && found.agrees_with(expected) && found.if_match() != expected.if_match()
}
