//! Removes blocks: marks them absent, then increments the generation, then punches them out of the
//! data file. Readers take no lock and depend on this order. Called by eviction, release and
//! verification, by reads that find wrong blocks, and by fills that fail.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;

use firstbyte_location::shown;
use rustix::fs::{FallocateFlags, fallocate};

use super::block_map::{ABSENT, BlockWord, DURABLE};
use super::lock::{LockMode, WHOLE, changes, pins};
use super::open::OpenVersion;
use super::usage::{block_cost, subtract};
use crate::block::BLOCK;

/// Treatment of the bytes of removed blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RemovedBytes {
    Punch,
    /// Keep the bytes, because another process may still read them.
    Leave,
}

/// Frees the disk space of a range of a file, which then reads as zeros. Changes nothing behind the
/// end of the file.
///
/// # Errors
/// `OPNOTSUPP` if the file system cannot punch holes.
pub(super) fn punch_range(file: &File, range: Range<u64>) -> rustix::io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(file, flags, range.start, range.end - range.start)
}

impl OpenVersion {
    pub(super) fn warn_unreadable(&self, error: &io::Error) {
        tracing::warn!("{}: cannot read cached blocks, dropping them: {error}", shown(&self.shown_data()));
    }

    /// Marks blocks with wrong content absent, even while a caller needs all blocks to stay. In
    /// that case their bytes are not punched.
    pub(super) fn drop_blocks(&self, blocks: Range<u64>) {
        let middle = blocks.start + (blocks.end - blocks.start) / 2;
        match self.locks.guard(changes(blocks.clone()), LockMode::Exclusive) {
            Some(_changing) => {
                let whole = self.locks.guard(WHOLE, LockMode::Exclusive);
                let unpinned = self.locks.guard(pins(blocks.clone()), LockMode::Exclusive);
                let in_use = whole.is_none() || unpinned.is_none();
                self.remove_blocks(blocks, if in_use { RemovedBytes::Leave } else { RemovedBytes::Punch });
            }
            // A block of the range is being changed: halve the range, and drop each half. A single
            // block is left to the thread that changes it, which makes the block right or absent.
            None if middle > blocks.start => {
                self.drop_blocks(blocks.start..middle);
                self.drop_blocks(middle..blocks.end);
            }
            None => {}
        }
    }

    /// Removes blocks, unless one of them is being changed or read from the file. The caller must
    /// hold [`WHOLE`] exclusively. Returns the number of bytes freed.
    pub(super) fn evict(&self, blocks: Range<u64>) -> u64 {
        let alone = |part| self.locks.guard(part, LockMode::Exclusive);
        let Some(_changing) = alone(changes(blocks.clone())) else { return 0 };
        let Some(_unpinned) = alone(pins(blocks.clone())) else { return 0 };
        self.remove_blocks(blocks, RemovedBytes::Punch)
    }

    /// Marks blocks absent and punches them. The caller must hold the lock on changing them.
    /// Returns the number of bytes freed.
    pub(super) fn remove_blocks(&self, blocks: Range<u64>, bytes: RemovedBytes) -> u64 {
        let live = self.map.live();
        let punches = self.mark_incomplete() && bytes == RemovedBytes::Punch;
        let (mut count, mut freed) = (0, 0);
        for block in blocks.clone() {
            let Some(word) = self.map.word(block) else { continue };
            if BlockWord(word.swap(ABSENT, Ordering::AcqRel)).is_present() {
                count += 1;
                freed += block_cost(self.block_len(block));
            }
        }
        live.generation.fetch_add(1, Ordering::SeqCst);
        // A thread that has just verified the whole version may have set this field. If it sets the
        // field later, it first sees the new generation.
        live.complete.store(0, Ordering::SeqCst);
        subtract(&live.present, count);
        if !punches || count == 0 || !self.punch(blocks) {
            return 0;
        }
        let freeing = self.shared.usage.begin_freeing(freed);
        subtract(&live.charged, freed);
        freeing.complete();
        freed
    }

    /// Punches blocks out of the data file. Returns whether their bytes are free now.
    pub(super) fn punch(&self, blocks: Range<u64>) -> bool {
        let punched = punch_range(self.data.file(), blocks.start * BLOCK..blocks.end * BLOCK);
        if punched == Err(rustix::io::Errno::OPNOTSUPP) {
            self.shared.can_punch.store(false, Ordering::Relaxed);
        }
        punched.is_ok()
    }

    /// Records that not all blocks are present. The record of a durable version is synced to disk
    /// before any block is punched, because such a version is trusted after a power cut. Returns
    /// false if the sync has failed.
    fn mark_incomplete(&self) -> bool {
        let live = self.map.live();
        live.complete.store(0, Ordering::SeqCst);
        if live.flags.load(Ordering::SeqCst) & DURABLE == 0 {
            return true;
        }
        live.flags.fetch_and(!DURABLE, Ordering::SeqCst);
        let synced = self.map.sync();
        if let Err(error) = &synced {
            tracing::warn!("{}: cannot be written to disk: {error}", shown(&self.shown_data()));
        }
        synced.is_ok()
    }
}
