//! Parameters and results of writes: payloads, preconditions, uploads and their parts.

use std::fs::File;
use std::time::SystemTime;

use firstbyte_location::{ByteRange, Location, Version};
use firstbyte_pacing::Throttle;

use crate::{Cancel, Checksum, Metadata};

/// The bytes to write.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// Bytes in memory.
    Bytes(&'a [u8]),
    /// A range of a file; sent by sendfile on plain TCP.
    File(&'a File, ByteRange),
}

impl Payload<'_> {
    /// Length in bytes.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File(_, range) => range.len(),
        }
    }
}

/// The condition of a write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Precondition {
    /// None: replaces the destination.
    #[default]
    None,
    /// Only if the destination does not exist (`If-None-Match: *`).
    Absent,
    /// Only if the destination has this version (`If-Match`).
    Matches(Version),
}

/// Options of a write.
#[derive(Clone, Debug, Default)]
pub struct PutOptions {
    /// The metadata.
    pub metadata: Metadata,
    /// The condition.
    pub precondition: Precondition,
    /// The way in which the bytes are sent.
    pub sending: Sending,
}

/// Parameters for sending the bytes of a request.
#[derive(Clone, Debug, Default)]
pub struct Sending {
    /// Ends the request from another thread.
    pub cancel: Cancel,
    /// The rate limit. A piece is sent only after it was granted.
    pub throttle: Throttle,
}

impl From<Cancel> for Sending {
    fn from(cancel: Cancel) -> Self {
        Self { cancel, throttle: Throttle::default() }
    }
}

/// The result of a write.
#[derive(Clone, Debug)]
pub struct Written {
    /// The new version.
    pub version: Version,
    /// The full-object checksum that the store verified; `None` if it verified the length only.
    pub verified: Option<Checksum>,
}

/// An unfinished multipart upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Destination.
    pub location: Location,
    /// The store's upload id.
    pub id: String,
}

/// A finished part of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// 1 to 10,000.
    pub number: u32,
    /// Length in bytes.
    pub size: u64,
    /// The store's `ETag` for it, with quotes.
    pub etag: String,
    /// CRC-64/NVME of its bytes, if it was sent and the store keeps it.
    pub checksum: Option<Checksum>,
}

/// A multipart upload in a listing, neither completed nor aborted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleUpload {
    /// The upload.
    pub upload: Upload,
    /// The time at which it began.
    pub initiated: Option<SystemTime>,
}
