//! Uploads large objects in parts.
//!
//! Each part is sent with the CRC-64/NVME of its bytes. The completion is sent with the CRC-64/NVME
//! of the whole object, combined from those of the parts. So the service verifies every byte.

use std::sync::atomic::Ordering;
use std::time::Instant;

use firstbyte_location::{Algorithm, ByteRange, Checksum, Location, ObjectLocation, Version, etag};

use crate::cancel::Cancel;
use crate::endless::{EndlessListingCheck, PageContent};
use crate::error::{Error, Result};
use crate::retry::Retry;
use crate::upload::{Part, Payload, Precondition, PutOptions, Sending, StaleUpload, Upload, Written};
use crate::{answer, dates};

use super::completed::LostAnswer;
use super::names::{ENCODING, NameForm};
use super::operation::S3Operation;
use super::write::{self, CRC_HEADER};
use super::xml::{self, Initiated, PartPage, UploadPage};
use super::{S3, S3Call, protocol};

/// The detail of an error if a list has further pages but no start of the next one.
const NO_MARKER: &str = "further pages, and not where they begin";

impl S3 {
    /// Sends `CreateMultipartUpload`.
    pub(crate) fn begin_upload(&self, object: &ObjectLocation, options: &PutOptions) -> Result<Upload> {
        self.with_checksums(|checked, _| {
            let mut call = S3Call::new(S3Operation::CreateMultipartUpload, object, &options.sending.cancel);
            call.query.push(("uploads", String::new()));
            self.describe(&mut call, options);
            if checked {
                call.header("x-amz-checksum-algorithm", "CRC64NVME");
                call.header("x-amz-checksum-type", "FULL_OBJECT");
            }
            let (head, body) = self.call_text(&call)?;
            let initiated: Initiated = xml::parse(&body).ok_or_else(|| {
                protocol(&call.place(), "no upload id in the response").traced(|| head.trace())
            })?;
            Ok(Upload { location: Location::Object(object.clone()), id: initiated.upload_id })
        })
    }

    /// Sends `UploadPart`.
    pub(crate) fn put_part(
        &self,
        object: &ObjectLocation,
        id: &str,
        number: u32,
        payload: Payload<'_>,
        sending: &Sending,
    ) -> Result<Part> {
        let crc = payload.checksum(Algorithm::Crc64Nvme, &object.to_string())?;
        self.with_checksums(|checked, with_md5| {
            let mut call = part_call(S3Operation::UploadPart, object, id, number, &sending.cancel);
            call.throttle = sending.throttle.clone();
            call.payload = payload;
            if checked {
                call.header(CRC_HEADER, crc.to_base64());
            }
            if with_md5 {
                write::add_md5(&mut call)?;
            }
            let (head, _) = self.call_text(&call)?;
            let place = call.place();
            let etag = head.etag().ok_or_else(|| protocol(&place, "a part without an ETag"))?;
            let checksum = write::confirmed_checksum(&place, head.get(CRC_HEADER).filter(|_| checked), &crc)?;
            Ok(Part { number, size: payload.length(), etag, checksum })
        })
    }

    /// Sends `UploadPartCopy`.
    pub(crate) fn copy_part(
        &self,
        object: &ObjectLocation,
        id: &str,
        number: u32,
        source: &ObjectLocation,
        version: &Version,
        range: ByteRange,
    ) -> Result<Part> {
        let cancel = Cancel::new();
        let mut call = part_call(S3Operation::UploadPartCopy, object, id, number, &cancel);
        write::add_copy_source_headers(&mut call, source, version);
        call.work = range.len();
        call.header("x-amz-copy-source-range", answer::range_header(range));
        let copied = self.send_copy(&call, "CopyPartResult");
        let (_, stored) =
            copied.map_err(|error| self.source_error(error, source, version, &Precondition::None))?;
        let etag = stored
            .etag
            .filter(|tag| etag::stated(tag).is_some())
            .ok_or_else(|| protocol(&call.place(), "a part without an ETag"))?;
        let checksum = stored.checksum.and_then(|text| Checksum::from_base64(Algorithm::Crc64Nvme, &text));
        Ok(Part { number, size: range.len(), etag, checksum })
    }

