//! The options of a mount. The command line fills them in.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use firstbyte_hydrate::StartFile;
use firstbyte_store::Prices;

/// The users who may access the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AllowedUsers {
    /// Only the user who mounted the location, not even root.
    #[default]
    Owner,
    /// Every user of this machine.
    Everyone,
}

/// The action if the directory is not empty or is already a mount point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OccupiedAction {
    /// A directory that is not empty, or has something mounted on it, is refused.
    #[default]
    Refuse,
    /// The content is hidden for as long as the mount lasts.
    Hide,
}

/// Modes and owners that are shown instead of the source's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShownModes {
    /// Permission bits of files.
    pub file: Option<u16>,
    /// Permission bits of directories.
    pub directory: Option<u16>,
    /// Owner of everything.
    pub user: Option<u32>,
    /// Group of everything.
    pub group: Option<u32>,
    /// The use of stored modes and owners, if nothing above is set.
    pub stored: StoredModes,
}

/// The use of modes and owners that programs stored with objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoredModes {
    /// Stored modes are shown only if a name was looked up by itself: a listing does not report
    /// them.
    #[default]
    Ignore,
    /// Stored modes are shown, which takes a request for each file.
    Show,
}

/// The use of FUSE passthrough, by which the kernel reads a hydrated file directly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PassthroughUse {
    /// The kernel reads hydrated files directly if it and the cache allow it.
    #[default]
    WherePossible,
    /// Every read passes through this process.
    Never,
}

/// A mount's behaviour.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// The time for which a name is used without asking the store again. A new, overwritten or
    /// deleted object is seen after this time at the latest.
    pub metadata_ttl: Duration,
    /// Longest time an operation may take before it is an error.
    pub deadline: Duration,
    /// Largest file, in bytes, that is fetched whole when it is opened: the open waits for that,
    /// for the deadline at most, and the kernel then reads the file directly. With 0, every open is
    /// lazy.
    pub eager: u64,
    /// The users who may access the mount.
    pub access: AllowedUsers,
    /// Modes and owners that the mount shows.
    pub modes: ShownModes,
    /// The action if the directory is not empty or is already a mount point.
    pub occupied: OccupiedAction,
    /// Bytes of memory. Inodes, names and listings of directories take about nine tenths of it
    /// together at most.
    pub memory: u64,
    /// Whether the kernel reads hydrated files directly.
    pub passthrough: PassthroughUse,
    /// The start file that records directories and reads.
    pub record: Option<PathBuf>,
    /// The start file whose names and ranges are fetched first.
    pub replay: Option<Arc<StartFile>>,
    /// The address at which counters are served, as `GET /metrics`.
    pub metrics: Option<SocketAddr>,
    /// Path of the socket at which other processes ask for hydration and status; shorter than 108
    /// bytes.
    pub control: Option<PathBuf>,
    /// Prices of the mount's requests and bytes, if they are known.
    pub prices: Option<Prices>,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            // Long enough that a copy of a directory lists it once, and short enough to wait for.
            metadata_ttl: Duration::from_secs(5),
            // As for every remote read: a dead endpoint is an error within 30 s.
            deadline: Duration::from_secs(30),
            eager: 0,
            memory: firstbyte_store::MEMORY,
            access: AllowedUsers::Owner,
            modes: ShownModes::default(),
            occupied: OccupiedAction::Refuse,
            passthrough: PassthroughUse::WherePossible,
            record: None,
            replay: None,
            metrics: None,
            control: None,
            prices: None,
        }
    }
}
