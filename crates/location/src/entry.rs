//! An entry of a listing: the same type for local directories and all stores.

use std::time::SystemTime;

use crate::version::Version;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// An object or a regular file.
    File,
    /// A directory, or a common prefix of keys.
    Directory,
    /// A symbolic link, not followed.
    Symlink,
    /// A device, socket or pipe.
    Other,
}

impl EntryKind {
    /// The name in machine-readable output: `file`, `directory`, `symlink` or `other`.
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

/// An object, file or directory below a listed location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Path relative to the listed location, with `/` between its parts. Raw bytes, because file
    /// names need not be UTF-8.
    pub name: Vec<u8>,
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Length in bytes, if the listing includes it.
    pub size: Option<u64>,
    /// Last modification, if the listing includes it.
    pub modified: Option<SystemTime>,
    /// Change time of a local file's inode, if the listing includes it. Unlike `modified`, programs
    /// cannot set it back.
    pub changed: Option<SystemTime>,
    /// `ETag` with its quotes, if the listing includes it.
    pub etag: Option<String>,
    /// S3 storage class; `None` for the standard one.
    pub storage_class: Option<String>,
    /// The expected version, if the entry comes from a manifest. A listing gives an `ETag` at most.
    pub version: Option<Box<Version>>,
}

impl Entry {
    /// Makes an entry of which only name and kind are known.
    #[must_use]
    pub fn named(name: Vec<u8>, kind: EntryKind) -> Self {
        Self {
            name,
            kind,
            size: None,
            modified: None,
            changed: None,
            etag: None,
            storage_class: None,
            version: None,
        }
    }

    /// Makes an object's entry of which only the expected version is known. Its name is empty.
    #[must_use]
    pub fn of_version(version: &Version) -> Self {
        let entry = Self::named(Vec::new(), EntryKind::File);
        Self { size: version.size, version: Some(Box::new(version.clone())), ..entry }
    }
}
