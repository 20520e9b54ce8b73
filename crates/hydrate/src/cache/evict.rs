//! Removes versions from the cache. Eviction makes room and begins with the least recently used
//! versions; release removes versions on request.
//!
//! No list keeps the versions in order of their last use, because all processes would have to keep
//! the list right. Instead, eviction samples a few versions from a random directory, and a few
//! packed objects from a random part of their table, and removes the oldest of the sample. In a
//! large cache these are nearly the oldest of all; in a small cache all versions are examined. A
//! version that no process has open is removed completely. Of an open version, the blocks that were
//! not read since eviction last passed (CLOCK) are punched, some MiB at a time. Pinned versions are
//! not evicted, and neither are versions whose file the kernel reads directly (see
//! [`Backing`](super::Backing)).

use std::fs::File;
use std::ops::{AddAssign, Range};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use firstbyte_location::{Location, Strength, Version, to_usize};
use firstbyte_pacing::SHORTEST_REQUEST;
use firstbyte_store::{FileAccess, PrivateDirectory};

use super::block_map::{BlockWord, MapHeader, PINNED, REFERENCED, first_cost, page_cost};
use super::cached::CachedVersion;
use super::clock::Timestamp;
use super::clock::{boot, random};
use super::directory::{CachePaths, CachedIdentity, SHARDS, is_same, maps, shard};
use super::lock::{LockFile, LockMode, LockWait, WHOLE, lock_out};
use super::open::{MissingAction, OpenVersion, open};
use super::packs::{Packs, SlotCopy};
use super::usage::{block_cost, on_disk};
use super::{Cache, Exempt, Retention, Shared};
use crate::block::BLOCK;
use crate::error::{Error, Result};
use crate::limits::CACHE_SHARE;

/// Number of versions that are sampled to find the oldest. Reading one header takes a few
/// microseconds.
const SAMPLE_SIZE: usize = 32;
/// Maximum number of versions that are removed from one sample.
const MAX_REMOVED: usize = 8;
/// Number of bytes that an eviction frees beyond those that are needed. A round takes a quarter of
/// a millisecond, and these bytes are 32 blocks, so the cost of the round is shared by 32 fills.
const BYTES_PER_ROUND: u64 = SHORTEST_REQUEST;
/// Maximum number of rounds of one eviction; a round removes the oldest of one sample. If there is
/// no room after them, the read is not cached. So after the size of the cache was lowered by a lot,
/// several evictions are needed to reach the new size.
const MAX_ROUNDS: usize = 64;
/// Number of rounds without effect after which an eviction gives up, if each round examined only a
/// sample of the cache.
const MAX_USELESS_ROUNDS: usize = 4;
/// Maximum number of words examined in one version: enough to pass twice over 128 GiB.
const MAX_WORDS_EXAMINED: u64 = 2 << 20;
/// Number of blocks whose words fit on one page of a map, for the smallest page size.
const BLOCKS_PER_MAP_PAGE: u64 = 512;

/// Frees `bytes` and some more by removing versions that are not exempt. Returns whether `bytes`
/// fit now.
pub(super) fn make_room(shared: &Arc<Shared>, bytes: u64, exempt: Exempt) -> bool {
    let _one = shared.evicting.lock();
    let usage = &shared.usage;
    let limit = usage.limits().size.unwrap_or(u64::MAX);
    // Before the usage has been counted, it is unknown how much to evict.
    if bytes > limit || !usage.is_known() {
        return false;
    }
    let goal = (bytes + BYTES_PER_ROUND.min(limit / CACHE_SHARE)).min(limit);
    let mut useless = 0;
    for _ in 0..MAX_ROUNDS {
        let room = usage.room();
        if room >= bytes {
            break;
        }
        useless += match evict_round(shared, goal - room, exempt) {
            Round { freed: 0, examined: Examined::Everything } => MAX_USELESS_ROUNDS,
            Round { freed: 0, examined: Examined::Sample } => 1,
            Round { .. } => 0,
        };
        if useless >= MAX_USELESS_ROUNDS {
            break;
        }
    }
    usage.room() >= bytes
}

