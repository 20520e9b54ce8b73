//! Distinguishes S3 requests from plain HTTP requests. Both use one port, and `/x` may be either.
//!
//! A request is S3 when any of these holds; everything else is plain HTTP (files, pages, program
//! listings):
//!
//! 1. its `Authorization` starts with `AWS4-HMAC-SHA256` or `AWS `;
//! 2. its query holds `X-Amz-Signature`, `X-Amz-Credential` or `AWSAccessKeyId` (a presigned URL);
//! 3. it has one of the headers that S3 clients send ([`is_s3_header`]);
//! 4. its query names an S3 sub-resource, such as `list-type`, `uploads`, `uploadId`, `delete` or
//!    `location`, unless it is a read with a password or with a session of the page;
//! 5. it posts an HTML form (`multipart/form-data`);
//! 6. its host name holds a bucket (`--host-style`).
//!
//! With one named bucket (`--bucket NAME`), a plain path may begin with NAME, as in S3: an S3
//! client without signatures sends such a path and must get the same object.
//!
//! So an unsigned `curl http://host/bucket/key` is a plain GET, and `curl
//! http://host/bucket?list-type=2` an S3 list. Both APIs return the same bytes and `ETag` for a
//! file; they differ in errors and directories.

use http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE};
use http::{HeaderMap, Method};

use crate::access::sessions::SESSION_COOKIE;
use crate::http::metrics::RequestRoute;
use crate::http::request::{HttpRequest, query_pairs};

/// Query parameters that only S3 uses.
const SUB_RESOURCES: [&str; 42] = [
    "list-type",
    "prefix",
    "delimiter",
    "marker",
    "max-keys",
    "encoding-type",
    "uploads",
    "uploadId",
    "partNumber",
    "delete",
    "location",
    "versioning",
    "versions",
    "versionId",
    "acl",
    "tagging",
    "policy",
    "policyStatus",
    "cors",
    "lifecycle",
    "encryption",
    "object-lock",
    "notification",
    "replication",
    "requestPayment",
    "website",
    "logging",
    "attributes",
    "retention",
    "legal-hold",
    "ownershipControls",
    "publicAccessBlock",
    "accelerate",
    "analytics",
    "intelligent-tiering",
    "inventory",
    "metadataTable",
    "metrics",
    "restore",
    "session",
    "torrent",
    "x-id",
];

/// Headers by which S3 clients are recognized: those of signed requests, those that SDKs add even
/// to unsigned requests, and those that change what is stored or read. Headers that proxies add are
/// not in the list. [`S3_HEADER_FAMILIES`] has the prefixes.
const S3_HEADERS: [&str; 17] = [
    "x-amz-acl",
    "x-amz-content-sha256",
    "x-amz-copy-source",
    "x-amz-date",
    "x-amz-decoded-content-length",
    "x-amz-expected-bucket-owner",
    "x-amz-metadata-directive",
    "x-amz-object-attributes",
    "x-amz-rename-source",
    "x-amz-request-payer",
    "x-amz-s3session-token",
    "x-amz-security-token",
    "x-amz-storage-class",
    "x-amz-tagging",
    "x-amz-trailer",
    "x-amz-user-agent",
    "x-amz-write-offset-bytes",
];

/// Prefixes of further headers that only S3 clients send.
const S3_HEADER_FAMILIES: [&str; 9] = [
    "x-amz-checksum-",
    "x-amz-copy-source-",
    "x-amz-grant-",
    "x-amz-if-match-",
    "x-amz-meta-",
    "x-amz-object-lock-",
    "x-amz-sdk-",
    "x-amz-server-side-encryption",
    "x-amz-website-redirect-",
];

/// Prefix of the headers that CloudFront adds to every request.
const INFRASTRUCTURE: &str = "x-amz-cf-";

/// Removes the headers that a content delivery network added. No client sends them, so no signature
/// covers them.
pub(crate) fn remove_infrastructure(headers: &mut HeaderMap) {
    let added = headers.keys().filter(|name| name.as_str().starts_with(INFRASTRUCTURE));
    for name in added.cloned().collect::<Vec<_>>() {
        headers.remove(name);
    }
}

/// True if a header of this name marks an S3 request.
fn is_s3_header(name: &str) -> bool {
    S3_HEADERS.contains(&name) || S3_HEADER_FAMILIES.iter().any(|family| name.starts_with(family))
}

