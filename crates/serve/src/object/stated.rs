//! Collects the checksums that a request states for its content, and compares them.
//! [`StatedChecksums`] checks every body, whether the body is stored or parsed; no other code
//! compares checksums.
//!
//! CRC-64/NVME is always computed, as in S3, so that a read of any object written here can be
//! verified. Other checksums are computed only if the client states them.

use std::sync::Arc;

use firstbyte_location::{Algorithm, Checksum};
use http::{HeaderMap, HeaderName, HeaderValue};
use rustix_futex_sync::Mutex;

use crate::object::checksum::{ChecksumRefusal, ChecksumValues, MultiHasher, header};
use crate::object::writer::ByteDigest;

/// The trailers of a body, complete after the body was read to its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trailers(Arc<Mutex<HeaderMap>>);

impl Trailers {
    /// Returns the trailers that have arrived.
    pub(crate) fn get(&self) -> HeaderMap {
        self.0.lock().clone()
    }

    /// Adds a trailer. Returns false if there was already a trailer of this name.
    pub(crate) fn add(&self, name: &HeaderName, value: HeaderValue) -> bool {
        self.0.lock().insert(name, value).is_none()
    }
}

/// The checksums that a request states for its content. They come from headers or form fields, from
/// trailers, and from the hash that the signature covers.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatedChecksums {
    /// Values in base64. Different values for one algorithm cannot both match, so the request is
    /// refused.
    values: Vec<(Algorithm, HeaderValue)>,
    /// Algorithms to compute although no header has their value: the value is in a trailer, or the
    /// client sent none.
    named: Vec<Algorithm>,
    trailers: Trailers,
    /// The SHA-256 that the signature covers, in hex.
    hash: Option<String>,
}

