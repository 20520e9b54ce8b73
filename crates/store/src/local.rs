//! Files on mounted file systems: pinned by identity, written beside the destination, put in place by rename.
//!
//! Four parts: which names a file can have ([`name`]), a directory that names are looked up beneath ([`beneath`]), a file
//! that appears whole or not at all ([`partial`]), and the operations of a store over them ([`backend`]).
//!
//! Assumptions: a rename within one directory is atomic; a file whose device, inode, size, mtime and ctime are the
//! same has the same content. Symbolic links are followed where something is read, as `cp -L` does; a chain that comes back
//! to itself is an error that names it. Below the destination of a tree none is followed.

mod backend;
mod beneath;
mod name;
mod partial;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;

pub use backend::open_regular;
pub(crate) use backend::{delete, get, list, put, stat, version};
pub use beneath::{Beneath, Found};
pub use name::local_path;
pub use partial::{Durability, LocalFile, Over, Privacy, empty};

use firstbyte_location::shown;

use crate::Error;

/// An error of the operating system at `path`, kept as the cause.
fn io_error(path: &Path, source: impl Into<io::Error>) -> Error {
    Error::Io { location: shown(path).to_string(), source: source.into() }
}