    /// Sends `ListParts` until all pages are read.
    pub(crate) fn list_parts(&self, object: &ObjectLocation, id: &str) -> Result<Vec<Part>> {
        let cancel = Cancel::new();
        let mut parts = Vec::new();
        let (mut marker, mut endless): (Option<String>, _) = (None, EndlessListingCheck::default());
        loop {
            let mut call = S3Call::new(S3Operation::ListParts, object, &cancel);
            call.query.push(("uploadId", id.to_owned()));
            call.query.extend(marker.clone().map(|number| ("part-number-marker", number)));
            let (head, body) = self.call_text(&call)?;
            let page: PartPage = xml::parse_root("ListPartsResult", &body)
                .ok_or_else(|| protocol(&call.place(), "no parts in the response").traced(|| head.trace()))?;
            let last = page.part.last().map(|part| part.part_number.to_string());
            marker = match (page.is_truncated, page.next_part_number_marker.or(last)) {
                (false, _) => None,
                (true, None) => return Err(protocol(&call.place(), NO_MARKER)),
                (true, Some(next)) => {
                    let checked = endless.check(&next, PageContent::of(&page.part));
                    checked.map_err(|why| protocol(&call.place(), why))?;
                    Some(next)
                }
            };
            parts.extend(page.part.into_iter().map(|part| Part {
                number: part.part_number,
                size: part.size,
                etag: part.etag,
                checksum: part.checksum.and_then(|text| Checksum::from_base64(Algorithm::Crc64Nvme, &text)),
            }));
            if marker.is_none() {
                return Ok(parts);
            }
        }
    }

    /// Sends `CompleteMultipartUpload`.
    pub(crate) fn complete_upload(
        &self,
        object: &ObjectLocation,
        id: &str,
        parts: &[Part],
        options: &PutOptions,
    ) -> Result<Written> {
        let whole = combined_checksum(parts).filter(|_| self.uses_checksums());
        let body = completion_body(parts, whole.is_some());
        let mut call = S3Call::new(S3Operation::CompleteMultipartUpload, object, &options.sending.cancel);
        call.query.push(("uploadId", id.to_owned()));
        call.payload = Payload::Bytes(body.as_bytes());
        let size = parts.iter().map(|part| part.size).sum();
        // Some services join the parts before they respond.
        call.work = size;
        call.header("content-type", "application/xml");
        call.headers.extend(options.precondition.header());
        if let Some(whole) = &whole {
            call.header(CRC_HEADER, whole.to_base64());
            call.header("x-amz-checksum-type", "FULL_OBJECT");
        }
        let (mut retry, began) = (Retry::new(&self.client, call.cancel), Instant::now());
        // If a reused connection was closed, the HTTP client repeats a request by itself and counts
        // that as a retry. So if the count is higher afterwards, the first completion may have
        // arrived at the service.
        let sent_again = || self.client.counters.retries.load(Ordering::Relaxed);
        let sent_before = sent_again();
        let (head, stored) = loop {
            let sent = self.send(&call).and_then(|reply| self.text_of(&call, reply));
            match sent.and_then(|answer| write::parse_stored(&call, "CompleteMultipartUploadResult", answer))
            {
                Ok(done) => break done,
                Err(Error::Server { code, .. })
                    if code == "NoSuchUpload" && (whole.is_some() || sent_again() > sent_before) =>
                {
                    let metadata = &options.metadata;
                    let lost = LostAnswer { object, id, parts, whole: whole.as_ref(), metadata, began };
                    return self.completed_before(&lost);
                }
                Err(error) => {
                    // The completion may have succeeded, although its response was cut.
                    if write::is_cut_response(&error) {
                        let metadata = &options.metadata;
                        let lost = LostAnswer { object, id, parts, whole: whole.as_ref(), metadata, began };
                        if let Ok(written) = self.completed_before(&lost) {
                            return Ok(written);
                        }
                    }
                    retry.wait_or_give_up(error)?;
                }
            }
        };
        let full = stored.checksum_type.as_deref() != Some("COMPOSITE");
        let verified = match &whole {
            Some(whole) => {
                write::confirmed_checksum(&call.place(), stored.checksum.as_deref().filter(|_| full), whole)?
            }
            None => None,
        };
        Ok(Written { version: write::version(&head, stored.etag, Some(size)), verified })
    }

    /// Sends `AbortMultipartUpload`. Succeeds if the upload does not exist.
    pub(crate) fn abort_upload(&self, object: &ObjectLocation, id: &str) -> Result<()> {
        let cancel = Cancel::new();
        let mut call = S3Call::new(S3Operation::AbortMultipartUpload, object, &cancel);
        call.query.push(("uploadId", id.to_owned()));
        match self.call_text(&call) {
            Err(Error::NotFound { .. }) => Ok(()),
            Err(Error::Server { code, .. }) if code == "NoSuchUpload" => Ok(()),
            other => other.map(drop),
        }
    }

