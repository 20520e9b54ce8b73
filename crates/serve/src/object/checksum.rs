//! Computes checksums of content while it is written, several at once. What they are compared with
//! is in `stated`, and those of parts in `part_checksums`.

use std::collections::BTreeMap;

use firstbyte_location::{Algorithm, Hasher};

use crate::object::writer::Digest;

/// The header an algorithm's value is announced in.
pub(crate) fn header(algorithm: Algorithm) -> &'static str {
    algorithm.header().unwrap_or("content-md5")
}

/// Why the checksums of a request are refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// The content is another.
    #[error("{0}")]
    Differs(String),
    /// A stated value that no content can have.
    #[error("Value for {0} header is invalid.")]
    Malformed(&'static str),
    /// The content is not the one that the signature covers.
    #[error("the body does not have the hash that x-amz-content-sha256 states")]
    WrongHash,
    /// Such checksums can be neither computed nor compared here.
    #[error("{0}")]
    Unsupported(String),
    /// A part lacks the checksum that was agreed on.
    #[error("a part has no {0} checksum")]
    Missing(Algorithm),
}

/// Values by algorithm, each in base64 as the API has them.
pub(crate) type Values = BTreeMap<Algorithm, String>;

/// Computes several checksums over the bytes as they pass.
#[derive(Debug)]
pub(crate) struct Checksums(Vec<Hasher>);

impl Checksums {
    /// These, each once.
    pub(crate) fn of(algorithms: impl IntoIterator<Item = Algorithm>) -> Self {
        let mut all: Vec<Algorithm> = algorithms.into_iter().collect();
        all.sort_unstable();
        all.dedup();
        Self(all.into_iter().map(Hasher::new).collect())
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
