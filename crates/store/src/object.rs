//! The description of an object: its length, version, time and metadata.

use std::collections::BTreeMap;
use std::time::SystemTime;

use firstbyte_location::{Checksum, Entry, Kind, Version};

/// Metadata that is copied with an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// `Content-Encoding`, `Content-Language`, `Content-Disposition`, `Cache-Control`, by header
    /// name in lower case.
    pub headers: BTreeMap<String, String>,
    /// User metadata (`x-amz-meta-NAME`), names in lower case, without the prefix; `mtime` is kept
    /// in `modified`.
    pub user: BTreeMap<String, String>,
    /// The file's own modification time. In S3 it is stored as in rclone: `x-amz-meta-mtime`,
    /// seconds since 1970 with a fraction (<https://rclone.org/s3/#modification-times-and-hashes>).
    pub modified: Option<SystemTime>,
    /// Permission bits (of 0777) of a file.
    pub mode: Option<u32>,
    /// User and group that own a local file. Not copied.
    pub owner: Option<(u32, u32)>,
}

/// The description of an object at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// File or directory (a prefix with keys under it counts as a directory).
    pub kind: Kind,
    /// The version of its content.
    pub version: Version,
    /// The modification time to compare and to restore: `metadata.modified` if set, else the
    /// store's own.
    pub modified: Option<SystemTime>,
    /// Its metadata.
    pub metadata: Metadata,
    /// A checksum of the whole object, if the store has one. Never an `ETag`.
    pub checksum: Option<Checksum>,
    /// Whether the store serves ranges. `None` if unknown: a range must be tried.
    pub ranges: Option<bool>,
    /// S3 storage class, if known.
    pub storage_class: Option<String>,
}

impl Stat {
    /// A bucket or prefix, which has no content and no version.
    pub(crate) fn directory() -> Self {
        Self {
            kind: Kind::Directory,
            version: Version::default(),
            modified: None,
            metadata: Metadata::default(),
            checksum: None,
            ranges: None,
            storage_class: None,
        }
    }

    /// The time at which the content was written, by the clock of its store: the inode change time
    /// of a file. Unlike [`modified`](Self::modified) it is never copied.
    #[must_use]
    pub fn written(&self) -> Option<SystemTime> {
        match self.version.file {
            Some(file) => {
                let nanos = u64::try_from(file.changed_ns).ok()?;
                SystemTime::UNIX_EPOCH.checked_add(std::time::Duration::from_nanos(nanos))
            }
            None => self.version.last_modified.as_deref().and_then(crate::dates::http_date),
        }
    }

    /// Length in bytes, if known.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        self.version.size
    }
}

/// One version of an object, or a common prefix of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectVersion {
    /// The object as it was then; nothing but name and time for a delete marker.
    pub entry: Entry,
    /// The id of the version: `null` if the bucket had no versions then. `None` for a common
    /// prefix.
    pub id: Option<String>,
    /// Whether reads of the key find this one.
    pub is_latest: bool,
    /// Whether it stands for a deletion.
    pub is_delete_marker: bool,
}

/// The sort key of an entry in a listing: its name, with a `/` after a directory's, so that it
/// sorts like its contents.
pub(crate) fn listing_key(entry: &Entry) -> Vec<u8> {
    in_listing_order(entry).collect()
}

/// The bytes of [`listing_key`], without an allocation.
pub(crate) fn in_listing_order(entry: &Entry) -> impl Iterator<Item = u8> + '_ {
    entry.name.iter().copied().chain((entry.kind == Kind::Directory).then_some(b'/'))
}
