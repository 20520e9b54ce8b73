//! Signs requests and URLs with SigV4 ([`signature`]).
//!
//! For S3, the path is encoded once and not normalised. The payload is not signed: it has a CRC
//! instead, and hashing it would take a whole core at 10 Gbit/s. Requests to other services follow
//! the general rules.

use std::time::{Duration, SystemTime};

use super::endpoint;
use super::key::AccessKey;
use super::signature::{
    self, ALGORITHM, CanonicalRequest, PathEncoding, SignatureScope, SignedHeaders, UNSIGNED_PAYLOAD,
};
use crate::error::{Error, Result};
use crate::header_text::check_header_value;
use crate::origin::Origin;
use crate::upload::Payload;
use crate::wire::{HttpMethod, WireRequest};

const S3: &str = "s3";
const S3_EXPRESS: &str = "s3express";
/// Header with the session token of a temporary key.
const SECURITY_TOKEN: &str = "x-amz-security-token";
/// Header with the token of an S3 Express One Zone session.
const SESSION_TOKEN: &str = "x-amz-s3session-token";

/// The rules by which a request is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SigningRules<'a> {
    S3,
    /// S3 Express One Zone, outside a session.
    Express,
    /// S3 Express One Zone, with the key of a session.
    ExpressSession,
    /// Another AWS service, by name.
    Service(&'a str),
}

impl<'a> SigningRules<'a> {
    fn service(self) -> &'a str {
        match self {
            Self::S3 => S3,
            Self::Express | Self::ExpressSession => S3_EXPRESS,
            Self::Service(name) => name,
        }
    }
    fn token_header(self) -> &'static str {
        if self == Self::ExpressSession { SESSION_TOKEN } else { SECURITY_TOKEN }
    }
}

/// Adds the authorization headers to a request for a service in `region`.
pub(super) fn sign_request(
    request: &mut WireRequest<'_>,
    key: &AccessKey,
    (rules, region): (SigningRules<'_>, &str),
    at: SystemTime,
) -> Result<()> {
    if let Some((name, _)) = request
        .headers
        .iter()
        .find(|(_, value)| check_header_value(value).is_err_and(|_| !value.trim().is_empty()))
    {
        let why = "S3 accepts only visible ASCII in its value";
        return Err(Error::Header { location: request.place.to_owned(), name: name.clone(), why });
    }
    check_key(key, request.place)?;
    let is_s3 = !matches!(rules, SigningRules::Service(_));
    let hash = match request.payload {
        Payload::Bytes(bytes) if !is_s3 => signature::sha256(bytes),
        _ => UNSIGNED_PAYLOAD.to_owned(),
    };
    let scope = SignatureScope { region, service: rules.service(), at };
    request.headers.push(("x-amz-date".to_owned(), scope.moment()));
    if is_s3 {
        request.headers.push(("x-amz-content-sha256".to_owned(), hash.clone()));
    }
    if let Some(token) = &key.session_token {
        request.headers.push((rules.token_header().to_owned(), token.clone()));
    }
    let mut headers = SignedHeaders::default();
    headers.add("host", &request.origin.authority());
    for (name, value) in &request.headers {
        // Proxies may change the cache control of a GET, so that header is not signed.
        if request.method != HttpMethod::Get || name != "cache-control" {
            headers.add(name, value);
        }
    }
    let names = headers.names();
    let canonical = CanonicalRequest {
        method: request.method.as_str(),
        target: &request.target,
        path_encoding: if is_s3 { PathEncoding::AsSent } else { PathEncoding::Again },
        headers,
        hash: &hash,
    };
    let (credential, signature) = (scope.credential(key), scope.signature(key, &canonical));
    let value = format!("{ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={signature}");
    request.headers.push(("authorization".to_owned(), value));
    Ok(())
}

/// Returns an error for a key that cannot be written in a header.
fn check_key(key: &AccessKey, place: &str) -> Result<()> {
    for (what, text) in [("access key id", Some(&key.id)), ("session token", key.session_token.as_ref())] {
        if text.is_some_and(|text| check_header_value(text).is_err()) {
            let detail = format!("the {what} is empty or has illegal characters");
            return Err(Error::Credentials { location: place.to_owned(), detail, trace: None });
        }
    }
    Ok(())
}

/// A request without a signature.
pub(super) struct UnsignedRequest<'a> {
    pub(super) place: &'a str,
    pub(super) origin: &'a Origin,
    pub(super) method: HttpMethod,
    pub(super) target: String,
}

