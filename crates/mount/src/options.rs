//! Defines the options of a mount. The command line fills them in.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use firstbyte_hydrate::StartFile;
use firstbyte_store::Prices;

/// Users who may access the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AllowedUsers {
    /// Only the user who has mounted the location, and not even root.
    #[default]
    Owner,
    /// Every user of this machine.
    Everyone,
}

/// Action to take if the directory is not empty, or is already a mount point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OccupiedAction {
    /// Refuse to mount.
    #[default]
    Refuse,
    /// Mount, which hides the content of the directory until it is unmounted.
    Hide,
}

/// Modes and owners that are shown instead of the modes and owners of the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShownModes {
    /// Permission bits of files.
    pub file: Option<u16>,
    /// Permission bits of directories.
    pub directory: Option<u16>,
    /// Owner of all files and directories.
    pub user: Option<u32>,
    /// Group of all files and directories.
    pub group: Option<u32>,
    /// Whether stored modes and owners are shown, where the fields above do not replace them.
    pub stored: StoredModes,
}

/// Whether to show modes and owners that programs have stored with objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoredModes {
    /// Neither request nor show stored modes.
    #[default]
    Ignore,
    /// Show stored modes, which takes a request for each file.
    Show,
}

/// Whether the kernel may read a hydrated file directly (FUSE passthrough).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PassthroughUse {
    /// The kernel reads hydrated files directly, if the kernel and the cache allow it.
    #[default]
    WherePossible,
    /// Every read passes through this process.
    Never,
}

/// The options of a mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Time for which a name is used without asking the store again, whether the name exists or
    /// not. A new, overwritten or deleted object is seen after this time at the latest.
    pub metadata_ttl: Duration,
    /// Maximum time of an operation, after which it fails.
    pub deadline: Duration,
    /// Maximum length, in bytes, of a file that is fetched as a whole when it is opened. The open
    /// waits for the whole file, but no longer than the deadline, and the kernel then reads the
    /// file directly. With 0, no open waits.
    pub eager: u64,
    /// Users who may access the mount.
    pub access: AllowedUsers,
    /// Modes and owners that the mount shows.
    pub modes: ShownModes,
    /// Action to take if the directory is not empty, or is already a mount point.
    pub occupied: OccupiedAction,
    /// Memory in bytes. Inodes, names and listings of directories together take at most about nine
    /// tenths of it.
    pub memory: u64,
    /// Whether the kernel may read a hydrated file directly.
    pub passthrough: PassthroughUse,
    /// The path of the [`StartFile`] to write. The mount records in it the directories and ranges
    /// that are read.
    pub record: Option<PathBuf>,
    /// The start file whose directories and ranges are fetched first.
    pub replay: Option<Arc<StartFile>>,
    /// The address at which counters are served as `GET /metrics`.
    pub metrics: Option<SocketAddr>,
    /// Path of the socket on which other processes ask for hydration and status. The path may have
    /// any length.
    pub control: Option<PathBuf>,
    /// Prices of the mount's requests and bytes. `None` if they are not known.
    pub prices: Option<Prices>,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            // Five seconds are long enough that a copy of a directory lists it only once, and short
            // enough to wait for changes.
            metadata_ttl: Duration::from_secs(5),
            // The same deadline as for every remote read: a dead endpoint is an error within 30 s.
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
