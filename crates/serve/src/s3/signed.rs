//! Checks the coverage and the age of signatures, beyond the checks of s3s.
//!
//! s3s verifies a signature over the parts of the request that it covers, but does not check which
//! parts those are. This module refuses a request with parts that its signer did not sign:
//! otherwise the holder of an upload URL could turn it into a copy of any object that the signer
//! may read. The module runs before s3s gets the request, and does not identify the signer.

use std::time::{Duration, SystemTime};

use firstbyte_store::parse_http_date;
use http::HeaderMap;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use s3s::{S3Error, S3ErrorCode, S3Result, s3_error};
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

use crate::config::SignatureVersions;
use crate::http::request::{HttpRequest, query_pairs};
use crate::s3::query;
use crate::s3::signature_dates::{has_parsable_date, is_parsable_date};

/// Maximum validity of a presigned URL in seconds, as in AWS.
const MAX_LIFETIME_SECONDS: u64 = 7 * 24 * 3600;

/// Maximum difference between the date of a request signed by Signature Version 2 and the server's
/// clock, as in AWS.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(15 * 60);

/// The form of `x-amz-date`.
const AMZ_DATE: &[BorrowedFormatItem<'_>] = format_description!("[year][month][day]T[hour][minute][second]Z");

/// The only `x-amz-` header that need not be signed. In a request signed by header, the signature
/// covers the header's value anyway. With a presigned URL, clients send the header unsigned. A
/// forged value does no harm: it can only cause a body with another hash to be refused.
const EXEMPT_HEADER: &str = "x-amz-content-sha256";

/// How a request is signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SignatureScheme {
    /// The head has no signature.
    Unsigned,
    /// Version 4 in a header: the names of signed headers, and the signature.
    Header { signed: String, signature: String },
    /// Version 4 in the query: the names of signed headers, and the validity in seconds.
    Presigned { signed: String, expires: String },
    /// Version 2 in a header, which covers every `x-amz-` header.
    HeaderVersion2,
    /// Version 2 in the query.
    PresignedVersion2,
}

/// Refuses unsigned parts and signatures that are not accepted. Returns the scheme. Also refuses a
/// request that s3s could read differently.
///
/// # Errors
/// The S3 error of the response.
pub(super) fn check(request: &HttpRequest, versions: SignatureVersions) -> S3Result<SignatureScheme> {
    if may_be_form(request) {
        // The fields of a form are signed, but the head of its request is not.
        refuse_unsigned(&request.headers, "host", "")?;
        refuse_in_query(request)?;
    }
    let scheme = scheme(request)?;
    match &scheme {
        SignatureScheme::Unsigned => {}
        SignatureScheme::Header { signed, .. } => refuse_unsigned(&request.headers, signed, EXEMPT_HEADER)?,
        SignatureScheme::Presigned { signed, expires } => {
            refuse_unsigned(&request.headers, signed, EXEMPT_HEADER)?;
            check_life(expires)?;
        }
        SignatureScheme::HeaderVersion2 | SignatureScheme::PresignedVersion2 => {
            if versions == SignatureVersions::V4Only {
                return Err(version_2_refused());
            }
            // Version 2 covers `x-amz-` fields in headers only, not in the query.
            refuse_in_query(request)?;
            if scheme == SignatureScheme::HeaderVersion2 {
                check_date(&request.headers)?;
            }
        }
    }
    Ok(scheme)
}

/// Returns the error for a signature of version 2 if only version 4 is accepted.
pub(super) fn version_2_refused() -> S3Error {
    s3_error!(
        InvalidRequest,
        "the authorization mechanism you have provided is not supported; please use AWS4-HMAC-SHA256"
    )
}

fn scheme(request: &HttpRequest) -> S3Result<SignatureScheme> {
    let query: Vec<(String, String)> = query_pairs(&request.query).collect();
    let value = |name: &str| query.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let header = authorization(&request.headers)?;
    let (presigned, version_2) = (value("X-Amz-Signature"), value("Signature"));
    let by_header = header.is_some_and(|value| value.starts_with("AWS"));
    if [by_header, presigned.is_some(), version_2.is_some()].iter().filter(|way| **way).count() > 1 {
        return Err(s3_error!(
            InvalidArgument,
            "only one way of signing is allowed: X-Amz-Signature, Signature or the Authorization header"
        ));
    }
    if presigned.is_some() {
        let readable = |name: &str, is_readable: fn(&str) -> bool| {
            query.iter().filter(|(key, _)| key == name).all(|(_, value)| is_readable(value))
        };
        if !readable("X-Amz-Credential", has_parsable_date) || !readable("X-Amz-Date", is_parsable_date) {
            return Err(s3_error!(
                AuthorizationQueryParametersError,
                "X-Amz-Credential or X-Amz-Date has no valid date"
            ));
        }
        let needed = |name: &str| {
            value(name).ok_or_else(|| {
                let message = format!("a presigned URL needs {name}");
                S3Error::with_message(S3ErrorCode::AuthorizationQueryParametersError, message)
            })
        };
        return Ok(SignatureScheme::Presigned {
            signed: needed("X-Amz-SignedHeaders")?,
            expires: needed("X-Amz-Expires")?,
        });
    }
    match header {
        _ if version_2.is_some() => Ok(SignatureScheme::PresignedVersion2),
        None => Ok(SignatureScheme::Unsigned),
        Some(value) if value.starts_with("AWS ") => Ok(SignatureScheme::HeaderVersion2),
        Some(value) => {
            check_dates(value, &request.headers)?;
            let signature = value.rsplit("Signature=").next().unwrap_or_default().trim().to_owned();
            signed_headers(value).map(|signed| SignatureScheme::Header { signed, signature })
        }
    }
}

