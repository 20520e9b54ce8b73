//! SigV4. For S3 the path is encoded once and not normalised, and the payload is not signed:
//! payloads have a CRC instead, and hashing them would use a whole core at 10 Gbit/s. Other
//! services follow the general rules.

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SignatureLocation,
    SigningInstructions, SigningSettings, UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4;

use super::endpoint;
use crate::wire::{Method, Origin, Request};
use crate::{Error, Payload, Result, header_value};

/// Name of S3 in signatures.
const S3: &str = "s3";
/// Name of S3 Express One Zone in signatures.
const S3_EXPRESS: &str = "s3express";
/// The header for the token of its sessions.
const SESSION_TOKEN: &str = "x-amz-s3session-token";

/// The rules of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rules<'a> {
    S3,
    /// S3 Express One Zone, outside of a session.
    Express,
    /// S3 Express One Zone, with the key of a session.
    ExpressSession,
    /// Another service of AWS, by its name.
    Service(&'a str),
}

impl<'a> Rules<'a> {
    /// The service in the signature.
    fn service(self) -> &'a str {
        match self {
            Self::S3 => S3,
            Self::Express | Self::ExpressSession => S3_EXPRESS,
            Self::Service(name) => name,
        }
    }
}

/// Adds the authorization headers to `request`, which goes to a service in `region`.
pub(super) fn sign_request(
    request: &mut Request<'_>,
    credentials: &Credentials,
    (rules, region): (Rules<'_>, &str),
    at: SystemTime,
) -> Result<()> {
    let refuse =
        |detail: String| Error::Credentials { location: request.place.to_owned(), detail, trace: None };
    // Checked here, because the library's error does not name the header.
    if let Some((name, _)) =
        request.headers.iter().find(|(_, value)| header_value(value).is_err_and(|_| !value.is_empty()))
    {
        let why = "S3 accepts only visible ASCII in its value";
        return Err(Error::Header { location: request.place.to_owned(), name: name.clone(), why });
    }
    for (what, text) in
        [("access key id", Some(credentials.access_key_id())), ("session token", credentials.session_token())]
    {
        if text.is_some_and(|text| header_value(text).is_err()) {
            return Err(refuse(format!("the {what} is empty or has illegal characters")));
        }
    }
    let mut settings = SigningSettings::default();
    let is_s3 = !matches!(rules, Rules::Service(_));
    let body = match request.payload {
        Payload::Bytes(bytes) if !is_s3 => SignableBody::Bytes(bytes),
        _ => SignableBody::UnsignedPayload,
    };
    if is_s3 {
        settings.percent_encoding_mode = PercentEncodingMode::Single;
        settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    }
    if rules == Rules::ExpressSession {
        settings.session_token_name_override = Some(SESSION_TOKEN);
    }
    let key = Key { credentials, region, service: rules.service(), at };
    let authority = request.origin.authority();
    let url = url_of(request.origin, &authority, &request.target);
    // What a GET says to caches may be changed by proxies on the way.
    let is_signed = |name: &str| request.method != Method::Get || name != "cache-control";
    let headers = request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let headers = headers.filter(|(name, _)| is_signed(name)).chain([("host", authority.as_str())]);
    let instructions = key.sign(request.method, &url, headers, body, settings).map_err(refuse)?;
    let signed: Vec<_> =
        instructions.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    request.headers.extend(signed);
    Ok(())
}

/// The key of a signature, and what it is good for.
struct Key<'a> {
    credentials: &'a Credentials,
    region: &'a str,
    service: &'a str,
    at: SystemTime,
}

impl Key<'_> {
    /// Signs a request to `url` with these headers. An error says why it cannot be signed.
    fn sign<'r>(
        &self,
        method: Method,
        url: &'r str,
        headers: impl Iterator<Item = (&'r str, &'r str)>,
        body: SignableBody<'r>,
        settings: SigningSettings,
    ) -> std::result::Result<SigningInstructions, String> {
        let identity = self.credentials.clone().into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(self.region)
            .name(self.service)
            .time(self.at)
            .settings(settings)
            .build()
            .map_err(|error| error.to_string())?
            .into();
        let signable = SignableRequest::new(method.as_str(), url, headers, body);
        let signable = signable.map_err(|error| error.to_string())?;
        Ok(sign(signable, &params).map_err(|error| error.to_string())?.into_parts().0)
    }
}

fn url_of(origin: &Origin, authority: &str, target: &str) -> String {
    format!("{}://{authority}{target}", if origin.tls { "https" } else { "http" })
}

/// A request without a signature.
pub(super) struct Unsigned<'a> {
    pub(super) place: &'a str,
    pub(super) origin: &'a Origin,
    pub(super) method: Method,
    /// Path and query.
    pub(super) target: String,
}

/// The URL of a request that anyone may send until it `expires`.
pub(super) fn sign_url(
    request: &Unsigned<'_>,
    credentials: &Credentials,
    region: &str,
    expires: Duration,
    at: SystemTime,
) -> Result<String> {
    let refuse =
        |detail: String| Error::Credentials { location: request.place.to_owned(), detail, trace: None };
    let mut settings = SigningSettings::default();
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    settings.signature_location = SignatureLocation::QueryParams;
    settings.expires_in = Some(expires);
    let key = Key { credentials, region, service: S3, at };
    let authority = request.origin.authority();
    let mut url = url_of(request.origin, &authority, &request.target);
    let host = [("host", authority.as_str())].into_iter();
    let body = SignableBody::UnsignedPayload;
    let instructions = key.sign(request.method, &url, host, body, settings).map_err(refuse)?;
    for (name, value) in instructions.params() {
        let mark = if url.contains('?') { '&' } else { '?' };
        url.push_str(&format!("{mark}{name}={}", endpoint::query_value(value)));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cancel;
    use crate::requests::RequestKind;
    use std::time::UNIX_EPOCH;

    fn signed(target: &str) -> Vec<(String, String)> {
        let origin = Origin::parse_url("http://127.0.0.1:9000").unwrap();
        let cancel = Cancel::new();
        let mut request = Request {
            place: "p",
            operation: None,
            origin: &origin,
            method: Method::Get,
            kind: RequestKind::Get,
            target: target.to_owned(),
            headers: [("range", "bytes=0-1"), ("cache-control", "max-age=1")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            payload: Payload::Bytes(b""),
            work: 0,
            cancel: &cancel,
            throttle: &firstbyte_pacing::Throttle::default(),
        };
        let credentials = Credentials::new("AKID", "secret", Some("token".into()), None, "test");
        let at = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        sign_request(&mut request, &credentials, (Rules::S3, "here-1"), at).unwrap();
        assert_eq!(request.target, target);
        request.headers
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
}
