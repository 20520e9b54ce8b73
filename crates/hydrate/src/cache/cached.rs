//! Reads the cached blocks of an open version, without a lock.
//!
//! A reader loads the words of the blocks, reads the bytes, and then compares the map's generation.
//! If blocks were removed in between, the reader starts again. A thread that removes blocks marks
//! them absent, increments the generation, and only then punches the file. So a reader never
//! returns the zeros of a hole.
//!
//! A reader also checks the length of the file. Another program may cut the file short, and a later
//! write behind the cut replaces the lost bytes by zeros. No write of this crate restores the full
//! length of a cut file (see `fill`). So a file that is as long as the object was never cut.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use firstbyte_location::{ByteRange, Checksum, Location, Version, shown, to_usize};

use super::block_map::{BlockWord, DURABLE, INTACT, PINNED, REFERENCED, length};
use super::clock::Timestamp;
use super::lock::{LockMode, leases, pins};
use super::open::OpenVersion;
use crate::block::BLOCK;

/// One version of an object that is open in the cache. Clones share the open version.
#[derive(Clone, Debug)]
pub struct CachedVersion {
    pub(super) inner: Arc<OpenVersion>,
}

/// Protection of a version from eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    /// The version stays in the cache until it is released or unpinned.
    Pinned,
    /// The version may be removed when space is needed.
    Unpinned,
}

/// State of a block in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Present,
    /// The block was written before an unclean stop, and must be verified before it is returned.
    Unverified,
    Absent,
}

impl CachedVersion {
    pub(super) fn new(inner: Arc<OpenVersion>) -> Self {
        Self { inner }
    }

    /// Returns the length of the object, bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.inner.identity.size()
    }

    /// Returns the number of blocks of the object.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.inner.map.blocks()
    }

    /// Sets the checksum of the whole object. Once all blocks are present, the content is verified
    /// against this checksum. Ignored if a checksum was set before.
    pub fn set_checksum(&self, checksum: Checksum) {
        let _ = self.inner.checksum.set(checksum);
    }

    /// Reads contiguous cached bytes from `offset` on. Returns their number, which is 0 if the
    /// block at `offset` is absent or `offset` is at the end.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> usize {
        let end = self.size().min(offset.saturating_add(buffer.len() as u64));
        if offset >= end {
            return 0;
        }
        let (first, last) = (offset / BLOCK, (end - 1) / BLOCK);
        loop {
            let generation = self.inner.generation();
            let mut until = first;
            while until <= last && self.inner.presence(until) == Presence::Present {
                self.inner.reference(until);
                until += 1;
            }
            if until == first {
                if self.inner.presence(first) == Presence::Unverified && self.inner.verify_block(first) {
                    continue;
                }
                return 0;
            }
            let stop = end.min(until * BLOCK);
            let part = &mut buffer[..to_usize(stop - offset)];
            let read = self.inner.data.file().read_exact_at(part, offset);
            if self.inner.invalidate_if_cut() {
                return 0;
            }
            if let Err(error) = read {
                self.inner.warn_unreadable(&error);
                self.inner.drop_blocks(first..until);
                return 0;
            }
            if self.inner.is_generation(generation) {
                return part.len();
            }
        }
    }

    /// Pins the blocks of `range` in the file, so that they can be read without a copy. Returns
    /// `None` unless all of them are present and verified.
    pub fn pin_blocks(&self, range: ByteRange) -> Option<PinnedBlocks> {
        let blocks = range.start / BLOCK..range.end.min(self.size()).div_ceil(BLOCK);
        let all_present = || blocks.clone().all(|block| self.inner.presence(block) == Presence::Present);
        // The first check avoids the lock if a block is absent. The second check, under the lock,
        // finds blocks that eviction has removed in between.
        if blocks.is_empty() || !all_present() || self.inner.invalidate_if_cut() {
            return None;
        }
        if !self.inner.locks.try_lock(pins(blocks.clone()), LockMode::Shared) {
            return None;
        }
        let pinned = PinnedBlocks { cached: self.clone(), blocks: blocks.clone() };
        blocks.clone().for_each(|block| self.inner.reference(block));
        all_present().then_some(pinned)
    }

    /// Returns the CRC-32C of a block, computed when the block was received. Returns `None` if the
    /// block is absent, or was not verified since an unclean stop.
    #[must_use]
    pub fn block_checksum(&self, block: u64) -> Option<u32> {
        let word = self.inner.map.word(block)?.load(Ordering::Acquire);
        (self.inner.presence(block) == Presence::Present).then(|| BlockWord(word).crc())
    }

    /// Returns whether a block is cached. Includes blocks from before an unclean stop, though a
    /// read may still find them wrong.
    #[must_use]
    pub fn is_present(&self, block: u64) -> bool {
        block < self.blocks() && self.inner.presence(block) != Presence::Absent
    }

    /// Returns the first absent block at or after `from`.
    #[must_use]
    pub fn next_missing(&self, from: u64) -> Option<u64> {
        (from..self.blocks()).find(|block| self.inner.presence(*block) == Presence::Absent)
    }

    /// Returns the first present block at or after `from`. Skips a hole in the map, which stands
    /// for thousands of blocks, in one step.
    #[must_use]
    pub fn next_present(&self, mut from: u64) -> Option<u64> {
        while from < self.blocks() {
            match self.inner.map.word(from) {
                None => from = self.inner.map.after_hole(from),
                Some(_) if self.inner.presence(from) != Presence::Absent => return Some(from),
                Some(_) => from += 1,
            }
        }
        None
    }

    /// Claims the exclusive right to fetch these blocks. Returns `None` if another fetch, in this
    /// process or another, has the right for any of them. The right ends when its holder drops it
    /// or is killed. Other fetches poll until the blocks are present or the lease is free.
    #[must_use]
    pub fn lease(&self, blocks: Range<u64>) -> Option<FetchLease> {
        if blocks.is_empty() || !self.inner.locks.try_lock(leases(blocks.clone()), LockMode::Exclusive) {
            return None;
        }
        Some(FetchLease { cached: self.clone(), blocks })
    }

    /// Exempts the version from eviction, or ends the exemption.
    pub fn pin(&self, pin: Pin) {
        let flags = &self.inner.map.live().flags;
        match pin {
            Pin::Pinned => flags.fetch_or(PINNED, Ordering::Relaxed),
            Pin::Unpinned => flags.fetch_and(!PINNED, Ordering::Relaxed),
        };
    }

    /// Records the current time as the version's last use.
    pub fn touch(&self) {
        self.inner.map.live().last_open.store(Timestamp::now().word(), Ordering::Relaxed);
    }

    /// Returns the location of the object.
    #[must_use]
    pub fn location(&self) -> Option<Location> {
        self.inner.identity.location()
    }

    /// Returns the version of the object.
    #[must_use]
    pub fn version(&self) -> Version {
        self.inner.identity.version()
    }
}

