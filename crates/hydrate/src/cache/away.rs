//! Taking blocks away: marked absent, the generation raised, then punched, in this order, for readers take no lock.

use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;

use rustix::fs::{FallocateFlags, fallocate};

use super::OpenVersion;
use super::cached::on_disk;
use super::entry::{ABSENT, Entry};
use super::header::DURABLE;
use super::lock::{self, HOLD, Share};
use super::usage::subtract;
use crate::BLOCK;

/// What to do with the bytes of a block that is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hole {
    /// Give them back.
    Punch,
    /// Leave them: somebody else may still look at them.
    Leave,
}

impl OpenVersion {
    pub(super) fn unreadable(&self, error: &io::Error) {
        tracing::warn!("{}: cannot read cached blocks, dropping them: {error}", self.paths.data.display());
    }

    /// Takes blocks away that are not what they should be, whoever relies on them.
    pub(super) fn drop_blocks(&self, blocks: Range<u64>) {
        let middle = blocks.start + (blocks.end - blocks.start) / 2;
        match self.locks.guard(lock::blocks(blocks.clone()), Share::Exclusive) {
            Some(_changing) => {
                let alone = self.locks.guard(HOLD, Share::Exclusive);
                let unread = self.locks.guard(lock::lent(blocks.clone()), Share::Exclusive);
                let relied_on = alone.is_none() || unread.is_none();
                self.take_away(blocks, if relied_on { Hole::Leave } else { Hole::Punch });
            }
            // Whoever is changing one of them makes that right, or absent.
            None if middle > blocks.start => {
                self.drop_blocks(blocks.start..middle);
                self.drop_blocks(middle..blocks.end);
            }
            None => {}
        }
    }

    /// Takes blocks away that nobody relies on, unless somebody is changing one of them or reads it from the file. The bytes
    /// made free.
    pub(super) fn evict(&self, blocks: Range<u64>) -> u64 {
        let alone = |part| self.locks.guard(part, Share::Exclusive);
        let Some(_changing) = alone(lock::blocks(blocks.clone())) else { return 0 };
        let Some(_unread) = alone(lock::lent(blocks.clone())) else { return 0 };
        self.take_away(blocks, Hole::Punch)
    }

    /// Marks blocks absent and punches them, under their lock. The bytes given back.
    pub(super) fn take_away(&self, blocks: Range<u64>, hole: Hole) -> u64 {
        let live = self.map.live();
        let hole = if self.incomplete() { hole } else { Hole::Leave };
        let (mut count, mut bytes) = (0, 0);
        for block in blocks.clone() {
            let Some(word) = self.map.word(block) else { continue };
            if Entry(word.swap(ABSENT, Ordering::AcqRel)).is_present() {
                count += 1;
                bytes += on_disk(self.block_len(block));
            }
        }
        live.generation.fetch_add(1, Ordering::SeqCst);
        // Again: who has verified the whole since and not seen the generation rise has said so by now, or will see it.
        live.complete.store(0, Ordering::SeqCst);
        subtract(&live.present, count);
        if hole == Hole::Leave || count == 0 || !self.punch(blocks) {
            return 0;
        }
        let returning = self.shared.usage.returning(bytes);
        subtract(&live.charged, bytes);
        returning.done();
        bytes
    }

    /// Punches blocks; whether their bytes are free now.
    pub(super) fn punch(&self, blocks: Range<u64>) -> bool {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let len = (blocks.end - blocks.start) * BLOCK;
        match fallocate(self.data.file(), flags, blocks.start * BLOCK, len) {
            Ok(()) => true,
            Err(error) => {
                if error == rustix::io::Errno::OPNOTSUPP {
                    self.shared.can_punch.store(false, Ordering::Relaxed);
                }
                false
            }
        }
    }

    /// Not all blocks are here any more, or soon will not be. On the disk as well before any is punched, for after a power
    /// cut a durable version is taken at its word. Whether it is.
    fn incomplete(&self) -> bool {
        let live = self.map.live();
        live.complete.store(0, Ordering::SeqCst);
        if live.flags.load(Ordering::SeqCst) & DURABLE == 0 {
            return true;
        }
        live.flags.fetch_and(!DURABLE, Ordering::SeqCst);
        let synced = self.map.sync();
        if let Err(error) = &synced {
            tracing::warn!("{}: cannot be written to disk: {error}", self.paths.map.display());
        }
        synced.is_ok()
    }
}
