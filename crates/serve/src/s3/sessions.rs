//! Implements sessions of directory buckets, whose names end in `--x-s3`: CreateSession, and
//! requests signed for the service `s3express`, which s3s does not verify.
//!
//! A session's key contains the holder's key, the bucket, the end of the session and its mode. The
//! server derives the session's secret and token from this key. So no session is stored, and every
//! session ends when the server stops. Called before a request is passed to s3s.
//! <https://docs.aws.amazon.com/AmazonS3/latest/API/API_CreateSession.html>, read 2026-11-27.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::{constant_time, hmac};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, Method, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use s3s::auth::S3Auth as _;
use s3s::{S3Result, s3_error};
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::attempt::{self, KeyAttempt, KeyFile};
use super::signed::{SignatureScheme, check_date};
use super::verify::VerifiedRequest;

use crate::http::request::{HttpRequest, query_pairs};
use crate::http::response::{HttpResponse, ResponseBody};
use crate::token::random_token;

/// The name of the service in signatures.
const SERVICE: &str = "s3express";
/// Suffix of the names of directory buckets.
const DIRECTORY_BUCKET: &str = "--x-s3";
/// Prefix of session keys.
const KEY_PREFIX: &str = "SESSION";
/// The header with the token of a session.
const TOKEN: HeaderName = HeaderName::from_static("x-amz-s3session-token");
const MODE: HeaderName = HeaderName::from_static("x-amz-create-session-mode");
/// Lifetime of a session, as in AWS.
const S3_SESSION_LIFE: Duration = Duration::from_secs(5 * 60);
/// Characters that are not encoded in the canonical form of a request.
const UNRESERVED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
const IN_PATHS: AsciiSet = UNRESERVED.remove(b'/');

/// Makes sessions, and verifies requests with them.
#[derive(Debug)]
pub(super) struct S3Sessions {
    /// The key from which secrets and tokens are derived. Each start of the server makes a new one.
    seal: hmac::Key,
}

/// The fields of a session's key.
#[derive(Debug, PartialEq, Eq)]
struct Session {
    holder: String,
    bucket: String,
    /// The end of the session, in seconds since 1970.
    ends: u64,
    reads_only: bool,
}

impl Session {
    fn id(&self) -> String {
        let Self { holder, bucket, ends, reads_only } = self;
        format!("{KEY_PREFIX}{}", hex::encode(format!("{ends} {reads_only} {bucket} {holder}")))
    }

    fn parse(id: &str) -> Option<Self> {
        let text = String::from_utf8(hex::decode(id.strip_prefix(KEY_PREFIX)?).ok()?).ok()?;
        let mut parts = text.splitn(4, ' ');
        Some(Self {
            ends: parts.next()?.parse().ok()?,
            reads_only: parts.next()? == "true",
            bucket: parts.next()?.to_owned(),
            holder: parts.next()?.to_owned(),
        })
    }
}

impl S3Sessions {
    pub(super) fn new() -> Self {
        Self { seal: hmac::Key::new(hmac::HMAC_SHA256, random_token().as_bytes()) }
    }

    fn derive(&self, what: &str, id: &str) -> String {
        hex::encode(hmac::sign(&self.seal, format!("{what} {id}").as_bytes()))
    }

