//! Stores the blocks of one version on this machine: in the cache, or in memory if they cannot be
//! cached.
//!
//! The cached version is opened at the first access, because most files of a directory are never
//! read. Reads look for blocks here, and fetches store the received blocks here.

mod cache_entry;
mod memory;

use std::fs::File;
use std::ops::Range;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, OnceLock};

use firstbyte_location::{ByteRange, Checksum, Location, Version};
use firstbyte_store::{Error as StoreError, Sink};
use rustix_futex_sync::Mutex;

pub(crate) use cache_entry::{BlockLease, CacheEntry};
pub(crate) use memory::MemoryBlocks;

use crate::block::BLOCK;
use crate::cache::{Backing, Cache, Exempt, FillOutcome, PinnedBlocks, VersionVerification};
use crate::error::Error;
use crate::limits::{CACHE_SHARE, MAX_WINDOW_SIZE};

/// The cache's response to a fetched block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheOutcome {
    /// The block is in the cache.
    Cached,
    /// The block was not offered to the cache.
    NotTried,
    /// The cache has no space for the block.
    NoRoom,
}

/// Whether this process may fetch blocks now.
pub(crate) enum FetchTurn {
    /// This process may fetch until this value is dropped. The lease is `None` if other processes
    /// cannot see the blocks.
    Ours { _lease: Option<BlockLease> },
    /// Another process fetches some of the blocks.
    Theirs,
}

pub(crate) struct BlockStore {
    /// Identifies the version in `memory`.
    id: u64,
    size: u64,
    cache: Option<(Cache, Location, Version)>,
    cached: OnceLock<Result<CacheEntry, Error>>,
    /// The store's checksum of the whole object, or `None` if the store has none. Not set until the
    /// store has answered.
    checksum: OnceLock<Option<Checksum>>,
    /// True before the first block, and if the most recent block was written to the cache.
    is_caching: AtomicBool,
    /// True if a fetch may receive blocks directly into the file. Cleared when a direct write has
    /// failed.
    can_receive: AtomicBool,
    /// True if a thread verifies the whole version, or is about to.
    is_verifying: AtomicBool,
    /// The checksum error of the latest verification of the whole version.
    checksum_error: Mutex<Option<Error>>,
    memory: Arc<MemoryBlocks>,
}

impl BlockStore {
    pub(crate) fn new(
        id: u64,
        size: u64,
        cache: Option<(Cache, Location, Version)>,
        memory: Arc<MemoryBlocks>,
    ) -> Self {
        Self {
            id,
            size,
            cache,
            cached: OnceLock::new(),
            checksum: OnceLock::new(),
            is_caching: AtomicBool::new(true),
            can_receive: AtomicBool::new(true),
            is_verifying: AtomicBool::new(false),
            checksum_error: Mutex::default(),
            memory,
        }
    }

    /// Returns the version in the cache. `None` if there is no cache or the cached version cannot
    /// be used.
    pub(crate) fn cached(&self) -> Option<&CacheEntry> {
        let (cache, location, version) = self.cache.as_ref()?;
        let open = || {
            let opened = CacheEntry::open(cache, location, version, self.checksum.get().cloned().flatten());
            opened.inspect_err(|error| tracing::warn!(%location, %error, "read without the cache"))
        };
        self.cached.get_or_init(open).as_ref().ok()
    }

    /// Returns the reason why the cached version cannot be used, unless the reason is that there is
    /// no cache or no room.
    pub(crate) fn cache_error(&self) -> Option<Error> {
        let error = self.cached.get()?.as_ref().err()?;
        (!error.is_full_disk()).then(|| error.clone())
    }

