//! Answers PutObject, CopyObject, DeleteObject and DeleteObjects.

use firstbyte_store::{Algorithm, Hasher};

use super::request::{QuirkRequest, decode};
use super::{Name, Object, QuirkState, elements, escape, xml_error};
use crate::quirk::Quirk;
use crate::scripted::ScriptedReply;

/// The header with the checksum of a write.
pub(super) const CHECKSUM: &str = "x-amz-checksum-crc64nvme";

impl QuirkState {
    /// Answers any request that changes an object or an upload.
    pub(super) fn write(&mut self, request: &QuirkRequest) -> ScriptedReply {
        let (upload, part) = (request.value("uploadId"), request.value("partNumber"));
        match (request.method.as_str(), upload, part) {
            ("POST", None, _) if request.value("uploads").is_some() => self.begin_upload(request),
            ("PUT", Some(id), Some(number)) => self.put_part(request, id, number),
            ("POST", Some(id), _) => self.complete_upload(request, id),
            ("GET", Some(id), _) => self.list_parts(id),
            ("DELETE", Some(id), _) => self.abort_upload(id),
            ("DELETE", None, _) if self.has(Quirk::DeniesDeletes) => {
                xml_error("403 Forbidden", "AccessDenied", "Access Denied")
            }
            ("DELETE", None, _) => {
                self.delete(&request.name());
                ScriptedReply::raw("204 No Content", &[], b"")
            }
            ("PUT", None, _) => self.put(request),
            _ => xml_error("405 Method Not Allowed", "MethodNotAllowed", "not for an object"),
        }
    }

    pub(super) fn delete(&mut self, name: &Name) {
        if let Some(object) = self.objects.remove(name) {
            self.deleted.insert(name.clone(), object);
        }
    }

    pub(super) fn store(&mut self, name: Name, object: Object) {
        self.deleted.remove(&name);
        self.objects.insert(name, object);
    }

    fn put(&mut self, request: &QuirkRequest) -> ScriptedReply {
        if let Some(refusal) = self.refuse_condition(request) {
            return refusal;
        }
        if request.header("x-amz-copy-source").is_some() {
            return self.copy(request);
        }
        let object = Object {
            headers: stored_headers(request),
            checksum: request.header(CHECKSUM).map(str::to_owned),
            ..Object::new(request.body.clone())
        };
        if object.checksum.is_some() && object.checksum != Some(checksum(&object.content)) {
            return xml_error("400 Bad Request", "BadDigest", "The checksum does not match.");
        }
        let mut headers = vec![format!("etag: \"{}\"", object.etag)];
        headers.extend(object.checksum.iter().map(|checksum| format!("{CHECKSUM}: {checksum}")));
        self.store(request.name(), object);
        ScriptedReply::answer("200 OK", &headers.iter().map(String::as_str).collect::<Vec<_>>(), b"")
    }

    /// Returns the 412 response to a write whose condition does not hold. `None` if it holds.
    pub(super) fn refuse_condition(&self, request: &QuirkRequest) -> Option<ScriptedReply> {
        let known = self.objects.get(&request.name());
        let refused = match (request.header("if-none-match"), request.header("if-match")) {
            (Some("*"), _) => known.is_some(),
            (_, Some(tag)) => {
                self.has(Quirk::RefusesOwnTag)
                    || known.is_none_or(|object| object.etag != tag.trim_matches('"'))
            }
            _ => false,
        };
        refused.then(|| xml_error("412 Precondition Failed", "PreconditionFailed", "A condition failed."))
    }

    /// Returns the source of a copy if the condition on the source holds.
    pub(super) fn copy_source(&self, request: &QuirkRequest) -> Result<Object, ScriptedReply> {
        let source = decode(request.header("x-amz-copy-source").unwrap_or_default());
        let source = source.trim_start_matches('/').split("?versionId=").next().unwrap_or_default();
        let (bucket, key) = source.split_once('/').unwrap_or((source, ""));
        let Some(object) = self.objects.get(&(bucket.to_owned(), key.to_owned())) else {
            return Err(xml_error("404 Not Found", "NoSuchKey", "The specified key does not exist."));
        };
        match request.header("x-amz-copy-source-if-match") {
            Some(tag) if self.has(Quirk::RefusesOwnTag) || tag.trim_matches('"') != object.etag => {
                Err(xml_error("412 Precondition Failed", "PreconditionFailed", "The source has changed."))
            }
            _ => Ok(object.clone()),
        }
    }

    fn copy(&mut self, request: &QuirkRequest) -> ScriptedReply {
        let source = match self.copy_source(request) {
            Ok(source) => source,
            Err(refusal) => return refusal,
        };
        if self.record_first(Quirk::ErrorsInSuccess, &request.event()) {
            return self.xml(INTERNAL_ERROR);
        }
        let mut object = Object { checksum: source.checksum.clone(), ..Object::new(source.content) };
        object.headers = match request.header("x-amz-metadata-directive") {
            Some("REPLACE") => stored_headers(request),
            _ => source.headers,
        };
        let etag = object.etag.clone();
        self.store(request.name(), object);
        self.xml(&format!("<CopyObjectResult><ETag>&quot;{etag}&quot;</ETag></CopyObjectResult>"))
    }

    pub(super) fn delete_many(&mut self, request: &QuirkRequest) -> ScriptedReply {
        if self.has(Quirk::NoDeleteMany) {
            return xml_error("501 Not Implemented", "NotImplemented", "DeleteObjects");
        }
        let mut refused = String::new();
        for key in elements(&request.text(), "Key") {
            if self.has(Quirk::DeniesDeletes) {
                refused.push_str(&format!(
                    "<Error><Key>{}</Key><Code>AccessDenied</Code><Message>Access Denied</Message></Error>",
                    escape(&key)
                ));
            } else {
                self.delete(&(request.bucket.clone(), key));
            }
        }
        self.xml(&format!("<DeleteResult>{refused}</DeleteResult>"))
    }
}

/// Error document in the body of a response with status 200.
pub(super) const INTERNAL_ERROR: &str =
    "<Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>";

/// Computes CRC-64/NVME in base64.
pub(super) fn checksum(content: &[u8]) -> String {
    Hasher::of(Algorithm::Crc64Nvme, content).to_base64()
}

/// Returns the headers of a write that are stored with the object.
pub(super) fn stored_headers(request: &QuirkRequest) -> Vec<(String, String)> {
    const KEPT: [&str; 9] = [
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-type",
        "x-amz-acl",
        "x-amz-server-side-encryption",
        "x-amz-storage-class",
        "x-amz-tagging",
    ];
    let own = |name: &str| KEPT.contains(&name) || name.starts_with("x-amz-meta-");
    let headers = request.headers.iter().filter(|(name, _)| own(name));
    headers.map(|(name, value)| (name.clone(), value.clone())).collect()
}