    /// Answers CreateSession for an existing bucket that `holder` may reach.
    pub(super) fn begin(&self, request: &HttpRequest, holder: &str) -> S3Result<HttpResponse> {
        let bucket = bucket(&request.path);
        if !bucket.ends_with(DIRECTORY_BUCKET) {
            return Err(s3_error!(
                InvalidRequest,
                "only buckets whose names end in {DIRECTORY_BUCKET} have sessions"
            ));
        }
        let reads_only = match request.headers.get(MODE).map(http::HeaderValue::as_bytes) {
            None | Some(b"ReadWrite") => false,
            Some(b"ReadOnly") => true,
            Some(_) => return Err(s3_error!(InvalidArgument, "{MODE} is ReadOnly or ReadWrite")),
        };
        let ends = since_epoch(SystemTime::now() + S3_SESSION_LIFE);
        let id = Session { holder: holder.to_owned(), bucket, ends, reads_only }.id();
        let ends = OffsetDateTime::from(UNIX_EPOCH + Duration::from_secs(ends)).format(&Rfc3339);
        let ends = ends.unwrap_or_default();
        let (secret, token) = (self.derive("secret", &id), self.derive("token", &id));
        let text = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?><CreateSessionResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
             <Credentials><SessionToken>{token}</SessionToken><SecretAccessKey>{secret}</SecretAccessKey>\
             <AccessKeyId>{id}</AccessKeyId><Expiration>{ends}</Expiration></Credentials></CreateSessionResult>"
        );
        let response = HttpResponse::new(StatusCode::OK).with_header(CONTENT_TYPE, "application/xml");
        Ok(response.with_body(ResponseBody::Bytes(text.into())))
    }

    /// Verifies a request that is signed for directory buckets, with a key of the server or of a
    /// session. `sent_path` is the path as the client sent it, if it differs from the request's
    /// path.
    pub(super) async fn verify(
        &self,
        request: &HttpRequest,
        scheme: &SignatureScheme,
        sent_path: Option<&str>,
        (keys, attempt): (&KeyFile, &KeyAttempt),
    ) -> S3Result<VerifiedRequest> {
        let SignatureScheme::Header { signed, signature } = scheme else {
            return Err(s3_error!(
                NotImplemented,
                "requests for directory buckets are signed in Authorization"
            ));
        };
        let scope = Scope::of(&request.headers).ok_or_else(|| {
            s3_error!(
                AuthorizationHeaderMalformed,
                "the credential is not ID/DATE/REGION/s3express/aws4_request"
            )
        })?;
        let secret = match Session::parse(&scope.id) {
            Some(session) => {
                self.check_session(&session, &scope.id, request)?;
                self.derive("secret", &scope.id)
            }
            None => attempt.run(keys.get_secret_key(&scope.id)).await?.expose().to_owned(),
        };
        check_date(&request.headers)?;
        let date = request.headers.get("x-amz-date").and_then(|date| date.to_str().ok()).unwrap_or_default();
        if !date.starts_with(&scope.date) {
            return Err(s3_error!(
                AuthorizationHeaderMalformed,
                "the credential is of another day than the request"
            ));
        }
        let canonical = canonical(request, sent_path.unwrap_or(&request.path), signed);
        let text = format!(
            "AWS4-HMAC-SHA256\n{date}\n{}/{}/{SERVICE}/aws4_request\n{}",
            scope.date,
            scope.region,
            hex::encode(Sha256::digest(canonical))
        );
        let parts = [scope.date.as_str(), &scope.region, SERVICE, "aws4_request", &text];
        let expected = parts.into_iter().fold(format!("AWS4{secret}").into_bytes(), |key, part| {
            hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), part.as_bytes()).as_ref().to_vec()
        });
        if constant_time::verify_slices_are_equal(hex::encode(expected).as_bytes(), signature.as_bytes())
            .is_err()
        {
            return Err(s3_error!(
                SignatureDoesNotMatch,
                "the signature was made with another secret or of another request"
            ));
        }
        let holder = Session::parse(&scope.id).map_or(scope.id, |session| session.holder);
        attempt.run(async { attempt::record_proved_key(&holder) }).await;
        Ok(VerifiedRequest::new(&holder, secret, (scope.region, SERVICE.to_owned())))
    }

    /// Refuses a session that has ended, belongs to another server, or does not cover the request.
    fn check_session(&self, session: &Session, id: &str, request: &HttpRequest) -> S3Result<()> {
        let token = request.headers.get(TOKEN).map_or(&b""[..], http::HeaderValue::as_bytes);
        let is_own =
            constant_time::verify_slices_are_equal(token, self.derive("token", id).as_bytes()).is_ok();
        if !is_own || session.ends <= since_epoch(SystemTime::now()) {
            return Err(s3_error!(ExpiredToken, "the session has ended, or was begun elsewhere"));
        }
        if session.bucket != bucket(&request.path) {
            return Err(s3_error!(AccessDenied, "the session is one of another bucket"));
        }
        if is_create_session(request) {
            return Err(s3_error!(AccessDenied, "a session begins with a key of the server"));
        }
        if session.reads_only && !matches!(request.method, Method::GET | Method::HEAD) {
            return Err(s3_error!(AccessDenied, "the session was begun to read only"));
        }
        Ok(())
    }
}

