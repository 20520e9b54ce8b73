//! Supports directory buckets of S3 Express One Zone, whose names end in `--ZONE--x-s3`, and their
//! access points, whose names end in `--ZONE--xa-s3`.
//!
//! Requests for these buckets are signed under a separate service name, with the key of a session.
//! `CreateSession` issues such a key for five minutes. Listings of these buckets are unordered, do
//! not support `start-after`, and require prefixes that end in `/` (`order::is_directory_bucket`).
//! <https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-express-create-session.html>

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use firstbyte_location::ObjectLocation;
use rustix_futex_sync::Mutex;
use serde::Deserialize;

use super::key::AccessKey;
use super::operation::S3Operation;
use super::{S3, S3Call, protocol, xml};
use crate::cancel::Cancel;
use crate::dates;
use crate::error::Result;
use crate::order::DIRECTORY_BUCKET_SUFFIXES;

/// Remaining validity below which the next request renews a session. It is longer than a request
/// takes until its head arrives at the server.
const RENEW_BEFORE: Duration = Duration::from_secs(60);
/// Validity of a session if the response does not state when the session ends.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(5 * 60);

/// The keys of sessions, by bucket.
#[derive(Default)]
pub(super) struct ExpressSessions(Mutex<HashMap<String, AccessKey>>);

impl ExpressSessions {
    fn live(&self, bucket: &str) -> Option<AccessKey> {
        let sessions = self.0.lock();
        let soon = SystemTime::now() + RENEW_BEFORE;
        sessions.get(bucket).filter(|it| it.expiry.is_some_and(|expiry| soon < expiry)).cloned()
    }

    fn learn(&self, bucket: &str, session: AccessKey) {
        self.0.lock().insert(bucket.to_owned(), session);
    }

    /// Drops a session that the service has rejected as expired.
    pub(super) fn forget(&self, bucket: &str) {
        self.0.lock().remove(bucket);
    }
}

/// The `<CreateSessionResult>` element.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CreateSessionResult {
    credentials: SessionKey,
}

/// The `<Credentials>` element.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SessionKey {
    session_token: String,
    secret_access_key: String,
    access_key_id: String,
    expiration: Option<String>,
}

/// Returns true if a request for a directory bucket is signed with the key of a session.
pub(super) fn needs_session(operation: S3Operation) -> bool {
    !matches!(operation, S3Operation::CreateSession | S3Operation::CreateBucket | S3Operation::DeleteBucket)
}

/// Returns the actions that a policy must allow for an operation on a directory bucket. For
/// operations on objects, only the action that creates a session is checked.
/// <https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-express-security-iam.html>
pub(super) fn actions(operation: S3Operation) -> &'static [&'static str] {
    match operation {
        S3Operation::CreateBucket => &["s3express:CreateBucket"],
        S3Operation::DeleteBucket => &["s3express:DeleteBucket"],
        _ => S3Operation::CreateSession.actions(),
    }
}

/// Returns the zone, which is part of a directory bucket's name.
pub(super) fn zone(bucket: &str) -> Option<&str> {
    let name = DIRECTORY_BUCKET_SUFFIXES.iter().find_map(|end| bucket.strip_suffix(end))?;
    name.rsplit_once("--").map(|(_, zone)| zone)
}

/// Returns the description of a new directory bucket in a zone
/// (<https://docs.aws.amazon.com/AmazonS3/latest/API/API_CreateBucket.html>). The name of a Local
/// Zone, such as `usw2-lax1-az1`, has a part more than that of an Availability Zone.
pub(super) fn bucket_configuration(zone: &str) -> String {
    let kind = if zone.split('-').count() > 2 { "Local" } else { "Availability" };
    format!(
        "<CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Location><Name>{}</Name><Type>{kind}Zone\
         </Type></Location><Bucket><DataRedundancy>Single{kind}Zone</DataRedundancy><Type>Directory</Type></Bucket>\
         </CreateBucketConfiguration>",
        xml::escape(zone)
    )
}

impl S3 {
    /// Returns the key of a session for a directory bucket. Creates a session if none is live.
    pub(super) fn session(&self, object: &ObjectLocation, cancel: &Cancel) -> Result<AccessKey> {
        if let Some(live) = self.sessions.live(&object.bucket) {
            return Ok(live);
        }
        let bucket = object.with_key("");
        let mut call = S3Call::new(S3Operation::CreateSession, &bucket, cancel);
        call.query.push(("session", String::new()));
        let (head, body) = self.call_text(&call)?;
        let created: CreateSessionResult = xml::parse_root("CreateSessionResult", &body)
            .ok_or_else(|| protocol(&call.place(), "no session in the response").traced(|| head.trace()))?;
        let SessionKey { session_token, secret_access_key, access_key_id, expiration } = created.credentials;
        let stated = expiration.as_deref().and_then(dates::rfc3339);
        let expiry = Some(stated.unwrap_or_else(|| SystemTime::now() + DEFAULT_LIFETIME));
        let session = AccessKey {
            id: access_key_id,
            secret: secret_access_key,
            session_token: Some(session_token),
            expiry,
        };
        self.sessions.learn(&object.bucket, session.clone());
        Ok(session)
    }
}
