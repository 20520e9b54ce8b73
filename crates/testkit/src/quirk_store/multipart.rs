//! Answers the requests of multipart uploads.

use std::collections::BTreeMap;

use firstbyte_store::{Algorithm, Hasher};

use super::request::QuirkRequest;
use super::writing::{CHECKSUM, INTERNAL_ERROR, checksum, stored_headers};
use super::{Name, Object, QuirkState, elements, escape, xml_error};
use crate::quirk::Quirk;
use crate::scripted::ScriptedReply;

/// An upload that is neither complete nor aborted.
#[derive(Clone)]
pub(super) struct QuirkUpload {
    name: Name,
    headers: Vec<(String, String)>,
    parts: BTreeMap<u32, Vec<u8>>,
}

impl QuirkState {
    pub(super) fn begin_upload(&mut self, request: &QuirkRequest) -> ScriptedReply {
        if self.has(Quirk::NoMultipart) {
            return xml_error("501 Not Implemented", "NotImplemented", "multipart uploads");
        }
        self.started_uploads += 1;
        let id = format!("upload-{}", self.started_uploads);
        let (name, headers) = (request.name(), stored_headers(request));
        self.uploads.insert(id.clone(), QuirkUpload { name, headers, parts: BTreeMap::new() });
        self.xml(&format!(
            "<InitiateMultipartUploadResult><Key>{}</Key><UploadId>{id}</UploadId></InitiateMultipartUploadResult>",
            escape(&request.key)
        ))
    }

    pub(super) fn put_part(&mut self, request: &QuirkRequest, id: &str, number: &str) -> ScriptedReply {
        let copied = match request.header("x-amz-copy-source") {
            Some(_) => match self.copy_source(request) {
                Ok(source) => Some(copied_range(request, &source.content)),
                Err(refusal) => return refusal,
            },
            None => None,
        };
        if copied.is_some() && self.record_first(Quirk::ErrorsInSuccess, &request.event()) {
            return self.xml(INTERNAL_ERROR);
        }
        let Some(upload) = self.uploads.get_mut(id) else { return no_upload() };
        let is_copy = copied.is_some();
        let content = copied.unwrap_or_else(|| request.body.clone());
        let etag = Hasher::of(Algorithm::Md5, &content).to_hex();
        if request.header(CHECKSUM).is_some_and(|stated| stated != checksum(&content)) {
            return xml_error("400 Bad Request", "BadDigest", "The checksum does not match.");
        }
        upload.parts.insert(number.parse().unwrap_or_default(), content);
        if is_copy {
            return self.xml(&format!("<CopyPartResult><ETag>&quot;{etag}&quot;</ETag></CopyPartResult>"));
        }
        let mut headers = vec![format!("etag: \"{etag}\"")];
        headers.extend(request.header(CHECKSUM).map(|stated| format!("{CHECKSUM}: {stated}")));
        ScriptedReply::answer("200 OK", &headers.iter().map(String::as_str).collect::<Vec<_>>(), b"")
    }

    pub(super) fn complete_upload(&mut self, request: &QuirkRequest, id: &str) -> ScriptedReply {
        if !self.uploads.contains_key(id) {
            return no_upload();
        }
        if let Some(refusal) = self.refuse_condition(request) {
            return refusal;
        }
        if self.record_first(Quirk::ErrorsInSuccess, &request.event()) {
            return self.xml(INTERNAL_ERROR);
        }
        let numbers: Vec<u32> =
            elements(&request.text(), "PartNumber").iter().filter_map(|number| number.parse().ok()).collect();
        let Some(upload) = self.uploads.get(id).cloned() else { return no_upload() };
        let mut content = Vec::new();
        for number in &numbers {
            let Some(part) = upload.parts.get(number) else {
                return xml_error("400 Bad Request", "InvalidPart", "A part is missing.");
            };
            content.extend_from_slice(part);
        }
        let stated = request.header(CHECKSUM).map(str::to_owned);
        if stated.as_ref().is_some_and(|stated| *stated != checksum(&content)) {
            return xml_error("400 Bad Request", "BadDigest", "The checksum does not match.");
        }
        let mut object = Object { headers: upload.headers, checksum: stated, ..Object::new(content) };
        object.etag.push_str(&format!("-{}", numbers.len()));
        let checksum = object.checksum.as_ref().map_or_else(String::new, |checksum| {
            format!(
                "<ChecksumCRC64NVME>{checksum}</ChecksumCRC64NVME><ChecksumType>FULL_OBJECT</ChecksumType>"
            )
        });
        let etag = object.etag.clone();
        self.uploads.remove(id);
        self.store(upload.name, object);
        self.xml(&format!(
            "<CompleteMultipartUploadResult><ETag>&quot;{etag}&quot;</ETag>{checksum}</CompleteMultipartUploadResult>"
        ))
    }

    pub(super) fn list_parts(&self, id: &str) -> ScriptedReply {
        let Some(upload) = self.uploads.get(id) else { return no_upload() };
        let mut rows = String::new();
        for (number, content) in &upload.parts {
            let etag = Hasher::of(Algorithm::Md5, content).to_hex();
            rows.push_str(&format!(
                "<Part><PartNumber>{number}</PartNumber><ETag>&quot;{etag}&quot;</ETag><Size>{}</Size>\
                 <ChecksumCRC64NVME>{}</ChecksumCRC64NVME></Part>",
                content.len(),
                checksum(content)
            ));
        }
        self.xml(&format!("<ListPartsResult><IsTruncated>false</IsTruncated>{rows}</ListPartsResult>"))
    }

    pub(super) fn abort_upload(&mut self, id: &str) -> ScriptedReply {
        match self.uploads.remove(id) {
            Some(_) => ScriptedReply::raw("204 No Content", &[], b""),
            None => no_upload(),
        }
    }

    pub(super) fn list_uploads(&self, request: &QuirkRequest) -> ScriptedReply {
        let prefix = request.value("prefix").unwrap_or_default();
        let mut rows = String::new();
        for (id, upload) in self.uploads.iter().filter(|(_, upload)| upload.name.1.starts_with(prefix)) {
            rows.push_str(&format!(
                "<Upload><Key>{}</Key><UploadId>{id}</UploadId><Initiated>2026-01-02T03:04:05.000Z</Initiated></Upload>",
                escape(&upload.name.1)
            ));
        }
        self.xml(&format!(
            "<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>{rows}</ListMultipartUploadsResult>"
        ))
    }
}

fn copied_range(request: &QuirkRequest, content: &[u8]) -> Vec<u8> {
    let range = request.header("x-amz-copy-source-range").and_then(|text| {
        let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
        Some(first.parse::<usize>().ok()?..last.parse::<usize>().ok()? + 1)
    });
    range.and_then(|range| content.get(range)).unwrap_or(content).to_vec()
}

fn no_upload() -> ScriptedReply {
    xml_error("404 Not Found", "NoSuchUpload", "The specified upload does not exist.")
}
