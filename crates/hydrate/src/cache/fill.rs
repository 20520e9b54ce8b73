//! Writes a block into the cache.
//!
//! The data is written first and read back, then the block's word is set: if the process is killed
//! in between, the block is absent. The block's bytes are added to the usage count before both. If
//! the disk is full in spite of the count, or a quota is reached, the block is not cached, which is
//! not a failure.
//!
//! A write behind the end of a file that another program has cut short makes it longer, with zeros
//! between. Every process must notice the cut by the length, so no write makes a file as long as
//! the object: the last byte is stored by a mapping, which cannot change the length.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use firstbyte_location::{Hasher, shown, to_usize};
use firstbyte_store::{Error as StoreError, Sink};
use rustix::pipe::PipeFlags;

use super::block_map::{BlockWord, DIRTY, allocate, crc, page, page_cost};
use super::cached::{CachedVersion, Presence};
use super::lock::{Mode, changes};
use super::mapping::SharedMapping;
use super::open::OpenVersion;
use super::punch::RemovedBytes;
use super::usage::{block_cost, subtract};
use super::verified_runs::VerifiedRun;
use super::{Exempt, evict};
use crate::block::BLOCK;

/// Bytes read back and compared at once: both buffers fit the innermost processor cache.
const COMPARE_SIZE: usize = 16 << 10;

/// The outcome of filling a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillOutcome {
    /// The block is in the cache now.
    Kept,
    /// The block was in the cache already.
    Already,
    /// There is no room, the disk refuses it, or it is being written or evicted at this moment.
    NoRoom,
}

impl CachedVersion {
    /// Fills a block with all of its bytes. Evicts versions that are not `exempt` if there is no
    /// room.
    ///
    /// # Panics
    /// If the object has no such block, or `bytes` is not as long as the block.
    pub fn fill(&self, block: u64, bytes: &[u8], exempt: Exempt) -> FillOutcome {
        let inner = &self.inner;
        inner.assert_block(block, bytes);
        let write = || {
            inner.write(block, exempt, || {
                inner
                    .put(block, bytes)
                    .and_then(|()| inner.compare_written(block, bytes))
                    .map_err(|error| inner.io_error(error))?;
                Ok(bytes)
            })
        };
        match write() {
            Err(error) if error.is_full_disk() && evict::free_disk(&inner.shared, BLOCK, exempt) => {
                write().unwrap_or(FillOutcome::NoRoom)
            }
            Err(error) => {
                if !error.is_full_disk() {
                    tracing::warn!("cannot cache a block: {error}");
                }
                FillOutcome::NoRoom
            }
            Ok(stored) => stored,
        }
    }

    /// Fills a block by calling `transfer`, which writes all of its bytes into the file at the
    /// given offset. `transfer` may use `buffer`, of the block's length, which holds the block
    /// afterwards. `transfer` is not called if there is no room or the block is present. Returns
    /// `None` for the last block, which has to be [filled](Self::fill).
    ///
    /// # Errors
    /// Those of `transfer`, and [`StoreError::Io`] if the file cannot be written or read. The
    /// block is then absent.
    ///
    /// # Panics
    /// As [`fill`](Self::fill).
    pub fn receive(
        &self,
        block: u64,
        buffer: &mut [u8],
        exempt: Exempt,
        transfer: impl FnOnce(&Sink, u64, &mut [u8]) -> Result<(), StoreError>,
    ) -> Option<Result<FillOutcome, StoreError>> {
        let inner = &self.inner;
        inner.assert_block(block, buffer);
        if block + 1 == inner.map.blocks() {
            return None;
        }
        Some(inner.write(block, exempt, || {
            let at = block * BLOCK;
            transfer(&inner.data, at, buffer)?;
            inner.data.file().read_exact_at(buffer, at).map_err(|error| inner.io_error(error))?;
            Ok(buffer)
        }))
    }
}

impl OpenVersion {
    fn assert_block(&self, block: u64, bytes: &[u8]) {
        let fits = block < self.map.blocks() && bytes.len() == self.block_len(block);
        assert!(fits, "not the bytes of block {block}");
    }

    fn io_error(&self, source: io::Error) -> StoreError {
        StoreError::Io { location: shown(&self.shown_data()).to_string(), source }
    }

    /// Writes a block into the file, the last byte of the object without a change of the length.
    pub(super) fn put(&self, block: u64, bytes: &[u8]) -> io::Result<()> {
        let at = block * BLOCK;
        match bytes.split_last() {
            Some((last, others)) if block + 1 == self.map.blocks() => {
                self.data.write_all_at(others, at)?;
                put_byte(self.data.file(), at + others.len() as u64, *last).map_err(|error| {
                    let is_full = error.raw_os_error() == Some(libc::EFAULT) && !self.is_cut();
                    if is_full { io::ErrorKind::StorageFull.into() } else { error }
                })
            }
            _ => self.data.write_all_at(bytes, at),
        }
    }

