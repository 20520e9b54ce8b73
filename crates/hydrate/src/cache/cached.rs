//! One version that is open: what is here of it, read without asking anybody.
//!
//! A reader takes no lock. It looks at the blocks' words, reads, and then sees by the map's generation whether blocks were
//! taken away meanwhile; if so it looks again. Whoever takes blocks away marks them absent, raises the generation, and
//! only then punches, so a reader never returns the zeros of a hole.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use firstbyte_location::{ByteRange, Checksum, Location, Version};

use super::entry::{Entry, REFERENCED};
use super::header::{DURABLE, PINNED};
use super::lock::{self, Share};
use super::{Moment, OpenVersion};
use crate::BLOCK;

/// One version of an object, open in the cache. Clones are the same open.
#[derive(Clone, Debug)]
pub struct Cached {
    pub(super) inner: Arc<OpenVersion>,
}

/// Whether a version may be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    /// It stays until it is released or unpinned.
    Pinned,
    /// It goes when room is needed.
    Unpinned,
}

/// What is known of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// It is here.
    Here,
    /// It is here, but was written before an unclean stop: to be verified before it is returned.
    Unverified,
    /// It is not here.
    Absent,
}

impl Cached {
    pub(super) fn new(inner: Arc<OpenVersion>) -> Self {
        Self { inner }
    }

    /// Bytes of the object.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.inner.identity.size()
    }

    /// Blocks of the object.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.inner.map.blocks()
    }

    /// The checksum over the whole object, which completion is verified against; the first one told counts.
    pub fn expect(&self, checksum: Checksum) {
        let _ = self.inner.checksum.set(checksum);
    }

    /// Reads what is here from `offset` on without a gap; the bytes read. 0 where the first block is missing, or at the end.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> usize {
        let end = self.size().min(offset.saturating_add(buffer.len() as u64));
        if offset >= end {
            return 0;
        }
        let (first, last) = (offset / BLOCK, (end - 1) / BLOCK);
        loop {
            let generation = self.inner.generation();
            let mut until = first;
            while until <= last && self.inner.look(until) == Look::Here {
                self.inner.reference(until);
                until += 1;
            }
            if until == first {
                if self.inner.look(first) == Look::Unverified && self.inner.verify_block(first) {
                    continue;
                }
                return 0;
            }
            let stop = end.min(until * BLOCK);
            let part = &mut buffer[..(stop - offset) as usize];
            if let Err(error) = self.inner.data.file().read_exact_at(part, offset) {
                self.inner.unreadable(&error);
                self.inner.drop_blocks(first..until);
                return 0;
            }
            if self.inner.is_generation(generation) {
                return part.len();
            }
        }
    }

    /// The file itself, for who reads these bytes of it without a copy, if all of them are here and verified.
    pub fn lend(&self, range: ByteRange) -> Option<Lent> {
        let blocks = range.start / BLOCK..range.end.min(self.size()).div_ceil(BLOCK);
        let all_here = || blocks.clone().all(|block| self.inner.look(block) == Look::Here);
        // Before, so that nothing is locked in vain, and once more after, as they can go until they are.
        if blocks.is_empty() || !all_here() {
            return None;
        }
        if !self.inner.locks.try_take(lock::lent(blocks.clone()), Share::Shared) {
            return None;
        }
        let lent = Lent { cached: self.clone(), blocks: blocks.clone() };
        blocks.clone().for_each(|block| self.inner.reference(block));
        all_here().then_some(lent)
    }

    /// Whether a block is here (one from before an unclean stop is found out to be wrong only when it is read).
    #[must_use]
    pub fn is_present(&self, block: u64) -> bool {
        block < self.blocks() && self.inner.look(block) != Look::Absent
    }

    /// The first block from `from` on that is not here.
    #[must_use]
    pub fn next_missing(&self, from: u64) -> Option<u64> {
        (from..self.blocks()).find(|block| self.inner.look(*block) == Look::Absent)
    }

    /// The first block from `from` on that is here. What has never been here is stepped over, thousands of blocks at once.
    #[must_use]
    pub fn next_present(&self, mut from: u64) -> Option<u64> {
        while from < self.blocks() {
            match self.inner.map.word(from) {
                None => from = self.inner.map.after_hole(from),
                Some(_) if self.inner.look(from) != Look::Absent => return Some(from),
                Some(_) => from += 1,
            }
        }
        None
    }

    /// The right to fetch these blocks, unless another has it for any of them, in this process or another. It ends with
    /// its holder, however that ends. Others look from time to time whether the blocks are here or the claim is free.
    #[must_use]
    pub fn claim(&self, blocks: Range<u64>) -> Option<Claim> {
        if blocks.is_empty() || !self.inner.locks.try_take(lock::claims(blocks.clone()), Share::Exclusive) {
            return None;
        }
        Some(Claim { cached: self.clone(), blocks })
    }

    /// Keeps it from eviction, or lets it go again.
    pub fn pin(&self, pin: Pin) {
        let flags = &self.inner.map.live().flags;
        match pin {
            Pin::Pinned => flags.fetch_or(PINNED, Ordering::Relaxed),
            Pin::Unpinned => flags.fetch_and(!PINNED, Ordering::Relaxed),
        };
    }

    /// Notes that it was opened now.
    pub fn touch(&self) {
        self.inner.map.live().last_open.store(Moment::now().word(), Ordering::Relaxed);
    }

    /// Where the object lives.
    #[must_use]
    pub fn location(&self) -> Option<Location> {
        self.inner.identity.location()
    }

    /// What pins its content.
    #[must_use]
    pub fn version(&self) -> Version {
        self.inner.identity.version()
    }
}

