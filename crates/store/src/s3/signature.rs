//! Computes Signature Version 4: the canonical form of a request, and its signature.
//! <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>
//!
//! This module is pure. `sign` decides what is signed. The tests of `sign` compare the results with
//! those of AWS's library.

use std::collections::BTreeMap;
use std::time::SystemTime;

use aws_lc_rs::{digest, hmac};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use time::OffsetDateTime;

use super::key::AccessKey;

/// Stands for the hash of the payload if the payload is not signed.
pub(super) const UNSIGNED_PAYLOAD: &str = "UNSIGNED-PAYLOAD";
pub(super) const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// Bytes that are encoded in the names and values of a query.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Bytes that are encoded in a path.
const PATH: &AsciiSet = &QUERY.remove(b'/');
/// Headers that are not signed, because proxies and libraries change them.
const CHANGED_ON_THE_WAY: [&str; 4] = ["authorization", "transfer-encoding", "user-agent", "x-amzn-trace-id"];

/// Whether the path of a request is encoded once more for the signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathEncoding {
    /// The path is signed as it is sent. For S3.
    AsSent,
    /// The path is encoded once more. For all other services. The paths used here have no empty,
    /// `.` or `..` segments, which the signature would have to remove.
    Again,
}

/// The signed parts of a request.
pub(super) struct CanonicalRequest<'a> {
    pub(super) method: &'a str,
    /// Path and query, percent-encoded.
    pub(super) target: &'a str,
    pub(super) path_encoding: PathEncoding,
    pub(super) headers: SignedHeaders,
    pub(super) hash: &'a str,
}

/// The signed headers, ordered by name.
#[derive(Default)]
pub(super) struct SignedHeaders(BTreeMap<String, Vec<String>>);

impl SignedHeaders {
    pub(super) fn add(&mut self, name: &str, value: &str) {
        let name = name.to_ascii_lowercase();
        if !CHANGED_ON_THE_WAY.contains(&name.as_str()) {
            let words: Vec<&str> = value.split(' ').filter(|word| !word.is_empty()).collect();
            self.0.entry(name).or_default().push(words.join(" "));
        }
    }

    /// Returns the names of the headers, in the form in which the signature lists them.
    pub(super) fn names(&self) -> String {
        self.0.keys().map(String::as_str).collect::<Vec<_>>().join(";")
    }
}

impl CanonicalRequest<'_> {
    fn text(&self) -> String {
        let (path, query) = self.target.split_once('?').unwrap_or((self.target, ""));
        let path = match self.path_encoding {
            PathEncoding::AsSent => path.to_owned(),
            PathEncoding::Again => utf8_percent_encode(path, PATH).to_string(),
        };
        let headers: String =
            self.headers.0.iter().map(|(name, values)| format!("{name}:{}\n", values.join(","))).collect();
        let (names, query) = (self.headers.names(), canonical_query(query));
        format!("{}\n{path}\n{query}\n{headers}\n{names}\n{}", self.method, self.hash)
    }
}

/// Sorts the parameters of a query by their encoded form.
fn canonical_query(query: &str) -> String {
    let encoded = |text: &str| {
        let bytes: Vec<u8> = percent_decode_str(text).collect();
        percent_encoding::percent_encode(&bytes, QUERY).to_string()
    };
    let pairs = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let mut pairs: Vec<(String, String)> =
        pairs.map(|(name, value)| (encoded(name), encoded(value))).collect();
    pairs.sort();
    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

/// The time, region and service for which a signature is valid.
#[derive(Clone, Copy, Debug)]
pub(super) struct SignatureScope<'a> {
    pub(super) region: &'a str,
    pub(super) service: &'a str,
    pub(super) at: SystemTime,
}

impl SignatureScope<'_> {
    /// Returns the time of the signature in the form `20261127T161501Z`.
    pub(super) fn moment(&self) -> String {
        let at = OffsetDateTime::from(self.at);
        let (hour, minute, second) = at.to_hms();
        format!("{}T{hour:02}{minute:02}{second:02}Z", self.date())
    }

    fn date(&self) -> String {
        let at = OffsetDateTime::from(self.at);
        format!("{:04}{:02}{:02}", at.year(), u8::from(at.month()), at.day())
    }

    fn text(&self) -> String {
        format!("{}/{}/{}/aws4_request", self.date(), self.region, self.service)
    }

    /// Returns the id of the key with the scope, in the form used in requests.
    pub(super) fn credential(&self, key: &AccessKey) -> String {
        format!("{}/{}", key.id, self.text())
    }

    /// Returns the signature of a request in hexadecimal digits.
    pub(super) fn signature(&self, key: &AccessKey, canonical: &CanonicalRequest<'_>) -> String {
        let request = sha256(canonical.text().as_bytes());
        let text = format!("{ALGORITHM}\n{}\n{}\n{request}", self.moment(), self.text());
        let mut derived = format!("AWS4{}", key.secret).into_bytes();
        for part in [self.date().as_str(), self.region, self.service, "aws4_request"] {
            derived = hmac_sha256(&derived, part.as_bytes());
        }
        hex::encode(hmac_sha256(&derived, text.as_bytes()))
    }
}

/// Returns the SHA-256 of `bytes` in hexadecimal digits.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hex::encode(digest::digest(&digest::SHA256, bytes))
}

fn hmac_sha256(key: &[u8], text: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text).as_ref().to_vec()
}
