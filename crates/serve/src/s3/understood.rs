//! Holds the table of request headers and query fields that this server supports. A request is
//! refused if it has any other header or field that would change what is stored.
//!
//! Ignoring such a header would make status 200 a lie: the object would be stored without its tags,
//! its lock or its encryption. So a write may have the `x-amz-*` headers of [`HEADERS`] and no
//! others. Fields of HTML forms are checked by the same table.
//!
//! Some operations differ only by a query field without a value (`PUT /bucket/key?renameObject`).
//! s3s ignores a field that it does not know, and executes the plain operation. A rename would then
//! be a PUT of an empty body, and the upload of a part would overwrite the object.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use s3s::{S3Error, S3Result, s3_error};

use super::private::OWNER;
use super::signed::is_form;
use crate::http::request::query_pairs;

/// The accepted values of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AcceptedValues {
    /// Any value: the header is supported, or it has no effect on what is stored.
    Any,
    /// Only these values, which describe what the server does anyway.
    Only(&'static [&'static str]),
}

use AcceptedValues::{Any, Only};

/// The `x-amz-*` headers of writes. A name that ends in `*` stands for all names that begin with
/// the text before `*`.
const HEADERS: [(&str, AcceptedValues); 41] = [
    // Properties of the object.
    ("x-amz-meta-*", Any),
    ("x-amz-acl", Only(&["private", "bucket-owner-full-control"])),
    ("x-amz-storage-class", Only(&["STANDARD"])),
    // Coding and checksums of the body.
    ("x-amz-checksum-algorithm", Any),
    ("x-amz-checksum-crc32", Any),
    ("x-amz-checksum-crc32c", Any),
    ("x-amz-checksum-crc64nvme", Any),
    ("x-amz-checksum-sha1", Any),
    ("x-amz-checksum-sha256", Any),
    ("x-amz-checksum-type", Any),
    ("x-amz-content-sha256", Any),
    ("x-amz-decoded-content-length", Any),
    ("x-amz-mp-object-size", Any),
    ("x-amz-sdk-checksum-algorithm", Any),
    ("x-amz-trailer", Any),
    // Copies.
    ("x-amz-copy-source", Any),
    ("x-amz-copy-source-if-match", Any),
    ("x-amz-copy-source-if-modified-since", Any),
    ("x-amz-copy-source-if-none-match", Any),
    ("x-amz-copy-source-if-unmodified-since", Any),
    ("x-amz-copy-source-range", Any),
    ("x-amz-metadata-directive", Only(&["COPY", "REPLACE"])),
    // There are no tags to copy.
    ("x-amz-tagging-directive", Only(&["COPY", "REPLACE"])),
    // The owner of the bucket.
    ("x-amz-expected-bucket-owner", Only(&[OWNER])),
    ("x-amz-source-expected-bucket-owner", Only(&[OWNER])),
    // Buckets.
    ("x-amz-bucket-object-lock-enabled", Only(&["false", "False"])),
    ("x-amz-object-ownership", Only(&["BucketOwnerEnforced"])),
    // Signatures, and fields of a signed form.
    ("x-amz-algorithm", Any),
    ("x-amz-credential", Any),
    ("x-amz-date", Any),
    ("x-amz-security-token", Any),
    ("x-amz-signature", Any),
    // Headers without effect on what is stored. The SDK for C++, and so PyArrow, sends the version
    // of the API with every request.
    ("x-amz-api-version", Any),
    ("x-amz-bypass-governance-retention", Any),
    ("x-amz-cf-*", Any),
    ("x-amz-id-2", Any),
    ("x-amz-mfa", Any),
    ("x-amz-optional-object-attributes", Any),
    ("x-amz-request-id", Any),
    ("x-amz-request-payer", Any),
    ("x-amz-user-agent", Any),
];

/// The header that marks a copy. It is also the prefix of the headers with the copy's conditions
/// and range.
pub(super) const COPY_SOURCE: &str = "x-amz-copy-source";

/// Names in a query that never select an operation on their own.
const PARAMETERS: [&str; 4] = ["uploadId", "partNumber", "versionId", "x-id"];

