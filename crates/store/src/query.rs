//! Parameters of reads ([`Get`]) and listings ([`ListOptions`]).

use std::num::NonZeroUsize;

use firstbyte_listing::Order;
use firstbyte_location::{ByteRange, Entry, Kind, Version};
use firstbyte_pacing::Throttle;

use crate::cancel::Cancel;
use crate::object::listing_key;

/// Parameters of a read.
#[derive(Clone, Debug, Default)]
pub struct Get {
    /// The range to read; `None` for the whole object. It is cut at the end of the object.
    pub range: Option<ByteRange>,
    /// The required version, compared with every response.
    pub version: Option<Version>,
    /// Ends the request from another thread.
    pub cancel: Cancel,
    /// Request the full-object checksum too (`x-amz-checksum-mode`).
    pub checksum: bool,
    /// The treatment of the length that a file system or a host states for a file.
    pub length: StatedLength,
    /// The rate limit of the body. Reads of the body wait for it.
    pub throttle: Throttle,
    /// Checksums within the body.
    pub integrity: Integrity,
}

/// Checksums within the body of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Integrity {
    /// None.
    #[default]
    None,
    /// One for each block, which a gateway sends.
    Blocks,
}

/// The treatment of the length that a file system or a host states for a file. Pseudo files such as
/// those in `/proc` and `/sys`, and some network mounts, have other content than they state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatedLength {
    /// A claim, checked at the end: content that ends elsewhere is
    /// [`FalseLength`](crate::Error::FalseLength).
    #[default]
    Checked,
    /// Ignored: the content ends where reading ends, and the body has no known length.
    Ignored,
}

/// The treatment of symbolic links below a local directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// As their targets.
    #[default]
    Follow,
    /// As links.
    Report,
}

/// Whether a recursive listing of a local tree includes directories. Object stores have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Directories {
    /// Only files, whose names contain those of directories.
    #[default]
    Implied,
    /// Directories too.
    Listed,
}

/// Whether the listing of a prefix includes the object that marks the prefix itself, `PREFIX/`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marker {
    /// No: nothing in the listing has an empty name.
    #[default]
    Omitted,
    /// Yes, as a file without a name, before all others.
    Listed,
}

/// Whether the listing of a directory includes unfinished copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Partials {
    /// No: they are no content.
    #[default]
    Hidden,
    /// Yes, for a caller that names what it leaves out.
    Listed,
}

/// What becomes of unfinished copies in a directory that is removed and holds nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// They stay, and with them the directory.
    Keep,
    /// They are removed.
    Remove,
}

/// Parameters of a listing.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Everything below the location, or one level with directories (common prefixes).
    pub recursive: bool,
    /// Only names that begin with this. S3 filters on the server.
    pub beginning: String,
    /// Only names after this one in byte order. S3 filters on the server.
    pub start_after: Option<String>,
    /// The order of entries: unsorted, which is fastest, or by the bytes of whole names, a
    /// directory counting as `NAME/`.
    pub order: Order,
    /// The treatment of links below a local directory.
    pub links: Links,
    /// Whether a recursive listing of a local tree includes directories.
    pub directories: Directories,
    /// Whether the listing of a prefix of an object store includes the prefix's own object.
    pub marker: Marker,
    /// Whether the listing of a directory includes unfinished copies.
    pub partials: Partials,
    /// Most concurrent requests of a large S3 listing; `None`: chosen by measured speed.
    pub requests: Option<NonZeroUsize>,
}

/// One page of a listing.
#[derive(Clone, Debug, Default)]
pub struct ListedPage {
    /// In listing order.
    pub entries: Vec<Entry>,
    /// No entry follows.
    pub is_last: bool,
}

impl ListOptions {
    /// True if a name is to be listed, for stores that do not filter.
    pub(crate) fn takes(&self, name: &[u8]) -> bool {
        name.starts_with(self.beginning.as_bytes())
            && self.start_after.as_deref().is_none_or(|after| name > after.as_bytes())
    }

    /// True if an entry is to be listed, or is a directory that holds one.
    pub(crate) fn takes_entry(&self, entry: &Entry) -> bool {
        let key = listing_key(entry);
        let after = self.start_after.as_deref().unwrap_or_default().as_bytes();
        let holds_later = entry.kind == Kind::Directory && after.starts_with(&key);
        key.starts_with(self.beginning.as_bytes())
            && (self.start_after.is_none() || key.as_slice() > after || holds_later)
    }
}
