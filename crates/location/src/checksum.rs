//! Parses, computes, combines and compares checksums of whole objects and parts.
//!
//! A CRC is linear: the CRCs of two adjacent pieces give the CRC of both together, so parts can be
//! computed in any order. The other algorithms are sequential: they need the bytes from the first
//! to the last. They are supported because stores and users provide such checksums. Checksums are
//! not secrets, so comparing them need not take constant time.

mod combine;

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use crc_fast::CrcAlgorithm;
use sha2::Digest as _;

use combine::{CRC_32, CRC_32C, CRC_64_NVME, Polynomial};

/// A checksum algorithm of stores, of `serve` and of the command line. The variants are in order of
/// preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// CRC-64/NVME, S3's default. Pieces can be computed in any order, and their CRCs combined.
    Crc64Nvme,
    /// CRC-32C. Pieces can be computed in any order, and their CRCs combined.
    Crc32c,
    /// CRC-32 (ISO-HDLC). Pieces can be computed in any order, and their CRCs combined.
    Crc32,
    /// SHA-256. Can only be computed from the first byte to the last.
    Sha256,
    /// SHA-1. Can only be computed from the first byte to the last.
    Sha1,
    /// MD5. Can only be computed from the first byte to the last. Used only if the user or a client
    /// of `serve` gives one. An `ETag` is not an MD5.
    Md5,
}

impl Algorithm {
    /// Every algorithm, in order of preference.
    pub const ALL: [Self; 6] =
        [Self::Crc64Nvme, Self::Crc32c, Self::Crc32, Self::Sha256, Self::Sha1, Self::Md5];

    /// Returns the name as S3 spells it: `CRC64NVME`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Crc64Nvme => "CRC64NVME",
            Self::Crc32c => "CRC32C",
            Self::Crc32 => "CRC32",
            Self::Sha256 => "SHA256",
            Self::Sha1 => "SHA1",
            Self::Md5 => "MD5",
        }
    }

    /// Finds an algorithm by its name, ignoring case and dashes (`sha-256`).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let plain = name.replace('-', "");
        Self::ALL.into_iter().find(|algorithm| algorithm.name().eq_ignore_ascii_case(&plain))
    }

    /// Returns the S3 header that carries the value in base64. `None` for MD5, for which S3 has
    /// only `Content-MD5`, which covers a single request.
    #[must_use]
    pub fn header(self) -> Option<&'static str> {
        Some(match self {
            Self::Crc64Nvme => "x-amz-checksum-crc64nvme",
            Self::Crc32c => "x-amz-checksum-crc32c",
            Self::Crc32 => "x-amz-checksum-crc32",
            Self::Sha256 => "x-amz-checksum-sha256",
            Self::Sha1 => "x-amz-checksum-sha1",
            Self::Md5 => return None,
        })
    }

    /// Returns the length of the value in bytes.
    #[must_use]
    pub fn value_len(self) -> usize {
        match self {
            Self::Crc64Nvme => 8,
            Self::Crc32c | Self::Crc32 => 4,
            Self::Sha256 => 32,
            Self::Sha1 => 20,
            Self::Md5 => 16,
        }
    }

    /// Returns true if the checksum of the whole can be computed from those of adjacent pieces
    /// ([`Checksum::combine`]).
    #[must_use]
    pub fn is_combinable(self) -> bool {
        self.polynomial().is_some()
    }

    fn polynomial(self) -> Option<&'static Polynomial> {
        match self {
            Self::Crc64Nvme => Some(&CRC_64_NVME),
            Self::Crc32c => Some(&CRC_32C),
            Self::Crc32 => Some(&CRC_32),
            Self::Sha256 | Self::Sha1 | Self::Md5 => None,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error for a malformed checksum, or for content that does not match its checksum.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChecksumError {
    /// The text is not `ALGORITHM:VALUE` with a known algorithm.
    #[error("checksum {text}: {why}")]
    Malformed {
        /// The text as the user gave it.
        text: String,
        /// The fault of the text, and what to write instead.
        why: String,
    },
    /// The content does not match its checksum.
    #[error("{location}: {algorithm} mismatch: expected {expected}, got {found}")]
    Mismatch {
        /// The object.
        location: String,
        /// The algorithm of the two values.
        algorithm: Algorithm,
        /// The expected checksum, in hex.
        expected: String,
        /// The computed checksum, in hex.
        found: String,
    },
}

/// The checksum of a whole object or piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The value, in big-endian order.
    pub value: Vec<u8>,
}

impl Checksum {
    /// Parses `ALGORITHM:VALUE`. The value is hex or base64, which its length decides.
    ///
    /// # Errors
    /// [`ChecksumError::Malformed`]: the algorithm is unknown, or the value has the wrong length.
    pub fn parse(text: &str) -> Result<Self, ChecksumError> {
        let fail = |why: String| ChecksumError::Malformed { text: text.to_owned(), why };
        let (name, value) = text
            .split_once(':')
            .ok_or_else(|| fail("write ALGORITHM:VALUE, such as sha256:9f86d081…".into()))?;
        let algorithm = Algorithm::from_name(name).ok_or_else(|| {
            let names = Algorithm::ALL.map(|algorithm| algorithm.name().to_lowercase()).join(", ");
            fail(format!("unknown algorithm {name}; known are {names}"))
        })?;
        let hex = hex::decode(value).ok().and_then(|value| Self::new(algorithm, value));
        hex.or_else(|| Self::from_base64(algorithm, value)).ok_or_else(|| {
            let len = algorithm.value_len();
            fail(format!("{algorithm} has {len} bytes: write {} hex digits, or base64", len * 2))
        })
    }

