//! Caches blocks of remote objects on disk. Each version of an object has a sparse data file, and a
//! map of its blocks. Objects of at most one block are packed into common files instead.
//!
//! ```text
//! DIR/format                 firstbyte cache 3
//! DIR/usage                  number of bytes used, which all processes count together
//! DIR/objects/ab/NAME.data   sparse file as long as the object
//! DIR/objects/ab/NAME.map    identity of the object, and a word for each block
//! DIR/packs/                 small objects: see `packs`
//! ```
//! Any number of processes on one machine may use a directory at once, and any may be killed at
//! any time. Invariants:
//!
//! - After a kill or a power cut, a block is either returned as it was filled, or counts as absent.
//! - The limits hold at every instant.
//! - Opening takes constant time.
//! - After any failure in the directory, reads can still use the store.
//!
//! The cache assumes that no other program writes its files, and that the file system supports
//! sparse files and record locks. [`Cache::verify`] finds changes by other programs; most reads do
//! not.

mod block_map;
mod cached;
mod clock;
mod directory;
mod evict;
mod fill;
mod lock;
mod mapping;
mod open;
mod packed;
mod packs;
mod punch;
mod recount;
mod shared_page;
mod status;
#[cfg(test)]
mod tests;
mod usage;
mod verified_runs;
mod verify;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use firstbyte_location::{Checksum, Location, Strength, Version, shown};
use firstbyte_store::{PrivateDirectory, SHORT_WAIT, Sharing};
use rustix_futex_sync::Mutex;

pub use cached::{CachedVersion, FetchLease, Pin, PinnedBlocks};
pub use clock::Timestamp;
pub use evict::Released;
pub use fill::FillOutcome;
pub use packed::{Packed, PackedLease};
pub use status::{Statuses, VersionState, VersionStatus};
pub use verify::{Backing, VerificationReport, VersionVerification};

use crate::error::{Error, Result};
use crate::limits::{ATTEMPTS, POLL_INTERVAL};
use crate::settings::HydrationSettings;
use block_map::{Live, PINNED};
use directory::{CachePaths, CachedIdentity, NoCacheAction};
use lock::LockWait;
use open::{MissingAction, OpenVersion};
use packs::Packs;
use usage::{CacheUsage, Reservation};

/// Limits on the space that a cache may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// Maximum number of bytes on disk. `None` if only `reserve` limits the cache.
    pub size: Option<u64>,
    /// Number of bytes to leave free on the file system.
    pub reserve: u64,
}

impl CacheLimits {
    /// Returns the limits of a cache with these settings. The files of a memory file system count
    /// towards the memory limit of the job, and the kernel ends the job at the limit, however much
    /// room the file system reports (<https://github.com/moby/moby/issues/47967>,
    /// <https://github.com/kubernetes/kubernetes/issues/128339>, as of 28 November 2026). A cache
    /// there that has no stated size takes at most half of the limit.
    #[must_use]
    pub fn of(settings: &HydrationSettings) -> Self {
        let in_memory = || settings.cache.as_deref().is_some_and(is_in_memory);
        let half = settings.memory_limit.filter(|_| in_memory()).map(|limit| limit / 2);
        Self { size: settings.cache_size.or(half), reserve: settings.reserve }
    }
}

/// Returns whether a directory, or the one in which it will be made, is on a memory file system.
fn is_in_memory(directory: &Path) -> bool {
    // `TMPFS_MAGIC` and `RAMFS_MAGIC` of statfs(2).
    const MEMORY: [rustix::fs::FsWord; 2] = [0x0102_1994, 0x8584_58f6];
    let Ok(directory) = std::path::absolute(directory) else { return false };
    let mut existing = directory.ancestors().filter_map(|path| rustix::fs::statfs(path).ok());
    existing.next().is_some_and(|system| MEMORY.contains(&system.f_type))
}

/// A handle of a cache directory. Clones share the open directory.
#[derive(Clone, Debug)]
pub struct Cache {
    shared: Arc<Shared>,
    /// The store whose objects this handle opens, as the hash that identities contain.
    store: Arc<str>,
}

