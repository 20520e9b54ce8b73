//! Deletes objects: one by `DeleteObject`, many at once by `DeleteObjects`.

use std::collections::HashMap;

use firstbyte_location::{Algorithm, Hasher, Location, ObjectLocation};

use crate::cancel::Cancel;
use crate::codes::{self, Meaning};
use crate::error::{Error, Result};
use crate::limits::PAGE;
use crate::order::is_directory_bucket;
use crate::upload::Payload;

use super::errors::denied;
use super::operation::S3Operation;
use super::xml::{self, Deletion};
use super::{S3, S3Call, protocol};

impl S3 {
    /// Sends `DeleteObject`. Succeeds if the key is missing.
    pub(crate) fn delete(&self, object: &ObjectLocation) -> Result<()> {
        let cancel = Cancel::new();
        match self.call_text(&S3Call::new(S3Operation::DeleteObject, object, &cancel)) {
            Err(Error::NotFound { .. }) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Sends `DeleteObjects` for the objects of each bucket. Returns the objects that were not
    /// deleted, with their errors.
    pub(crate) fn delete_many(&self, objects: &[ObjectLocation]) -> Vec<(Location, Error)> {
        let mut buckets: HashMap<&str, Vec<&ObjectLocation>> = HashMap::new();
        for object in objects {
            buckets.entry(&object.bucket).or_default().push(object);
        }
        let batches = buckets.values().flat_map(|objects| objects.chunks(PAGE));
        batches.flat_map(|batch| self.delete_batch(batch)).collect()
    }

    fn delete_batch(&self, batch: &[&ObjectLocation]) -> Vec<(Location, Error)> {
        let located = |object: &ObjectLocation| Location::Object(object.clone());
        let of = |key: &str| batch.iter().find(|object| object.key == key);
        match self.send_batch(batch) {
            Ok(deletion) if deletion.error.iter().all(|refused| of(&refused.key).is_some()) => {
                let failed = deletion.error.into_iter().filter_map(|refused| {
                    let object = of(&refused.key)?;
                    let location = located(object);
                    if codes::meaning(&refused.code, 200) != Meaning::Permanent {
                        return self.delete(object).err().map(|error| (location, error));
                    }
                    let detail = format!("{}: {}", refused.code, refused.message);
                    Some((
                        location,
                        denied(object, &detail, S3Operation::DeleteObjects, self.authentication()),
                    ))
                });
                failed.collect()
            }
            // If the store does not respond now, it would not respond to 1,000 single requests
            // either.
            Err(error) if error.is_transient() || matches!(error, Error::Cancelled) => {
                batch.iter().map(|object| (located(object), of_object(&error, object))).collect()
            }
            // Either the whole batch failed, perhaps because of one key (a name that is illegal in
            // XML), or a failure names no key. The keys are deleted one by one, to find the key of
            // each failure.
            Ok(_) | Err(_) => batch
                .iter()
                .filter_map(|object| self.delete(object).err().map(|error| (located(object), error)))
                .collect(),
        }
    }

    fn send_batch(&self, batch: &[&ObjectLocation]) -> Result<Deletion> {
        let Some(first) = batch.first() else { return Ok(Deletion::default()) };
        let mut body =
            String::from("<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Quiet>true</Quiet>");
        for object in batch {
            body.push_str(&format!("<Object><Key>{}</Key></Object>", xml::escape(&object.key)));
        }
        body.push_str("</Delete>");
        let bucket = first.with_key("");
        let cancel = Cancel::new();
        let mut call = S3Call::new(S3Operation::DeleteObjects, &bucket, &cancel);
        call.query.push(("delete", String::new()));
        call.payload = Payload::Bytes(body.as_bytes());
        call.header("content-type", "application/xml");
        if is_directory_bucket(&bucket) {
            // Directory buckets do not support MD5.
            call.header("x-amz-checksum-crc32c", Hasher::of(Algorithm::Crc32c, body.as_bytes()).to_base64());
        } else {
            call.header("content-md5", Hasher::of(Algorithm::Md5, body.as_bytes()).to_base64());
        }
        let (head, answer) = self.call_text(&call)?;
        xml::parse_root("DeleteResult", &answer)
            .ok_or_else(|| protocol(&call.place(), "no result in the response").traced(|| head.trace()))
    }
}

/// Converts the error of a whole batch to the error of one object in it.
fn of_object(error: &Error, object: &ObjectLocation) -> Error {
    let (location, trace) = (object.to_string(), error.trace().cloned().map(Box::new));
    match error {
        Error::Cancelled => Error::Cancelled,
        Error::SlowDown { retry_after, .. } => Error::SlowDown { location, retry_after: *retry_after, trace },
        Error::TimedOut { after, .. } => Error::TimedOut { location, after: *after, trace },
        Error::Server { status, code, message, .. } => {
            let (status, code, message) = (*status, code.clone(), message.clone());
            Error::Server { location, status, code, message, trace }
        }
        other => Error::Disconnected { location, detail: other.to_string(), trace },
    }
}
