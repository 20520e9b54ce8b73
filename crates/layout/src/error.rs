//! Defines the errors of a layout, and remedies for some of them.

use std::io;
use std::path::{Path, PathBuf};

use firstbyte_location::{is_full, shown};
use rustix::io::Errno;

use crate::scheme::{CALLED_LIKE_A_LEVEL, LayoutScheme, SchemeError};

/// An error of a layout. Most variants name the path.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{}: {source}", shown(path))]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error. `raw_os_error` returns its code.
        source: io::Error,
    },
    /// There is no file of this name.
    #[error("{}: no such file in the layout", shown(path))]
    NotFound {
        /// The path where the file would be.
        path: PathBuf,
    },
    /// The directory has no layout file, so it is not a layout.
    #[error("{}: not a layout: it holds no file `.firstbyte-layout`", shown(root))]
    Missing {
        /// The directory.
        root: PathBuf,
    },
    /// A new layout was requested in a directory that is not empty.
    #[error("{}: not empty", shown(root))]
    NotEmpty {
        /// The directory.
        root: PathBuf,
    },
    /// Another file is at the destination of a move. Both files are unchanged.
    #[error("{}: not moved: {} is there already", shown(path), shown(target))]
    Taken {
        /// The file that should move.
        path: PathBuf,
        /// The destination of the move.
        target: PathBuf,
    },
    /// An entry that is not a regular file is among the files, or has a file's name. The entry is
    /// unchanged.
    #[error("{}: left alone: it is no regular file", shown(path))]
    NoFile {
        /// The path of the entry.
        path: PathBuf,
    },
    /// A removed file that an NFS client keeps until no program has it open. Its directory cannot
    /// be removed until then.
    #[error("{}: removed, but a program still has it open over NFS", shown(path))]
    StillOpen {
        /// The name that the client gave to the file.
        path: PathBuf,
    },
    /// The layout cannot hold a file of this name.
    #[error("{name:?}: {why}")]
    Name {
        /// The name. Bytes that are not UTF-8 are replaced.
        name: String,
        /// Why the layout cannot hold it.
        why: &'static str,
    },
    /// The directory has names that a layout of this shape cannot hold.
    #[error("{}: {count} of the names in it cannot be kept so, {first:?} for one: {why}", shown(root))]
    Unfit {
        /// The directory.
        root: PathBuf,
        /// Number of names that the layout cannot hold.
        count: u64,
        /// One of the names. Bytes that are not UTF-8 are replaced.
        first: String,
        /// Why the layout cannot hold them.
        why: &'static str,
    },
    /// Names are to be used as hashes, but are not distributed like hashes.
    #[error(
        "{}: the names are no hashes: the average file would share its directory with {crowding:.0} others, not {even:.0}",
        shown(root)
    )]
    Uneven {
        /// The directory.
        root: PathBuf,
        /// Number of files in the directory of the average file, including that file.
        crowding: f64,
        /// The same number for evenly distributed names.
        even: f64,
    },
    /// Options that are out of range or exclude each other.
    #[error("{why}")]
    Scheme {
        /// The fault of the options.
        why: &'static str,
    },
    /// The layout's shape differs from the requested one, or from the shape at the time of opening.
    #[error("{}: the layout there is {found}, not {wanted}", shown(root))]
    Differs {
        /// The directory.
        root: PathBuf,
        /// The shape of the layout.
        found: LayoutScheme,
        /// The shape that was requested, or that the layout had when it was opened.
        wanted: LayoutScheme,
    },
    /// The layout file was written by a newer firstbyte.
    #[error("{}: written by a newer firstbyte: version {version}, known is {known}", shown(path))]
    Newer {
        /// The layout file.
        path: PathBuf,
        /// Format version of the file.
        version: u32,
        /// Newest format version that this program can read.
        known: u32,
    },
    /// The layout file is not valid.
    #[error("{}: not a layout file: {why}", shown(path))]
    Malformed {
        /// The layout file.
        path: PathBuf,
        /// The fault of the file.
        why: &'static str,
    },
    /// Another process converts or mends the layout now.
    #[error("{}: another process is converting or mending this layout", shown(root))]
    Busy {
        /// The directory.
        root: PathBuf,
    },
    /// Another process has held a lock on the directory itself for longer than an operation waits
    /// for it.
    #[error("{}: another process holds a lock on this directory", shown(root))]
    Locked {
        /// The directory.
        root: PathBuf,
    },
    /// The content of a file does not match the hash in its name.
    #[error("{}: the content's SHA-256 is {found}, the name says another", shown(path))]
    Content {
        /// The file.
        path: PathBuf,
        /// Digest of the content, in hexadecimal digits.
        found: String,
    },
    /// The caller stopped a conversion. The next run continues it.
    #[error("{}: stopped", shown(root))]
    Stopped {
        /// The directory.
        root: PathBuf,
    },
}