/// Returns whether evicting versions that are not exempt could make `bytes` fit. Reads headers
/// until the answer is yes, and evicts nothing.
fn could_make_room(shared: &Shared, bytes: u64, exempt: Exempt) -> bool {
    let mut left = bytes.saturating_sub(shared.usage.room());
    if bytes > shared.usage.limits().size.unwrap_or(u64::MAX) {
        return false;
    }
    for index in 0..SHARDS {
        if left == 0 {
            break;
        }
        for map in maps(&shared.dir, &shard(index)).unwrap_or_default() {
            let Some(live) = header_of(shared, &map).map(|header| header.live) else { continue };
            if !exempt.includes(&live) {
                left = left.saturating_sub(live.charged.load(Ordering::Relaxed));
            }
        }
    }
    let packed = shared.packs.as_ref().filter(|_| left > 0).map(Packs::all).unwrap_or_default();
    let packed = packed.iter().filter(|seen| !seen.is_exempt(exempt));
    packed.map(|seen| seen.place.bytes()).sum::<u64>() >= left
}

/// Returns the header of a map, if it can be read.
fn header_of(shared: &Shared, map: &Path) -> Option<MapHeader> {
    shared.dir.file(map, FileAccess::Read).ok().and_then(|file| MapHeader::read(&file).ok().flatten())
}

/// Frees `bytes` although the usage counters report room, because the disk or a quota is full.
/// Returns whether all of `bytes` were freed.
pub(super) fn free_disk(shared: &Arc<Shared>, bytes: u64, exempt: Exempt) -> bool {
    let _one = shared.evicting.lock();
    evict_round(shared, bytes + BYTES_PER_ROUND, exempt).freed >= bytes
}

/// Frees some of the bytes by which the usage exceeds a lowered limit. Returns the number of bytes
/// freed.
pub(super) fn trim(shared: &Arc<Shared>) -> u64 {
    let _one = shared.evicting.lock();
    let excess = shared.usage.used().saturating_sub(shared.usage.limits().size.unwrap_or(u64::MAX));
    if excess == 0 { 0 } else { evict_round(shared, excess.min(BYTES_PER_ROUND), Exempt::Pinned).freed }
}

/// Part of the cache that a round has examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Examined {
    Everything,
    Sample,
}

struct Round {
    freed: u64,
    examined: Examined,
}

/// A version or packed object that may be removed.
enum Candidate {
    /// A version, by the path of its map.
    Version(PathBuf),
    Packed(SlotCopy),
}

/// Samples versions and packed objects, and removes the oldest of them until `goal` bytes are free.
fn evict_round(shared: &Arc<Shared>, goal: u64, exempt: Exempt) -> Round {
    let (mut found, mut examined) = sample(shared, exempt);
    if let Some(packs) = &shared.packs {
        let (packed, all) = packs.sample(random(), SAMPLE_SIZE, |seen| !seen.is_exempt(exempt));
        found.extend(packed.into_iter().map(|seen| (seen.last_use.word(), Candidate::Packed(seen))));
        if !all {
            examined = Examined::Sample;
        }
    }
    found.sort_by_key(|(used, _)| *used);
    let most = if examined == Examined::Everything { usize::MAX } else { MAX_REMOVED };
    let (mut freed, mut removed) = (0, 0);
    let mut in_use = Vec::new();
    for (_, candidate) in found {
        if freed >= goal || removed == most {
            break;
        }
        let outcome = match &candidate {
            Candidate::Version(map) => remove(shared, &CachePaths::of_map(map.clone()), exempt),
            Candidate::Packed(seen) => {
                let packs = shared.packs.as_ref();
                let bytes = packs.and_then(|packs| packs.remove(seen, exempt, shared));
                bytes.map_or(VersionRemoval::Nothing, VersionRemoval::Bytes)
            }
        };
        match (outcome, candidate) {
            (VersionRemoval::Bytes(bytes), _) => {
                freed += bytes;
                removed += 1;
            }
            (VersionRemoval::InUse, Candidate::Version(map)) => in_use.push(map),
            _ => {}
        }
    }
    if freed < goal {
        freed += shrink(shared, in_use, goal - freed, exempt);
    }
    Round { freed, examined }
}