/// Bare names that s3s distinguishes, for PUT and DELETE of an object and of a bucket.
const PUT_OBJECT: [&str; 4] = ["acl", "legal-hold", "retention", "tagging"];
const DELETE_OBJECT: [&str; 1] = ["tagging"];
const PUT_BUCKET: [&str; 20] = [
    "accelerate",
    "acl",
    "analytics",
    "cors",
    "encryption",
    "intelligent-tiering",
    "inventory",
    "lifecycle",
    "logging",
    "metrics",
    "notification",
    "object-lock",
    "ownershipControls",
    "policy",
    "publicAccessBlock",
    "replication",
    "requestPayment",
    "tagging",
    "versioning",
    "website",
];
const DELETE_BUCKET: [&str; 14] = [
    "analytics",
    "cors",
    "encryption",
    "intelligent-tiering",
    "inventory",
    "lifecycle",
    "metadataTable",
    "metrics",
    "ownershipControls",
    "policy",
    "publicAccessBlock",
    "replication",
    "tagging",
    "website",
];

/// Names of further sub-resources. Even with a value they select their own operation, never the
/// plain one.
const OTHER_SUB_RESOURCES: [&str; 15] = [
    "abac",
    "annotation",
    "append",
    "attributes",
    "delete",
    "location",
    "metadataConfiguration",
    "policyStatus",
    "renameObject",
    "restore",
    "select",
    "session",
    "torrent",
    "uploads",
    "versions",
];

/// The body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyKind {
    /// The content of an object or of a part, which goes to a file.
    Content,
    /// An HTML form, which contains the content and its metadata.
    Form,
    /// The list of parts that completes an upload. Checksums in headers are for the whole object.
    Completion,
    /// A document, or an empty body.
    Document,
}

/// Returns the kind of a request's body.
pub(super) fn body_kind(method: &Method, path: &str, query: &str, headers: &HeaderMap) -> BodyKind {
    let has = |names: &[&str]| query_pairs(query).any(|(name, _)| names.contains(&name.as_str()));
    match (method, is_object(path)) {
        (&Method::PUT, true) if !headers.contains_key(COPY_SOURCE) && !has(&PUT_OBJECT) => BodyKind::Content,
        (&Method::POST, true) if has(&["uploadId"]) => BodyKind::Completion,
        (&Method::POST, false) if is_form(headers) && !has(&["delete"]) => BodyKind::Form,
        _ => BodyKind::Document,
    }
}

/// Refuses a request for an unsupported feature.
///
/// # Errors
/// The S3 error of the response.
pub(super) fn check(method: &Method, path: &str, query: &str, headers: &HeaderMap) -> S3Result<()> {
    check_owner(headers)?;
    if matches!(*method, Method::PUT | Method::POST) {
        check_headers(headers.iter())?;
        check_copy(method, query, headers)?;
    }
    check_query(method, path, query)
}

/// Refuses unsupported headers, or fields of a form, that would change what is stored.
///
/// # Errors
/// The S3 error of the response.
pub(super) fn check_headers<'a>(
    headers: impl Iterator<Item = (&'a HeaderName, &'a HeaderValue)>,
) -> S3Result<()> {
    for (name, value) in headers {
        let name = name.as_str();
        if name.starts_with("x-amz-") {
            match accepted_values_of(name) {
                Some(Any) => {}
                Some(Only(values)) if values.iter().any(|only| value.as_bytes() == only.as_bytes()) => {}
                _ => return Err(refusal(name)),
            }
        }
    }
    Ok(())
}

fn accepted_values_of(name: &str) -> Option<AcceptedValues> {
    let matches = |pattern: &str| match pattern.strip_suffix('*') {
        Some(start) => name.len() > start.len() && name.starts_with(start),
        None => name == pattern,
    };
    HEADERS.iter().find(|(pattern, _)| matches(pattern)).map(|(_, rule)| *rule)
}

