//! Writes and copies objects, by PutObject and CopyObject, and adds the headers of all writes.
//!
//! The CRC-64/NVME of a payload is computed before the payload is sent, because S3 expects it in
//! the head.

use firstbyte_location::{Algorithm, Checksum, ObjectLocation, Version, etag};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::error::{Error, Result};
use crate::object::Metadata;
use crate::options::ServerSideEncryption;
use crate::upload::{Payload, Precondition, PutOptions, Written};
use crate::wire::ResponseHead;
use crate::{answer, header_text};

use super::operation::S3Operation;
use super::xml::{self, WriteResultElement};
use super::{S3, S3Call, endpoint};

/// Header with the checksum of a write.
pub(super) const CRC_HEADER: &str = "x-amz-checksum-crc64nvme";

impl S3 {
    /// Sends `PutObject`.
    pub(crate) fn put(
        &self,
        object: &ObjectLocation,
        payload: Payload<'_>,
        options: &PutOptions,
    ) -> Result<Written> {
        let crc = payload.checksum(Algorithm::Crc64Nvme, &object.to_string())?;
        self.with_checksums(|checked, with_md5| {
            let mut call = S3Call::new(S3Operation::PutObject, object, &options.sending.cancel);
            call.throttle = options.sending.throttle.clone();
            call.payload = payload;
            self.describe(&mut call, options);
            call.headers.extend(options.precondition.header());
            if checked {
                call.header(CRC_HEADER, crc.to_base64());
            }
            if with_md5 {
                add_md5(&mut call)?;
            }
            let (head, _) = self.call_text(&call)?;
            let stored = head.get(CRC_HEADER).map(ToOwned::to_owned);
            Ok(Written {
                version: version(&head, head.etag(), Some(payload.length())),
                verified: confirmed_checksum(&call.place(), stored.as_deref().filter(|_| checked), &crc)?,
            })
        })
    }

    /// Sends `CopyObject`. Copies up to 5 GiB within the service.
    pub(crate) fn copy(
        &self,
        source: &ObjectLocation,
        version: &Version,
        object: &ObjectLocation,
        options: &PutOptions,
    ) -> Result<Written> {
        let mut call = S3Call::new(S3Operation::CopyObject, object, &options.sending.cancel);
        add_copy_source_headers(&mut call, source, version);
        call.work = version.size.unwrap_or_default();
        if options.metadata == Metadata::default() {
            self.add_storage_headers(&mut call, options);
        } else {
            call.header("x-amz-metadata-directive", "REPLACE");
            self.describe(&mut call, options);
        }
        if !self.client.options.tags.is_empty() {
            call.header("x-amz-tagging-directive", "REPLACE");
        }
        call.headers.extend(options.precondition.header());
        let copied = self.send_copy(&call, "CopyObjectResult");
        let (head, stored) =
            copied.map_err(|error| self.source_error(error, source, version, &options.precondition))?;
        let etag = stored.etag.clone();
        Ok(Written { version: self::version(&head, etag, version.size), verified: None })
    }

    /// Sends a call that copies an object or a part within the service. Returns the description in
    /// the response.
    pub(super) fn send_copy(
        &self,
        call: &S3Call<'_>,
        root: &str,
    ) -> Result<(ResponseHead, WriteResultElement)> {
        self.retrying(call, |reply| {
            self.text_of(call, reply).and_then(|answer| parse_stored(call, root, answer))
        })
    }

    /// Converts the error of a copy. A failed precondition concerns the source if the destination
    /// has no precondition, or if the source has changed.
    pub(super) fn source_error(
        &self,
        error: Error,
        source: &ObjectLocation,
        version: &Version,
        destination: &Precondition,
    ) -> Error {
        match error {
            Error::Precondition { location, trace } => match self.precondition_error(source, Some(version)) {
                Error::OwnTagRefused { .. } if *destination != Precondition::None => {
                    Error::Precondition { location, trace }
                }
                refused => match trace {
                    Some(trace) => refused.traced(|| *trace),
                    None => refused,
                },
            },
            other => other,
        }
    }