    /// Returns a checksum with this value. `None` if the length of the value is wrong for the
    /// algorithm.
    #[must_use]
    pub fn new(algorithm: Algorithm, value: Vec<u8>) -> Option<Self> {
        (value.len() == algorithm.value_len()).then_some(Self { algorithm, value })
    }

    /// Parses the value of an S3 checksum header. `None` if it is not the checksum of a whole
    /// object: a composite checksum ends in `-PARTS`.
    #[must_use]
    pub fn from_base64(algorithm: Algorithm, text: &str) -> Option<Self> {
        BASE64_STANDARD.decode(text.trim()).ok().and_then(|value| Self::new(algorithm, value))
    }

    /// Returns the value in base64, as in S3 headers.
    #[must_use]
    pub fn to_base64(&self) -> String {
        BASE64_STANDARD.encode(&self.value)
    }

    /// Returns the value in hex, as `sha256sum` prints it.
    #[must_use]
    pub fn to_hex(&self) -> String {
        hex::encode(&self.value)
    }

    /// Returns the checksum of two adjacent pieces together: of this piece and of `next`, which has
    /// `next_len` bytes. `None` if the algorithm is sequential, or if the two algorithms differ.
    #[must_use]
    pub fn combine(&self, next: &Self, next_len: u64) -> Option<Self> {
        let polynomial = self.algorithm.polynomial().filter(|_| self.algorithm == next.algorithm)?;
        let both = polynomial.combine(self.as_number(), next.as_number(), next_len);
        Some(Self::from_number(self.algorithm, both))
    }

    /// Checks that the checksum `found` equals this expected one.
    ///
    /// # Errors
    /// [`ChecksumError::Mismatch`], which names `location`.
    pub fn verify(&self, found: &Self, location: &dyn fmt::Display) -> Result<(), ChecksumError> {
        if self == found {
            return Ok(());
        }
        Err(ChecksumError::Mismatch {
            location: location.to_string(),
            algorithm: self.algorithm,
            expected: self.to_hex(),
            found: found.to_hex(),
        })
    }

    fn as_number(&self) -> u64 {
        self.value.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    fn from_number(algorithm: Algorithm, number: u64) -> Self {
        Self { algorithm, value: number.to_be_bytes()[8 - algorithm.value_len()..].to_vec() }
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.name().to_lowercase(), self.to_hex())
    }
}

/// Computes a checksum over bytes as they pass.
#[derive(Clone)]
pub struct Hasher {
    algorithm: Algorithm,
    state: HashState,
}

#[derive(Clone)]
enum HashState {
    Crc(crc_fast::Digest),
    Sha256(sha2::Sha256),
    Sha1(sha1::Sha1),
    Md5(md5::Md5),
}

impl Hasher {
    /// Returns a hasher that has got no bytes yet.
    #[must_use]
    pub fn new(algorithm: Algorithm) -> Self {
        let state = match algorithm {
            Algorithm::Crc64Nvme => HashState::Crc(crc_fast::Digest::new(CrcAlgorithm::Crc64Nvme)),
            Algorithm::Crc32c => HashState::Crc(crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi)),
            Algorithm::Crc32 => HashState::Crc(crc_fast::Digest::new(CrcAlgorithm::Crc32IsoHdlc)),
            Algorithm::Sha256 => HashState::Sha256(sha2::Sha256::new()),
            Algorithm::Sha1 => HashState::Sha1(sha1::Sha1::new()),
            Algorithm::Md5 => HashState::Md5(md5::Md5::new()),
        };
        Self { algorithm, state }
    }

    /// Returns the checksum of `bytes`.
    #[must_use]
    pub fn of(algorithm: Algorithm, bytes: &[u8]) -> Checksum {
        let mut hasher = Self::new(algorithm);
        hasher.update(bytes);
        hasher.finish()
    }

    /// Returns the algorithm.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.state {
            HashState::Crc(crc) => crc.update(bytes),
            HashState::Sha256(sha) => sha.update(bytes),
            HashState::Sha1(sha) => sha.update(bytes),
            HashState::Md5(md5) => md5.update(bytes),
        }
    }

    /// Returns the checksum of all bytes added.
    #[must_use]
    pub fn finish(self) -> Checksum {
        let value = match self.state {
            HashState::Crc(crc) => return Checksum::from_number(self.algorithm, crc.finalize()),
            HashState::Sha256(sha) => sha.finalize().to_vec(),
            HashState::Sha1(sha) => sha.finalize().to_vec(),
            HashState::Md5(md5) => md5.finalize().to_vec(),
        };
        Checksum { algorithm: self.algorithm, value }
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hasher({})", self.algorithm)
    }
}

#[cfg(test)]
mod tests;