/// Refuses the conditions and the range of a copy if there is no copy source, because they would be
/// ignored.
fn check_copy(method: &Method, query: &str, headers: &HeaderMap) -> S3Result<()> {
    let is_copy = *method == Method::PUT && headers.contains_key(COPY_SOURCE);
    let is_part = query_pairs(query).any(|(name, _)| name == "uploadId");
    let mut names = headers.keys().map(HeaderName::as_str).filter(|name| name.starts_with(COPY_SOURCE));
    let is_misplaced = |name: &str| !is_copy || (name == "x-amz-copy-source-range" && !is_part);
    match names.find(|name| is_misplaced(name)) {
        Some(name) => Err(s3_error!(InvalidArgument, "{name} has no meaning in this request")),
        None => Ok(()),
    }
}

/// Checks the owner of the bucket, if the request names one.
fn check_owner(headers: &HeaderMap) -> S3Result<()> {
    static NAMES: [HeaderName; 2] = [
        HeaderName::from_static("x-amz-expected-bucket-owner"),
        HeaderName::from_static("x-amz-source-expected-bucket-owner"),
    ];
    let mut named = NAMES.iter().flat_map(|name| headers.get_all(name));
    if named.all(|owner| owner.as_bytes() == OWNER.as_bytes()) {
        Ok(())
    } else {
        Err(refusal(NAMES[0].as_str()))
    }
}

fn refusal(name: &str) -> S3Error {
    match name {
        "x-amz-acl" => s3_error!(
            AccessControlListNotSupported,
            "the server keeps no access lists: `--auth` says who may do what"
        ),
        _ if name.starts_with("x-amz-grant-") => s3_error!(
            AccessControlListNotSupported,
            "the server keeps no access lists: `--auth` says who may do what"
        ),
        "x-amz-storage-class" => s3_error!(InvalidStorageClass, "the only storage class is STANDARD"),
        "x-amz-expected-bucket-owner" | "x-amz-source-expected-bucket-owner" => {
            s3_error!(AccessDenied, "the owner of every bucket is {OWNER}, not the expected one")
        }
        "x-amz-metadata-directive" | "x-amz-tagging-directive" => {
            s3_error!(InvalidArgument, "{name} must be COPY or REPLACE")
        }
        _ => s3_error!(NotImplemented, "this server cannot do what {name} asks for, so it does nothing"),
    }
}

fn is_object(path: &str) -> bool {
    path.trim_start_matches('/').split_once('/').is_some_and(|(_, key)| !key.is_empty())
}

fn check_query(method: &Method, path: &str, query: &str) -> S3Result<()> {
    let is_object = is_object(path);
    let known: &[&str] = match (method, is_object) {
        (&Method::PUT, true) => &PUT_OBJECT,
        (&Method::PUT, false) => &PUT_BUCKET,
        (&Method::DELETE, true) => &DELETE_OBJECT,
        (&Method::DELETE, false) => &DELETE_BUCKET,
        _ => return Ok(()),
    };
    let names: Vec<(String, bool)> = query_pairs(query)
        .map(|(name, value)| (name, value.is_empty()))
        .filter(|(name, _)| !name.is_empty())
        .collect();
    let has = |wanted: &str| names.iter().any(|(name, _)| name == wanted);
    let is_unknown = |(name, is_bare): &&(String, bool)| {
        let name = name.as_str();
        let is_known = known.contains(&name) || PARAMETERS.contains(&name);
        !is_known && (*is_bare || is_sub_resource(name))
    };
    if let Some((name, _)) = names.iter().find(is_unknown) {
        return Err(s3_error!(NotImplemented, "this server does not know the sub-resource {name:?}"));
    }
    if !is_object || names.iter().any(|(name, _)| known.contains(&name.as_str())) {
        return Ok(());
    }
    let is_part = (has("partNumber"), has("uploadId"));
    if is_part.0 && !is_part.1 || *method == Method::PUT && is_part.1 && !is_part.0 {
        return Err(s3_error!(InvalidArgument, "a part is named by uploadId and partNumber together"));
    }
    if *method == Method::PUT && has("versionId") {
        return Err(s3_error!(InvalidArgument, "a write makes a version and cannot name one"));
    }
    Ok(())
}

