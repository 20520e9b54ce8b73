//! The errors of a mount and of operations below it. Only `fuse.rs` turns them into error numbers.

use std::io;
use std::path::{Path, PathBuf};

use firstbyte_location::shown;

/// Why a mount could not be made or ended, or why an operation below it failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The directory to mount at is not there.
    #[error("{}: no such directory; create it first: mkdir -p {}", shown(path), shown(path))]
    NoDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// Something else than a directory is there.
    #[error("{}: not a directory", shown(path))]
    NotADirectory {
        /// The path that was given.
        path: PathBuf,
    },
    /// A mount would hide what is in the directory.
    #[error(
        "{}: not empty: a mount would hide its content, such as `{found}`; use an empty directory, or add --nonempty",
        shown(path)
    )]
    NotEmpty {
        /// The directory.
        path: PathBuf,
        /// A name found in it.
        found: String,
    },
    /// Another file system is mounted exactly there, and would be hidden.
    #[error(
        "{}: {fs_type} of {source_name} is mounted there already; unmount it first, or say --nonempty to mount over it",
        shown(path)
    )]
    AlreadyMounted {
        /// The directory.
        path: PathBuf,
        /// Type of the file system there.
        fs_type: String,
        /// The location it shows.
        source_name: String,
    },
    /// There is no mount of this program at the path.
    #[error("{}: {found}", shown(path))]
    NotOurs {
        /// The directory.
        path: PathBuf,
        /// What is there instead.
        found: String,
    },
    /// Files below the mount are open.
    #[error(
        "{}: in use: close what is open below it (fuser -vm {}), or say --lazy to detach it now",
        shown(path),
        shown(path)
    )]
    Busy {
        /// The directory.
        path: PathBuf,
    },
    /// The kernel has no FUSE, or this container does not show it.
    #[error(
        "/dev/fuse: {source}: mounting needs FUSE; load the module (modprobe fuse), or in a container give --device /dev/fuse --cap-add SYS_ADMIN"
    )]
    NoDevice {
        /// Why it cannot be opened.
        source: std::sync::Arc<io::Error>,
    },
    /// This process may not mount.
    #[error(
        "{}: mounting is not permitted ({detail}); run as root, install fuse3 (fusermount3), or in a container give --cap-add SYS_ADMIN",
        shown(path)
    )]
    NoPrivilege {
        /// The directory.
        path: PathBuf,
        /// The reason of the refusal.
        detail: String,
    },
    /// The operating system refuses something.
    #[error("{}: {what}: {source}", shown(path))]
    Io {
        /// Where.
        path: PathBuf,
        /// The operation that failed.
        what: &'static str,
        /// Why it failed.
        source: std::sync::Arc<io::Error>,
    },
    /// An error of the store or the cache.
    #[error(transparent)]
    Data(#[from] firstbyte_hydrate::Error),
    /// Nothing is at the location that was to be mounted.
    #[error("{location}: not found; check the spelling with `firstbyte ls`")]
    Nothing {
        /// The location.
        location: String,
    },
    /// The object was overwritten; opening it again gets the new one.
    #[error("{path}: overwritten since it was looked up")]
    Stale {
        /// Path below the mount.
        path: String,
    },
    /// The kernel asks about an inode or handle that it was never given, or has forgotten.
    #[error("unknown inode or handle {number}")]
    Unknown {
        /// Inode or handle number.
        number: u64,
    },
    /// An operation that was not finished in time.
    #[error("{what}: no answer within {seconds} s")]
    Deadline {
        /// The operation.
        what: &'static str,
        /// The deadline, seconds.
        seconds: u64,
    },
    /// The object's length is unknown, so it cannot be shown as a file.
    #[error("{path}: the server does not tell its length, so it cannot be read as a file; use firstbyte cp")]
    NoLength {
        /// Path below the mount.
        path: String,
    },
}

impl Error {
    /// A failed operation of the operating system.
    pub(crate) fn io(path: &Path, what: &'static str, source: impl Into<io::Error>) -> Self {
        Self::Io { path: path.to_owned(), what, source: std::sync::Arc::new(source.into()) }
    }
}

impl From<firstbyte_store::Error> for Error {
    fn from(error: firstbyte_store::Error) -> Self {
        Self::Data(error.into())
    }
}

/// Result of an operation here.
pub type Result<T> = std::result::Result<T, Error>;
