//! Describes an object: its length, version, time and metadata.

use std::collections::BTreeMap;
use std::time::SystemTime;

use firstbyte_location::{Checksum, Entry, EntryKind, Version};

/// Metadata that is copied with an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The content type (`Content-Type`).
    pub content_type: Option<String>,
    /// The headers `Content-Encoding`, `Content-Language`, `Content-Disposition`, `Cache-Control`
    /// and `Expires`, by name in lower case.
    pub headers: BTreeMap<String, String>,
    /// User metadata (`x-amz-meta-NAME`) by name in lower case, without the prefix. `mtime` is
    /// stored in `modified` instead.
    pub user: BTreeMap<String, String>,
    /// The modification time of the original file. In S3, it is stored as by rclone: in
    /// `x-amz-meta-mtime`, as seconds since 1970 with a fraction
    /// (<https://rclone.org/s3/#modification-times-and-hashes>).
    pub modified: Option<SystemTime>,
    /// Permission bits of a file (of 0777).
    pub mode: Option<u32>,
    /// User and group that own a local file. A copy does not set them.
    pub owner: Option<(u32, u32)>,
}

/// The description of an object at one point in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// File or directory. A prefix with keys below it counts as a directory.
    pub kind: EntryKind,
    /// The version of the content.
    pub version: Version,
    /// The modification time that is compared and restored: `metadata.modified` if it is set,
    /// otherwise the store's own.
    pub modified: Option<SystemTime>,
    /// The object's metadata.
    pub metadata: Metadata,
    /// A checksum of the whole object, if the store has one. Never an `ETag`.
    pub checksum: Option<Checksum>,
    /// Whether the store serves ranges. `None` if this is unknown: then a range must be tried.
    pub ranges: Option<bool>,
    /// S3 storage class, if known.
    pub storage_class: Option<String>,
    /// The number of S3 tags, if the store states it.
    pub tag_count: Option<u32>,
}

impl Stat {
    /// Returns the description of a bucket or prefix, which has no content and no version.
    pub(crate) fn directory() -> Self {
        Self {
            kind: EntryKind::Directory,
            version: Version::default(),
            modified: None,
            metadata: Metadata::default(),
            checksum: None,
            ranges: None,
            storage_class: None,
            tag_count: None,
        }
    }

    /// Returns the time at which the content was written, by the clock of the store. For a file,
    /// this is the inode change time. Unlike [`modified`](Self::modified), it is never copied.
    #[must_use]
    pub fn written(&self) -> Option<SystemTime> {
        match self.version.file {
            Some(file) => {
                let nanos = u64::try_from(file.changed_ns).ok()?;
                SystemTime::UNIX_EPOCH.checked_add(std::time::Duration::from_nanos(nanos))
            }
            None => self.version.last_modified.as_deref().and_then(crate::dates::parse_http_date),
        }
    }

    /// Returns the length in bytes, if it is known.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        self.version.size
    }
}

/// One version of an object, or a common prefix of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectVersion {
    /// The object in this version. For a delete marker, it has only a name and a time.
    pub entry: Entry,
    /// The id of the version: `null` if the object was written without versioning. `None` for a
    /// common prefix.
    pub id: Option<String>,
    /// True for the current version, which is the one that reads of the key return.
    pub is_latest: bool,
    /// True for a delete marker, which records a deletion.
    pub is_delete_marker: bool,
}

/// Returns the directory of a common prefix, from its part after the prefix of the listing. Returns
/// `None` for the listing's own prefix, which is not below itself, although some servers list it
/// (<https://github.com/MathieuLoutre/mock-aws-s3/issues/92>,
/// <https://github.com/noobaa/noobaa-core/issues/7281>, as of 28 November 2026).
pub(crate) fn common_prefix(mut name: Vec<u8>) -> Option<Entry> {
    // `a//b` has a directory named `/` below `a/`.
    if name.len() > 1 && name.ends_with(b"/") {
        name.pop();
    }
    (!name.is_empty()).then(|| Entry::named(name, EntryKind::Directory))
}

/// Returns the sort key of an entry in a listing: its name. A directory's name is followed by `/`,
/// so that it sorts like its contents.
pub(crate) fn listing_key(entry: &Entry) -> Vec<u8> {
    in_listing_order(entry).collect()
}

/// Returns the bytes of [`listing_key`] without an allocation.
pub(crate) fn in_listing_order(entry: &Entry) -> impl Iterator<Item = u8> + '_ {
    entry.name.iter().copied().chain((entry.kind == EntryKind::Directory).then_some(b'/'))
}
