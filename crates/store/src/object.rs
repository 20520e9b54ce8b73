//! What a store tells about an object.

use std::collections::BTreeMap;
use std::time::SystemTime;

use firstbyte_location::{Entry, Kind, Version};

use crate::Checksum;

/// What travels with an object beside its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// `Content-Encoding`, `Content-Language`, `Content-Disposition`, `Cache-Control`, by header name in lower case.
    pub headers: BTreeMap<String, String>,
    /// User metadata (`x-amz-meta-NAME`), names in lower case, without the prefix; `mtime` is kept in `modified`.
    pub user: BTreeMap<String, String>,
    /// The file's own modification time. S3 keeps it as rclone does: `x-amz-meta-mtime`, seconds since 1970 with a
    /// fraction (<https://rclone.org/s3/#modification-times-and-hashes>).
    pub modified: Option<SystemTime>,
    /// Permission bits (of 0777), for what comes from a file.
    pub mode: Option<u32>,
}

/// An object as its store describes it at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// File or directory (a prefix with keys under it counts as a directory).
    pub kind: Kind,
    /// What pins its content.
    pub version: Version,
    /// The modification time to compare and to restore: `metadata.modified` where it is set, else the store's own.
    pub modified: Option<SystemTime>,
    /// What travels with it.
    pub metadata: Metadata,
    /// A checksum over the whole object, where the store has one. Never an `ETag`.
    pub checksum: Option<Checksum>,
    /// Whether the store says it serves ranges. `None`: it has not said, a range must be tried.
    pub ranges: Option<bool>,
    /// S3 storage class, where it is told.
    pub storage_class: Option<String>,
}

impl Stat {
    /// Length in bytes, where the store tells it.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        self.version.size
    }
}

/// The bytes that put an entry at its place in a listing: a directory stands where what is in it would, under `NAME/`.
pub(crate) fn in_listing_order(entry: &Entry) -> impl Iterator<Item = u8> + '_ {
    entry.name.iter().copied().chain((entry.kind == Kind::Directory).then_some(b'/'))
}
