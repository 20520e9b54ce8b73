//! Defines the errors of a mount and of operations below it. Only the module `fuse` turns them into
//! error numbers.

use std::io;
use std::path::{Path, PathBuf};

use firstbyte_location::shown;

/// The reason why mounting, unmounting, or an operation below a mount has failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The directory for the mount does not exist.
    #[error("{}: no such directory; create it first: mkdir -p {}", shown(path), shown(path))]
    NoDirectory {
        /// The path of the directory.
        path: PathBuf,
    },
    /// The path for the mount is not a directory.
    #[error("{}: not a directory", shown(path))]
    NotADirectory {
        /// The path that was given.
        path: PathBuf,
    },
    /// The directory is not empty, so a mount would hide its content.
    #[error(
        "{}: not empty: a mount would hide its content, such as `{found}`; use an empty directory, or add --nonempty",
        shown(path)
    )]
    NotEmpty {
        /// The path of the directory.
        path: PathBuf,
        /// A name in the directory.
        found: String,
    },
    /// Another file system is mounted at exactly this directory, and a mount would hide it.
    #[error(
        "{}: {fs_type} of {source_name} is mounted there already; unmount it first, or say --nonempty to mount over it",
        shown(path)
    )]
    AlreadyMounted {
        /// The path of the directory.
        path: PathBuf,
        /// Type of the mounted file system.
        fs_type: String,
        /// The source of that file system, as the mount table shows it.
        source_name: String,
    },
    /// The directory is in its own source, or the source is below it.
    #[error(
        "{}: it and the source {} overlap, so the mount would show itself; name a directory outside the source",
        shown(path),
        shown(source_path)
    )]
    Overlap {
        /// The path of the directory.
        path: PathBuf,
        /// The path of the source.
        source_path: PathBuf,
    },
    /// The mount at the path is not one of this program, or there is none.
    #[error("{}: {found}", shown(path))]
    NotOurs {
        /// The path of the directory.
        path: PathBuf,
        /// A description of what is mounted there.
        found: String,
    },
    /// Files below the mount are open.
    #[error(
        "{}: in use: close what is open below it (fuser -vm {}), or say --lazy to detach it now",
        shown(path),
        shown(path)
    )]
    Busy {
        /// The path of the directory.
        path: PathBuf,
    },
    /// Another file system is mounted below the mount.
    #[error(
        "{}: in use: something is mounted at {}; unmount that first, or say --lazy to detach both now",
        shown(path),
        shown(below)
    )]
    Covered {
        /// The path of the directory.
        path: PathBuf,
        /// The mount point below it.
        below: PathBuf,
    },
    /// The kernel does not support FUSE, or this container has no access to it.
    #[error(
        "/dev/fuse: {source}: mounting needs FUSE; load the module (modprobe fuse), or in a container give --device /dev/fuse --cap-add SYS_ADMIN"
    )]
    NoDevice {
        /// The reason why the device cannot be opened.
        source: std::sync::Arc<io::Error>,
    },
    /// This process is not allowed to mount.
    #[error(
        "{}: mounting is not permitted ({detail}); run as root, install fuse3 (fusermount3), or in a container give --cap-add SYS_ADMIN",
        shown(path)
    )]
    NoPrivilege {
        /// The path of the directory.
        path: PathBuf,
        /// The reason for the refusal.
        detail: String,
    },
    /// `fusermount3` refuses this mount.
    #[error("{}: {detail}; {advice}", shown(path))]
    HelperRefused {
        /// The path of the directory.
        path: PathBuf,
        /// The message of the program.
        detail: String,
        /// Advice on what to do.
        advice: &'static str,
    },
    /// An operation of the operating system failed.
    #[error("{}: {what}: {source}", shown(path))]
    Io {
        /// The path of the operation.
        path: PathBuf,
        /// The operation that failed.
        what: &'static str,
        /// The operating system's error.
        source: std::sync::Arc<io::Error>,
    },
    /// The store or the cache returned an error.
    #[error(transparent)]
    Data(#[from] firstbyte_hydrate::Error),
    /// The store reports that a listing, or the next page of one, does not exist. Programs get EIO,
    /// because a directory that is cut short would look complete: the C library regards ENOENT as
    /// the end of a directory (glibc, sysdeps/unix/sysv/linux/readdir.c, 2026-11-28).
    #[error(transparent)]
    Unlisted(firstbyte_hydrate::Error),
    /// The location to mount does not exist.
    #[error("{location}: not found")]
    Nothing {
        /// The location to mount.
        location: String,
    },
    /// The object was overwritten. Opening it again opens the new content.
    #[error("{path}: overwritten since it was looked up")]
    Stale {
        /// The path below the mount.
        path: String,
    },
    /// The kernel used an inode or handle that it was never given, or has forgotten.
    #[error("unknown inode or handle {number}")]
    Unknown {
        /// The number of the inode or handle.
        number: u64,
    },
    /// An operation was not finished in time.
    #[error("{what}: no answer within {seconds} s")]
    Deadline {
        /// The operation that timed out.
        what: &'static str,
        /// The deadline in seconds.
        seconds: u64,
    },
    /// The length of the object is unknown, so the object cannot be shown as a file.
    #[error("{path}: the server does not tell its length, so it cannot be read as a file; use firstbyte cp")]
    NoLength {
        /// The path below the mount.
        path: String,
    },
}

impl Error {
    /// Creates the error of a failed operation of the operating system.
    pub(crate) fn io(path: &Path, what: &'static str, source: impl Into<io::Error>) -> Self {
        Self::Io { path: path.to_owned(), what, source: std::sync::Arc::new(source.into()) }
    }
}

impl From<firstbyte_store::Error> for Error {
    fn from(error: firstbyte_store::Error) -> Self {
        Self::Data(error.into())
    }
}

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;