/// A result with this crate's [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn io(path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Io { path: path.to_owned(), source: source.into() }
    }

    /// Replaces the path of an I/O error. Returns other errors unchanged.
    pub(crate) fn at(self, place: &Path) -> Self {
        match self {
            Self::Io { source, .. } => Self::io(place, source),
            other => other,
        }
    }

    /// True if the error concerns one file or directory only, so that others can still be moved.
    pub(crate) fn concerns_one_entry(&self) -> bool {
        let Self::Io { source, .. } = self else {
            return matches!(self, Self::Name { .. } | Self::Content { .. });
        };
        // EPERM is caused by the owner or the attributes of the entry itself, EBUSY by a mount on
        // it, and EXDEV by its project quota or its encryption. EACCES is caused by its directory.
        let own = [Errno::PERM, Errno::BUSY, Errno::XDEV].map(Errno::raw_os_error);
        source.raw_os_error().is_some_and(|code| own.contains(&code))
    }

    /// True if this process has no right to the entry, or if a link is in a file's place.
    pub(crate) fn is_denial(&self) -> bool {
        let denials = [Errno::PERM, Errno::ACCESS, Errno::LOOP].map(Errno::raw_os_error);
        let code = if let Self::Io { source, .. } = self { source.raw_os_error() } else { None };
        code.is_some_and(|code| denials.contains(&code))
    }

    /// Returns the file or directory of the error, if there is one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Io { path, .. }
            | Self::NotFound { path }
            | Self::Taken { path, .. }
            | Self::NoFile { path }
            | Self::StillOpen { path }
            | Self::Newer { path, .. }
            | Self::Malformed { path, .. }
            | Self::Content { path, .. } => Some(path),
            Self::Missing { root }
            | Self::NotEmpty { root }
            | Self::Unfit { root, .. }
            | Self::Uneven { root, .. }
            | Self::Differs { root, .. }
            | Self::Busy { root }
            | Self::Locked { root }
            | Self::Stopped { root } => Some(root),
            Self::Name { .. } | Self::Scheme { .. } => None,
        }
    }

    /// Returns a remedy that the user can try, if one is known.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Io { source, .. } => match source.kind() {
                _ if is_full(source) => Some(
                    "make room and run the same line again: nothing is lost, it continues where it stopped",
                ),
                io::ErrorKind::NotADirectory => Some("name a directory"),
                _ => None,
            },
            Self::Missing { .. } => Some("make it one with `firstbyte layout shard`"),
            Self::NotEmpty { .. } => Some("convert what is in it with `firstbyte layout shard`"),
            Self::Taken { .. } => Some("compare the two, remove one, run again"),
            Self::StillOpen { .. } => {
                Some("run again once it is closed; if its machine is gone, remove the file")
            }
            Self::NoFile { .. } => Some("move it out of the layout, run again"),
            Self::Unfit { why: CALLED_LIKE_A_LEVEL, .. } => Some(
                "choose another --width or --hash, or rename them; a layout that has lost `.firstbyte-layout` needs it again",
            ),
            Self::Unfit { .. } => Some("choose another --width or --hash, or rename them"),
            Self::Uneven { .. } => Some("use --hash xxh3, or --levels and --width that suit the names"),
            Self::Differs { .. } => Some("leave the options out, or unshard it first"),
            Self::Newer { .. } => Some("use the newer firstbyte"),
            Self::Malformed { .. } => Some("restore it, or remove it if this is no layout"),
            Self::Busy { .. } | Self::Locked { .. } => Some("wait for it to end"),
            Self::Content { .. } => Some("fetch it again, or rename it"),
            Self::NotFound { .. } | Self::Name { .. } | Self::Scheme { .. } | Self::Stopped { .. } => None,
        }
    }
}

impl From<SchemeError> for Error {
    fn from(error: SchemeError) -> Self {
        match error {
            SchemeError::Options { why } => Self::Scheme { why },
            SchemeError::Name { name, why } => Self::Name { name, why },
        }
    }
}