/// State that all handles and versions of an open cache share in one process.
#[derive(Debug)]
struct Shared {
    /// The directory beneath which all files are opened.
    dir: PrivateDirectory,
    usage: CacheUsage,
    /// The packs of small objects. `None` if small objects cannot be packed in this directory.
    packs: Option<Packs>,
    /// Locked by the thread that evicts. Other threads that need room wait for the lock.
    evicting: Mutex<()>,
    /// Open versions whose files have no name. Eviction finds them here.
    unnamed: Mutex<Vec<Weak<OpenVersion>>>,
    /// Cleared if the file system does not support punching holes.
    can_punch: AtomicBool,
    opened: Instant,
}

/// Treatment of a version in the cache when it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retention {
    Persistent,
    /// The version has no strong identifier. Its files have no name, so they vanish when they are
    /// closed.
    Temporary,
}

/// The versions that an eviction must not remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exempt {
    /// No version.
    None,
    /// Pinned versions.
    Pinned,
    /// Pinned versions, and versions used since this time. A job uses this so that it does not
    /// evict versions that it has fetched itself.
    UsedSince(Timestamp),
}

impl Exempt {
    /// Returns whether the version with these header fields is exempt.
    fn includes(self, live: &Live) -> bool {
        let is_pinned = live.flags.load(Ordering::Relaxed) & PINNED != 0;
        self.covers(is_pinned, Timestamp::from_word(live.last_open.load(Ordering::Relaxed)))
    }

    /// Returns whether a version with this pin and this time of last use is exempt.
    fn covers(self, is_pinned: bool, last_use: Timestamp) -> bool {
        match self {
            Self::None => false,
            Self::Pinned => is_pinned,
            Self::UsedSince(start) => is_pinned || last_use >= start,
        }
    }
}

impl Cache {
    /// Opens the cache of this user in `dir`, creating it if necessary.
    ///
    /// # Errors
    /// [`Error::Newer`], and [`Error::Cache`] if the directory cannot be written, is full, is not a
    /// cache, or could be controlled by another user. The caller can continue without a cache.
    pub fn open(dir: &Path, limits: CacheLimits) -> Result<Self> {
        Self::open_shared(dir, Sharing::Private, limits)
    }

    /// Opens the cache in `dir` that the users of `sharing` share, creating it if necessary.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open).
    pub fn open_shared(dir: &Path, sharing: Sharing, limits: CacheLimits) -> Result<Self> {
        let opened = directory::open(dir, sharing, NoCacheAction::Create)?;
        let missing =
            || Error::cache(dir, "cannot use the cache directory")(std::io::ErrorKind::NotFound.into());
        Self::in_directory(opened.ok_or_else(missing)?, limits)
    }

    /// Opens the cache in `dir` without creating anything. Returns `None` if there is no cache, or
    /// if the cache has an older format; such a cache is left unchanged.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open).
    pub fn existing(dir: &Path, sharing: Sharing, limits: CacheLimits) -> Result<Option<Self>> {
        let opened = directory::open(dir, sharing, NoCacheAction::Leave)?;
        opened.map(|dir| Self::in_directory(dir, limits)).transpose()
    }

    /// Returns the format of the cache in `dir` if this version no longer reads that format.
    #[must_use]
    pub fn older_format(dir: &Path, sharing: Sharing) -> Option<u32> {
        directory::format_if_older(&PrivateDirectory::open(dir, sharing).ok()?)
    }

    fn in_directory(dir: PrivateDirectory, limits: CacheLimits) -> Result<Self> {
        let counters = Path::new(directory::USAGE);
        let usage = CacheUsage::open(&dir, counters, limits, directory::has_contents(&dir))
            .map_err(Error::cache(&dir.shown(counters), "cannot open the cache's counters"))?;
        let packs = Packs::open(&dir, &usage);
        let packs = packs.unwrap_or_else(|error| {
            tracing::warn!("{}: small objects are not packed: {error}", shown(dir.path()));
            None
        });
        let shared = Arc::new(Shared {
            dir,
            usage,
            packs,
            evicting: Mutex::new(()),
            unnamed: Mutex::new(Vec::new()),
            can_punch: AtomicBool::new(true),
            opened: Instant::now(),
        });
        recount::start(&shared);
        Ok(Self { shared, store: "".into() })
    }