/// Samples versions. Returns each with the time of its last use, and whether all versions were
/// examined. If a job needs room, skips exempt versions: in a cache that the job has filled, a
/// sample would otherwise contain little else.
fn sample(shared: &Shared, exempt: Exempt) -> (Vec<(u64, Candidate)>, Examined) {
    let mut found = Vec::new();
    let mut examined = Examined::Everything;
    let first = random() % SHARDS;
    for index in first..first + SHARDS {
        let mut names = maps(&shared.dir, &shard(index)).unwrap_or_default();
        while !names.is_empty() && found.len() < SAMPLE_SIZE {
            let map = names.swap_remove(to_usize(random() % names.len() as u64));
            let header = header_of(shared, &map);
            let skipped = |header: &MapHeader| exempt.includes(&header.live);
            if matches!(exempt, Exempt::UsedSince(_)) && header.as_ref().is_some_and(skipped) {
                continue;
            }
            // A file that is no complete map counts as the oldest.
            let used = |header: MapHeader| Timestamp::from_word(header.live.last_open.into_inner()).word();
            found.push((header.map_or(0, used), Candidate::Version(map)));
        }
        if !names.is_empty() || (found.len() == SAMPLE_SIZE && index + 1 < first + SHARDS) {
            examined = Examined::Sample;
            break;
        }
    }
    (found, examined)
}

/// The outcome of removing a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VersionRemoval {
    /// The version was removed, and this many bytes are free.
    Bytes(u64),
    /// A process has the version open.
    InUse,
    /// No block was removed: the version was already gone, or is exempt.
    Nothing,
}

/// Removes a version, unless a process has it open.
pub(super) fn remove(shared: &Shared, paths: &CachePaths, exempt: Exempt) -> VersionRemoval {
    let map = shared.dir.file(&paths.map, FileAccess::Write).map(LockFile::new);
    let Ok(map) = map else { return VersionRemoval::Nothing };
    match lock_out(&map) {
        Ok(true) => {}
        Ok(false) => return VersionRemoval::InUse,
        Err(_) => return VersionRemoval::Nothing,
    }
    let header = MapHeader::read(&map).ok().flatten();
    let gone = map.metadata().map_or(true, |meta| meta.nlink() == 0);
    if gone || header.as_ref().is_some_and(|header| exempt.includes(&header.live)) {
        return VersionRemoval::Nothing;
    }
    let bytes = accounted_bytes_of(&shared.dir, header.as_ref(), &map, paths);
    let freeing = shared.usage.begin_freeing(bytes);
    if paths.remove(&shared.dir).is_err() {
        return VersionRemoval::Nothing;
    }
    freeing.complete();
    VersionRemoval::Bytes(bytes)
}

/// Returns the bytes that the usage counters include for a version. The header contains this
/// number. If the version was not opened since the machine restarted, the number in the header may
/// be outdated, so the bytes that the files use on the disk count instead. A recount applies the
/// same rule.
pub(super) fn accounted_bytes_of(
    directory: &PrivateDirectory,
    header: Option<&MapHeader>,
    map: &File,
    paths: &CachePaths,
) -> u64 {
    match header {
        Some(MapHeader { live, .. }) if live.boot.load(Ordering::Relaxed) == boot() => {
            live.charged.load(Ordering::Relaxed)
        }
        _ => on_disk(map) + directory.file(&paths.data, FileAccess::Read).map_or(0, |data| on_disk(&data)),
    }
}

/// Punches blocks out of versions that are in use. Takes the versions in random order.
fn shrink(shared: &Arc<Shared>, mut in_use: Vec<PathBuf>, goal: u64, exempt: Exempt) -> u64 {
    let mut freed = 0;
    while freed < goal && !in_use.is_empty() && shared.can_punch.load(Ordering::Relaxed) {
        let map = in_use.swap_remove(to_usize(random() % in_use.len() as u64));
        let paths = CachePaths::of_map(map);
        let opened = open(shared, paths, MissingAction::Skip, Retention::Persistent, LockWait::Never);
        if let Ok(Some(version)) = opened {
            freed += version.shrink(goal - freed, exempt);
        }
    }
    for version in shared.unnamed() {
        if freed < goal && shared.can_punch.load(Ordering::Relaxed) {
            freed += version.shrink(goal - freed, exempt);
        }
    }
    freed
}

