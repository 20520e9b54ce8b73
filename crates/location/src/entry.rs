//! Defines an entry of a listing. Local directories and all stores use the same type.

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
    /// Returns the name in machine-readable output: `file`, `directory`, `symlink` or `other`.
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
    /// Path relative to the listed location, with `/` between its components. It is raw bytes,
    /// because file names need not be UTF-8.
    pub name: Vec<u8>,
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Length in bytes, if the listing includes it.
    pub size: Option<u64>,
    /// Time of the last modification, if the listing includes it.
    pub modified: Option<SystemTime>,
    /// Change time of a local file's inode, if the listing includes it. Unlike `modified`, programs
    /// cannot set it to an earlier time.
    pub changed: Option<SystemTime>,
    /// `ETag` with its quotes, if the listing includes the tag.
    pub etag: Option<String>,
    /// S3 storage class. `None` for the standard class.
    pub storage_class: Option<String>,
    /// The expected version, if the entry comes from a manifest. The entries of a listing have only
    /// an `ETag`, if any.
    pub version: Option<Box<Version>>,
}

impl Entry {
    /// Returns an entry of which only the name and the kind are known.
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

    /// Returns the entry of an object of which only the expected version is known. The name is
    /// empty.
    #[must_use]
    pub fn of_version(version: &Version) -> Self {
        let entry = Self::named(Vec::new(), EntryKind::File);
        Self { size: version.size, version: Some(Box::new(version.clone())), ..entry }
    }
}
