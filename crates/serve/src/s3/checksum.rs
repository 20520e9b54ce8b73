//! Checksums of what clients send: computed while it is written, compared with what they announced, kept for readers.
//!
//! CRC-64/NVME is computed always, as S3 does, so that every object written here can be read verified. Others are computed
//! when announced. CRCs of parts combine into the CRC of the whole, which is why multipart objects have one too.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crc_fast::CrcAlgorithm;
use http::HeaderMap;
use sha2::Digest as _;

use crate::upload::Digest;

/// The checksum algorithms of the S3 API, and MD5 for `Content-MD5`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Algorithm {
    Crc64Nvme,
    Crc32c,
    Crc32,
    Sha256,
    Sha1,
    Md5,
}

impl Algorithm {
    const ALL: [Self; 6] = [Self::Crc64Nvme, Self::Crc32c, Self::Crc32, Self::Sha256, Self::Sha1, Self::Md5];

    /// The header its value stands in.
    pub(crate) fn header(self) -> &'static str {
        match self {
            Self::Crc64Nvme => "x-amz-checksum-crc64nvme",
            Self::Crc32c => "x-amz-checksum-crc32c",
            Self::Crc32 => "x-amz-checksum-crc32",
            Self::Sha256 => "x-amz-checksum-sha256",
            Self::Sha1 => "x-amz-checksum-sha1",
            Self::Md5 => "content-md5",
        }
    }

    fn crc(self) -> Option<CrcAlgorithm> {
        match self {
            Self::Crc64Nvme => Some(CrcAlgorithm::Crc64Nvme),
            Self::Crc32c => Some(CrcAlgorithm::Crc32Iscsi),
            Self::Crc32 => Some(CrcAlgorithm::Crc32IsoHdlc),
            Self::Sha256 | Self::Sha1 | Self::Md5 => None,
        }
    }
}

/// Values by algorithm, each in base64 as the API has them.
pub(crate) type Values = BTreeMap<Algorithm, String>;

enum State {
    Crc(crc_fast::Digest, usize),
    Sha256(sha2::Sha256),
    Sha1(sha1::Sha1),
    Md5(md5::Md5),
}

/// Computes several checksums over the bytes as they pass.
pub(crate) struct Checksums {
    states: Vec<(Algorithm, State)>,
}

impl std::fmt::Debug for Checksums {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.states.iter().map(|(algorithm, _)| algorithm)).finish()
    }
}

impl Checksums {
    /// Those a request with these headers needs: CRC-64/NVME, what it announces, and what its trailer will.
    pub(crate) fn for_request(headers: &HeaderMap) -> Self {
        let trailer = headers.get("x-amz-trailer").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let named = headers.get("x-amz-sdk-checksum-algorithm").and_then(|value| value.to_str().ok());
        let wanted = |algorithm: &Algorithm| {
            let header = algorithm.header();
            *algorithm == Algorithm::Crc64Nvme
                || headers.contains_key(header)
                || trailer.split(',').any(|name| name.trim().eq_ignore_ascii_case(header))
                || named.is_some_and(|name| header.ends_with(&format!("-{}", name.to_ascii_lowercase())))
        };
        let states = Algorithm::ALL.into_iter().filter(wanted).map(|algorithm| (algorithm, state(algorithm)));
        Self { states: states.collect() }
    }

    /// The values.
    pub(crate) fn finish(self) -> Values {
        let value = |state| match state {
            State::Crc(digest, width) => STANDARD.encode(&digest.finalize().to_be_bytes()[8 - width..]),
            State::Sha256(digest) => STANDARD.encode(digest.finalize()),
            State::Sha1(digest) => STANDARD.encode(digest.finalize()),
            State::Md5(digest) => STANDARD.encode(digest.finalize()),
        };
        self.states.into_iter().map(|(algorithm, state)| (algorithm, value(state))).collect()
    }
}

fn state(algorithm: Algorithm) -> State {
    match (algorithm, algorithm.crc()) {
        (_, Some(crc)) => {
            State::Crc(crc_fast::Digest::new(crc), if algorithm == Algorithm::Crc64Nvme { 8 } else { 4 })
        }
        (Algorithm::Sha256, _) => State::Sha256(sha2::Sha256::new()),
        (Algorithm::Sha1, _) => State::Sha1(sha1::Sha1::new()),
        _ => State::Md5(md5::Md5::new()),
    }
}