impl OpenVersion {
    /// Removes about `goal` bytes of blocks that were not read lately. Returns the number of bytes
    /// freed.
    fn shrink(&self, goal: u64, exempt: Exempt) -> u64 {
        let live = self.map.live();
        let Some(_whole) = self.locks.guard(WHOLE, LockMode::Exclusive) else { return 0 };
        if self.map.blocks() == 0 || exempt.includes(live) {
            return 0;
        }
        let mut hand = live.hand.load(Ordering::Relaxed) % self.map.blocks();
        let (mut freed, mut looks) = (0, 0);
        // A second pass is needed if all blocks were read: the first pass then only clears their
        // flags.
        let most = MAX_WORDS_EXAMINED.min(2 * self.map.blocks());
        while freed < goal && looks < most {
            let next = match self.map.word(hand) {
                None => self.map.after_hole(hand),
                Some(word) => {
                    let before = BlockWord(word.fetch_and(!REFERENCED, Ordering::Relaxed));
                    if before.is_present() && !before.is_referenced() {
                        let end = self.end_of_unread(hand, goal - freed);
                        freed += self.evict(hand..end);
                        end
                    } else {
                        hand + 1
                    }
                }
            };
            looks += next - hand;
            hand = next % self.map.blocks();
        }
        live.hand.store(hand, Ordering::Relaxed);
        freed
    }

    /// Returns the end of the run of unread blocks that begins at `block` and is at most `goal`
    /// bytes long. A run is punched as a whole, because each punch costs a system call.
    fn end_of_unread(&self, block: u64, goal: u64) -> u64 {
        let most = self.map.blocks().min(block + goal.div_ceil(BLOCK).max(1));
        let is_unread = |block: &u64| {
            self.map
                .word(*block)
                .map(|word| BlockWord(word.load(Ordering::Relaxed)))
                .is_some_and(|word| word.is_present() && !word.is_referenced())
        };
        (block + 1..most).find(|block| !is_unread(block)).unwrap_or(most)
    }

    /// Removes all blocks that are not being changed. Returns the number of bytes freed.
    fn remove_all_blocks(&self) -> u64 {
        let Some(_whole) = self.locks.guard(WHOLE, LockMode::Exclusive) else { return 0 };
        self.map.live().flags.fetch_and(!PINNED, Ordering::AcqRel);
        let (mut block, mut bytes) = (0, 0);
        while block < self.map.blocks() {
            // Tries all blocks whose words are on one page of the map at once. If one of them is
            // being filled, only the blocks of this page are removed one by one.
            let end = self.map.next_page(block).min(self.map.blocks());
            if self.map.word(block).is_some() {
                bytes += match self.evict(block..end) {
                    0 => (block..end).map(|block| self.evict(block..block + 1)).sum(),
                    bytes => bytes,
                };
            }
            block = end;
        }
        bytes
    }
}

/// The number of versions and bytes that were released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Released {
    /// Number of versions released.
    pub versions: u64,
    /// Number of bytes freed on the disk.
    pub bytes: u64,
    /// Number of versions that still have blocks, because the kernel reads the file or a block is
    /// being written.
    pub busy: u64,
}

impl Released {
    fn add_packed(&mut self, bytes: Option<u64>) {
        self.versions += u64::from(bytes.is_some());
        self.bytes += bytes.unwrap_or(0);
    }
}

impl AddAssign for Released {
    fn add_assign(&mut self, other: Self) {
        self.versions += other.versions;
        self.bytes += other.bytes;
        self.busy += other.busy;
    }
}

impl Cache {
    /// Releases every version of a location, in all stores, including pinned versions.
    ///
    /// # Errors
    /// [`Error::Cache`]: the directory cannot be read.
    pub fn release(&self, location: &Location) -> Result<Released> {
        let mut released = Released::default();
        for packed in self.packed_of(location) {
            released.add_packed(packed.release());
        }
        for map in self.maps_of(location)? {
            let identity =
                header_of(&self.shared, &map).and_then(|header| CachedIdentity::from_text(&header.text));
            let found = identity.and_then(|identity| identity.location());
            if found.is_none_or(|found| is_same(&found, location)) {
                self.release_map(map, &mut released)?;
            }
        }
        Ok(released)
    }

    /// Releases one version of a location.
    ///
    /// # Errors
    /// [`Error::Cache`]: the version's files cannot be used.
    pub fn release_version(&self, location: &Location, version: &Version) -> Result<Released> {
        let mut released = Released::default();
        if let Some(packed) = self.packed(location, version) {
            released.add_packed(packed.release());
        }
        if let Some(identity) = CachedIdentity::new(location, &self.store, version) {
            self.release_map(CachePaths::new(&identity.name()).map, &mut released)?;
        }
        Ok(released)
    }

