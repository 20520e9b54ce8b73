//! Putting a block where it belongs.
//!
//! The data first, read back ([`proven`](super::proven) says why now), then its word: a process killed in between has not
//! filled the block. What it costs is counted before either. A disk that is full in spite of the count, or a quota, is no
//! failure: the block is not kept.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use firstbyte_location::Hasher;
use firstbyte_store::{Error as StoreError, Sink};

use super::away::Hole;
use super::cached::{Cached, Look, on_disk};
use super::entry::{Entry, crc};
use super::header::DIRTY;
use super::lock::{self, Share};
use super::map::page_cost;
use super::proven::Run;
use super::usage::subtract;
use super::{OpenVersion, Spare, evict};
use crate::BLOCK;

/// Bytes read back at once where they are compared: with what was written they fit a processor's innermost cache.
const PIECE: usize = 16 << 10;

/// What became of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It is here now.
    Kept,
    /// It was here.
    Already,
    /// There is no room for it, the disk refuses it, or somebody else writes or evicts it this instant.
    NoRoom,
}

impl Cached {
    /// Fills a block with its bytes: all of them, of this version, which the caller has made sure of.
    ///
    /// # Panics
    /// With bytes that are not as many as the block has, or a block that the object has not.
    pub fn fill(&self, block: u64, bytes: &[u8]) -> Stored {
        self.fill_sparing(block, bytes, Spare::Pinned)
    }

    /// As [`fill`](Self::fill), and where room has to be made for it, what `spare` says stays.
    ///
    /// # Panics
    /// As [`fill`](Self::fill).
    pub fn fill_sparing(&self, block: u64, bytes: &[u8], spare: Spare) -> Stored {
        let inner = &self.inner;
        inner.assert_block(block, bytes);
        let write = || {
            inner.write(block, spare, || {
                let written = inner.data.write_all_at(bytes, block * BLOCK);
                written.and_then(|()| inner.reads_back(block, bytes)).map_err(|error| inner.failed(error))?;
                Ok(bytes)
            })
        };
        match write() {
            Err(error) if is_full(&error) && evict::make_space(&inner.shared, BLOCK, spare) => {
                write().unwrap_or(Stored::NoRoom)
            }
            Err(error) => {
                if !is_full(&error) {
                    tracing::warn!("cannot keep a block: {error}");
                }
                Stored::NoRoom
            }
            Ok(stored) => stored,
        }
    }

    /// Fills a block with what `bring` writes into the file at the offset it is told: all bytes of the block. `buffer`, of
    /// that length, is `bring`'s to use, and has the block's bytes afterwards. Where room has to be made for it, what `spare` says
    /// stays. Where the block is not kept, or was here, `bring` is not called.
    ///
    /// # Errors
    /// Those of `bring`, and [`StoreError::Io`] where the file cannot be written or read: the block is not here then.
    ///
    /// # Panics
    /// As [`fill`](Self::fill).
    pub fn receive(
        &self,
        block: u64,
        buffer: &mut [u8],
        spare: Spare,
        bring: impl FnOnce(&Sink, u64, &mut [u8]) -> std::result::Result<(), StoreError>,
    ) -> std::result::Result<Stored, StoreError> {
        let inner = &self.inner;
        inner.assert_block(block, buffer);
        inner.write(block, spare, || {
            let at = block * BLOCK;
            bring(&inner.data, at, buffer)?;
            inner.data.file().read_exact_at(buffer, at).map_err(|error| inner.failed(error))?;
            Ok(buffer)
        })
    }
}

fn is_full(error: &StoreError) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error, StoreError::Io { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded))
}

impl OpenVersion {
    fn assert_block(&self, block: u64, bytes: &[u8]) {
        let right = block < self.map.blocks() && bytes.len() == self.block_len(block);
        assert!(right, "not the bytes of block {block}");
    }

    fn failed(&self, source: io::Error) -> StoreError {
        StoreError::Io { location: self.paths.data.display().to_string(), source }
    }

