//! Reads and writes files on mounted file systems. The version of a file is its identity. Writes go
//! to a temporary file, which is then renamed.
//!
//! [`name`] checks file names. [`beneath`] works on names below a directory, which [`resolve`]
//! opens without following links. [`spelling`] finds names that the file system changes.
//! [`partial`] writes files atomically to a [`destination`]. [`file_times`] sets times. [`removal`]
//! deletes. [`mod@stat`] describes files and their versions. [`backend`] has the operations that a
//! store needs.
//!
//! The backend assumes that a rename within a directory is atomic, and that two files with the same
//! device, inode, size, mtime and ctime have the same content. Reads follow symbolic links, like
//! `cp -L`; a loop of links is an error. Writes below the destination of a tree follow no links.

mod attributes;
mod backend;
mod beneath;
mod destination;
mod file_times;
mod name;
mod optional;
mod partial;
mod private;
pub(crate) mod removal;
mod resolve;
mod spelling;
pub(crate) mod stat;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;

pub use attributes::CopyState;
pub(crate) use backend::{delete, get, list, put};
pub use beneath::{Beneath, FoundEntry};
pub use destination::ReplaceKind;
pub use file_times::{StoredTimes, USUAL_SECONDS, set_modified};
pub(crate) use name::partial_name;
pub use name::{local_path, location_below, unfinished_name};
pub(crate) use optional::add_refusing_host;
pub use optional::refused_calls;
pub use partial::{Durability, LocalFile, PartialPermissions, truncate};
pub use private::{FileAccess, PrivateDirectory, Sharing};
pub use stat::open_regular;
pub(crate) use stat::stat;

use firstbyte_location::shown;
use rustix::io::Errno;

use crate::error::Error;

/// Returns the number of an operating system error.
fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Returns the error of a failed system call on `path`.
fn io_error(path: &Path, source: impl Into<io::Error>) -> Error {
    Error::Io { location: shown(path).to_string(), source: source.into() }
}

/// Returns the error for a directory that cannot be created. The error names the highest missing
/// directory of the path, because that is where the creation failed.
fn directory_error(directory: &Path, source: impl Into<io::Error>) -> Error {
    let is_missing =
        |part: &&Path| part.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    let parts = directory.ancestors().filter(|part| !part.as_os_str().is_empty());
    let missing = parts.take_while(is_missing).last().unwrap_or(directory);
    Error::CreateDirectory { location: shown(missing).to_string(), source: source.into() }
}
