//! Converts S3's error responses to errors.

use std::time::{Duration, SystemTime};

use firstbyte_location::ObjectLocation;
use serde::Deserialize;

use crate::codes::{self, Meaning};
use crate::dates::parse_http_date;
use crate::error::{Error, REDIRECTS_TO, RequestAuthentication, Result, Trace, means_another_region};
use crate::order::is_directory_bucket;
use crate::wire::{Incoming, ResponseHead};

use super::dialect::is_region;
use super::operation::S3Operation;
use super::{MAX_XML_BYTES, S3Call, endpoint, express, xml};

/// A response that refuses a request.
pub(super) struct S3Refusal {
    pub(super) head: ResponseHead,
    code: String,
    message: String,
    region: Option<String>,
    endpoint: Option<String>,
    class: Option<String>,
    request: RequestAuthentication,
    /// True if the server refuses the request because it was sent without TLS to a TLS port.
    pub(super) expects_tls: bool,
    /// The identifiers in the body, for responses that have none in their headers.
    identifiers: (Option<String>, Option<String>),
}

/// The `<Error>` element (<https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html>).
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ErrorBody {
    code: String,
    message: String,
    region: Option<String>,
    endpoint: Option<String>,
    storage_class: Option<String>,
    request_id: Option<String>,
    host_id: Option<String>,
}

impl S3Refusal {
    pub(super) fn read(
        head: ResponseHead,
        incoming: Incoming,
        request: RequestAuthentication,
    ) -> Result<Self> {
        let body = incoming.collect(MAX_XML_BYTES)?;
        // Go's and nginx's wording for a request without TLS to a TLS port.
        if head.status == 400 && ["HTTPS server", "HTTPS port"].iter().any(|words| contains(&body, words)) {
            let body = ErrorBody { code: head.reason.clone(), ..ErrorBody::default() };
            return Ok(Self { expects_tls: true, ..Self::new(head, body, request) });
        }
        let mut body: ErrorBody = xml::parse(&body).unwrap_or_default();
        // The response to a HEAD has no body, so the text of its status is used.
        if body.code.is_empty() {
            body.code.clone_from(&head.reason);
        }
        Ok(Self::new(head, body, request))
    }

    fn new(head: ResponseHead, body: ErrorBody, request: RequestAuthentication) -> Self {
        let ErrorBody { code, message, region, endpoint, storage_class: class, request_id, host_id } = body;
        let identifiers = (request_id, host_id);
        Self { code, message, region, endpoint, class, request, expects_tls: false, identifiers, head }
    }

    /// Returns the error in the body of a 200, if there is one. A service sends such an error when
    /// it began the response before its work was done. The error gets the usual status of its code,
    /// and is retried like any other, as the documentation of CompleteMultipartUpload requires.
    pub(super) fn in_success(
        head: &ResponseHead,
        body: &[u8],
        request: RequestAuthentication,
    ) -> Option<Self> {
        let body: ErrorBody = xml::parse_root("Error", body)?;
        let mut head = head.clone();
        head.status = codes::status(&body.code);
        Some(Self::new(head, body, request))
    }

    /// Returns true if the error says that the bucket is in another region and does not name it, as
    /// for regions that an account has to enable.
    pub(super) fn hides_region(&self) -> bool {
        means_another_region(&self.code) && self.region().is_none()
    }

    /// Returns the region in which the bucket is, if the error says that the bucket is in another
    /// region.
    pub(super) fn region(&self) -> Option<&str> {
        let elsewhere = matches!(self.head.status, 301 | 307 | 308)
            || means_another_region(&self.code)
            || (self.head.status == 400 && self.head.get("x-amz-bucket-region").is_some());
        let named = self.head.get("x-amz-bucket-region").or(self.region.as_deref()).or_else(|| {
            // AuthorizationHeaderMalformed: "the region 'a' is wrong; expecting 'b'".
            self.message.split_once("expecting '")?.1.split('\'').next()
        });
        let named = named.or_else(|| endpoint::region_of_host(self.other_authority()?));
        // The name becomes part of a host name, so it must not be able to change the host.
        named.filter(|region| elsewhere && is_region(region))
    }

    /// Returns the host, with a port if it has one, to which a redirect leads: from the header
    /// `Location`, or else from the element `<Endpoint>`.
    fn other_authority(&self) -> Option<&str> {
        let target = self.head.get("location").and_then(|url| url.split_once("://")).map(|(_, rest)| rest);
        let target =
            target.or(self.endpoint.as_deref()).filter(|_| (300..400).contains(&self.head.status))?;
        target.split(['/', '?']).next().filter(|authority| !authority.is_empty())
    }

    pub(super) fn means_expired(&self) -> bool {
        matches!(self.code.as_str(), "ExpiredToken" | "ExpiredTokenException" | "TokenRefreshRequired")
    }