    /// Sends `ListMultipartUploads` for a prefix, until all pages are read.
    pub(crate) fn stale_uploads(&self, prefix: &ObjectLocation) -> Result<Vec<StaleUpload>> {
        let cancel = Cancel::new();
        let bucket = prefix.with_key("");
        let mut uploads = Vec::new();
        let (mut marker, mut endless): (Option<(String, String)>, _) = (None, EndlessListingCheck::default());
        loop {
            let mut call = S3Call::new(S3Operation::ListMultipartUploads, &bucket, &cancel);
            call.query.push(("uploads", String::new()));
            call.query.push((ENCODING, "url".to_owned()));
            call.query.push(("prefix", prefix.key.clone()));
            if let Some((key, id)) = marker.clone() {
                call.query.push(("key-marker", key));
                call.query.push(("upload-id-marker", id));
            }
            let (head, body) = self.call_text(&call)?;
            let page: UploadPage = xml::parse_root("ListMultipartUploadsResult", &body).ok_or_else(|| {
                protocol(&call.place(), "no uploads in the response").traced(|| head.trace())
            })?;
            let content = PageContent::of(&page.upload);
            let form = self.form_of_uploads(&mut call, &page)?;
            uploads.extend(page.upload.into_iter().map(|pending| {
                let key = form.decode(&pending.key).into_owned();
                let location = Location::Object(prefix.with_key(key));
                let initiated = pending.initiated.as_deref().and_then(dates::rfc3339);
                StaleUpload { upload: Upload { location, id: pending.upload_id }, initiated }
            }));
            let next = page
                .next_key_marker
                .map(|key| (form.decode(&key).into_owned(), page.next_upload_id_marker.unwrap_or_default()));
            match (page.is_truncated, next) {
                (false, _) => return Ok(uploads),
                (true, None) => return Err(protocol(&call.place(), NO_MARKER)),
                (true, Some((key, id))) => {
                    let checked = endless.check(&format!("{key}\0{id}"), content);
                    checked.map_err(|why| protocol(&call.place(), why))?;
                    marker = Some((key, id));
                }
            }
        }
    }
}

impl S3 {
    /// Returns the form of the keys in a listing of uploads.
    fn form_of_uploads(&self, call: &mut S3Call<'_>, page: &UploadPage) -> Result<NameForm> {
        if let Some(stated) = NameForm::stated(page.encoding_type.as_deref()) {
            return Ok(stated);
        }
        let names: Vec<&str> = page.upload.iter().map(|upload| upload.key.as_str()).collect();
        self.names.learn(&names, || {
            call.query.retain(|parameter| parameter.0 != ENCODING);
            let (_, body) = self.call_text(call)?;
            let plain: UploadPage = xml::parse_root("ListMultipartUploadsResult", &body).unwrap_or_default();
            Ok(plain.upload.into_iter().map(|upload| upload.key).collect())
        })
    }
}

fn part_call<'a>(
    operation: S3Operation,
    object: &'a ObjectLocation,
    id: &str,
    number: u32,
    cancel: &'a Cancel,
) -> S3Call<'a> {
    let mut call = S3Call::new(operation, object, cancel);
    call.query.push(("partNumber", number.to_string()));
    call.query.push(("uploadId", id.to_owned()));
    call
}

/// Combines the checksums of the parts to that of the whole object. `None` if a part has none.
fn combined_checksum(parts: &[Part]) -> Option<Checksum> {
    let (first, rest) = parts.split_first()?;
    rest.iter()
        .try_fold(first.checksum.clone()?, |whole, part| whole.combine(part.checksum.as_ref()?, part.size))
}

fn completion_body(parts: &[Part], with_checksums: bool) -> String {
    let mut body =
        String::from("<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
    for part in parts {
        body.push_str("<Part>");
        if let Some(checksum) = part.checksum.as_ref().filter(|_| with_checksums) {
            body.push_str(&format!("<ChecksumCRC64NVME>{}</ChecksumCRC64NVME>", checksum.to_base64()));
        }
        body.push_str(&format!(
            "<ETag>{}</ETag><PartNumber>{}</PartNumber></Part>",
            xml::escape(&part.etag),
            part.number
        ));
    }
    body.push_str("</CompleteMultipartUpload>");
    body
}