/// Some blocks of a version's file. Their bytes stay as they are while this lives, also where one of them turns out to be wrong.
#[derive(Debug)]
pub struct Lent {
    cached: Cached,
    blocks: Range<u64>,
}

impl AsFd for Lent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.cached.inner.data.file().as_fd()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.cached.inner.locks.give_back(lock::lent(self.blocks.clone()));
    }
}

/// The right to fetch some blocks. Dropped it is free again.
#[derive(Debug)]
pub struct Claim {
    cached: Cached,
    blocks: Range<u64>,
}

impl Claim {
    /// The blocks it covers.
    #[must_use]
    pub fn blocks(&self) -> Range<u64> {
        self.blocks.clone()
    }

    /// Gives up the blocks from `end` on.
    pub fn truncate(&mut self, end: u64) {
        let end = end.clamp(self.blocks.start, self.blocks.end);
        if end < self.blocks.end {
            self.cached.inner.locks.give_back(lock::claims(end..self.blocks.end));
            self.blocks.end = end;
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.blocks.is_empty() {
            self.cached.inner.locks.give_back(lock::claims(self.blocks.clone()));
        }
    }
}

impl OpenVersion {
    /// Bytes of a block.
    pub(super) fn block_len(&self, block: u64) -> usize {
        BLOCK.min(self.identity.size() - block * BLOCK) as usize
    }

    /// Changes when blocks are taken away.
    pub(super) fn generation(&self) -> u64 {
        self.map.live().generation.load(Ordering::Acquire)
    }

    /// Whether no block was taken away since `generation` was read, and so what was read since is no hole.
    pub(super) fn is_generation(&self, generation: u64) -> bool {
        fence(Ordering::Acquire);
        self.generation() == generation
    }

    pub(super) fn look(&self, block: u64) -> Look {
        let Some(word) = self.map.word(block) else { return Look::Absent };
        let entry = Entry(word.load(Ordering::Acquire));
        if !entry.is_present() {
            Look::Absent
        } else if entry.has(self.stamp) || self.map.live().flags.load(Ordering::Acquire) & DURABLE != 0 {
            Look::Here
        } else {
            Look::Unverified
        }
    }

    fn reference(&self, block: u64) {
        let Some(word) = self.map.word(block) else { return };
        let entry = Entry(word.load(Ordering::Relaxed));
        // Looked at first: a word that many readers write goes back and forth between processors.
        if entry.is_present() && !entry.is_referenced() {
            let _ =
                word.compare_exchange(entry.0, entry.0 | REFERENCED, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// Bytes of disk behind `len` bytes: whole blocks of the file system, of the usual size.
pub(super) fn on_disk(len: usize) -> u64 {
    (len as u64).next_multiple_of(4096)
}
