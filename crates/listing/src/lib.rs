//! Lists local directory trees: names as they are on disk, as a stream, in constant memory.
//!
//! Directories are read with getdents64 straight into one buffer and opened relative to the root, so at most two
//! descriptors are open whatever the depth. The kind of an entry comes with its name; size and time cost one more
//! system call each and are fetched only when asked for. What goes wrong in one directory is a value in the stream,
//! and the rest goes on; what vanishes while it is listed is left out, as if it had gone a moment earlier.

mod directory;
mod walk;

use std::io;
use std::path::PathBuf;

pub use walk::{Walk, walk};

/// How deep a walk goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// The entries of the root alone.
    #[default]
    OneLevel,
    /// Everything below it; a directory comes before what is in it.
    Recursive,
}

/// In which order entries come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As the file system gives them: constant memory, a directory read whole before those in it.
    #[default]
    Any,
    /// By the bytes of the whole name, a directory counting as `NAME/`: the order of an object store's listing.
    /// Holds the names of one directory a level in memory.
    Bytes,
}

/// What a symbolic link is listed as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Symlinks {
    /// A link, not followed.
    #[default]
    Report,
    /// What it points to. A dangling link and one to a directory it lies in are errors in the stream.
    Follow,
}

/// How much of an entry is found out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Name and kind.
    #[default]
    Names,
    /// Size and modification time too.
    Stat,
}

/// What to list, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// How deep.
    pub depth: Depth,
    /// In which order.
    pub order: Order,
    /// What becomes of symbolic links.
    pub symlinks: Symlinks,
    /// How much to find out.
    pub detail: Detail,
}

/// What went wrong, where.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A directory or an entry could not be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The directory or the entry.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A symbolic link leads back to a directory it lies in.
    #[error("{}: a symbolic link back to a directory it lies in; not followed", path.display())]
    Loop {
        /// The link.
        path: PathBuf,
    },
}

/// This crate's results.
pub type Result<T> = std::result::Result<T, Error>;