    /// Adds the headers for metadata and storage options.
    pub(super) fn describe(&self, call: &mut S3Call<'_>, options: &PutOptions) {
        let metadata = &options.metadata;
        if let Some(content_type) = &metadata.content_type {
            call.header("content-type", content_type);
        }
        for (name, value) in &metadata.headers {
            if answer::KEPT_HEADERS.contains(&name.as_str()) {
                call.header(name, value);
            }
        }
        for (name, value) in &metadata.user {
            call.header(&format!("{}{name}", answer::USER_PREFIX), header_text::encode(value));
        }
        if let Some(modified) = metadata.modified {
            call.header(&format!("{}{}", answer::USER_PREFIX, answer::MTIME), answer::format_unix(modified));
        }
        self.add_storage_headers(call, options);
    }

    /// Adds the headers for storage class, access control list, tags and encryption.
    fn add_storage_headers(&self, call: &mut S3Call<'_>, options: &PutOptions) {
        if let Some(class) = self.client.options.storage_class.as_ref().or(options.storage_class.as_ref()) {
            call.header("x-amz-storage-class", class);
        }
        if let Some(acl) = &self.client.options.acl {
            call.header("x-amz-acl", acl);
        }
        let encode = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
        let tags = &self.client.options.tags;
        let tags: Vec<_> =
            tags.iter().map(|(key, value)| format!("{}={}", encode(key), encode(value))).collect();
        if !tags.is_empty() {
            call.header("x-amz-tagging", tags.join("&"));
        }
        match &self.client.options.encryption {
            Some(ServerSideEncryption::S3) => call.header("x-amz-server-side-encryption", "AES256"),
            Some(ServerSideEncryption::Kms(key)) => {
                call.header("x-amz-server-side-encryption", "aws:kms");
                if let Some(key) = key {
                    call.header("x-amz-server-side-encryption-aws-kms-key-id", key);
                }
            }
            None => {}
        }
    }
}

/// The code of an error whose response is a 200 that ends early.
const CUT_RESPONSE: &str = "InternalError";

/// Returns true if a 200 ended early, so that the object may have been stored.
pub(super) fn is_cut_response(error: &Error) -> bool {
    matches!(error, Error::Server { status: 200, code, .. } if code == CUT_RESPONSE)
}

/// Adds the header `Content-MD5` of the payload.
pub(super) fn add_md5(call: &mut S3Call<'_>) -> Result<()> {
    let md5 = call.payload.checksum(Algorithm::Md5, &call.place())?;
    call.header("content-md5", md5.to_base64());
    Ok(())
}

/// Parses the description of the stored object or part in a response. A 200 without this
/// description counts as an internal error, because the service began the response before it was
/// done; botocore repeats such a request too (`handlers._looks_like_special_case_error`).
pub(super) fn parse_stored(
    call: &S3Call<'_>,
    root: &str,
    (head, body): (ResponseHead, Vec<u8>),
) -> Result<(ResponseHead, WriteResultElement)> {
    let stored = xml::parse_root(root, &body).ok_or_else(|| Error::Server {
        location: call.place(),
        status: head.status,
        code: CUT_RESPONSE.to_owned(),
        message: format!("no {root} in the response"),
        trace: None,
    })?;
    Ok((head, stored))
}

/// Adds the headers that make a version of an object the source of a copy.
pub(super) fn add_copy_source_headers(call: &mut S3Call<'_>, source: &ObjectLocation, version: &Version) {
    let id = version.version_id.as_deref();
    call.header("x-amz-copy-source", endpoint::copy_source(&source.bucket, &source.key, id));
    if let Some(etag) = version.if_match() {
        call.header("x-amz-copy-source-if-match", etag);
    }
}

pub(super) fn version(head: &ResponseHead, etag: Option<String>, size: Option<u64>) -> Version {
    let etag = etag.as_deref().and_then(etag::quoted);
    Version { size, etag, version_id: answer::version_id(head), last_modified: None, file: None }
}

/// Compares the checksum that the service reports with the client's. Returns the checksum if the
/// two are equal, `None` if the service reports none, and an error if they differ.
pub(super) fn confirmed_checksum(
    place: &str,
    stored: Option<&str>,
    ours: &Checksum,
) -> Result<Option<Checksum>> {
    let Some(theirs) = stored.and_then(|text| Checksum::from_base64(Algorithm::Crc64Nvme, text)) else {
        return Ok(None);
    };
    ours.verify(&theirs, &place)?;
    Ok(Some(theirs))
}