    pub(super) fn trace(&self) -> Trace {
        let trace = self.head.trace();
        let (request_id, host_id) = &self.identifiers;
        let identifier = |text: &Option<String>| text.as_deref().and_then(Trace::identifier);
        Trace {
            request_id: trace.request_id.or_else(|| identifier(request_id)),
            host_id: trace.host_id.or_else(|| identifier(host_id)),
            ..trace
        }
    }

    pub(super) fn into_error(self, call: &S3Call<'_>) -> Error {
        let trace = self.trace();
        self.untraced(call).traced(|| trace)
    }

    fn untraced(self, call: &S3Call<'_>) -> Error {
        let location = call.place();
        let status = self.head.status;
        let elsewhere = self.other_authority().filter(|to| endpoint::region_of_host(to).is_none());
        if let Some(message) = elsewhere.map(|to| format!("{REDIRECTS_TO}{to}")) {
            return Error::Server { location, status, code: self.code, message, trace: None };
        }
        let detail = if self.message.is_empty() {
            self.code.clone()
        } else {
            format!("{}: {}", self.code, self.message)
        };
        if codes::meaning(&self.code, status) == Meaning::SlowDown {
            return Error::SlowDown { location, retry_after: retry_after(&self.head), trace: None };
        }
        match (self.code.as_str(), status) {
            ("ExpiredToken" | "ExpiredTokenException" | "TokenRefreshRequired" | "InvalidToken", _) => {
                Error::Credentials { location, detail, trace: None }
            }
            ("InvalidObjectState", _) => Error::Archived {
                location,
                class: self.class.unwrap_or_else(|| "GLACIER".to_owned()),
                trace: None,
            },
            ("NoSuchBucket", _) => Error::NotFound { location: bucket_of(&location), trace: None },
            ("NoSuchUpload" | "QuotaExceeded", _) => {
                Error::Server { location, status, code: self.code, message: self.message, trace: None }
            }
            ("RequestTimeout", _) => Error::Disconnected { location, detail, trace: None },
            (_, 404) | ("NoSuchKey" | "NoSuchVersion", _) => Error::NotFound { location, trace: None },
            (code, 403) if code == "AccessDenied" || code.eq_ignore_ascii_case("Forbidden") => {
                denied(call.object, &detail, call.operation, self.request)
            }
            (_, 407) => {
                let detail = format!("{status} {}", self.code);
                Error::Denied { location, detail, request: RequestAuthentication::Web, trace: None }
            }
            (_, 401 | 403) => Error::Denied { location, detail, request: self.request, trace: None },
            (_, 412) | ("PreconditionFailed" | "ConditionalRequestConflict", _) => {
                Error::Precondition { location, trace: None }
            }
            _ => Error::Server { location, status, code: self.code, message: self.message, trace: None },
        }
    }
}

/// Returns the error for a denied operation, with the actions that the operation needs. AWS names
/// these actions only in some messages, and never in a response to a HEAD.
pub(super) fn denied(
    object: &ObjectLocation,
    detail: &str,
    operation: S3Operation,
    request: RequestAuthentication,
) -> Error {
    let actions = match is_directory_bucket(object) {
        true => express::actions(operation),
        false => operation.actions(),
    };
    let (location, actions) = (object.to_string(), actions.join(" or "));
    Error::Denied {
        location,
        detail: format!("{detail}; the policy may lack {actions}"),
        request,
        trace: None,
    }
}

fn contains(body: &[u8], words: &str) -> bool {
    body.windows(words.len()).any(|window| window == words.as_bytes())
}

/// Returns the location of the bucket that holds a key.
fn bucket_of(place: &str) -> String {
    let after_scheme = place.find("://").map_or(0, |at| at + 3);
    let end = place[after_scheme..].find('/').map_or(place.len(), |at| after_scheme + at);
    place[..end].to_owned()
}

/// Parses `Retry-After`: seconds, or a date by the server's own clock (RFC 9110, 10.2.3).
pub(crate) fn retry_after(head: &ResponseHead) -> Option<Duration> {
    let value = head.get("retry-after")?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let now = head.get("date").and_then(parse_http_date).unwrap_or_else(SystemTime::now);
    parse_http_date(value)?.duration_since(now).ok()
}

/// Returns true if the service requires the header `Content-MD5` of a write, as some stores do in
/// buckets with Object Lock (<https://github.com/minio/mc/issues/3892>,
/// <https://github.com/drakkan/sftpgo/issues/1336>, as of 28 November 2026).
pub(super) fn requires_md5(error: &Error) -> bool {
    match error {
        Error::Server { code, message, status: 400, .. } => {
            code == "MissingContentMD5" || message.to_ascii_lowercase().contains("content-md5")
        }
        _ => false,
    }
}

/// Returns true if the service does not support the checksum headers of writes.
pub(super) fn refuses_checksums(error: &Error) -> bool {
    match error {
        _ if requires_md5(error) => false,
        Error::Server { status: 501, .. } => true,
        Error::Server { code, message, status: 400, .. } => {
            matches!(code.as_str(), "NotImplemented" | "InvalidRequest" | "InvalidArgument")
                && message.to_ascii_lowercase().contains("checksum")
        }
        _ => false,
    }
}
