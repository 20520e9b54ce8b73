//! Writing an object: what is sent, under which condition, and what the store answered.

use std::fs::File;
use std::time::SystemTime;

use firstbyte_location::{ByteRange, Location, Version};
use firstbyte_pacing::Throttle;

use crate::{Cancel, Checksum, Metadata};

/// The bytes of a write.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// Bytes in memory.
    Bytes(&'a [u8]),
    /// A range of a file; sent by sendfile on plain TCP.
    File(&'a File, ByteRange),
}

/// When a write may take effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Precondition {
    /// Always: the destination is replaced.
    #[default]
    None,
    /// Only if nothing is there (`If-None-Match: *`).
    Absent,
    /// Only over this version (`If-Match`).
    Matches(Version),
}

/// How an object is written.
#[derive(Clone, Debug, Default)]
pub struct PutOptions {
    /// What travels with it.
    pub metadata: Metadata,
    /// Condition.
    pub precondition: Precondition,
    /// How its bytes go out.
    pub sending: Sending,
}

/// How the bytes of a request go out.
#[derive(Clone, Debug, Default)]
pub struct Sending {
    /// Ends it from another thread.
    pub cancel: Cancel,
    /// What limits its rate. A piece is sent when it is granted, not before.
    pub throttle: Throttle,
}

impl From<Cancel> for Sending {
    fn from(cancel: Cancel) -> Self {
        Self { cancel, throttle: Throttle::default() }
    }
}

/// What the store says it now holds.
#[derive(Clone, Debug)]
pub struct Written {
    /// The new version.
    pub version: Version,
    /// The checksum the store verified the bytes against, full-object. `None`: it verified the length only.
    pub verified: Option<Checksum>,
}

/// A multipart upload under way.
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
    /// CRC-64/NVME of its bytes, where it was sent along and kept.
    pub checksum: Option<Checksum>,
}

/// A multipart upload that somebody began and neither completed nor aborted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleUpload {
    /// The upload.
    pub upload: Upload,
    /// When it began.
    pub initiated: Option<SystemTime>,
}
