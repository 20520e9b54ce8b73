//! Changes a directory's entries from its page: makes folders, renames, deletes and restores.
//!
//! Existing entries are named as in a URL, percent-encoded, so that every name on disk is possible.
//! No entry is replaced: if two entries would get the same name, the second is refused. Deleted
//! entries go to the trash (`object::trash`). The code is blocking; [`super::changes`] does the
//! HTTP.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;

use firstbyte_location::is_full;
use http::StatusCode;
use rustix::fs::RenameFlags;

use crate::config::Buckets;
use crate::http::condition::Condition;
use crate::object::metadata::ObjectMetadata;
use crate::object::publish;
use crate::object::root::ServedRoot;
use crate::object::{staging, trash};
use crate::page::html::visible;
use crate::path::EntryPath;

/// The reason for which a change fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The name is not valid.
    #[error("\"{0}\" cannot be a name here; choose another")]
    Name(String),
    /// Another entry has the name.
    #[error("\"{0}\" exists already; choose another name, or rename or delete that one first")]
    Exists(String),
    /// The entry does not exist.
    #[error("\"{0}\" is not there any more; reload the page")]
    Missing(String),
    /// The entry cannot be restored: no deleted entry of this directory has the id.
    #[error("it cannot be brought back: it has expired, or the folder that it was in is gone")]
    Expired,
    /// The entry is a mount point, or on another file system than the bucket's trash.
    #[error("\"{0}\" is on another file system than the trash; delete it without the page")]
    Elsewhere(String),
    /// A system call fails.
    #[error("{place}: {cause}")]
    Io { place: String, cause: io::Error },
}

/// A result with this module's error.
pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Converts the error of a change of the entry `name`.
    fn of(name: &[u8], error: publish::Error) -> Self {
        let name = visible(name);
        match error {
            publish::Error::Unmet(_) => Self::Exists(name),
            publish::Error::Io(cause) => match cause.kind() {
                io::ErrorKind::InvalidFilename => Self::Name(name),
                io::ErrorKind::NotFound => Self::Missing(name),
                io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => Self::Exists(name),
                io::ErrorKind::CrossesDevices | io::ErrorKind::ResourceBusy => Self::Elsewhere(name),
                _ => Self::Io { place: name, cause },
            },
        }
    }

    /// Returns the HTTP status, and the error code for programs.
    pub(crate) fn code(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Name(_) => (StatusCode::BAD_REQUEST, "name"),
            Self::Exists(_) => (StatusCode::CONFLICT, "exists"),
            Self::Missing(_) => (StatusCode::NOT_FOUND, "missing"),
            Self::Expired => (StatusCode::NOT_FOUND, "expired"),
            Self::Elsewhere(_) => (StatusCode::CONFLICT, "elsewhere"),
            Self::Io { cause, .. } => match cause.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    (StatusCode::FORBIDDEN, "denied")
                }
                _ if is_full(cause) => (StatusCode::INSUFFICIENT_STORAGE, "space"),
                io::ErrorKind::InvalidInput => (StatusCode::CONFLICT, "directory"),
                _ => (StatusCode::INTERNAL_SERVER_ERROR, "io"),
            },
        }
    }
}

/// A directory whose entries are changed. `path` is fenced by the right to write.
#[derive(Clone, Debug)]
pub(crate) struct EditedDirectory {
    pub(crate) root: ServedRoot,
    pub(crate) buckets: Buckets,
    pub(crate) path: EntryPath,
}

impl EditedDirectory {
    pub(crate) fn make(&self, name: &str) -> Result<()> {
        let folder = self.entry(name.as_bytes())?;
        let failed = |error| Error::of(name.as_bytes(), error);
        let absent = Condition::absent();
        // A folder made on the page stays when an S3 client deletes the last file in it.
        let describe = |directory: &File| ObjectMetadata::default().write_directory(directory);
        publish::publish_directory(&self.root, &self.path, &folder, &absent, describe).map_err(failed)?;
        Ok(())
    }

    pub(crate) fn rename(&self, entry: &str, name: &str) -> Result<()> {
        let entry = self.existing_path(entry)?;
        let to = self.entry(name.as_bytes())?;
        let old = entry.name().unwrap_or_default().as_bytes();
        let parent = self
            .root
            .open_directory(&self.path)
            .map_err(|cause| Error::of(old, publish::Error::Io(cause)))?;
        let new = to.name().unwrap_or_default();
        publish::move_entry(&self.root, &entry, &parent, new, RenameFlags::NOREPLACE).map_err(|error| {
            match error {
                publish::Error::Unmet(_) => Error::Exists(name.to_owned()),
                error => Error::of(old, error),
            }
        })
    }

    /// Moves `entry` into the trash of its bucket. Returns its id there.
    pub(crate) fn delete(&self, entry: &str) -> Result<String> {
        let entry = self.existing_path(entry)?;
        let name = entry.name().unwrap_or_default().as_bytes();
        trash::put(&self.root, &self.bucket(), &entry).map_err(|error| Error::of(name, error))
    }

    /// Removes `entry` with all its content, without the trash.
    pub(crate) fn delete_forever(&self, entry: &str) -> Result<()> {
        let entry = self.existing_path(entry)?;
        let name = entry.name().unwrap_or_default();
        publish::remove_all(&self.root, &entry).map_err(|error| Error::of(name.as_bytes(), error))
    }

    /// Restores an entry that was deleted from this directory. Returns its name as in a URL.
    pub(crate) fn restore(&self, id: &str) -> Result<String> {
        match trash::restore(&self.root, &self.bucket(), &self.path, id) {
            Ok(name) => Ok(crate::page::html::url_path(&name)),
            Err(publish::Error::Io(error)) if error.kind() == io::ErrorKind::NotFound => Err(Error::Expired),
            Err(publish::Error::Unmet(_)) => Err(Error::Exists("its name".to_owned())),
            Err(error) => Err(Error::of(id.as_bytes(), error)),
        }
    }

    fn bucket(&self) -> EntryPath {
        staging::bucket_of(&self.root, &self.buckets, &self.path)
    }

    /// Returns the path of the entry `name`, which must be one plain component and not hidden.
    fn entry(&self, name: &[u8]) -> Result<EntryPath> {
        match EntryPath::parse(name) {
            Ok(path) if path.as_bytes() == name && !path.is_root() && !name.contains(&b'/') => {
                Ok(self.path.join(OsStr::from_bytes(name)))
            }
            _ => Err(Error::Name(visible(name))),
        }
    }

    fn existing_path(&self, entry: &str) -> Result<EntryPath> {
        let name: Vec<u8> = percent_encoding::percent_decode_str(entry).collect();
        self.entry(&name)
    }
}