impl Digest for Checksums {
    fn update(&mut self, bytes: &[u8]) {
        for (_, state) in &mut self.states {
            match state {
                State::Crc(digest, _) => digest.update(bytes),
                State::Sha256(digest) => digest.update(bytes),
                State::Sha1(digest) => digest.update(bytes),
                State::Md5(digest) => digest.update(bytes),
            }
        }
    }
}

/// The algorithm whose announced value in `headers` differs from the computed one.
pub(crate) fn mismatch(computed: &Values, headers: &HeaderMap) -> Option<&'static str> {
    let differs = |algorithm: &Algorithm| {
        let announced = headers.get(algorithm.header()).and_then(|value| value.to_str().ok());
        announced
            .zip(computed.get(algorithm))
            .is_some_and(|(announced, computed)| announced.trim() != computed)
    };
    Algorithm::ALL.into_iter().find(differs).map(Algorithm::header)
}

/// The checksums of the whole from those of its parts in order, with their lengths: the CRCs all parts have.
pub(crate) fn combine<'a>(parts: impl Iterator<Item = (&'a Values, u64)> + Clone) -> Values {
    let mut whole = Values::new();
    for algorithm in [Algorithm::Crc64Nvme, Algorithm::Crc32c, Algorithm::Crc32] {
        let Some(crc) = algorithm.crc() else { continue };
        let values: Option<Vec<(u64, u64)>> =
            parts.clone().map(|(values, length)| Some((number(values.get(&algorithm)?)?, length))).collect();
        let Some(values) = values.filter(|values| !values.is_empty()) else { continue };
        let (first, _) = values[0];
        let sum = values[1..]
            .iter()
            .fold(first, |sum, (value, length)| crc_fast::checksum_combine(crc, sum, *value, *length));
        let width = if algorithm == Algorithm::Crc64Nvme { 8 } else { 4 };
        whole.insert(algorithm, STANDARD.encode(&sum.to_be_bytes()[8 - width..]));
    }
    whole
}

fn number(base64: &str) -> Option<u64> {
    let bytes = STANDARD.decode(base64).ok().filter(|bytes| bytes.len() <= 8)?;
    Some(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(bytes: &[u8], header: &str) -> Values {
        let mut headers = HeaderMap::new();
        headers.insert("x-amz-trailer", header.parse().unwrap());
        let mut sums = Checksums::for_request(&headers);
        sums.update(bytes);
        sums.finish()
    }

    #[test]
    fn values_are_those_of_the_standard_test_string() {
        let values = sums(b"123456789", "x-amz-checksum-crc32c, x-amz-checksum-sha256");
        assert_eq!(number(&values[&Algorithm::Crc64Nvme]), Some(0xae8b_1486_0a79_9888));
        assert_eq!(number(&values[&Algorithm::Crc32c]), Some(0xe306_9283));
        assert!(values.contains_key(&Algorithm::Sha256) && !values.contains_key(&Algorithm::Sha1));
    }

    #[test]
    fn checksums_of_parts_combine_into_that_of_the_whole() {
        let (one, two) = (sums(b"1234", "x-amz-checksum-crc32"), sums(b"56789", "x-amz-checksum-crc32"));
        let whole = combine([(&one, 4), (&two, 5)].into_iter());
        assert_eq!(whole, sums(b"123456789", "x-amz-checksum-crc32"));
    }

    #[test]
    fn an_announced_value_must_be_the_computed_one() {
        let values = sums(b"x", "");
        let mut headers = HeaderMap::new();
        headers.insert("x-amz-checksum-crc64nvme", values[&Algorithm::Crc64Nvme].parse().unwrap());
        assert_eq!(mismatch(&values, &headers), None);
        headers.insert("x-amz-checksum-crc64nvme", "AAAAAAAAAAA=".parse().unwrap());
        assert_eq!(mismatch(&values, &headers), Some("x-amz-checksum-crc64nvme"));
    }
}
