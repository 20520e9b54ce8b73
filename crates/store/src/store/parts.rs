//! Implements uploads in parts: the operations of [`Store`] for S3 and Azure, the only services
//! that have such uploads.

use std::sync::Arc;

use firstbyte_location::{Algorithm, ByteRange, Hasher, Location, ObjectLocation, Service, Version};

use super::required::{object_in_s3, require_bucket, require_key};
use super::{COPY_WITHIN_SERVICE, Store};
use crate::backend::PartsBackend;
use crate::cancel::Cancel;
use crate::error::Result;
use crate::limits::SHORT_WAIT;
use crate::upload::{Part, Payload, PutOptions, Sending, StaleUpload, Upload, Written};

/// The operation that only S3 and Azure support, for errors.
const UPLOAD_IN_PARTS: &str = "an upload in parts";

impl Store {
    /// Returns a digest of all options that affect a written object. An upload must be continued
    /// only with the options with which it was begun.
    #[must_use]
    pub fn digest_of_writes(&self, options: &PutOptions) -> String {
        let PutOptions { metadata, storage_class, precondition, sending: _ } = options;
        let store = self.client.options.of_writes();
        let text = format!("{store:?} {metadata:?} {storage_class:?} {precondition:?}");
        Hasher::of(Algorithm::Sha256, text.as_bytes()).to_hex()
    }

    /// Returns true if an option determines how objects are stored. If so, an existing object may
    /// be stored differently.
    #[must_use]
    pub fn describes_writes(&self) -> bool {
        self.client.options.describes_writes()
    }

    /// Returns true if the store accepts large objects in parts (S3, Azure).
    #[must_use]
    pub fn has_multipart(&self, location: &Location) -> bool {
        matches!(location, Location::Object(object) if object.service != Service::Google)
    }

    /// Returns true if [`copy_part`](Self::copy_part) is possible, that is, if both objects are in
    /// the same S3 service.
    #[must_use]
    pub fn has_copied_parts(&self, source: &Location, destination: &Location) -> bool {
        match (object_in_s3(source, ""), object_in_s3(destination, "")) {
            (Ok(source), Ok(destination)) => self.is_one_service(source, destination),
            _ => false,
        }
    }

    /// Returns the object at a location, and the backend for uploading it in parts.
    fn parts_of<'l>(&self, location: &'l Location) -> Result<(Arc<dyn PartsBackend>, &'l ObjectLocation)> {
        match location {
            #[cfg(feature = "azure")]
            Location::Object(object) if object.service == Service::Azure => {
                Ok((Arc::clone(&self.azure) as _, object))
            }
            _ => {
                let object = object_in_s3(location, UPLOAD_IN_PARTS)?;
                Ok((self.s3_of(object.service)?, object))
            }
        }
    }

    /// Begins a multipart upload.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`] for stores other than S3 and Azure, and errors of the
    /// connection or the store.
    pub fn begin_upload(&self, location: &Location, options: &PutOptions) -> Result<Upload> {
        require_key(location)?;
        let (service, object) = self.parts_of(location)?;
        service.begin_upload(object, options)
    }

    /// Sends the part `number`, counted from 1.
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn put_part(
        &self,
        upload: &Upload,
        number: u32,
        payload: Payload<'_>,
        sending: &Sending,
    ) -> Result<Part> {
        let (service, object) = self.parts_of(&upload.location)?;
        service.put_part(object, &upload.id, number, payload, sending)
    }

    /// Copies a range of another S3 object within the service. The range becomes the part `number`.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`] if one of the objects is not in S3, [`crate::Error::Changed`]
    /// if the source has changed.
    pub fn copy_part(
        &self,
        upload: &Upload,
        number: u32,
        source: &Location,
        version: &Version,
        range: ByteRange,
    ) -> Result<Part> {
        let object = object_in_s3(&upload.location, COPY_WITHIN_SERVICE)?;
        self.s3_of(object.service)?.copy_part(
            object,
            &upload.id,
            number,
            object_in_s3(source, COPY_WITHIN_SERVICE)?,
            version,
            range,
        )
    }

    /// Lists the finished parts of an upload.
    ///
    /// # Errors
    /// Errors of the connection or the store.
    pub fn list_parts(&self, upload: &Upload) -> Result<Vec<Part>> {
        let (service, object) = self.parts_of(&upload.location)?;
        service.list_parts(object, &upload.id)
    }

    /// Completes an upload with these parts, in order.
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn complete_upload(&self, upload: &Upload, parts: &[Part], options: &PutOptions) -> Result<Written> {
        let (service, object) = self.parts_of(&upload.location)?;
        service.complete_upload(object, &upload.id, parts, options)
    }

    /// Aborts an upload, which deletes its parts. If the scope of the store was cancelled, still
    /// tries for up to a second. On Azure, sends nothing: the service deletes the parts when the
    /// object is written, or after a week.
    ///
    /// # Errors
    /// Errors of the connection or the store.
    pub fn abort_upload(&self, upload: &Upload) -> Result<()> {
        if matches!(&upload.location, Location::Object(object) if object.service == Service::Azure) {
            return Ok(());
        }
        let object = object_in_s3(&upload.location, UPLOAD_IN_PARTS)?;
        let s3 = self.s3_of(object.service)?;
        if !self.client.scoped_cancel(&Cancel::new()).is_cancelled() {
            return s3.abort_upload(object, &upload.id);
        }
        s3.with_scope(Cancel::after(SHORT_WAIT)).abort_upload(object, &upload.id)
    }

    /// Lists unfinished uploads below `location`.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`] for stores other than S3, and errors of the connection or the
    /// store.
    pub fn stale_uploads(&self, location: &Location) -> Result<Vec<StaleUpload>> {
        require_bucket(location)?;
        let object = object_in_s3(location, "a list of unfinished uploads")?;
        self.s3_of(object.service)?.stale_uploads(object)
    }
}
