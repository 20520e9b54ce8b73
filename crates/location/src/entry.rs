//! One line of a listing, whatever was listed.

use std::time::SystemTime;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An object or a regular file.
    File,
    /// A directory, or a common prefix of keys.
    Directory,
    /// A symbolic link, not followed.
    Symlink,
    /// A device, socket or pipe.
    Other,
}

impl Kind {
    /// What programs read it as: `file`, `directory`, `symlink` or `other`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Symlink => "symlink",
            Self::Other => "other",
        }
    }
}

/// One name found under a listed location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Path from the listed location, `/` between its parts, as raw bytes: any legal name survives.
    pub name: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Length in bytes, where the listing tells it.
    pub size: Option<u64>,
    /// Last modification, where the listing tells it.
    pub modified: Option<SystemTime>,
    /// `ETag` with its quotes, where the listing tells it.
    pub etag: Option<String>,
    /// S3 storage class, where it is not the standard one.
    pub storage_class: Option<String>,
}
