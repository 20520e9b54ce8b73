//! Reports the state of cached versions. The state is read from the headers of the maps, without
//! opening the versions.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use firstbyte_location::{Location, Version};
use firstbyte_store::FileAccess;

use super::block_map::{DIRTY, DURABLE, Live, MapHeader, PINNED};
use super::cached::{CachedVersion, Pin};
use super::clock::Timestamp;
use super::directory::{CachedIdentity, Name, OBJECTS, SHARDS, is_same, location_text, maps, shard};
use super::evict::Released;
use super::packed::Packed;
use super::packs::{Packs, SlotCopy};
use super::{Cache, Shared};
use crate::block::BLOCK;
use crate::error::{Error, Result};

/// How much of a version is cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionState {
    /// All blocks are cached.
    Hydrated,
    /// Some blocks are cached.
    Partial,
    /// No block is cached.
    Released,
}

impl VersionState {
    /// Returns the state as a word for programs: `hydrated`, `partial` or `released`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Hydrated => "hydrated",
            Self::Partial => "partial",
            Self::Released => "released",
        }
    }
}

/// The state of one version in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionStatus {
    /// The location of the object.
    pub location: Location,
    /// The hash of the endpoint of the object's store. Empty for the scheme's default service.
    pub store: String,
    /// The version of the object. Only the strongest identifier that the store reported is set, for
    /// example the version id without the `ETag`.
    pub version: Version,
    /// Length of the object, bytes.
    pub size: u64,
    /// Number of bytes that are cached.
    pub here: u64,
    /// The time at which the version was last opened.
    pub last_use: SystemTime,
    /// How much of the version is cached.
    pub state: VersionState,
    /// Whether the version is protected from eviction.
    pub pin: Pin,
}

impl VersionStatus {
    /// Returns `here` as a percentage of `size`, rounded down, so it is 100 only if nothing is
    /// missing.
    #[must_use]
    pub fn percent(here: u64, size: u64) -> u128 {
        (u128::from(here) * 100).checked_div(u128::from(size)).unwrap_or(100)
    }

    fn new(identity: &CachedIdentity, live: &Live) -> Option<Self> {
        let size = identity.size();
        let blocks = size.div_ceil(BLOCK);
        let flags = live.flags.load(Ordering::Relaxed);
        let present = live.present.load(Ordering::Relaxed).min(blocks);
        let complete = live.complete.load(Ordering::Relaxed) != 0 || flags & (DURABLE | DIRTY) != DIRTY;
        Some(Self {
            location: identity.location()?,
            store: identity.store().to_owned(),
            version: identity.version(),
            size,
            here: (present * BLOCK).min(size),
            last_use: Timestamp::from_word(live.last_open.load(Ordering::Relaxed)).to_system_time(),
            state: match present {
                // The count may be slightly too high while blocks are being filled, so the version
                // must be complete as well.
                present if present == blocks && complete => VersionState::Hydrated,
                0 => VersionState::Released,
                _ => VersionState::Partial,
            },
            pin: if flags & PINNED == 0 { Pin::Unpinned } else { Pin::Pinned },
        })
    }
}

impl CachedVersion {
    /// Returns the state of the version.
    #[must_use]
    pub fn status(&self) -> Option<VersionStatus> {
        VersionStatus::new(&self.inner.identity, self.inner.map.live())
    }
}

impl Packed {
    /// Returns the state of the object.
    #[must_use]
    pub fn status(&self) -> Option<VersionStatus> {
        let identity = self.identity();
        let (size, found) = (identity.size(), self.slot());
        Some(VersionStatus {
            location: identity.location()?,
            store: identity.store().to_owned(),
            version: identity.version(),
            size,
            here: found.map_or(0, |_| size),
            last_use: found.map_or(SystemTime::UNIX_EPOCH, |seen| seen.last_use.to_system_time()),
            state: if found.is_some() { VersionState::Hydrated } else { VersionState::Released },
            pin: if found.is_some_and(|seen| seen.is_pinned()) { Pin::Pinned } else { Pin::Unpinned },
        })
    }
}

impl Cache {
    /// Releases the version that `found` describes.
    ///
    /// # Errors
    /// [`Error::Cache`]: the version's files cannot be used.
    pub fn release_found(&self, found: &VersionStatus) -> Result<Released> {
        let cache = Self { shared: Arc::clone(&self.shared), store: found.store.as_str().into() };
        cache.release_version(&found.location, &found.version)
    }