/// Chooses the route of a request.
pub(crate) fn route(request: &HttpRequest) -> RequestRoute {
    let path = request.path.as_str();
    if path == "/.firstbyte/metrics" {
        return RequestRoute::Metrics;
    }
    if path.starts_with("/.firstbyte/") {
        return RequestRoute::Reserved;
    }
    if is_s3(request) { RequestRoute::S3 } else { RequestRoute::Plain }
}

fn is_s3(request: &HttpRequest) -> bool {
    let signed = request
        .header(AUTHORIZATION)
        .is_some_and(|value| value.starts_with("AWS4-HMAC-SHA256") || value.starts_with("AWS "));
    let is_form = request.method == Method::POST
        && request.header(CONTENT_TYPE).is_some_and(|kind| kind.starts_with("multipart/form-data"));
    let is_presigned = |name: &str| matches!(name, "X-Amz-Signature" | "X-Amz-Credential" | "AWSAccessKeyId");
    let may_name_sub_resource = !is_plain_read(request);
    signed
        || is_form
        || request.headers.keys().any(|name| is_s3_header(name.as_str()))
        || query_pairs(&request.query).map(|(name, _)| name).any(|name| {
            is_presigned(&name) || (may_name_sub_resource && SUB_RESOURCES.contains(&name.as_str()))
        })
}

/// True if the request is a read with a password or with a session of the page. S3 has neither, so
/// a name such as `location` in its query is a parameter of a stored page.
fn is_plain_read(request: &HttpRequest) -> bool {
    let scheme = request.header(AUTHORIZATION).and_then(|value| value.split(' ').next());
    let has_session = || {
        let cookies = request.header(COOKIE).unwrap_or_default().split(';');
        cookies.map(str::trim).any(|cookie| cookie.starts_with(SESSION_COOKIE))
    };
    matches!(request.method, Method::GET | Method::HEAD)
        && scheme.map_or_else(has_session, |scheme| scheme.eq_ignore_ascii_case("basic"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::request::RequestBody;

    fn request(target: &str, header: Option<(&'static str, &str)>) -> HttpRequest {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let headers: HeaderMap =
            header.into_iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        let peer = ([127, 0, 0, 1], 1).into();
        let (path, query) = (path.to_owned(), query.to_owned());
        let prefix = String::new();
        HttpRequest { method: Method::GET, prefix, path, query, headers, peer, body: RequestBody::Empty }
    }

    #[test]
    fn signatures_amz_headers_and_sub_resources_mean_s3() {
        for (target, header) in [
            ("/b/k", Some(("authorization", "AWS4-HMAC-SHA256 Credential=x"))),
            ("/b/k", Some(("authorization", "AWS key:signature"))),
            ("/b/k", Some(("x-amz-date", "20260101T000000Z"))),
            ("/b/k", Some(("x-amz-checksum-mode", "ENABLED"))),
            ("/b/k", Some(("x-amz-meta-run", "7"))),
            ("/b/k?X-Amz-Signature=0", None),
            ("/b?list-type=2", None),
            ("/b?uploads", None),
            ("/b/k?uploadId=7&partNumber=1", None),
            ("/b/k?X-Amz-Signature=0", Some(("authorization", "Basic YTpi"))),
            ("/b/k?session=7", Some(("cookie", "theme=dark"))),
        ] {
            assert_eq!(route(&request(target, header)), RequestRoute::S3, "{target} {header:?}");
        }
    }

    #[test]
    fn everything_else_is_plain_http() {
        for (target, header) in [
            ("/b/k", None),
            ("/b/?format=json", None),
            ("/b/k?download", None),
            ("/b/k", Some(("authorization", "Basic YTpi"))),
            ("/b/k?session=7&location=here", Some(("authorization", "basic YTpi"))),
            ("/b/k?session=7", Some(("cookie", "theme=dark; firstbyte_session_8080=x"))),
            ("/b/k", Some(("x-amz-cf-id", "x"))),
            ("/b/k", Some(("x-amz-cf-pop", "x"))),
            ("/b/k", Some(("x-amz-apigw-id", "x"))),
            ("/b/k", Some(("x-amzn-trace-id", "x"))),
        ] {
            assert_eq!(route(&request(target, header)), RequestRoute::Plain, "{target} {header:?}");
        }
        assert_eq!(route(&request("/.firstbyte/metrics", None)), RequestRoute::Metrics);
        assert_eq!(route(&request("/.firstbyte/app.js", None)), RequestRoute::Reserved);
    }
}
