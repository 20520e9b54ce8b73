//! Defines the errors of a listing. An error at one entry is reported together with the entries,
//! and the listing continues.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use firstbyte_location::shown;

/// An error of a listing, with its path.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A directory or an entry could not be read.
    #[error("{}: {source}", shown(path))]
    Io {
        /// The directory or the entry.
        path: PathBuf,
        /// The operating system's error. `raw_os_error` returns its code.
        source: io::Error,
    },
    /// A symbolic link leads back to a directory that contains it.
    #[error("{}: a symbolic link back to a directory it lies in; not followed", shown(path))]
    Loop {
        /// The link.
        path: PathBuf,
    },
    /// The caller refuses this directory, or the target of this link
    /// ([`WalkBounds`](crate::WalkBounds)).
    #[error("{}: leads to a place that the caller refuses; not followed", shown(path))]
    Refused {
        /// The directory or the link.
        path: PathBuf,
    },
    /// The positions of a directory's entries were out of order while several of its parts were
    /// read in parallel.
    #[error(
        "{}: the file system gave positions out of order; names may be missing or doubled; list it with one thread",
        shown(path)
    )]
    Disordered {
        /// The directory.
        path: PathBuf,
    },
}

/// A result with this crate's [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Makes an error at `name` below `root`.
    pub(crate) fn at(root: &Path, name: &[u8], source: impl Into<io::Error>) -> Self {
        Self::Io { path: below(root, name), source: source.into() }
    }
}

/// Returns the path of `name` below `root`. Drops a `/` at the end of `name`, which marks a
/// directory.
pub(crate) fn below(root: &Path, name: &[u8]) -> PathBuf {
    match name.strip_suffix(b"/").unwrap_or(name) {
        b"" => root.to_owned(),
        name => root.join(OsStr::from_bytes(name)),
    }
}