    /// Copies the contiguous bytes that are present from `offset` on. Returns the number of bytes
    /// copied.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> usize {
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let mut read = self.cached().map_or(0, |cached| cached.read_at(&mut buffer[done..], at));
            if read == 0 {
                read = self.memory.read_at(self.id, &mut buffer[done..], at);
            }
            if read == 0 {
                break;
            }
            done += read;
        }
        done
    }

    /// Pins the blocks of `range`. Returns `None` unless all of them are in the cached file.
    pub(crate) fn pin_blocks(&self, range: ByteRange) -> Option<PinnedBlocks> {
        self.cached()?.pin_blocks(range)
    }

    /// Returns whether a block is in the cache or in memory.
    pub(crate) fn has(&self, block: u64) -> bool {
        self.is_cached(block) || self.memory.has(self.id, block)
    }

    /// Returns whether a block is in the cache.
    pub(crate) fn is_cached(&self, block: u64) -> bool {
        self.cached().is_some_and(|cached| cached.is_present(block))
    }

    /// Returns a function like [`is_cached`](Self::is_cached) for blocks in ascending order. It is
    /// faster if many of the blocks are absent.
    pub(crate) fn ascending_cache_test(&self) -> impl FnMut(u64) -> bool {
        let (mut searched, mut next) = (false, None);
        move |block| {
            if !searched || next.is_some_and(|next| next < block) {
                next = self.cached().and_then(|cached| cached.next_present(block));
                searched = true;
            }
            next == Some(block)
        }
    }

    /// Returns a function like [`has`](Self::has) for blocks in ascending order.
    pub(crate) fn ascending_presence_test(&self) -> impl FnMut(u64) -> bool {
        let mut is_cached = self.ascending_cache_test();
        move |block| is_cached(block) || self.memory.has(self.id, block)
    }

    /// Returns whether there is a usable cache.
    pub(crate) fn has_cache(&self) -> bool {
        self.cached().is_some()
    }

    /// Returns whether a block fetched now is likely to be cached, as the most recent one was.
    pub(crate) fn is_caching(&self) -> bool {
        self.is_caching.load(Relaxed) && self.has_cache()
    }

    /// Returns the number of bytes that the cache can hold; `None` without a cache.
    pub(crate) fn capacity(&self) -> Option<u64> {
        self.cache.as_ref().map(|(cache, ..)| cache.capacity())
    }

    /// Returns the width of the widest read-ahead window of one reader, bytes.
    pub(crate) fn max_window(&self) -> u64 {
        match &self.cache {
            Some((cache, ..)) if self.is_caching() => MAX_WINDOW_SIZE.min(cache.capacity() / CACHE_SHARE),
            _ => self.memory.window(),
        }
    }

    /// Stores a fetched block in the cache if there is room after evicting versions that are not
    /// `exempt`. Otherwise stores the block in memory if `keep` returns true. `outcome` is the
    /// result of [`receive`](Self::receive). Returns whether the block is cached.
    pub(crate) fn store(
        &self,
        block: u64,
        bytes: &[u8],
        outcome: CacheOutcome,
        exempt: Exempt,
        keep: impl FnOnce() -> bool,
    ) -> bool {
        let fill = |cached: &CacheEntry| cached.fill(block, bytes, exempt) != FillOutcome::NoRoom;
        let cached = outcome == CacheOutcome::NotTried && self.cached().is_some_and(fill);
        self.is_caching.store(cached, Relaxed);
        if !cached && keep() {
            self.memory.put(self.id, block, bytes);
        }
        cached
    }

    /// Records an empty object in the cache. It has no blocks, so no fetch would record it.
    pub(crate) fn store_empty(&self, exempt: Exempt) {
        if self.size == 0
            && let Some(cached) = self.cached()
        {
            cached.fill_empty(exempt);
        }
    }

    /// Fills a block by calling `transfer`, which writes the block into the cached file: see
    /// [`CachedVersion::receive`](crate::cache::CachedVersion::receive). If `transfer` is called,
    /// the block is cached afterwards, or an error is returned.
    pub(crate) fn receive(
        &self,
        block: u64,
        buffer: &mut [u8],
        exempt: Exempt,
        transfer: impl FnOnce(&Sink, u64, &mut [u8]) -> Result<(), StoreError>,
    ) -> Result<CacheOutcome, StoreError> {
        let Some(cached) = self.cached().filter(|_| self.can_receive.load(Relaxed)) else {
            return Ok(CacheOutcome::NotTried);
        };
        let mut transferred = false;
        let received = cached.receive(block, buffer, exempt, |sink, at, buffer| {
            transferred = true;
            transfer(sink, at, buffer)
        });
        let Some(received) = received else { return Ok(CacheOutcome::NotTried) };
        match received {
            Ok(FillOutcome::NoRoom) => Ok(CacheOutcome::NoRoom),
            Ok(_) if transferred => {
                self.is_caching.store(true, Relaxed);
                Ok(CacheOutcome::Cached)
            }
            Ok(_) => Ok(CacheOutcome::NotTried),
            Err(error) => {
                // The disk is full or has failed. The bytes on their way into the file are lost, so
                // the next blocks are received into memory.
                if matches!(error, StoreError::Io { .. }) {
                    self.can_receive.store(false, Relaxed);
                }
                Err(error)
            }
        }
    }

    /// Claims the right to fetch `blocks`, which only one of the processes sharing the cache can
    /// have.
    pub(crate) fn try_lease(&self, blocks: &Range<u64>) -> FetchTurn {
        let Some(cached) = self.cached() else { return FetchTurn::Ours { _lease: None } };
        cached
            .lease(blocks.clone())
            .map_or(FetchTurn::Theirs, |lease| FetchTurn::Ours { _lease: Some(lease) })
    }

    /// Sets the checksum of the whole object; `None` if the store has none. Only the first call has
    /// an effect.
    pub(crate) fn set_checksum(&self, checksum: Option<Checksum>) {
        if self.checksum.set(checksum.clone()).is_ok()
            && let (Some(Ok(cached)), Some(checksum)) = (self.cached.get(), checksum)
        {
            cached.set_checksum(checksum);
        }
    }

    /// Returns whether the store has answered the request for the checksum of the whole object.
    pub(crate) fn knows_checksum(&self) -> bool {
        self.checksum.get().is_some()
    }

    /// Returns whether all blocks are cached, and no thread verifies them. If this returns true,
    /// the caller must call [`verify`](Self::verify).
    pub(crate) fn begin_verification(&self) -> bool {
        let ready = self.cached().is_some_and(|cached| !cached.is_complete() && cached.has_all_blocks());
        ready && !self.is_verifying.swap(true, Acquire)
    }

    /// Verifies the whole version.
    pub(crate) fn verify(&self, location: &Location) {
        let Some(cached) = self.cached() else { return };
        let verified = cached.verify_complete();
        let mut checksum_error = self.checksum_error.lock();
        match verified {
            // Another process is verifying the version, or blocks are missing. In the second case,
            // fetching the missing blocks starts the verification again.
            Ok(VersionVerification::Busy | VersionVerification::Missing) => {}
            Ok(VersionVerification::Complete) => *checksum_error = None,
            Err(error) => {
                tracing::error!(%location, %error, "the whole could not be verified");
                if let Error::Checksum(_) = error {
                    *checksum_error = Some(error);
                }
            }
        }
        drop(checksum_error);
        self.is_verifying.store(false, Release);
    }

    /// Returns the checksum error of the latest verification, if there was one.
    pub(crate) fn checksum_error(&self) -> Option<Error> {
        self.checksum_error.lock().clone()
    }

    /// Makes room for the uncached blocks among `blocks` and for `promised` other bytes, by
    /// evicting versions that are not `exempt`. If `least_refused` bytes or more are needed, no
    /// version is evicted, because there was no room for that many before. Records that the version
    /// is in use. Returns the bytes of disk that the uncached blocks need.
    ///
    /// # Errors
    /// Returns the number of bytes that do not fit; `None` if the version cannot be cached at all.
    pub(crate) fn make_room(
        &self,
        blocks: &Range<u64>,
        promised: u64,
        exempt: Exempt,
        least_refused: u64,
    ) -> Result<u64, Option<u64>> {
        let (cache, location, version) = self.cache.as_ref().ok_or(None)?;
        let makes_room = |bytes: u64| {
            let all = bytes + promised;
            let fits = if all < least_refused { cache.make_room(all, exempt) } else { cache.has_room(all) };
            if fits { Ok(bytes) } else { Err(Some(all)) }
        };
        // Opening the version would create its files, for which any version may be evicted, even an
        // `exempt` one. So room is made before the version is opened.
        if self.cached.get().is_none() && !cache.opens_without_room(location, version) {
            makes_room(cache.cost(location, version, blocks).ok_or(None)?)?;
        }
        let cached = self.cached().ok_or(None)?;
        cached.touch();
        match cached.cost_of_missing(blocks) {
            0 => Ok(0),
            bytes => makes_room(bytes),
        }
    }

    /// Returns whether the absent blocks among `blocks` fit without eviction.
    pub(crate) fn has_room(&self, blocks: &Range<u64>) -> bool {
        let Some((cache, ..)) = &self.cache else { return false };
        self.cached().is_some_and(|cached| cache.has_room(cached.cost_of_missing(blocks)))
    }

    /// Releases the version if no block of it is cached, so that a pin does not outlive a failed
    /// job.
    pub(crate) fn release_if_empty(&self) {
        if let Some((cache, location, version)) = &self.cache
            && cache.opens_without_room(location, version)
            && self.cached().is_some_and(|cached| cached.next_present(0).is_none())
        {
            let released = cache.release_version(location, version);
            let _ = released.inspect_err(|error| tracing::warn!(%location, %error, "not released"));
        }
    }

    /// Returns whether there is nothing to verify: the version is verified already, or is not
    /// cached.
    pub(crate) fn is_settled(&self) -> bool {
        self.cached().is_none_or(CacheEntry::is_complete)
    }

    /// Returns the file of a version that is synced once it is complete. `None` if this version is
    /// never synced.
    pub(crate) fn unsynced_file(&self) -> Option<File> {
        self.cached()?.unsynced_file()
    }

    pub(crate) fn backing(&self) -> Option<Backing> {
        self.cached()?.backing()
    }

    /// Returns the byte range of `blocks`, cut at the end of the file.
    pub(crate) fn bytes(&self, blocks: &Range<u64>) -> ByteRange {
        ByteRange::new(blocks.start * BLOCK, blocks.end.saturating_mul(BLOCK).min(self.size))
    }
}

impl Drop for BlockStore {
    fn drop(&mut self) {
        self.memory.remove_file(self.id);
    }
}
