//! Checksums of uploaded content. They are computed while the content is written, compared with the
//! checksums that the client announced, and stored for readers.
//!
//! CRC-64/NVME is always computed, as S3 does, so every object written here can be read verified.
//! Other checksums are computed if the client announces them. CRCs of parts combine into the CRC of
//! the whole, so multipart objects have one too.

use std::collections::BTreeMap;

use firstbyte_location::{Algorithm, Checksum, Hasher};
use http::HeaderMap;

use crate::writer::Digest;

/// The header an algorithm's value is announced in.
pub(crate) fn header(algorithm: Algorithm) -> &'static str {
    algorithm.header().unwrap_or("content-md5")
}

/// Values by algorithm, each in base64 as the API has them.
pub(crate) type Values = BTreeMap<Algorithm, String>;

/// Computes several checksums over the bytes as they pass.
#[derive(Debug)]
pub(crate) struct Checksums(Vec<Hasher>);

impl Checksums {
    /// Those a request with these headers needs: CRC-64/NVME, what it announces, and what its
    /// trailer will.
    pub(crate) fn for_request(headers: &HeaderMap) -> Self {
        let trailer = headers.get("x-amz-trailer").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let named = headers.get("x-amz-sdk-checksum-algorithm").and_then(|value| value.to_str().ok());
        let wanted = |algorithm: &Algorithm| {
            let header = header(*algorithm);
            *algorithm == Algorithm::Crc64Nvme
                || headers.contains_key(header)
                || trailer.split(',').any(|name| name.trim().eq_ignore_ascii_case(header))
                || named.is_some_and(|name| name.eq_ignore_ascii_case(algorithm.name()))
        };
        Self(Algorithm::ALL.into_iter().filter(wanted).map(Hasher::new).collect())
    }

    /// This one alone.
    pub(crate) fn only(algorithm: Algorithm) -> Self {
        Self(vec![Hasher::new(algorithm)])
    }

    /// The values.
    pub(crate) fn finish(self) -> Values {
        let value = |hasher: Hasher| (hasher.algorithm(), hasher.finish().to_base64());
        self.0.into_iter().map(value).collect()
    }
}

impl Digest for Checksums {
    fn update(&mut self, bytes: &[u8]) {
        self.0.iter_mut().for_each(|hasher| hasher.update(bytes));
    }
}

/// The header whose announced value in `headers` differs from the computed one.
pub(crate) fn mismatch(computed: &Values, headers: &HeaderMap) -> Option<&'static str> {
    let differs = |algorithm: &Algorithm| {
        let announced = headers.get(header(*algorithm)).and_then(|value| value.to_str().ok());
        announced
            .zip(computed.get(algorithm))
            .is_some_and(|(announced, computed)| announced.trim() != computed)
    };
    Algorithm::ALL.into_iter().find(differs).map(header)
}

/// The checksums of the whole from those of its parts in order, with their lengths: the CRCs all
/// parts have.
pub(crate) fn combine<'a>(parts: impl Iterator<Item = (&'a Values, u64)> + Clone) -> Values {
    let whole = |algorithm: Algorithm| {
        let mut pieces = parts.clone().map(|(values, length)| {
            Some((Checksum::from_base64(algorithm, values.get(&algorithm)?)?, length))
        });
        let (first, _) = pieces.next()??;
        let whole = pieces.try_fold(first, |whole, piece| {
            let (next, length) = piece?;
            whole.combine(&next, length)
        });
        Some((algorithm, whole?.to_base64()))
    };
    Algorithm::ALL.into_iter().filter(|algorithm| algorithm.is_combinable()).filter_map(whole).collect()
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
    fn what_is_computed_is_the_default_and_what_was_announced() {
        let values = sums(b"123456789", "x-amz-checksum-crc32c, x-amz-checksum-sha256");
        let computed: Vec<Algorithm> = values.keys().copied().collect();
        assert_eq!(computed, [Algorithm::Crc64Nvme, Algorithm::Crc32c, Algorithm::Sha256]);
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