fn is_sub_resource(name: &str) -> bool {
    [&PUT_OBJECT[..], &PUT_BUCKET, &DELETE_BUCKET, &OTHER_SUB_RESOURCES]
        .iter()
        .any(|names| names.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(method: Method, target: &str) -> Option<String> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let refused = check(&method, path, query, &HeaderMap::new()).err()?;
        Some(refused.code().as_str().to_owned())
    }

    #[test]
    fn only_names_that_no_operation_has_are_refused() {
        for target in
            ["/b/k", "/b/k?tagging", "/b/k?acl=", "/b/k?x-id=PutObject", "/b/k?custom=1", "/b?versioning"]
        {
            assert_eq!(code(Method::PUT, target), None, "{target}");
        }
        for target in [
            "/b/k?renameObject",
            "/b/k?renameObject=1",
            "/b/k?encryption",
            "/b/k?policy=x",
            "/b?abac",
            "/b/k?x-id=PutObject&renameObject=",
        ] {
            assert_eq!(code(Method::PUT, target).as_deref(), Some("NotImplemented"), "{target}");
        }
        assert!(code(Method::DELETE, "/b?metadataConfiguration").is_some());
        assert_eq!(code(Method::DELETE, "/b/?policy"), None);
        assert_eq!(code(Method::GET, "/b?prefix="), None);
    }

    #[test]
    fn a_part_number_or_an_upload_id_alone_is_refused() {
        for (method, target) in [
            (Method::PUT, "/b/k?partNumber=1"),
            (Method::PUT, "/b/k?uploadId=1"),
            (Method::PUT, "/b/k?uploadId"),
            (Method::PUT, "/b/k?versionId=null"),
            (Method::DELETE, "/b/k?partNumber=1"),
        ] {
            assert_eq!(code(method, target).as_deref(), Some("InvalidArgument"), "{target}");
        }
        assert_eq!(code(Method::PUT, "/b/k?partNumber=1&uploadId=1"), None);
        assert_eq!(code(Method::DELETE, "/b/k?uploadId=1"), None);
        assert_eq!(code(Method::DELETE, "/b/k?versionId=null"), None);
        assert_eq!(code(Method::GET, "/b/k?partNumber=1"), None);
    }

    #[test]
    fn a_write_with_a_header_that_is_not_understood_is_refused() {
        let judged = |name: &'static str, value: &'static str| {
            let headers =
                HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_static(value))]);
            check(&Method::PUT, "/b/k", "", &headers).err().map(|error| error.code().as_str().to_owned())
        };
        for (name, value) in [
            ("x-amz-acl", "private"),
            ("x-amz-acl", "bucket-owner-full-control"),
            ("x-amz-storage-class", "STANDARD"),
            ("x-amz-meta-a", "b"),
            ("x-amz-cf-id", "x"),
            ("x-amz-api-version", "2006-03-01"),
            ("x-amzn-trace-id", "x"),
            ("x-amz-expected-bucket-owner", OWNER),
        ] {
            assert_eq!(judged(name, value), None, "{name}: {value}");
        }
        for (name, value, code) in [
            ("x-amz-acl", "public-read", "AccessControlListNotSupported"),
            ("x-amz-grant-read", "id=x", "AccessControlListNotSupported"),
            ("x-amz-storage-class", "GLACIER", "InvalidStorageClass"),
            ("x-amz-tagging", "a=b", "NotImplemented"),
            ("x-amz-website-redirect-location", "/x", "NotImplemented"),
            ("x-amz-server-side-encryption", "aws:kms", "NotImplemented"),
            ("x-amz-server-side-encryption-customer-key", "x", "NotImplemented"),
            ("x-amz-object-lock-mode", "GOVERNANCE", "NotImplemented"),
            ("x-amz-write-offset-bytes", "3", "NotImplemented"),
            ("x-amz-checksum-sha512", "x", "NotImplemented"),
            ("x-amz-not-invented-yet", "x", "NotImplemented"),
            ("x-amz-expected-bucket-owner", "111122223333", "AccessDenied"),
        ] {
            assert_eq!(judged(name, value).as_deref(), Some(code), "{name}: {value}");
        }
    }
}
