//! Uploads in parts: the operations of [`Store`] on S3 and Azure, the services that have them.

use std::sync::Arc;

use firstbyte_location::{ByteRange, Location, ObjectLocation, Service, Version};

use super::{Store, WITHIN, object_in_s3};
use crate::{BRIEFLY, Cancel, Part, Payload, PutOptions, Result, Sending, StaleUpload, Upload, Written};

/// What other services do not have.
const PARTS: &str = "an upload in parts";

impl Store {
    /// True if large objects are uploaded in parts (S3, Azure).
    #[must_use]
    pub fn has_multipart(&self, location: &Location) -> bool {
        matches!(location, Location::Object(object) if object.service != Service::Google)
    }

    /// True if [`copy_part`](Self::copy_part) is possible: both are in S3.
    #[must_use]
    pub fn has_copied_parts(&self, source: &Location, destination: &Location) -> bool {
        [source, destination].into_iter().all(|it| object_in_s3(it, "").is_ok())
    }

    /// Begins a multipart upload.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`] for stores other than S3 and Azure, and errors of the
    /// connection or the store.
    pub fn begin_upload(&self, location: &Location, options: &PutOptions) -> Result<Upload> {
        match object_in_azure(location) {
            Some(object) => self.azure.begin_upload(object),
            None => self.s3.begin_upload(object_in_s3(location, PARTS)?, options),
        }
    }

    /// Sends part `number` (from 1).
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    pub fn put_part(
        &self,
        upload: &Upload,
        number: u32,
        payload: Payload<'_>,
        sending: &Sending,
    ) -> Result<Part> {
        match object_in_azure(&upload.location) {
            Some(object) => self.azure.put_part(object, &upload.id, number, payload, sending),
            None => {
                let object = object_in_s3(&upload.location, PARTS)?;
                self.s3.put_part(object, &upload.id, number, payload, sending)
            }
        }
    }

    /// Copies a range of another object of S3 as part `number`, within the service.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`] if one of them is not in S3, [`crate::Error::Changed`] if the
    /// source has changed.
    pub fn copy_part(
        &self,
        upload: &Upload,
        number: u32,
        source: &Location,
        version: &Version,
        range: ByteRange,
    ) -> Result<Part> {
        self.s3.copy_part(
            object_in_s3(&upload.location, WITHIN)?,
            &upload.id,
            number,
            object_in_s3(source, WITHIN)?,
            version,
            range,
        )
    }

    /// Lists the parts of an upload that the store has.
    ///
    /// # Errors
    /// Errors of the connection or the store.
    pub fn list_parts(&self, upload: &Upload) -> Result<Vec<Part>> {
        match object_in_azure(&upload.location) {
            Some(object) => self.azure.list_parts(object, &upload.id),
            None => self.s3.list_parts(object_in_s3(&upload.location, PARTS)?, &upload.id),
        }
    }

    /// Completes an upload with these parts, in order.
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    pub fn complete_upload(&self, upload: &Upload, parts: &[Part], options: &PutOptions) -> Result<Written> {
        match object_in_azure(&upload.location) {
            Some(object) => self.azure.complete_upload(object, parts, options),
            None => {
                let object = object_in_s3(&upload.location, PARTS)?;
                self.s3.complete_upload(object, &upload.id, parts, options)
            }
        }
    }

    /// Aborts an upload, and so deletes its parts. After cancellation of the store's scope this is
    /// still attempted, for at most a second. Azure has no such operation: it deletes the parts
    /// itself when the object is written, or after a week.
    ///
    /// # Errors
    /// Errors of the connection or the store.
    pub fn abort_upload(&self, upload: &Upload) -> Result<()> {
        if object_in_azure(&upload.location).is_some() {
            return Ok(());
        }
        let object = object_in_s3(&upload.location, PARTS)?;
        if !self.client.scoped_cancel(&Cancel::new()).is_cancelled() {
            return self.s3.abort_upload(object, &upload.id);
        }
        let client = Arc::new(self.client.with_scope(Cancel::after(BRIEFLY)));
        self.s3.by(client).abort_upload(object, &upload.id)
    }

    /// Lists unfinished uploads below `location`.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`] for stores other than S3, and errors of the connection or the
    /// store.
    pub fn stale_uploads(&self, location: &Location) -> Result<Vec<StaleUpload>> {
        self.s3.stale_uploads(object_in_s3(location, "a list of unfinished uploads")?)
    }
}

fn object_in_azure(location: &Location) -> Option<&ObjectLocation> {
    match location {
        Location::Object(object) if object.service == Service::Azure => Some(object),
        _ => None,
    }
}