/// Refuses an `Authorization` of version 4, or an `x-amz-date`, whose date s3s cannot parse.
fn check_dates(authorization: &str, headers: &HeaderMap) -> S3Result<()> {
    let credentials = authorization.split("Credential=").skip(1).map(|rest| rest.split(',').next());
    let mut dates = headers.get_all("x-amz-date").iter().map(|date| date.to_str().unwrap_or("-"));
    if credentials.flatten().all(has_parsable_date) && dates.all(is_parsable_date) {
        return Ok(());
    }
    Err(s3_error!(AuthorizationHeaderMalformed, "the credential or x-amz-date has no valid date"))
}

/// Returns the only `Authorization` value, if it is a string.
fn authorization(headers: &HeaderMap) -> S3Result<Option<&str>> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, None) = (values.next(), values.next()) else {
        return Err(s3_error!(InvalidArgument, "there must be one Authorization header"));
    };
    let text = value.map(|value| value.to_str()).transpose();
    text.map_err(|_| s3_error!(AuthorizationHeaderMalformed, "the Authorization header must be ASCII"))
}

/// True if s3s may treat the request as an HTML form.
pub(super) fn may_be_form(request: &HttpRequest) -> bool {
    request.method == http::Method::POST && is_form(&request.headers)
}

/// True if the content type may denote an HTML form.
pub(super) fn is_form(headers: &HeaderMap) -> bool {
    let kinds = headers.get_all(CONTENT_TYPE).iter();
    let mut kinds = kinds.map(|kind| String::from_utf8_lossy(kind.as_bytes()).to_ascii_lowercase());
    kinds.any(|kind| kind.contains("form-data"))
}

/// Returns the `SignedHeaders` of an `Authorization` value of version 4. The list must occur once
/// and contain only names, because no signature covers the list itself, and s3s ignores names of
/// missing headers.
fn signed_headers(authorization: &str) -> S3Result<String> {
    let malformed = |why: &'static str| s3_error!(AuthorizationHeaderMalformed, "{why}");
    if !authorization.starts_with("AWS4-HMAC-SHA256 ") {
        return Err(malformed("the algorithm must be AWS4-HMAC-SHA256"));
    }
    let mut parts = authorization.split("SignedHeaders=").skip(1);
    let (Some(rest), None) = (parts.next(), parts.next()) else {
        return Err(malformed("there must be one SignedHeaders"));
    };
    let signed = rest.split(',').next().unwrap_or_default();
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.;".contains(&byte);
    if !signed.bytes().all(is_name) {
        return Err(malformed("SignedHeaders must be names in lower case, joined by `;`"));
    }
    Ok(signed.to_owned())
}

/// Refuses a request if the names in `signed`, joined by `;`, lack the host or an `x-amz-` header
/// other than `exempt`.
fn refuse_unsigned(headers: &HeaderMap, signed: &str, exempt: &str) -> S3Result<()> {
    let is_signed = |name: &str| signed.split(';').any(|signed| signed == name);
    let names = headers.keys().map(http::HeaderName::as_str);
    let amz = names.filter(|name| name.starts_with("x-amz-") && *name != exempt);
    let unsigned: Vec<&str> = std::iter::once("host").chain(amz).filter(|name| !is_signed(name)).collect();
    if unsigned.is_empty() { Ok(()) } else { Err(not_signed(&unsigned)) }
}

