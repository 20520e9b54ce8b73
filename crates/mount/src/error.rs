//! The errors of a mount and of operations below it. Only `fuse.rs` turns them into error numbers.

use std::io;
use std::path::{Path, PathBuf};

use firstbyte_location::shown;

/// The reason why a mount could not be made or ended, or why an operation below it failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The directory to mount at does not exist.
    #[error("{}: no such directory; create it first: mkdir -p {}", shown(path), shown(path))]
    NoDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// The path to mount at is not a directory.
    #[error("{}: not a directory", shown(path))]
    NotADirectory {
        /// The path that was given.
        path: PathBuf,
    },
    /// A mount would hide the content of the directory.
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
    /// Another file system is mounted at exactly this directory, and would be hidden.
    #[error(
        "{}: {fs_type} of {source_name} is mounted there already; unmount it first, or say --nonempty to mount over it",
        shown(path)
    )]
    AlreadyMounted {
        /// The directory.
        path: PathBuf,
        /// Type of the mounted file system.
        fs_type: String,
        /// The location that the file system shows.
        source_name: String,
    },
    /// There is no mount of this program at the path.
    #[error("{}: {found}", shown(path))]
    NotOurs {
        /// The directory.
        path: PathBuf,
        /// A description of the mount found there.
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
    /// The kernel has no FUSE, or this container has no access to it.
    #[error(
        "/dev/fuse: {source}: mounting needs FUSE; load the module (modprobe fuse), or in a container give --device /dev/fuse --cap-add SYS_ADMIN"
    )]
    NoDevice {
        /// The reason why the device cannot be opened.
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
    /// The operating system refused an operation.
    #[error("{}: {what}: {source}", shown(path))]
    Io {
        /// The path of the operation.
        path: PathBuf,
        /// The operation that failed.
        what: &'static str,
        /// The operating system's error.
        source: std::sync::Arc<io::Error>,
    },
    /// An error of the store or the cache.
    #[error(transparent)]
    Data(#[from] firstbyte_hydrate::Error),
    /// The location that was to be mounted does not exist.
    #[error("{location}: not found")]
    Nothing {
        /// The location.
        location: String,
    },
    /// The object was overwritten; opening it again gets the new one.
    #[error("{path}: overwritten since it was looked up")]
    Stale {
        /// The path below the mount.
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
        /// The path below the mount.
        path: String,
    },
}

impl Error {
    /// Makes the error of a failed operation of the operating system.
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
