//! Putting a block where it belongs.
//!
//! The data first, then its word: a process killed in between has not filled the block. What it costs is counted before
//! either. A disk that is full in spite of the count, or a quota, is no failure: the block is not kept.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::away::Hole;
use super::cached::{Cached, Look, on_disk};
use super::entry::{Entry, crc};
use super::header::DIRTY;
use super::lock::{self, Share};
use super::map::page_cost;
use super::usage::subtract;
use super::{OpenVersion, evict};
use crate::BLOCK;

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
        let inner = &self.inner;
        assert!(
            block < self.blocks() && bytes.len() == inner.block_len(block),
            "not the bytes of block {block}"
        );
        if inner.look(block) == Look::Here {
            return Stored::Already;
        }
        match inner.write(block, bytes) {
            Err(error) if is_full(&error) && evict::make_space(&inner.shared, BLOCK) => {
                inner.write(block, bytes).unwrap_or(Stored::NoRoom)
            }
            Err(error) => {
                if !is_full(&error) {
                    tracing::warn!("{}: cannot keep a block: {error}", inner.paths.data.display());
                }
                Stored::NoRoom
            }
            Ok(stored) => stored,
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl OpenVersion {
    fn write(&self, block: u64, bytes: &[u8]) -> io::Result<Stored> {
        let cost = on_disk(bytes.len());
        // A page of the map may be needed too.
        let Some(mut reservation) = self.shared.reserve(cost + page_cost()) else {
            return Ok(Stored::NoRoom);
        };
        let part = lock::blocks(block..block + 1);
        let Some(_changing) = self.locks.guard(part, Share::Exclusive) else { return Ok(Stored::NoRoom) };
        let live = self.map.live();
        live.flags.fetch_or(DIRTY, Ordering::AcqRel);
        reservation.charge(&live.charged);
        let (word, new_page) = self.map.word_allocated(block)?;
        if !new_page {
            reservation.give_back(page_cost());
        }
        let before = Entry(word.load(Ordering::Acquire));
        if before.is_present() {
            if before.has(self.stamp) {
                return Ok(Stored::Already);
            }
            // It is counted already.
            reservation.give_back(cost);
        } else {
            live.present.fetch_add(1, Ordering::AcqRel);
        }
        let written = {
            let _turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
            self.data.write_all_at(bytes, block * BLOCK)
        };
        if let Err(error) = written {
            // Some of it may have been written.
            self.take_away(block..block + 1, Hole::Leave);
            self.punch(block..block + 1);
            if !before.is_present() {
                subtract(&live.present, 1);
            }
            return Err(error);
        }
        word.store(Entry::new(crc(bytes), self.stamp).0, Ordering::Release);
        reservation.keep();
        Ok(Stored::Kept)
    }
}