/// Refuses a request whose query has `x-amz-` fields, which count as headers, if its signature does
/// not cover the query.
fn refuse_in_query(request: &HttpRequest) -> S3Result<()> {
    let names: Vec<String> = query::amz_fields(&request.query).map(|(name, _)| name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if names.is_empty() { Ok(()) } else { Err(not_signed(&names)) }
}

fn not_signed(names: &[&str]) -> S3Error {
    let names = names.join(", ");
    s3_error!(AccessDenied, "There were headers present in the request which were not signed: {names}")
}

fn check_life(expires: &str) -> S3Result<()> {
    if expires.parse::<u64>().is_ok_and(|seconds| seconds <= MAX_LIFETIME_SECONDS) {
        return Ok(());
    }
    Err(s3_error!(
        AuthorizationQueryParametersError,
        "X-Amz-Expires must be a number of seconds up to {MAX_LIFETIME_SECONDS}, which is a week"
    ))
}

/// Refuses a request whose date differs from the current time, because it may have been captured.
/// For signatures of version 4, s3s checks the date.
pub(super) fn check_date(headers: &HeaderMap) -> S3Result<()> {
    let name = if headers.contains_key("x-amz-date") { "x-amz-date" } else { "date" };
    let mut values = headers.get_all(name).iter();
    let date = values.next().and_then(|value| parse_date(value.to_str().ok()?));
    let (Some(date), None) = (date, values.next()) else {
        return Err(s3_error!(AccessDenied, "one valid Date or x-amz-date is needed"));
    };
    let now = SystemTime::now();
    let skew = now.duration_since(date).or_else(|_| date.duration_since(now)).unwrap_or(Duration::MAX);
    if skew <= MAX_CLOCK_SKEW {
        return Ok(());
    }
    Err(s3_error!(RequestTimeTooSkewed, "the request's date is more than 15 minutes from the server's"))
}

/// Parses a date from a client that signs by version 2: an HTTP date, or the form of `x-amz-date`.
fn parse_date(text: &str) -> Option<SystemTime> {
    parse_http_date(text).or_else(|| {
        let date = time::PrimitiveDateTime::parse(text.trim(), AMZ_DATE).ok()?;
        Some(date.assume_utc().into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::request::RequestBody;

    fn request(target: &str, lines: &[(&'static str, &str)]) -> HttpRequest {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        HttpRequest {
            method: http::Method::PUT,
            prefix: String::new(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers,
            peer: ([127, 0, 0, 1], 1).into(),
            body: RequestBody::Empty,
        }
    }

    fn code(target: &str, lines: &[(&'static str, &str)]) -> Option<String> {
        let refused = check(&request(target, lines), SignatureVersions::V4Only).err()?;
        Some(refused.code().as_str().to_owned())
    }

    #[test]
    fn an_authorization_that_could_be_read_in_two_ways_is_refused() {
        let once = "AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host;x-amz-date, Signature=00";
        let lines = [("authorization", once), ("x-amz-date", "x"), ("x-amz-content-sha256", "y")];
        assert_eq!(code("/b/k", &lines), None);
        for (from, to) in [
            ("", "SignedHeaders=host;x-amz-copy-source, "),
            ("x-amz-date,", "x-amz-date;x-amz-copy-source ,"),
            ("x-amz-date,", "x-amz-date;x-amz-copy-source\t,"),
            ("x-amz-date,", "x-amz-date;x-amz-copy-source\u{e9},"),
            ("AWS4-HMAC-SHA256", "AWS4"),
            ("AWS4-HMAC-SHA256", "Other"),
            ("AWS4-HMAC-SHA256", "aws4-hmac-sha256"),
            ("host", "Host"),
        ] {
            let value = once.replacen(from, to, 1);
            let refused = check(&with_value(&value), SignatureVersions::V4Only);
            assert!(refused.is_err(), "{value}");
        }
    }

    /// Returns a request with this `Authorization`, and a header that its signature does not cover.
    fn with_value(authorization: &str) -> HttpRequest {
        let mut request = request("/b/k", &[("x-amz-copy-source", "/b/secret")]);
        let value = http::HeaderValue::from_bytes(authorization.as_bytes()).unwrap();
        request.headers.insert(AUTHORIZATION, value);
        request
    }

    #[test]
    fn a_form_signs_nothing_of_its_head() {
        for kind in
            ["multipart/form-data; boundary=x", "Multipart/Form-Data", "multipart/form-data; x=\u{e9}"]
        {
            let mut form = request("/b", &[("host", "h"), ("x-amz-acl", "x")]);
            form.method = http::Method::POST;
            form.headers.append(CONTENT_TYPE, http::HeaderValue::from_bytes(kind.as_bytes()).unwrap());
            assert!(check(&form, SignatureVersions::V4Only).is_err(), "{kind}");
            form.headers.remove("x-amz-acl");
            assert!(check(&form, SignatureVersions::V4Only).is_ok(), "{kind}");
            // A request that looks like a form is still checked for every other signature.
            form.headers.append(AUTHORIZATION, "AWS a:b".parse().unwrap());
            assert!(check(&form, SignatureVersions::V4Only).is_err(), "{kind}");
        }
    }

    #[test]
    fn version_2_needs_one_fresh_date() {
        let versions = SignatureVersions::V2Too;
        let now = firstbyte_store::format_http_date(SystemTime::now());
        let authorization = ("authorization", "AWS a:b");
        for (lines, fresh) in [
            (vec![("date", now.as_str())], true),
            (vec![("date", &now.replace("GMT", "+0000"))], true),
            (vec![("date", "Tue, 27 Mar 2007 19:36:42 GMT")], false),
            (vec![("date", "Tue, 27 Mar 2207 19:36:42 GMT")], false),
            (vec![("date", now.as_str()), ("x-amz-date", "20070327T193642Z")], false),
            (vec![("date", now.as_str()), ("date", now.as_str())], false),
            (vec![("date", "today")], false),
            (vec![], false),
        ] {
            let all = [&[authorization], lines.as_slice()].concat();
            assert_eq!(check(&request("/b/k", &all), versions).is_ok(), fresh, "{lines:?}");
        }
    }
}
