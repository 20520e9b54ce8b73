//! Checksums over whole objects and parts: named, computed, combined, compared.

/// A checksum algorithm the stores and the command line know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// CRC-64/NVME, S3's default: combinable out of order.
    Crc64Nvme,
    /// CRC-32C: combinable out of order.
    Crc32c,
    /// CRC-32 (ISO-HDLC): combinable out of order.
    Crc32,
    /// SHA-256: sequential only.
    Sha256,
    /// SHA-1: sequential only.
    Sha1,
    /// MD5: sequential only, and only ever where the user names it; an `ETag` is not one.
    Md5,
}

/// A full-object checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// How it was computed.
    pub algorithm: Algorithm,
    /// Its bytes, big-endian.
    pub value: Vec<u8>,
}

/// Computes a checksum over bytes as they pass.
#[derive(Clone)]
pub struct Hasher {}
