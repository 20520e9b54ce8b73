//! Defines the parameters of reads ([`Get`]) and of listings ([`ListOptions`]).

use std::num::NonZeroUsize;

use firstbyte_listing::{EntryOrder, WalkBounds};
use firstbyte_location::{ByteRange, Entry, EntryKind, Location, Version};
use firstbyte_pacing::Throttle;

use crate::cancel::Cancel;
use crate::object::listing_key;

/// Parameters of a read.
#[derive(Clone, Debug, Default)]
pub struct Get {
    /// The range to read; `None` for the whole object. A range may exceed the object: it is cut at
    /// the object's end.
    pub range: Option<ByteRange>,
    /// The required version. Every response is compared with it.
    pub version: Option<Version>,
    /// Handle by which another thread can end the request.
    pub cancel: Cancel,
    /// Whether to request the checksum of the whole object too (`x-amz-checksum-mode`).
    pub checksum: bool,
    /// Treatment of the length that a file system or an SFTP server states for a file.
    pub length: StatedLength,
    /// The rate limit of the body. Reads of the body wait until it allows them.
    pub throttle: Throttle,
    /// The checksums within the body.
    pub integrity: Integrity,
}

/// Checksums within the body of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Integrity {
    /// No checksums.
    #[default]
    None,
    /// A checksum for each block, as gateways send.
    Blocks,
}

/// Treatment of the length that a file system or an SFTP server states for a file. For pseudo
/// files, such as those in `/proc` and `/sys`, and on some network mounts, the stated length is not
/// the length of the content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatedLength {
    /// Check the length at the end. If the content ends elsewhere, the error is
    /// [`FalseLength`](crate::Error::FalseLength).
    #[default]
    Checked,
    /// Ignore the length. The content ends where reading ends, and the body has no known length.
    Ignored,
}

/// How symbolic links below a local directory, or on a host with SSH, are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// Links are followed to their targets. A link without a target is an error of its name.
    Follow,
    /// Links are followed to their targets. A link without a target is listed as a link, and a
    /// local name that was deleted meanwhile is left out.
    #[default]
    FollowExisting,
    /// Links are listed as links.
    Report,
}

/// Whether a recursive listing of a local tree includes directories. Object stores have no
/// directories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Directories {
    /// Only files are listed. Their names imply the directories.
    #[default]
    Implied,
    /// Directories are listed too.
    Listed,
}

/// Whether a listing includes the empty blobs with which Azure and its programs mark directories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DirectoryBlobs {
    /// They are omitted, because they are no files: names below them imply the directories.
    #[default]
    Omitted,
    /// They are listed as files, for callers that delete everything.
    Listed,
}

/// Whether the listing of a prefix includes `PREFIX/`, the object that marks the prefix itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marker {
    /// The object is omitted: every entry then has a name.
    #[default]
    Omitted,
    /// The object is listed first, as a file with an empty name.
    Listed,
}

/// Whether the listing of a directory includes unfinished copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Partials {
    /// Unfinished copies are omitted, because they are not content.
    #[default]
    Hidden,
    /// Unfinished copies are listed, for callers that report which entries they omit.
    Listed,
}

/// Treatment of unfinished copies in a directory that is to be removed and contains no other
/// names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// Keep them, and the directory.
    Keep,
    /// Remove them.
    Remove,
}

/// The destination of a run that lists its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedTo {
    /// The location to which each name is joined.
    pub destination: Location,
    /// Whether the run deletes names there.
    pub deletes: bool,
}

/// Parameters of a listing.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// True to list everything below the location. False to list one level, with directories
    /// (common prefixes).
    pub recursive: bool,
    /// Only names with this prefix are listed. S3 filters on the server.
    pub beginning: String,
    /// Only names that come after this name in byte order are listed. S3 filters on the server.
    pub start_after: Option<String>,
    /// The order of the entries: unsorted, which is fastest, or by the bytes of the whole name. A
    /// directory is sorted as `NAME/`.
    pub order: EntryOrder,
    /// How links are listed.
    pub links: Links,
    /// The destination to which a run copies the names. On a host with SSH, a link or directory
    /// that leads to the destination is an error of its name. For local directories, `bounds` does
    /// this.
    pub copied_to: Option<CopiedTo>,
    /// The bounds of the listing of directories. A store that lists keys ignores them.
    pub bounds: WalkBounds,
    /// Whether a recursive listing of a local tree includes directories.
    pub directories: Directories,
    /// Whether a listing includes the blobs that mark directories in Azure.
    pub directory_blobs: DirectoryBlobs,
    /// Whether the listing of a prefix in an object store includes the object that marks the
    /// prefix.
    pub marker: Marker,
    /// Whether the listing of a directory includes unfinished copies.
    pub partials: Partials,
    /// Maximum number of concurrent requests of a large S3 listing. `None`: chosen by the measured
    /// speed.
    pub requests: Option<NonZeroUsize>,
}

/// One page of a listing.
#[derive(Clone, Debug, Default)]
pub struct ListedPage {
    /// The entries, in listing order.
    pub entries: Vec<Entry>,
    /// True if no entry follows.
    pub is_last: bool,
}

impl ListOptions {
    /// Returns true if a name belongs in the listing. Called for stores that do not filter by
    /// themselves.
    pub(crate) fn includes(&self, name: &[u8]) -> bool {
        name.starts_with(self.beginning.as_bytes())
            && self.start_after.as_deref().is_none_or(|after| name > after.as_bytes())
    }

    /// Returns true if an entry belongs in the listing, or is a directory that may contain such an
    /// entry.
    pub(crate) fn includes_entry(&self, entry: &Entry) -> bool {
        let key = listing_key(entry);
        let after = self.start_after.as_deref().unwrap_or_default().as_bytes();
        let holds_later = entry.kind == EntryKind::Directory && after.starts_with(&key);
        key.starts_with(self.beginning.as_bytes())
            && (self.start_after.is_none() || key.as_slice() > after || holds_later)
    }
}
