//! Mounts a location as a read-only file system: a bucket or prefix of an object store, a directory
//! of an HTTP or SFTP server, a local directory, or a single object.
//!
//! The kernel's requests (`fuse`) become operations with types independent of FUSE (`filesystem`),
//! on inodes (`inodes`). Each inode is one version of one object, so data that the kernel caches
//! never becomes stale. The hydration engine fetches the bytes. This crate decides how the kernel
//! may read an open file (`handles`), and which files to fetch ahead (`prefetch`). Names are taken
//! from listings as they arrive (`readdir`), and are cached for a stated time (`directory`). Calls
//! that wait for a network run in the `blocking_pool`, each with a deadline.

mod blocking_pool;
mod bounded;
mod child;
mod control;
mod dir_handles;
mod directory;
mod error;
mod filesystem;
mod fuse;
mod handles;
mod inodes;
mod local_links;
mod metrics;
mod mount;
pub mod mount_table;
mod mountpoint;
mod name_conflicts;
mod operations;
mod options;
mod prefetch;
mod readdir;
mod reader;
mod record;
mod replay;
mod source;
mod xattr;

pub use control::{
    Control, ControlRequest, ControlResponse, HydrateRequest, JobFailure, JobProgress, MountCounts, attribute,
};
pub use error::{Error, Result};
pub use mount::{Mount, PreparedMount};
pub use mountpoint::{RemainingMounts, UnmountMode, mounted_directory, unmount};
pub use options::{AllowedUsers, MountOptions, OccupiedAction, PassthroughUse, ShownModes, StoredModes};