    /// Calls `put` to write a block into the file, and marks it present with the bytes that `put`
    /// read back.
    pub(super) fn write<'a>(
        &self,
        block: u64,
        exempt: Exempt,
        put: impl FnOnce() -> Result<&'a [u8], StoreError>,
    ) -> Result<FillOutcome, StoreError> {
        if self.presence(block) == Presence::Present {
            return Ok(FillOutcome::Already);
        }
        if self.is_cut() || !self.map.is_whole() {
            return Ok(FillOutcome::NoRoom);
        }
        let cost = block_cost(self.block_len(block));
        // The map may need a new page. Pages are never removed while the map is open.
        let page = if self.map.word(block).is_some() { 0 } else { page_cost() };
        let Some(mut reservation) = self.shared.reserve(cost + page, exempt) else {
            return Ok(FillOutcome::NoRoom);
        };
        // Writers share the lock, because one may wait long for a network. They write the same
        // bytes.
        let Some(writing) = self.locks.guard(changes(block..block + 1), Mode::Shared) else {
            return Ok(FillOutcome::NoRoom);
        };
        let live = self.map.live();
        live.flags.fetch_or(DIRTY, Ordering::AcqRel);
        reservation.charge(&live.charged);
        let (word, new_page) = self.map.word_allocated(block).map_err(|error| self.io_error(error))?;
        if !new_page {
            reservation.reduce(page);
        }
        let before = BlockWord(word.load(Ordering::Acquire));
        if before.is_present() {
            // The block was counted before.
            reservation.reduce(cost);
        } else {
            live.present.fetch_add(1, Ordering::AcqRel);
        }
        let generation = self.generation();
        let put = put().and_then(|bytes| self.check_length().map(|()| bytes));
        let marked =
            put.as_ref().is_ok_and(|bytes| self.mark_present(word, BlockWord::new(crc(bytes), self.stamp)));
        if !marked && !before.is_present() {
            subtract(&live.present, 1);
            reservation.reduce(cost);
        }
        // Whether or not the block was written, its page of the map exists.
        reservation.keep();
        match put {
            Ok(bytes) if marked => {
                self.record_verified(generation, block, bytes);
                Ok(FillOutcome::Kept)
            }
            Ok(_) => Ok(FillOutcome::Already),
            Err(error) => {
                drop(writing);
                self.undo(block);
                Err(error)
            }
        }
    }

    /// Fails if one of the files was cut short: the bytes that were read back may be zeros.
    fn check_length(&self) -> Result<(), StoreError> {
        if self.is_cut() || !self.map.is_whole() {
            let cut = io::Error::new(io::ErrorKind::UnexpectedEof, "was cut short by another program");
            return Err(self.io_error(cut));
        }
        Ok(())
    }

    /// Sets the word of a written block. Returns false if another writer was first.
    fn mark_present(&self, word: &AtomicU64, new: BlockWord) -> bool {
        let replace =
            |now| (!BlockWord(now).is_present() || !BlockWord(now).has(self.stamp)).then_some(new.0);
        word.fetch_update(Ordering::Release, Ordering::Acquire, replace).is_ok()
    }

    /// Removes the written bytes of a block, unless other threads write it too or have marked it
    /// present.
    fn undo(&self, block: u64) {
        let blocks = block..block + 1;
        let Some(_alone) = self.locks.guard(changes(blocks.clone()), Mode::Exclusive) else { return };
        match self.presence(block) {
            Presence::Present => {}
            // The block is from before an unclean stop, and is now partly overwritten.
            Presence::Unverified => drop(self.remove_blocks(blocks, RemovedBytes::Leave)),
            // No reader has seen the block, so the generation and the verified runs stay valid.
            Presence::Absent => drop(self.punch(blocks)),
        }
    }

    /// Fails if the file does not return the bytes that were written into it.
    pub(super) fn compare_written(&self, block: u64, bytes: &[u8]) -> io::Result<()> {
        let mut piece = [0; COMPARE_SIZE];
        let mut at = block * BLOCK;
        for written in bytes.chunks(COMPARE_SIZE) {
            let read = &mut piece[..written.len()];
            self.data.file().read_exact_at(read, at)?;
            if read != written {
                let what = "the file system returned other bytes than were written";
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            at += written.len() as u64;
        }
        Ok(())
    }

    /// Records a block that was read back as verified.
    fn record_verified(&self, generation: u64, block: u64, bytes: &[u8]) {
        let expected = self.checksum.get().map(|checksum| checksum.algorithm);
        let checksum = expected
            .filter(|algorithm| algorithm.is_combinable())
            .map(|algorithm| Hasher::of(algorithm, bytes));
        let run = VerifiedRun { blocks: block..block + 1, bytes: bytes.len() as u64, checksum };
        self.verified.lock().add(generation, run);
    }
}

/// Stores one byte of a file without changing its length. Fails for a page behind the end: the
/// kernel writes to the mapping, since this process would get a signal.
fn put_byte(file: &File, at: u64, byte: u8) -> io::Result<()> {
    let from = at / page() * page();
    // Allocated first, because the kernel could report a full disk only as a bad address.
    allocate(file, from..at + 1)?;
    let mapping = SharedMapping::of_range(file, from, to_usize(at + 1 - from))?;
    let (read_end, write_end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::write(&write_end, &[byte])?;
    mapping.read_byte(&read_end, to_usize(at - from))
}