    /// Has `put` write a block into the file, and enters it with the bytes that `put` has then found there.
    fn write<'a>(
        &self,
        block: u64,
        spare: Spare,
        put: impl FnOnce() -> std::result::Result<&'a [u8], StoreError>,
    ) -> std::result::Result<Stored, StoreError> {
        if self.look(block) == Look::Here {
            return Ok(Stored::Already);
        }
        let cost = on_disk(self.block_len(block));
        // A page of the map may be needed too. Pages never go while the map is open.
        let page = if self.map.word(block).is_some() { 0 } else { page_cost() };
        let Some(mut reservation) = self.shared.reserve(cost + page, spare) else {
            return Ok(Stored::NoRoom);
        };
        // Shared by those who write it, for one may wait long for a network; it is the same bytes that they write.
        let part = lock::blocks(block..block + 1);
        let Some(writing) = self.locks.guard(part, Share::Shared) else { return Ok(Stored::NoRoom) };
        let live = self.map.live();
        live.flags.fetch_or(DIRTY, Ordering::AcqRel);
        reservation.charge(&live.charged);
        let (word, new_page) = self.map.word_allocated(block).map_err(|error| self.failed(error))?;
        if !new_page {
            reservation.give_back(page);
        }
        let before = Entry(word.load(Ordering::Acquire));
        if before.is_present() {
            // It is counted already.
            reservation.give_back(cost);
        } else {
            live.present.fetch_add(1, Ordering::AcqRel);
        }
        let generation = self.generation();
        let put = put();
        let entered = put.as_ref().is_ok_and(|bytes| self.enter(word, Entry::new(crc(bytes), self.stamp)));
        if !entered && !before.is_present() {
            subtract(&live.present, 1);
            reservation.give_back(cost);
        }
        // Whatever became of the block, its page of the map is there.
        reservation.keep();
        match put {
            Ok(bytes) if entered => {
                self.prove(generation, block, bytes);
                Ok(Stored::Kept)
            }
            Ok(_) => Ok(Stored::Already),
            Err(error) => {
                drop(writing);
                self.undo(block);
                Err(error)
            }
        }
    }

    /// Makes a block present; false where another writer has been first.
    fn enter(&self, word: &AtomicU64, entry: Entry) -> bool {
        let by_us = |now| (!Entry(now).is_present() || !Entry(now).has(self.stamp)).then_some(entry.0);
        word.fetch_update(Ordering::Release, Ordering::Acquire, by_us).is_ok()
    }

    /// Takes away what was written of a block, unless others write it too or have entered it meanwhile.
    fn undo(&self, block: u64) {
        let part = lock::blocks(block..block + 1);
        let Some(_alone) = self.locks.guard(part, Share::Exclusive) else { return };
        match self.look(block) {
            Look::Here => {}
            // It was from before an unclean stop, and is half overwritten.
            Look::Unverified => drop(self.take_away(block..block + 1, Hole::Leave)),
            // Nobody has seen it: what else is known stays good.
            Look::Absent => drop(self.punch(block..block + 1)),
        }
    }

    /// Whether the file has what was written into it.
    pub(super) fn reads_back(&self, block: u64, bytes: &[u8]) -> io::Result<()> {
        let mut piece = [0; PIECE];
        let mut at = block * BLOCK;
        for written in bytes.chunks(PIECE) {
            let read = &mut piece[..written.len()];
            self.data.file().read_exact_at(read, at)?;
            if read != written {
                let what = "the file system gives back other bytes than were written";
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            at += written.len() as u64;
        }
        Ok(())
    }

    /// A block that was read back counts as verified.
    fn prove(&self, generation: u64, block: u64, bytes: &[u8]) {
        let expected = self.checksum.get().map(|checksum| checksum.algorithm);
        let checksum = expected
            .filter(|algorithm| algorithm.is_combinable())
            .map(|algorithm| Hasher::of(algorithm, bytes));
        let run = Run { blocks: block..block + 1, bytes: bytes.len() as u64, checksum };
        self.proven.lock().unwrap_or_else(PoisonError::into_inner).add(generation, run);
    }
}