/// Returns the URL of a request that any client may send until the URL `expires`.
pub(super) fn sign_url(
    request: &UnsignedRequest<'_>,
    key: &AccessKey,
    region: &str,
    expires: Duration,
    at: SystemTime,
) -> Result<String> {
    check_key(key, request.place)?;
    let scope = SignatureScope { region, service: S3, at };
    let authority = request.origin.authority();
    let mut headers = SignedHeaders::default();
    headers.add("host", &authority);
    let mut parameters = vec![
        ("X-Amz-Algorithm", ALGORITHM.to_owned()),
        ("X-Amz-Credential", scope.credential(key)),
        ("X-Amz-Date", scope.moment()),
        ("X-Amz-Expires", expires.as_secs().to_string()),
        ("X-Amz-SignedHeaders", headers.names()),
    ];
    parameters.extend(key.session_token.clone().map(|token| ("X-Amz-Security-Token", token)));
    let mut target = request.target.clone();
    for (name, value) in parameters {
        let mark = if target.contains('?') { '&' } else { '?' };
        target.push_str(&format!("{mark}{name}={}", endpoint::query_value(&value)));
    }
    let method = request.method.as_str();
    let path_encoding = PathEncoding::AsSent;
    let canonical =
        CanonicalRequest { method, target: &target, path_encoding, headers, hash: UNSIGNED_PAYLOAD };
    let signature = scope.signature(key, &canonical);
    let scheme = if request.origin.tls { "https" } else { "http" };
    Ok(format!("{scheme}://{authority}{target}&X-Amz-Signature={signature}"))
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use aws_credential_types::Credentials;
    use aws_sigv4::http_request::{
        PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SignatureLocation,
        SigningInstructions, SigningSettings, UriPathNormalizationMode, sign,
    };
    use aws_sigv4::sign::v4;
    use firstbyte_pacing::Throttle;
    use proptest::prelude::*;

    use super::*;
    use crate::cancel::Cancel;
    use crate::requests::RequestKind;

    fn signed(target: &str) -> Vec<(String, String)> {
        let origin = Origin::parse_url("http://127.0.0.1:9000").unwrap();
        let cancel = Cancel::new();
        let mut request = WireRequest {
            place: "p",
            operation: None,
            origin: &origin,
            method: HttpMethod::Get,
            kind: RequestKind::Get,
            target: target.to_owned(),
            headers: [("range", "bytes=0-1"), ("cache-control", "max-age=1")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            payload: Payload::Bytes(b""),
            work: 0,
            cancel: &cancel,
            throttle: &Throttle::default(),
        };
        sign_request(&mut request, &key(Some("token")), (SigningRules::S3, "here-1"), at()).unwrap();
        assert_eq!(request.target, target);
        request.headers
    }

    fn key(token: Option<&str>) -> AccessKey {
        let session_token = token.map(str::to_owned);
        AccessKey { id: "AKID".into(), secret: "sec/ret+".into(), session_token, expiry: None }
    }

    fn at() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_700_000_000)
    }

    #[test]
    fn host_token_and_headers_are_signed_and_payload_and_cache_directives_are_not() {
        let headers = signed("/b/k");
        let get =
            |name| headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str()).unwrap();
        assert_eq!(get("x-amz-content-sha256"), "UNSIGNED-PAYLOAD");
        assert_eq!(get("x-amz-security-token"), "token");
        let authorization = get("authorization");
        assert!(authorization.contains("AKID/20231114/here-1/s3/aws4_request"), "{authorization}");
        assert!(
            authorization
                .contains("SignedHeaders=host;range;x-amz-content-sha256;x-amz-date;x-amz-security-token"),
            "{authorization}"
        );
    }

    #[test]
    fn keys_that_are_equal_after_normalisation_have_different_signatures() {
        let targets =
            ["/b/a//b", "/b/a/b", "/b/x/../a/b", "/b/a/b/", "/b/a%2Fb", "/b/./a/b", "/b/a/b?versionId=1"];
        let signatures: std::collections::HashSet<_> = targets.iter().map(|target| signed(target)).collect();
        assert_eq!(signatures.len(), targets.len());
    }

    /// Returns the settings and the body with which AWS's library signs by the same rules.
    fn by_library(
        request: &WireRequest<'_>,
        url: &str,
        key: &AccessKey,
        (rules, region): (SigningRules<'_>, &str),
        expires: Option<Duration>,
    ) -> SigningInstructions {
        let mut settings = SigningSettings::default();
        let is_s3 = !matches!(rules, SigningRules::Service(_));
        let body = match request.payload {
            Payload::Bytes(bytes) if !is_s3 => SignableBody::Bytes(bytes),
            _ => SignableBody::UnsignedPayload,
        };
        if is_s3 {
            settings.percent_encoding_mode = PercentEncodingMode::Single;
            settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
            settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        }
        if rules == SigningRules::ExpressSession {
            settings.session_token_name_override = Some(SESSION_TOKEN);
        }
        if expires.is_some() {
            settings.payload_checksum_kind = PayloadChecksumKind::NoHeader;
            settings.signature_location = SignatureLocation::QueryParams;
            settings.expires_in = expires;
        }
        let identity = Credentials::new(&key.id, &key.secret, key.session_token.clone(), None, "test").into();
        let params = v4::SigningParams::builder().identity(&identity).region(region).name(rules.service());
        let params = params.time(at()).settings(settings).build().unwrap().into();
        let headers = request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let signable = SignableRequest::new(request.method.as_str(), url, headers, body).unwrap();
        sign(signable, &params).unwrap().into_parts().0
    }

    fn request<'a>(
        origin: &'a Origin,
        cancel: &'a Cancel,
        throttle: &'a Throttle,
        target: &str,
    ) -> WireRequest<'a> {
        WireRequest {
            place: "p",
            operation: None,
            origin,
            method: HttpMethod::Put,
            kind: RequestKind::Put,
            target: target.to_owned(),
            headers: Vec::new(),
            payload: Payload::Bytes(b"{}"),
            work: 0,
            cancel,
            throttle,
        }
    }

    proptest! {
        #[test]
        fn signatures_are_those_of_the_library_of_aws(
            key_name in "[a-z%/ +=:~._é-]{1,12}",
            names in prop::collection::vec(("[a-zA-Z-]{1,9}", "[ -~]{0,9}"), 0..4),
            values in prop::collection::vec("[ -z]{0,5}", 0..4),
            token in prop::option::of("[A-Za-z0-9/+=]{1,9}"),
            tls in any::<bool>(),
            which in 0..4_usize,
        ) {
            let key = key(token.as_deref());
            let rules = [SigningRules::S3, SigningRules::Express, SigningRules::ExpressSession, SigningRules::Service("lambda")][which];
            let origin = Origin::parse_url(if tls { "https://h.example" } else { "http://127.0.0.1:9000" }).unwrap();
            // The library resolves dot segments in the paths of other services. No such path has
            // any.
            prop_assume!(!matches!(rules, SigningRules::Service(_)) || !matches!(key_name.as_str(), "." | ".."));
            let (cancel, throttle) = (Cancel::new(), Throttle::default());
            let mut target = format!("/{}", endpoint::query_value(&key_name));
            for (place, value) in values.iter().enumerate() {
                let mark = if place == 0 { '?' } else { '&' };
                target.push_str(&format!("{mark}q{}={}", value.len(), endpoint::query_value(value)));
            }
            let mut ours = request(&origin, &cancel, &throttle, &target);
            ours.headers = names.iter().map(|(name, value)| (format!("x-amz-meta-{name}"), value.clone())).collect();
            let authority = origin.authority();
            let scheme = if tls { "https" } else { "http" };
            let url = format!("{scheme}://{authority}{target}");
            let theirs = by_library(&ours, &url, &key, (rules, "here-1"), None);
            sign_request(&mut ours, &key, (rules, "here-1"), at()).unwrap();
            for (name, value) in theirs.headers() {
                prop_assert!(ours.headers.iter().any(|it| it == &(name.to_owned(), value.to_owned())), "{name}: {value}\n{:?}", ours.headers);
            }

            let plain = request(&origin, &cancel, &throttle, &target);
            let expires = Duration::from_secs(600);
            let theirs = by_library(&plain, &url, &key, (SigningRules::S3, "here-1"), Some(expires));
            let unsigned = UnsignedRequest { place: "p", origin: &origin, method: HttpMethod::Put, target };
            let signed = sign_url(&unsigned, &key, "here-1", expires, at()).unwrap();
            for (name, value) in theirs.params() {
                let parameter = format!("{name}={}", endpoint::query_value(value));
                prop_assert!(signed.contains(&parameter), "{parameter}\n{signed}");
            }
        }
    }
}