/// Pinned blocks of a version's file. While this value lives, their bytes do not change, even if a
/// block is found to be damaged.
#[derive(Debug)]
pub struct PinnedBlocks {
    cached: CachedVersion,
    blocks: Range<u64>,
}

impl PinnedBlocks {
    /// Returns whether the file was never cut short by another program. If so, the bytes read from
    /// the file are right.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        !self.cached.inner.invalidate_if_cut()
    }
}

impl AsFd for PinnedBlocks {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.cached.inner.data.file().as_fd()
    }
}

impl Drop for PinnedBlocks {
    fn drop(&mut self) {
        self.cached.inner.locks.unlock(pins(self.blocks.clone()));
    }
}

/// The exclusive right to fetch some blocks, until it is dropped.
#[derive(Debug)]
pub struct FetchLease {
    cached: CachedVersion,
    blocks: Range<u64>,
}

impl Drop for FetchLease {
    fn drop(&mut self) {
        self.cached.inner.locks.unlock(leases(self.blocks.clone()));
    }
}

impl OpenVersion {
    /// Returns the length of a block, bytes.
    pub(super) fn block_len(&self, block: u64) -> usize {
        to_usize(BLOCK.min(self.identity.size() - block * BLOCK))
    }

    /// Returns the generation, which changes whenever blocks are removed.
    pub(super) fn generation(&self) -> u64 {
        self.map.live().generation.load(Ordering::Acquire)
    }

    /// Returns whether no block was removed since `generation` was loaded. If so, the bytes that
    /// were read since then are not from a hole.
    pub(super) fn is_generation(&self, generation: u64) -> bool {
        fence(Ordering::Acquire);
        self.generation() == generation && generation & INTACT != 0
    }

    /// Checks whether another program has cut the data file short. If so, invalidates the version
    /// for all processes, which then stop reading and filling the file. The file is created again
    /// when no process has it open.
    pub(super) fn invalidate_if_cut(&self) -> bool {
        if length(self.data.file()).is_ok_and(|length| length == self.identity.size()) {
            return false;
        }
        let live = self.map.live();
        if live.generation.fetch_and(!INTACT, Ordering::SeqCst) & INTACT != 0 {
            tracing::warn!("{}: was cut short by another program", shown(&self.shown_data()));
        }
        live.flags.fetch_and(!DURABLE, Ordering::SeqCst);
        live.complete.store(0, Ordering::SeqCst);
        true
    }

    pub(super) fn presence(&self, block: u64) -> Presence {
        if self.generation() & INTACT == 0 {
            return Presence::Absent;
        }
        let Some(word) = self.map.word(block) else { return Presence::Absent };
        let word = BlockWord(word.load(Ordering::Acquire));
        if !word.is_present() {
            Presence::Absent
        } else if word.has(self.stamp) || self.map.live().flags.load(Ordering::Acquire) & DURABLE != 0 {
            Presence::Present
        } else {
            Presence::Unverified
        }
    }

    fn reference(&self, block: u64) {
        let Some(word) = self.map.word(block) else { return };
        let before = BlockWord(word.load(Ordering::Relaxed));
        // The word is loaded first, and stored only if it changes: a store by every reader would
        // move the cache line between processors.
        if before.is_present() && !before.is_referenced() {
            let referenced = before.0 | REFERENCED;
            let _ = word.compare_exchange(before.0, referenced, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}