    fn release_map(&self, map: PathBuf, released: &mut Released) -> Result<()> {
        let paths = CachePaths::of_map(map);
        match remove(&self.shared, &paths, Exempt::None) {
            VersionRemoval::Bytes(bytes) => {
                released.versions += 1;
                released.bytes += bytes;
            }
            VersionRemoval::Nothing if self.shared.dir.has(&paths.map) => {
                let error = std::io::Error::new(std::io::ErrorKind::PermissionDenied, "it cannot be removed");
                let map = self.shared.dir.shown(&paths.map);
                return Err(Error::cache(&map, "cannot release a cached object")(error));
            }
            VersionRemoval::Nothing => {}
            VersionRemoval::InUse => {
                let (skip, retention) = (MissingAction::Skip, Retention::Persistent);
                let opened = open(&self.shared, paths, skip, retention, LockWait::Briefly)?;
                if let Some(version) = opened {
                    released.bytes += version.remove_all_blocks();
                    let gone = version.map.live().present.load(Ordering::Acquire) == 0;
                    *(if gone { &mut released.versions } else { &mut released.busy }) += 1;
                }
            }
        }
        Ok(())
    }

    /// Returns whether opening a version needs no room, because it is packed or has files.
    #[must_use]
    pub fn opens_without_room(&self, location: &Location, version: &Version) -> bool {
        if self.packed(location, version).is_some() {
            return true;
        }
        let named = CachedIdentity::new(location, &self.store, version)
            .filter(|_| version.strength() == Strength::Strong);
        named.is_some_and(|identity| self.shared.dir.has(&CachePaths::new(&identity.name()).map))
    }

    /// Returns the bytes of disk that `blocks` of a version would need, if the version has no files
    /// yet. `None` if it cannot be cached.
    #[must_use]
    pub fn cost(&self, location: &Location, version: &Version, blocks: &Range<u64>) -> Option<u64> {
        let identity = CachedIdentity::new(location, &self.store, version)?;
        let header = MapHeader::to_bytes(identity.size(), &identity.to_text(), 0, 0, 0)?.len();
        let first = first_cost(header, identity.size().div_ceil(BLOCK));
        Some(first + cost_of(blocks, identity.size(), blocks.end - blocks.start))
    }

    /// Returns the number of bytes that the cache can hold in total, by its limits and the last
    /// query of its file system. Makes no system call.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.shared.usage.capacity()
    }

    /// Returns whether `bytes` fit without eviction.
    #[must_use]
    pub fn has_room(&self, bytes: u64) -> bool {
        self.shared.usage.room() >= bytes
    }

    /// Evicts versions that are not exempt until `bytes` fit. Returns whether they fit now. If
    /// eviction cannot make them fit, nothing is evicted. The space is not reserved: other
    /// processes may use it first.
    #[must_use]
    pub fn make_room(&self, bytes: u64, exempt: Exempt) -> bool {
        let shared = &self.shared;
        shared.wait_for_count();
        shared.usage.room() >= bytes
            || (could_make_room(shared, bytes, exempt) && make_room(shared, bytes, exempt))
    }
}

impl CachedVersion {
    /// Returns the bytes of disk that the absent blocks among `blocks` need.
    #[must_use]
    pub fn cost_of_missing(&self, blocks: &Range<u64>) -> u64 {
        let present = self.inner.map.live().present.load(Ordering::Acquire);
        let missing = if present == 0 {
            blocks.end - blocks.start
        } else {
            blocks.clone().filter(|block| !self.is_present(*block)).count() as u64
        };
        cost_of(blocks, self.size(), missing)
    }
}

/// Returns the bytes of disk that `missing` of the `blocks` need, with new pages of the map for all
/// `blocks`.
fn cost_of(blocks: &Range<u64>, size: u64, missing: u64) -> u64 {
    if missing == 0 {
        return 0;
    }
    let bytes = (missing * BLOCK).min(size);
    let pages = (blocks.end - blocks.start).div_ceil(BLOCKS_PER_MAP_PAGE) + 1;
    // The words of the first half page of blocks are usually on the pages of the map's header,
    // which exist already. After a text of more than 1.9 KiB, some may be on another page, which is
    // not counted.
    let pages = if blocks.end <= BLOCKS_PER_MAP_PAGE / 2 { 0 } else { pages };
    bytes.next_multiple_of(block_cost(1)) + pages * page_cost()
}
