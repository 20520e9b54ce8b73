//! Parameters of reads ([`Get`]) and listings ([`ListOptions`]).

use std::num::NonZeroUsize;

use firstbyte_listing::EntryOrder;
use firstbyte_location::{ByteRange, Entry, EntryKind, Version};
use firstbyte_pacing::Throttle;

use crate::cancel::Cancel;
use crate::object::listing_key;

/// Parameters of a read.
#[derive(Clone, Debug, Default)]
pub struct Get {
    /// The range to read; `None` for the whole object. It ends at the end of the object.
    pub range: Option<ByteRange>,
    /// The required version, which every response is compared with.
    pub version: Option<Version>,
    /// Ends the request from another thread.
    pub cancel: Cancel,
    /// Whether to request the full-object checksum too (`x-amz-checksum-mode`).
    pub checksum: bool,
    /// The treatment of the length that a file system or an SFTP server states for a file.
    pub length: StatedLength,
    /// The rate limit of the body. Reads of the body wait for it.
    pub throttle: Throttle,
    /// Checksums within the body.
    pub integrity: Integrity,
}

/// Checksums within the body of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Integrity {
    /// No checksums.
    #[default]
    None,
    /// A checksum for each block. Gateways send them.
    Blocks,
}

/// The treatment of the length that a file system or an SFTP server states for a file. The length
/// of pseudo files, such as those in `/proc` and `/sys`, and on some network mounts is not that of
/// the content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatedLength {
    /// The length is checked at the end. If the content ends elsewhere, the error is
    /// [`FalseLength`](crate::Error::FalseLength).
    #[default]
    Checked,
    /// The length is ignored: the content ends where reading ends, and the body has no known
    /// length.
    Ignored,
}

/// The treatment of symbolic links below a local directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// Links are listed as their targets.
    #[default]
    Follow,
    /// Links are listed as links.
    Report,
}

/// Whether a recursive listing of a local tree includes directories. Object stores have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Directories {
    /// Only files are listed. Their names contain those of the directories.
    #[default]
    Implied,
    /// Directories are listed too.
    Listed,
}

/// Whether the listing of a prefix includes the object that marks the prefix itself, `PREFIX/`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marker {
    /// The object is omitted, so that no entry has an empty name.
    #[default]
    Omitted,
    /// The object is listed as a file without a name, before all others.
    Listed,
}

/// Whether the listing of a directory includes unfinished copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Partials {
    /// Unfinished copies are omitted, since they are not content.
    #[default]
    Hidden,
    /// Unfinished copies are listed, for a caller that names the entries it omits.
    Listed,
}

/// The treatment of unfinished copies in a directory that is to be removed and holds nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// Unfinished copies are retained, and so is the directory.
    Keep,
    /// Unfinished copies are removed.
    Remove,
}

/// Parameters of a listing.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// True to list everything below the location, false for one level with directories (common
    /// prefixes).
    pub recursive: bool,
    /// Only names with this prefix are listed. S3 filters on the server.
    pub beginning: String,
    /// Only names after this one in byte order are listed. S3 filters on the server.
    pub start_after: Option<String>,
    /// The order of entries: unsorted, which is fastest, or by the bytes of whole names. A
    /// directory sorts as `NAME/`.
    pub order: EntryOrder,
    /// The treatment of links below a local directory.
    pub links: Links,
    /// Whether a recursive listing of a local tree includes directories.
    pub directories: Directories,
    /// Whether the listing of a prefix of an object store includes the object that marks the
    /// prefix.
    pub marker: Marker,
    /// Whether the listing of a directory includes unfinished copies.
    pub partials: Partials,
    /// The most concurrent requests of a large S3 listing; `None` to choose by measured speed.
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
    /// Returns true if a name is to be listed, for stores that do not filter.
    pub(crate) fn takes(&self, name: &[u8]) -> bool {
        name.starts_with(self.beginning.as_bytes())
            && self.start_after.as_deref().is_none_or(|after| name > after.as_bytes())
    }

    /// Returns true if an entry is to be listed, or is a directory that may contain such an entry.
    pub(crate) fn takes_entry(&self, entry: &Entry) -> bool {
        let key = listing_key(entry);
        let after = self.start_after.as_deref().unwrap_or_default().as_bytes();
        let holds_later = entry.kind == EntryKind::Directory && after.starts_with(&key);
        key.starts_with(self.beginning.as_bytes())
            && (self.start_after.is_none() || key.as_slice() > after || holds_later)
    }
}
