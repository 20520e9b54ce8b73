//! Computes Signature Version 4: derives the signing key of a scope, and signs URLs for reading.
//! Called by the verification of chunks in `s3` and by the links of `page`. Source: "Authenticating
//! requests: using query parameters",
//! <https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html>, read 2026-11-27.

use std::time::{Duration, SystemTime};

use aws_lc_rs::hmac;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

use super::keys::ServerKey;

/// Characters to percent-encode: all except the unreserved characters of RFC 3986.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The region that signed URLs name. `serve` accepts any.
const REGION: &str = "us-east-1";

/// Maximum validity of a signed URL, as in S3.
pub(crate) const MAX_VALIDITY: Duration = Duration::from_secs(7 * 24 * 3600);

/// Derives the key with which `secret` signs in `scope` (`DATE/REGION/SERVICE/aws4_request`).
pub(crate) fn scope_key(secret: &str, scope: &str) -> hmac::Key {
    let first = format!("AWS4{secret}").into_bytes();
    let key = scope.split('/').fold(first, |key, part| sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), part));
    hmac::Key::new(hmac::HMAC_SHA256, &key)
}

/// Signs a URL with which any client may GET `path` from `host` for the time `valid`. Returns the
/// URL's path and query. In `path`, all characters except RFC 3986's unreserved ones and `/` must
/// be percent-encoded.
pub(crate) fn presign(key: &ServerKey, host: &str, path: &str, now: SystemTime, valid: Duration) -> String {
    let now = OffsetDateTime::from(now);
    let date = format!("{:04}{:02}{:02}", now.year(), u8::from(now.month()), now.day());
    let stamp = format!("{date}T{:02}{:02}{:02}Z", now.hour(), now.minute(), now.second());
    let scope = format!("{date}/{REGION}/s3/aws4_request");
    let credential = encode_value(&format!("{}/{scope}", key.access_key));
    // The parameters are sorted by name, as the signature requires.
    let query = format!(
        "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={credential}&X-Amz-Date={stamp}&X-Amz-Expires={}&X-Amz-SignedHeaders=host",
        valid.as_secs()
    );
    let canonical = format!("GET\n{path}\n{query}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD");
    let text = format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{}", hex::encode(Sha256::digest(canonical)));
    let signature = hex::encode(sign(&scope_key(&key.secret, &scope), &text));
    format!("{path}?{query}&X-Amz-Signature={signature}")
}

fn sign(key: &hmac::Key, text: &str) -> Vec<u8> {
    hmac::sign(key, text.as_bytes()).as_ref().to_vec()
}

/// Percent-encodes a query value.
fn encode_value(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example from the AWS page that the module head names.
    #[test]
    fn a_url_is_signed_as_in_the_documentation() {
        let key = ServerKey {
            access_key: "AKIAIOSFODNN7EXAMPLE".into(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
            grants: Vec::new(),
        };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_369_353_600);
        let host = "examplebucket.s3.amazonaws.com";
        let url = presign(&key, host, "/test.txt", now, Duration::from_secs(86_400));
        let expected = "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
        assert_eq!(url, expected);
    }
}
