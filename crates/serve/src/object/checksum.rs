//! Computes checksums of content while it is written, several at once. `stated` compares the
//! results with the request's checksums; `part_checksums` has the checksums of parts.

use std::collections::BTreeMap;

use firstbyte_location::{Algorithm, Hasher};

use crate::object::writer::ByteDigest;

/// Returns the name of the header with an algorithm's value.
pub(crate) fn header(algorithm: Algorithm) -> &'static str {
    algorithm.header().unwrap_or("content-md5")
}

/// The reason for which the checksums of a request are refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChecksumRefusal {
    /// A computed checksum differs from the stated one.
    #[error("{0}")]
    Differs(String),
    /// A stated value is not valid for its algorithm.
    #[error("Value for {0} header is invalid.")]
    Malformed(&'static str),
    /// The content is not the one that the signature covers.
    #[error("the body does not have the hash that x-amz-content-sha256 states")]
    WrongHash,
    /// The algorithm or the kind is not supported.
    #[error("{0}")]
    Unsupported(String),
    /// A part lacks the checksum that the upload was begun with.
    #[error("a part has no {0} checksum")]
    Missing(Algorithm),
}

/// Checksums by algorithm, each in base64.
pub(crate) type ChecksumValues = BTreeMap<Algorithm, String>;

/// Computes several checksums of the same bytes.
#[derive(Debug)]
pub(crate) struct MultiHasher(Vec<Hasher>);

impl MultiHasher {
    /// Makes a hasher that computes each of these algorithms once.
    pub(crate) fn of(algorithms: impl IntoIterator<Item = Algorithm>) -> Self {
        let mut all: Vec<Algorithm> = algorithms.into_iter().collect();
        all.sort_unstable();
        all.dedup();
        Self(all.into_iter().map(Hasher::new).collect())
    }

    /// Makes a hasher that computes only this algorithm.
    pub(crate) fn only(algorithm: Algorithm) -> Self {
        Self(vec![Hasher::new(algorithm)])
    }

    /// Returns the checksums.
    pub(crate) fn finish(self) -> ChecksumValues {
        let value = |hasher: Hasher| (hasher.algorithm(), hasher.finish().to_base64());
        self.0.into_iter().map(value).collect()
    }
}

impl ByteDigest for MultiHasher {
    fn update(&mut self, bytes: &[u8]) {
        self.0.iter_mut().for_each(|hasher| hasher.update(bytes));
    }
}