impl StatedChecksums {
    /// Returns the algorithm of the checksum in the header `name`.
    pub(crate) fn algorithm_of(name: &HeaderName) -> Option<Algorithm> {
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.header() == Some(name.as_str()))
    }

    /// Collects the checksums in `headers`, in the trailers `announced`, and the SHA-256 `hash` in
    /// hex.
    ///
    /// # Errors
    /// The headers name an unknown algorithm or have an invalid value. The request is refused
    /// before its body arrives.
    pub(crate) fn of_headers(
        headers: &HeaderMap,
        announced: &[HeaderName],
        hash: Option<String>,
        trailers: Trailers,
    ) -> Result<Self, ChecksumRefusal> {
        // A single pass over the headers, because most requests state no checksum.
        let stated = |(name, value): (&HeaderName, &HeaderValue)| {
            let algorithm = Algorithm::ALL.into_iter().find(|algorithm| header(*algorithm) == name.as_str());
            algorithm.map(|algorithm| (algorithm, value.clone()))
        };
        let values: Vec<(Algorithm, HeaderValue)> = headers.iter().filter_map(stated).collect();
        if let Some((algorithm, _)) = values.iter().find(|(algorithm, value)| !is_value(*algorithm, value)) {
            return Err(ChecksumRefusal::Malformed(header(*algorithm)));
        }
        let mut named: Vec<Algorithm> = announced.iter().filter_map(Self::algorithm_of).collect();
        named.extend(named_algorithm(headers)?);
        Ok(Self { values, named, trailers, hash })
    }

    /// Creates a statement of these values, in base64.
    pub(crate) fn of_values(values: impl IntoIterator<Item = (Algorithm, String)>) -> Self {
        let value = |(algorithm, text): (Algorithm, String)| {
            // A text that is not valid in a header is replaced by a value that matches nothing.
            let value = HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static("-"));
            (algorithm, value)
        };
        Self { values: values.into_iter().map(value).collect(), ..Self::default() }
    }

    /// Drops the values in headers except `Content-MD5`. In a request that completes an upload, the
    /// other values are for the whole object, not for the body.
    pub(crate) fn of_body_only(mut self) -> Self {
        self.values.retain(|(algorithm, _)| *algorithm == Algorithm::Md5);
        self
    }

    /// Adds `algorithm` to the algorithms to compute.
    pub(crate) fn with_algorithm(mut self, algorithm: Option<Algorithm>) -> Self {
        self.named.extend(algorithm);
        self
    }

    /// Returns the algorithms that the request states, with or without a value.
    pub(crate) fn algorithms(&self) -> impl Iterator<Item = Algorithm> {
        self.values.iter().map(|(algorithm, _)| *algorithm).chain(self.named.iter().copied())
    }

    /// Returns the algorithms needed to check the content.
    fn compared_algorithms(&self) -> impl Iterator<Item = Algorithm> {
        self.algorithms().chain(self.hash.as_ref().map(|_| Algorithm::Sha256))
    }

    /// Creates hashers for the checksums needed to check the content, and for CRC-64/NVME.
    pub(crate) fn hashers(&self) -> MultiHasher {
        MultiHasher::of(self.compared_algorithms().chain([Algorithm::Crc64Nvme]))
    }

    /// Creates hashers only for the checksums needed to check the content.
    pub(crate) fn hashers_to_compare(&self) -> MultiHasher {
        MultiHasher::of(self.compared_algorithms())
    }

    /// Checks the whole content of a body that is not stored.
    ///
    /// # Errors
    /// A checksum differs from the stated one.
    pub(crate) fn check_document(&self, content: &[u8]) -> Result<(), ChecksumRefusal> {
        if self.values.is_empty() && self.named.is_empty() && self.hash.is_none() {
            return Ok(());
        }
        let mut checksums = self.hashers_to_compare();
        checksums.update(content);
        self.check(checksums.finish()).map(drop)
    }

    /// Compares `computed` with the stated values after the body was read. Returns the values to
    /// store.
    ///
    /// # Errors
    /// A checksum differs from the stated one.
    pub(crate) fn check(&self, computed: ChecksumValues) -> Result<ChecksumValues, ChecksumRefusal> {
        let differs = |algorithm: Algorithm, stated: &HeaderValue| {
            let stated = stated.as_bytes().trim_ascii();
            computed.get(&algorithm).is_none_or(|computed| computed.as_bytes() != stated)
        };
        let trailers = self.trailers.get();
        let in_trailers =
            trailers.iter().filter_map(|(name, value)| Some((Self::algorithm_of(name)?, value.clone())));
        let stated = self.values.iter().cloned().chain(in_trailers);
        if let Some((wrong, _)) = stated.into_iter().find(|(algorithm, value)| differs(*algorithm, value)) {
            let name = header(wrong);
            return Err(ChecksumRefusal::Differs(format!("the body does not have the announced {name}")));
        }
        let sha256 =
            computed.get(&Algorithm::Sha256).and_then(|text| Checksum::from_base64(Algorithm::Sha256, text));
        if self.hash.is_some() && self.hash != sha256.map(|checksum| checksum.to_hex()) {
            return Err(ChecksumRefusal::WrongHash);
        }
        let mut kept = computed;
        // MD5 protects one request only, so it is not stored.
        kept.remove(&Algorithm::Md5);
        kept.retain(|algorithm, _| {
            *algorithm == Algorithm::Crc64Nvme || self.algorithms().any(|stated| stated == *algorithm)
        });
        Ok(kept)
    }
}

/// Returns the algorithm that `x-amz-sdk-checksum-algorithm` or `x-amz-checksum-algorithm` names.
///
/// # Errors
/// The algorithm is not supported.
pub(crate) fn named_algorithm(headers: &HeaderMap) -> Result<Option<Algorithm>, ChecksumRefusal> {
    let names = ["x-amz-sdk-checksum-algorithm", "x-amz-checksum-algorithm"];
    let Some(value) = names.into_iter().find_map(|name| headers.get(name)) else { return Ok(None) };
    let algorithm = value.to_str().ok().and_then(Algorithm::from_name);
    let algorithm = algorithm.filter(|algorithm| algorithm.header().is_some());
    let unsupported =
        || ChecksumRefusal::Unsupported("checksums of this algorithm are not supported".to_owned());
    algorithm.map(Some).ok_or_else(unsupported)
}