    /// Returns a handle to the same cache for the objects of the store at `endpoint`.
    #[must_use]
    pub fn of_store(&self, endpoint: &str) -> Self {
        Self { shared: Arc::clone(&self.shared), store: directory::store_hash(endpoint).into() }
    }

    /// Opens a version of an object, with the `checksum` of the whole object if the store reported
    /// one. A version that does not identify the content for sure is removed when it is closed.
    ///
    /// # Errors
    /// [`Error::Cache`]: there is no room, the length is unknown, or the files cannot be used. The
    /// object can still be read without the cache.
    pub fn version(
        &self,
        location: &Location,
        version: &Version,
        checksum: Option<Checksum>,
    ) -> Result<CachedVersion> {
        let Some(identity) = CachedIdentity::new(location, &self.store, version) else {
            let error = std::io::Error::new(std::io::ErrorKind::InvalidInput, "its length is not known");
            return Err(Error::cache(self.shared.dir.path(), "cannot cache an object")(error));
        };
        let (retention, paths) = if version.strength() == Strength::Strong {
            (Retention::Persistent, CachePaths::new(&identity.name()))
        } else {
            (Retention::Temporary, CachePaths::temporary())
        };
        let opened = open::open(
            &self.shared,
            paths.clone(),
            MissingAction::Create(&identity),
            retention,
            LockWait::Briefly,
        );
        if retention == Retention::Temporary {
            // The names are removed even after an error, because no other process may find the
            // files.
            let _ = paths.remove(&self.shared.dir);
        }
        let opened = opened?.map(Arc::new).ok_or_else(|| {
            let map = self.shared.dir.shown(&paths.map);
            Error::cache(&map, "cannot make a cached object")(std::io::ErrorKind::NotFound.into())
        })?;
        if retention == Retention::Temporary {
            self.shared.track_unnamed_version(&opened);
        }
        let cached = CachedVersion::new(opened);
        cached.touch();
        if let Some(checksum) = checksum {
            cached.set_checksum(checksum);
        }
        Ok(cached)
    }

    /// Returns the directory, by the path with which the cache was opened.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.shared.dir.path()
    }

    /// Returns the space that the cache uses, and the space that is left.
    #[must_use]
    pub fn usage(&self) -> Space {
        let usage = &self.shared.usage;
        Space { used: usage.is_known().then(|| usage.used()), room: usage.room(), limits: usage.limits() }
    }
}

/// The used and the available space of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes used on disk. `None` after a restart of the machine until the versions are recounted.
    pub used: Option<u64>,
    /// Bytes that fit without eviction.
    pub room: u64,
    /// The limits that the cache was opened with.
    pub limits: CacheLimits,
}

impl Shared {
    /// Reserves `bytes` in the usage counters. If they do not fit, evicts versions that are not
    /// exempt. Returns `None` if the bytes still do not fit.
    fn reserve(self: &Arc<Self>, bytes: u64, exempt: Exempt) -> Option<Reservation<'_>> {
        self.wait_for_count();
        // Other threads may take the freed room first. If that happens [`ATTEMPTS`] times, the read
        // goes uncached.
        for _ in 0..ATTEMPTS {
            if let Some(reservation) = self.usage.reserve(bytes) {
                return Some(reservation);
            }
            if !evict::make_room(self, bytes, exempt) {
                return None;
            }
        }
        None
    }

    /// Waits for the recount after a restart of the machine. Recounting some thousand versions
    /// takes less time than one round trip. If there are many more, the first reads go uncached.
    fn wait_for_count(&self) {
        while !self.usage.is_known() && self.opened.elapsed() < SHORT_WAIT {
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Records a version that only this process can find.
    fn track_unnamed_version(&self, version: &Arc<OpenVersion>) {
        let mut unnamed = self.unnamed.lock();
        unnamed.retain(|version| version.strong_count() > 0);
        unnamed.push(Arc::downgrade(version));
    }

    fn unnamed(&self) -> Vec<Arc<OpenVersion>> {
        let unnamed = self.unnamed.lock();
        unnamed.iter().filter_map(Weak::upgrade).collect()
    }
}