/// True if the request is CreateSession.
pub(super) fn is_create_session(request: &HttpRequest) -> bool {
    request.method == Method::GET
        && !request.path.trim_matches('/').contains('/')
        && query_pairs(&request.query).any(|(name, _)| name == "session")
}

/// True if a request is signed for directory buckets.
pub(super) fn is_signed_for(headers: &HeaderMap) -> bool {
    Scope::of(headers).is_some()
}

/// Removes the headers that concern only sessions.
pub(super) fn remove_headers(headers: &mut HeaderMap) {
    for name in [TOKEN, MODE] {
        headers.remove(name);
    }
}

/// The credential of a signature for directory buckets.
struct Scope {
    id: String,
    date: String,
    region: String,
}

impl Scope {
    fn of(headers: &HeaderMap) -> Option<Self> {
        let value = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once("Credential=")?.1;
        let credential = value.split(',').next()?.trim();
        let (rest, "aws4_request") = credential.rsplit_once('/')? else { return None };
        let (rest, SERVICE) = rest.rsplit_once('/')? else { return None };
        let (rest, region) = rest.rsplit_once('/')?;
        let (id, date) = rest.rsplit_once('/')?;
        Some(Self { id: id.to_owned(), date: date.to_owned(), region: region.to_owned() })
    }
}

/// Makes the canonical form of a request whose signature covers the headers `signed`.
fn canonical(request: &HttpRequest, path: &str, signed: &str) -> String {
    let encode = |text: &str| utf8_percent_encode(text, &UNRESERVED).to_string();
    let path = percent_decode_str(path).decode_utf8_lossy();
    let mut query: Vec<_> = query_pairs(&request.query)
        .map(|(name, value)| format!("{}={}", encode(&name), encode(&value)))
        .collect();
    query.sort_unstable();
    let header = |name: &str| {
        let values =
            request.headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
        let values: Vec<_> =
            values.map(|value| value.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        format!("{name}:{}\n", values.join(","))
    };
    let hash = request.headers.get("x-amz-content-sha256").and_then(|value| value.to_str().ok());
    format!(
        "{}\n{}\n{}\n{}\n{signed}\n{}",
        request.method,
        utf8_percent_encode(&path, &IN_PATHS),
        query.join("&"),
        signed.split(';').map(header).collect::<String>(),
        hash.unwrap_or("UNSIGNED-PAYLOAD")
    )
}

/// Returns the first component of a path.
fn bucket(path: &str) -> String {
    let name = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    percent_decode_str(name).decode_utf8_lossy().into_owned()
}

fn since_epoch(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_states_its_session_and_no_other_text_is_one() {
        let session =
            Session { holder: "a b/c".into(), bucket: "d--az--x-s3".into(), ends: 7, reads_only: true };
        assert_eq!(Session::parse(&session.id()), Some(session));
        for id in ["AKIA", "SESSION", "SESSIONzz", "SESSION3720"] {
            assert_eq!(Session::parse(id), None, "{id}");
        }
    }

    #[test]
    fn servers_derive_different_secrets() {
        let (one, other) = (S3Sessions::new(), S3Sessions::new());
        assert_ne!(one.derive("secret", "id"), other.derive("secret", "id"));
        assert_ne!(one.derive("secret", "id"), one.derive("token", "id"));
    }
}