/// True if a header is a valid checksum of the algorithm: base64 of the right length. The value for
/// a multipart upload may end in `-PARTS`.
fn is_value(algorithm: Algorithm, value: &HeaderValue) -> bool {
    let Ok(text) = value.to_str() else { return false };
    let of_parts = text.rsplit_once('-').filter(|(_, parts)| parts.bytes().all(|byte| byte.is_ascii_digit()));
    Checksum::from_base64(algorithm, of_parts.map_or(text, |(sum, _)| sum)).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stated(lines: &[(&'static str, &str)], announced: &[&'static str]) -> StatedChecksums {
        let headers =
            lines.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        let announced: Vec<HeaderName> = announced.iter().map(|name| name.parse().unwrap()).collect();
        StatedChecksums::of_headers(&headers, &announced, None, Trailers::default()).unwrap()
    }

    fn sums(bytes: &[u8], stated: &StatedChecksums) -> ChecksumValues {
        let mut sums = stated.hashers();
        sums.update(bytes);
        sums.finish()
    }

    #[test]
    fn the_default_and_the_announced_checksums_are_computed() {
        let stated = stated(&[("x-amz-checksum-crc32c", "AAAAAA==")], &["x-amz-checksum-sha256"]);
        let computed: Vec<Algorithm> = sums(b"123456789", &stated).into_keys().collect();
        assert_eq!(computed, [Algorithm::Crc64Nvme, Algorithm::Crc32c, Algorithm::Sha256]);
    }

    #[test]
    fn every_stated_value_must_be_the_computed_one() {
        let right = sums(b"x", &StatedChecksums::default())[&Algorithm::Crc64Nvme].clone();
        let name = "x-amz-checksum-crc64nvme";
        for (lines, fits) in [
            (vec![(name, right.as_str())], true),
            (vec![(name, "AAAAAAAAAAA=")], false),
            (vec![("content-md5", "ndTkYSaMgDT1yFZOFVxnpg==")], true),
            (vec![("content-md5", "nNS5w4a9rZK6hcdCp9ZxNA==")], false),
        ] {
            let stated = stated(&lines, &[]);
            assert_eq!(stated.check(sums(b"x", &stated)).is_ok(), fits, "{lines:?}");
        }
        let mut two = HeaderMap::new();
        two.append(name, right.parse().unwrap());
        two.append(name, "AAAAAAAAAAA=".parse().unwrap());
        let stated = StatedChecksums::of_headers(&two, &[], None, Trailers::default()).unwrap();
        assert!(stated.check(sums(b"x", &stated)).is_err());
    }

    #[test]
    fn a_header_that_is_no_checksum_is_refused() {
        for (name, value, right) in [
            ("x-amz-checksum-crc32", "AAAAAA==", true),
            ("x-amz-checksum-crc32", "AAAAAA==-3", true),
            ("x-amz-checksum-crc32", "AAAAAA==-", true),
            ("x-amz-checksum-crc32", "AAAA", false),
            ("x-amz-checksum-crc32", "", false),
            ("x-amz-checksum-crc32", "bad", false),
            ("x-amz-checksum-crc32", "-3", false),
            ("x-amz-checksum-sha256", "AAAAAA==", false),
            ("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg==", true),
            ("content-md5", "d41d8cd98f00b204e9800998ecf8427e", false),
        ] {
            let headers = HeaderMap::from_iter([(HeaderName::from_static(name), value.parse().unwrap())]);
            let stated = StatedChecksums::of_headers(&headers, &[], None, Trailers::default());
            assert_eq!(stated.is_ok(), right, "{name}: {value}");
        }
    }

    #[test]
    fn the_hash_of_a_signature_is_compared_and_not_kept() {
        let hash = hex::encode(<sha2::Sha256 as sha2::Digest>::digest(b"x"));
        let stated = StatedChecksums { hash: Some(hash), ..StatedChecksums::default() };
        let kept = stated.check(sums(b"x", &stated)).unwrap();
        assert_eq!(kept.into_keys().collect::<Vec<_>>(), [Algorithm::Crc64Nvme]);
        assert!(stated.check(sums(b"y", &stated)).is_err());
    }
}
