//! Writes a block into the cache.
//!
//! The data is written and read back, and only then the block's word is set. If the process is
//! killed before that, the block is absent. The block's bytes are added to the usage counters
//! before anything is written. If the disk or a quota is full although the counters show room, the
//! block is not cached, which is no error.
//!
//! If another program has cut a file short, a write behind the new end makes the file longer again,
//! with zeros in between. Every process must notice the cut by the file's length. So no write makes
//! a file as long as the object: the last byte is stored through a mapping, which cannot change the
//! length.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use firstbyte_location::{Hasher, shown, to_usize};
use firstbyte_store::{Error as StoreError, Sink};
use rustix::pipe::PipeFlags;

use super::block_map::{BlockWord, DIRTY, allocate, crc, page, page_cost};
use super::cached::{CachedVersion, Presence};
use super::lock::{LockMode, changes};
use super::mapping::SharedMapping;
use super::open::OpenVersion;
use super::punch::RemovedBytes;
use super::usage::{block_cost, subtract};
use super::verified_runs::VerifiedRun;
use super::{Exempt, evict};
use crate::block::BLOCK;

/// Number of bytes that are read back and compared at once. Two buffers of this length fit the
/// innermost processor cache.
const COMPARE_SIZE: usize = 16 << 10;

/// The outcome of filling a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillOutcome {
    /// The block was written into the cache.
    Kept,
    /// The block was in the cache already.
    Already,
    /// The block was not written: there is no room, the disk refuses it, a file was cut
    /// short, or the block is being removed.
    NoRoom,
}

impl CachedVersion {
    /// Fills a block with all of its bytes. If there is no room, evicts versions that are not
    /// `exempt`.
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

    /// Fills a block by calling `transfer`, which writes all bytes of the block into the file at
    /// the given offset. `buffer` must be as long as the block; `transfer` may use it, and it holds
    /// the block afterwards. `transfer` is not called if there is no room or the block is present.
    /// Returns `None` for the last block, which has to be [filled](Self::fill).
    ///
    /// # Errors
    /// Errors of `transfer`, and [`StoreError::Io`] if the file cannot be written or read. The
    /// block is then absent.
    ///
    /// # Panics
    /// The panics of [`fill`](Self::fill).
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

    /// Writes a block into the file. The last byte of the object is stored without changing the
    /// length.
    pub(super) fn put(&self, block: u64, bytes: &[u8]) -> io::Result<()> {
        let at = block * BLOCK;
        match bytes.split_last() {
            Some((last, others)) if block + 1 == self.map.blocks() => {
                self.data.write_all_at(others, at)?;
                put_byte(self.data.file(), at + others.len() as u64, *last).map_err(|error| {
                    let is_full = error.raw_os_error() == Some(libc::EFAULT) && !self.invalidate_if_cut();
                    if is_full { io::ErrorKind::StorageFull.into() } else { error }
                })
            }
            _ => self.data.write_all_at(bytes, at),
        }
    }

    /// Calls `put` to write a block into the file. Then marks the block present, with the CRC of
    /// the bytes that `put` read back.
    pub(super) fn write<'a>(
        &self,
        block: u64,
        exempt: Exempt,
        put: impl FnOnce() -> Result<&'a [u8], StoreError>,
    ) -> Result<FillOutcome, StoreError> {
        if self.presence(block) == Presence::Present {
            return Ok(FillOutcome::Already);
        }
        if self.invalidate_if_cut() || !self.map.is_whole() {
            return Ok(FillOutcome::NoRoom);
        }
        let cost = block_cost(self.block_len(block));
        // The map may need a new page. Its bytes stay counted, because pages are not removed while
        // the map is open.
        let page = if self.map.word(block).is_some() { 0 } else { page_cost() };
        let Some(mut reservation) = self.shared.reserve(cost + page, exempt) else {
            return Ok(FillOutcome::NoRoom);
        };
        // Writers share the lock, because one of them may wait for a network for a long time. All
        // of them write the same bytes.
        let Some(writing) = self.locks.guard(changes(block..block + 1), LockMode::Shared) else {
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
            // The block is present already, so its bytes were counted before.
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
        // The page of the map exists even if the block was not written.
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

    /// Fails if the map or the data file was cut short, because the bytes that were read back may
    /// then be zeros.
    fn check_length(&self) -> Result<(), StoreError> {
        if self.invalidate_if_cut() || !self.map.is_whole() {
            let cut = io::Error::new(io::ErrorKind::UnexpectedEof, "was cut short by another program");
            return Err(self.io_error(cut));
        }
        Ok(())
    }

    /// Sets the word of a written block. Returns false if another writer has set the word first.
    fn mark_present(&self, word: &AtomicU64, new: BlockWord) -> bool {
        let replace =
            |now| (!BlockWord(now).is_present() || !BlockWord(now).has(self.stamp)).then_some(new.0);
        word.fetch_update(Ordering::Release, Ordering::Acquire, replace).is_ok()
    }

    /// Removes the written bytes of a block, unless other threads write it too or have marked it
    /// present.
    fn undo(&self, block: u64) {
        let blocks = block..block + 1;
        let Some(_alone) = self.locks.guard(changes(blocks.clone()), LockMode::Exclusive) else { return };
        match self.presence(block) {
            Presence::Present => {}
            // The block was cached before an unclean stop, and this write has overwritten a part of
            // it.
            Presence::Unverified => drop(self.remove_blocks(blocks, RemovedBytes::Leave)),
            // No reader has seen the block, so neither the generation nor the verified runs have to
            // change.
            Presence::Absent => drop(self.punch(blocks)),
        }
    }

    /// Fails if the file returns other bytes than were written.
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

    /// Records that a block was read back, which makes it verified.
    fn record_verified(&self, generation: u64, block: u64, bytes: &[u8]) {
        let expected = self.checksum.get().map(|checksum| checksum.algorithm);
        let checksum = expected
            .filter(|algorithm| algorithm.is_combinable())
            .map(|algorithm| Hasher::of(algorithm, bytes));
        let run = VerifiedRun { blocks: block..block + 1, bytes: bytes.len() as u64, checksum };
        self.verified.lock().add(generation, run);
    }
}

/// Stores one byte through a mapping, which cannot change the file's length. The kernel copies the
/// byte into the mapping from a pipe. If the page is behind the end of the file, the copy returns
/// an error, where a store by this process would raise `SIGBUS`.
fn put_byte(file: &File, at: u64, byte: u8) -> io::Result<()> {
    let from = at / page() * page();
    // Without an allocated page, the copy would report a full disk as a bad address (`EFAULT`).
    allocate(file, from..at + 1)?;
    let mapping = SharedMapping::of_range(file, from, to_usize(at + 1 - from))?;
    let (read_end, write_end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::write(&write_end, &[byte])?;
    mapping.write_byte_from(&read_end, to_usize(at - from))
}
