//! Writes and copies blobs, by `Put Blob` and `Copy Blob`; creates and deletes containers.

use std::time::Duration;

use firstbyte_location::{Algorithm, ObjectLocation, Version};

use super::account::{Credential, with_signature};
use super::{Azure, check_name, encoded_name, path};
use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::object::Metadata;
use crate::rest::{RestCall, RestStore as _, protocol, refuse_s3_options};
use crate::upload::{Payload, Precondition, PutOptions, Written};
use crate::wire::{HttpMethod, ResponseHead};
use crate::{answer, header_text};

/// The pause between two checks of a pending copy.
const COPY_POLL_INTERVAL: Duration = Duration::from_millis(500);

impl Azure {
    /// Sends `Put Blob`. The service checks the MD5 and stores it with the blob.
    pub(crate) fn put(
        &self,
        object: &ObjectLocation,
        payload: Payload<'_>,
        options: &PutOptions,
    ) -> Result<Written> {
        check_name(object)?;
        let md5 = payload.checksum(Algorithm::Md5, &object.to_string())?;
        let mut call = RestCall::new(HttpMethod::Put, object, path(object), &options.sending.cancel);
        call.throttle = options.sending.throttle.clone();
        call.payload = payload;
        call.header("x-ms-blob-type", "BlockBlob");
        call.header("content-md5", md5.to_base64());
        self.add_metadata_headers(&mut call, &options.metadata)?;
        call.headers.extend(options.precondition.header());
        let (head, _) = self.call(&call)?;
        Ok(Written { version: version(&head, Some(payload.length())), verified: Some(md5) })
    }

    /// Sends `Copy Blob`, within the account. The service copies large blobs after its response, so
    /// this method waits for the end of the copy.
    pub(crate) fn copy(
        &self,
        source: &ObjectLocation,
        pinned: &Version,
        object: &ObjectLocation,
        options: &PutOptions,
    ) -> Result<Written> {
        check_name(object)?;
        let account = self.account(&object.to_string())?;
        let mut url = format!("{}{}", account.path, path(source));
        match &account.credential {
            // The service reads the source by its URL, and a token in this request does not
            // authenticate that read.
            Credential::Token(_) | Credential::Anonymous => {
                let location = object.to_string();
                return Err(Error::Unsupported {
                    location,
                    what: "a copy within the account, without its key",
                    trace: None,
                });
            }
            Credential::Signature(signature) => url = with_signature(&url, signature),
            Credential::Key(_) => {}
        }
        let scheme = if account.origin.tls { "https" } else { "http" };
        let mut call = RestCall::new(HttpMethod::Put, object, path(object), &options.sending.cancel);
        call.header("x-ms-copy-source", format!("{scheme}://{}{url}", account.origin.authority()));
        if let Some(etag) = pinned.if_match() {
            call.header("x-ms-source-if-match", etag);
        }
        call.headers.extend(options.precondition.header());
        if options.metadata != Metadata::default() {
            self.add_user_metadata(&mut call, &options.metadata);
        }
        let copied = self.call(&call).map_err(|error| match (error, &options.precondition) {
            (Error::Precondition { .. }, Precondition::None) => Error::Changed {
                location: source.to_string(),
                expected: Box::new(pinned.clone()),
                found: Box::default(),
                trace: None,
            },
            (error, _) => error,
        });
        let (head, _) = copied?;
        self.wait_for_copy(object, head, &options.sending.cancel)?;
        Ok(Written { version: self.head(object)?.version, verified: None })
    }

    fn wait_for_copy(&self, object: &ObjectLocation, first: ResponseHead, cancel: &Cancel) -> Result<()> {
        let call = RestCall::new(HttpMethod::Head, object, path(object), cancel);
        let wait = self.client.scoped_cancel(cancel);
        let mut head = first;
        loop {
            match head.get("x-ms-copy-status") {
                Some("pending") => wait.sleep(COPY_POLL_INTERVAL)?,
                Some("success") => return Ok(()),
                other => {
                    let why = head.get("x-ms-copy-status-description").or(other).unwrap_or("no status");
                    return Err(protocol(&object.to_string(), format!("the copy ended: {why}")));
                }
            }
            head = self.call(&call)?.0;
        }
    }

    /// Adds the headers for metadata and storage options.
    pub(super) fn add_metadata_headers(&self, call: &mut RestCall<'_>, metadata: &Metadata) -> Result<()> {
        refuse_s3_options(&self.client.options)?;
        if let Some(content_type) = &metadata.content_type {
            call.header("x-ms-blob-content-type", content_type);
        }
        for (name, value) in &metadata.headers {
            if answer::KEPT_HEADERS.contains(&name.as_str()) && name != answer::EXPIRES {
                call.header(&format!("x-ms-blob-{name}"), value);
            }
        }
        if let Some(class) = &self.client.options.storage_class {
            call.header("x-ms-access-tier", class);
        }
        self.add_user_metadata(call, metadata);
        Ok(())
    }

    fn add_user_metadata(&self, call: &mut RestCall<'_>, metadata: &Metadata) {
        for (name, value) in &metadata.user {
            call.header(&format!("x-ms-meta-{}", encoded_name(name)), header_text::encode(value));
        }
        if let Some(modified) = metadata.modified {
            call.header(&format!("x-ms-meta-{}", answer::MTIME), answer::format_rfc3339(modified));
        }
    }

    /// Sends `Create Container`.
    pub(crate) fn create_bucket(&self, bucket: &ObjectLocation) -> Result<()> {
        let cancel = Cancel::new();
        let mut call = RestCall::new(HttpMethod::Put, bucket, path(bucket), &cancel);
        call.query.push(("restype", "container".to_owned()));
        self.call(&call).map(drop)
    }

    /// Always fails: the service would delete the container's blobs too.
    pub(crate) fn delete_bucket(&self, bucket: &ObjectLocation) -> Result<()> {
        let what = "to delete a container only if it is empty";
        Err(Error::Unsupported { location: bucket.to_string(), what, trace: None })
    }
}

pub(super) fn version(head: &ResponseHead, size: Option<u64>) -> Version {
    Version { size, etag: head.etag(), ..Version::default() }
}