    /// Returns all cached versions of a location, in any store.
    ///
    /// # Errors
    /// [`Error::Cache`]: the directory cannot be read.
    pub fn find(&self, location: &Location) -> Result<Vec<VersionStatus>> {
        let packed = self.packed_of(location).into_iter().filter_map(|packed| packed.status());
        let found = self.maps_of(location)?.into_iter().map(|path| read_status(&self.shared, &path));
        let found = found.filter_map(Result::transpose);
        // File names are hashes, which may collide, so the location in the identity is compared.
        let found =
            found.filter(|status| status.as_ref().map_or(true, |status| is_same(&status.location, location)));
        packed.map(Ok).chain(found).collect()
    }

    /// Returns the status of one version of a location in this cache's store.
    #[must_use]
    pub fn status_of(&self, location: &Location, version: &Version) -> Option<VersionStatus> {
        // A cache that cannot be read counts as empty.
        let found = self.find(location).unwrap_or_default().into_iter();
        found.filter(|status| *status.store == *self.store).find(|status| status.version.agrees_with(version))
    }

    /// Returns the packed versions of a location.
    pub(super) fn packed_of(&self, location: &Location) -> Vec<Packed> {
        let Some(packs) = &self.shared.packs else { return Vec::new() };
        let found = packs.records_of_location(&location_text(location)).into_iter();
        let packed = found.filter_map(|seen| Packed::from_record(&self.shared, &seen).ok());
        packed
            .filter(|packed| packed.identity().location().is_some_and(|found| is_same(&found, location)))
            .collect()
    }

    /// Iterates over all versions, in any order. Reads the directories of the cache one at a time.
    #[must_use]
    pub fn statuses(&self) -> Statuses {
        let packed = self.shared.packs.as_ref().map(Packs::all).unwrap_or_default();
        Statuses { shared: Arc::clone(&self.shared), packed, next: 0, maps: Vec::new() }
    }

    /// Returns the maps of all versions of a location, and of other locations with the same hash.
    pub(super) fn maps_of(&self, location: &Location) -> Result<Vec<PathBuf>> {
        let prefix = Name::prefix(location);
        let shard = Path::new(OBJECTS).join(&prefix[..2]);
        let found = maps(&self.shared.dir, &shard);
        let mut found =
            found.map_err(Error::cache(&self.shared.dir.shown(&shard), "cannot read the cache directory"))?;
        found
            .retain(|map| map.file_name().is_some_and(|name| name.as_bytes().starts_with(prefix.as_bytes())));
        Ok(found)
    }
}

/// An iterator over the versions in a cache.
#[derive(Debug)]
pub struct Statuses {
    shared: Arc<Shared>,
    packed: Vec<SlotCopy>,
    next: u64,
    maps: Vec<PathBuf>,
}

impl Statuses {
    /// Returns the next map, without reading it.
    pub(super) fn next_map(&mut self) -> Option<Result<PathBuf>> {
        while self.maps.is_empty() {
            if self.next == SHARDS {
                return None;
            }
            let shard = shard(self.next);
            self.next += 1;
            match maps(&self.shared.dir, &shard) {
                Ok(maps) => self.maps = maps,
                Err(error) => {
                    let shard = self.shared.dir.shown(&shard);
                    return Some(Err(Error::cache(&shard, "cannot read the cache directory")(error)));
                }
            }
        }
        self.maps.pop().map(Ok)
    }
}

impl Iterator for Statuses {
    type Item = Result<VersionStatus>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(seen) = self.packed.pop() {
            if let Some(status) =
                Packed::from_record(&self.shared, &seen).ok().and_then(|packed| packed.status())
            {
                return Some(Ok(status));
            }
        }
        loop {
            let found = self.next_map()?.and_then(|path| read_status(&self.shared, &path)).transpose();
            if found.is_some() {
                return found;
            }
        }
    }
}

/// Reads the state recorded in a map. Returns `None` if the map was removed, is being created, or
/// is corrupt: no block is cached then.
fn read_status(shared: &Shared, path: &Path) -> Result<Option<VersionStatus>> {
    let header = shared.dir.file(path, FileAccess::Read).and_then(|file| MapHeader::read(&file));
    match header {
        Ok(header) => Ok(header.and_then(|header| {
            CachedIdentity::from_text(&header.text)
                .and_then(|identity| VersionStatus::new(&identity, &header.live))
        })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::cache(&shared.dir.shown(path), "cannot read a cached object")(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_version_is_at_100_percent() {
        assert_eq!(VersionStatus::percent(999_999, 1_000_000), 99);
        assert_eq!(VersionStatus::percent(u64::MAX, u64::MAX), 100);
        assert_eq!(VersionStatus::percent(0, 0), 100);
    }
}
