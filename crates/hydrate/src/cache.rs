//! What is here of remote objects: one sparse file for each version of a location, beside it a map of its blocks.
//!
//! ```text
//! DIR/format                 firstbyte cache 1
//! DIR/usage                  bytes taken, counted by all processes together
//! DIR/objects/ab/NAME.data   sparse, of the object's length
//! DIR/objects/ab/NAME.map    what it is of, and a word for each block
//! ```
//! Any number of processes on one machine use a directory at once, and any of them may be killed at any instant. The
//! promises: a block is returned as it was filled, or not at all, after a kill and after a power cut; the limits hold at
//! every instant; opening costs the same however much is here; whatever goes wrong with the directory, a read still can
//! go to the store. Assumed: nobody else writes the files, and the file system has sparse files and record locks. Bytes
//! changed by other hands are found by [`Cache::verify`], not when they are read.

mod away;
mod boot;
mod cached;
mod complete;
mod directory;
mod entry;
mod evict;
mod fill;
mod header;
mod identity;
mod lock;
mod map;
mod moment;
mod open;
mod proven;
mod recount;
mod release;
mod room;
mod status;
mod sweep;
#[cfg(test)]
mod tests;
mod usage;
mod verify;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

use firstbyte_location::{Checksum, Location, Strength, Version};
use firstbyte_store::Sink;

pub use cached::{Cached, Claim, Lent, Pin};
pub use complete::{Backing, Verified};
pub use evict::Spare;
pub use fill::Stored;
pub use moment::Moment;
pub use release::Released;
pub use status::{Entries, State, Status};
pub use verify::Report;

use crate::{Error, Result};
use entry::Stamp;
use identity::Identity;
use lock::Locks;
use map::Map;
use open::{Missing, Paths};
use proven::Proven;
use usage::{Reservation, Usage};

/// How much a cache may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes on disk; only `reserve` limits where none is given.
    pub size: Option<u64>,
    /// Bytes to leave free on the file system.
    pub reserve: u64,
}

/// A cache directory. Clones share it.
#[derive(Clone, Debug)]
pub struct Cache {
    shared: Arc<Shared>,
}

/// What all that is open in one process shares.
#[derive(Debug)]
struct Shared {
    dir: PathBuf,
    objects: PathBuf,
    usage: Usage,
    /// One thread makes room; others who need some find it made.
    evicting: Mutex<()>,
    /// Open versions without a name, which eviction could not find otherwise.
    nameless: Mutex<Vec<Weak<OpenVersion>>>,
    /// Cleared where the file system turns out not to punch holes.
    can_punch: AtomicBool,
    opened: Instant,
}

/// Whether a version outlives those who have it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keep {
    /// It is found by the next who asks for it.
    Always,
    /// Its version does not tell its content for sure.
    Never,
}

/// One version that is open.
#[derive(Debug)]
struct OpenVersion {
    shared: Arc<Shared>,
    map: Map,
    data: Sink,
    locks: Locks,
    paths: Paths,
    identity: Identity,
    stamp: Stamp,
    checksum: OnceLock<Checksum>,
    proven: Mutex<Proven>,
    keep: Keep,
}

impl Cache {
    /// The cache in `dir`, made where there is none.
    ///
    /// # Errors
    /// [`Error::Newer`], and [`Error::Cache`] for a directory that cannot be written, is full, or is something else: one can
    /// go on without a cache then.
    pub fn open(dir: &Path, limits: Limits) -> Result<Self> {
        directory::prepare(dir)?;
        let path = dir.join("usage");
        let usage = Usage::open(&path, limits, directory::contents(dir))
            .map_err(Error::cache(&path, "cannot open the cache's counters"))?;
        let shared = Arc::new(Shared {
            dir: dir.to_owned(),
            objects: dir.join(directory::OBJECTS),
            usage,
            evicting: Mutex::new(()),
            nameless: Mutex::new(Vec::new()),
            can_punch: AtomicBool::new(true),
            opened: Instant::now(),
        });
        recount::start(&shared);
        Ok(Self { shared })
    }

    /// Opens a version of an object, with `checksum` over the whole of it if the store has told one. A version that does
    /// not tell its content for sure is forgotten when it is closed.
    ///
    /// # Errors
    /// [`Error::Cache`]: there is no room, its length is unknown, or its files cannot be used; it can be read without a cache.
    pub fn version(
        &self,
        location: &Location,
        version: &Version,
        checksum: Option<Checksum>,
    ) -> Result<Cached> {
        let Some(identity) = Identity::new(location, version) else {
            let error = std::io::Error::new(std::io::ErrorKind::InvalidInput, "its length is not known");
            return Err(Error::cache(&self.shared.objects, "cannot keep blocks of an object")(error));
        };
        let keep = if version.strength() == Strength::Strong { Keep::Always } else { Keep::Never };
        let paths = match keep {
            Keep::Always => Paths::new(&self.shared.objects, &identity.name()),
            Keep::Never => directory::temporary(&self.shared.dir)?,
        };
        let opened = open::open(&self.shared, paths.clone(), Missing::Create(&identity), keep);
        if keep == Keep::Never {
            // Whatever became of it: nobody else shall find it.
            let _ = paths.remove();
        }
        let opened = opened?.map(Arc::new).ok_or_else(|| {
            Error::cache(&paths.map, "cannot make a cached object")(std::io::ErrorKind::NotFound.into())
        })?;
        if keep == Keep::Never {
            self.shared.add_nameless(&opened);
        }
        let cached = Cached::new(opened);
        cached.touch();
        if let Some(checksum) = checksum {
            cached.expect(checksum);
        }
        Ok(cached)
    }

    /// What it takes and what it may take.
    #[must_use]
    pub fn usage(&self) -> Space {
        let usage = &self.shared.usage;
        Space { taken: usage.is_known().then(|| usage.taken()), room: usage.room(), limits: usage.limits() }
    }
}

/// How full a cache is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes on disk; unknown for a moment after the machine has restarted.
    pub taken: Option<u64>,
    /// Bytes that fit without eviction.
    pub room: u64,
    /// What it was opened with.
    pub limits: Limits,
}

impl Shared {
    /// Counts `bytes`, after eviction of what `spare` leaves if they do not fit. `None` where they do not fit then either.
    fn reserve(self: &Arc<Self>, bytes: u64, spare: Spare) -> Option<Reservation<'_>> {
        // As often as others take what was made free for us; then there is a crowd, and reading uncached is no loss.
        const ATTEMPTS: usize = 4;
        self.wait_for_count();
        for _ in 0..ATTEMPTS {
            if let Some(reservation) = self.usage.take(bytes) {
                return Some(reservation);
            }
            if !evict::make_room(self, bytes, spare) {
                return None;
            }
        }
        None
    }

    /// After a restart it is being counted what is here: for some thousands of versions that takes less time than one
    /// round trip. With very many, those who come first go uncached.
    fn wait_for_count(&self) {
        const PATIENCE: Duration = Duration::from_secs(1);
        while !self.usage.is_known() && self.opened.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
