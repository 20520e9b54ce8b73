//! SigV4 as S3 wants it: the path as it goes out, encoded once and not normalised, and the payload unsigned. Payloads
//! carry a CRC instead, and hashing them here would cost a core at 10 Gbit/s.

use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings, UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4;

use crate::wire::Request;
use crate::{Error, Result};

/// Adds the authorization headers to `request`.
pub(super) fn sign_request(request: &mut Request<'_>, credentials: &Credentials, region: &str, at: SystemTime) -> Result<()> {
    let refuse = |detail: String| Error::Credentials { location: request.place.to_owned(), detail };
    let mut settings = SigningSettings::default();
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    let identity = credentials.clone().into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name("s3")
        .time(at)
        .settings(settings)
        .build()
        .map_err(|error| refuse(error.to_string()))?
        .into();
    let authority = request.origin.authority();
    let scheme = if request.origin.tls { "https" } else { "http" };
    let url = format!("{scheme}://{authority}{}", request.target);
    let host = [("host", authority.as_str())];
    let headers = request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).chain(host);
    let signable = SignableRequest::new(request.method.as_str(), url, headers, SignableBody::UnsignedPayload)
        .map_err(|error| refuse(error.to_string()))?;
    let (instructions, _) = sign(signable, &params).map_err(|error| refuse(error.to_string()))?.into_parts();
    let signed: Vec<_> = instructions.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    request.headers.extend(signed);
    Ok(())
}
