//! When all blocks of a version are here: verified as a whole, and handed out as a file.
//!
//! Each block that another process brought, or an earlier open, is read again and checked against its CRC, which finds what
//! a faulty disk or memory did to it; ours were read back when they were written. All together are checked against the store's
//! own checksum, which finds what went wrong on the way. A version of some size is then brought to the
//! disk, so that it is still complete after a power cut; smaller ones are cheaper to verify again than to sync.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;

use super::cached::Cached;
use super::header::DURABLE;
use super::lock::{HOLD, Share};
use super::open::count;
use super::sweep::Swept;
use super::usage::subtract;
use super::{Keep, OpenVersion};
use crate::{Error, Result};

/// Bytes from which on a complete version is synced. A sync takes some milliseconds, in which a disk reads about as much:
/// what is larger would take longer to verify after a restart.
const SYNC_FROM: u64 = 4 << 20;

/// Blocks by which the count of those present may be wrong: as many as are filled at once, and were by those killed.
const SLACK: u64 = 64;

/// What verification of the whole found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verified {
    /// All blocks are here and right.
    Complete,
    /// Some are not here, or were wrong and are not here any more.
    Missing,
    /// Blocks are being taken away this instant.
    Busy,
}

impl Cached {
    /// Whether every block is here, if perhaps not verified.
    #[must_use]
    pub fn all_here(&self) -> bool {
        let near = self.inner.map.live().present.load(Ordering::Acquire) + SLACK >= self.blocks();
        near && self.next_missing(0).is_none()
    }

    /// Whether all blocks are here and were verified as a whole.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.inner.is_complete()
    }

    /// Verifies the whole: reads every block that has not been read back since it was written. Others read and are given a
    /// [`Backing`] as soon as it is verified, while what is to be durable is still on its way to the disk.
    ///
    /// # Errors
    /// [`Error::Checksum`]: the blocks together are not what the store says; all of them are dropped. [`Error::Cache`]: the
    /// version could not be brought to the disk, and is complete until the machine restarts.
    pub fn verify_complete(&self) -> Result<Verified> {
        let inner = &self.inner;
        if self.is_complete() {
            return Ok(Verified::Complete);
        }
        let Some(hold) = inner.locks.guard(HOLD, Share::Shared) else { return Ok(Verified::Busy) };
        if self.next_missing(0).is_some() {
            inner.correct_count();
            return Ok(Verified::Missing);
        }
        let generation = inner.generation();
        let expected = inner.checksum.get();
        let Swept { missing, wrong, checksum, .. } =
            inner.sweep(generation, expected.map(|checksum| checksum.algorithm));
        if missing || !wrong.is_empty() {
            inner.correct_count();
            // Given up first, for they are punched only where nobody relies on the whole.
            drop(hold);
            wrong.into_iter().for_each(|block| inner.drop_blocks(block..block + 1));
            return Ok(Verified::Missing);
        }
        if let Some((expected, found)) = expected.zip(checksum) {
            let place = self.location().map_or_else(String::new, |location| location.to_string());
            if let Err(error) = expected.verify(&found, &place) {
                drop(hold);
                inner.drop_blocks(0..self.blocks());
                return Err(Error::Checksum(error));
            }
        }
        let complete = &inner.map.live().complete;
        complete.store(inner.stamp.as_number(), Ordering::SeqCst);
        if !inner.is_generation(generation) {
            complete.store(0, Ordering::SeqCst);
            return Ok(Verified::Missing);
        }
        if self.size() >= SYNC_FROM && inner.keep == Keep::Always {
            inner.make_durable().map_err(Error::cache(&inner.paths.data, "cannot bring it to the disk"))?;
        }
        Ok(Verified::Complete)
    }

    /// The whole file, if it is complete; no block of it is taken away while the backing lives.
    #[must_use]
    pub fn backing(&self) -> Option<Backing> {
        if !self.is_complete() || !self.inner.locks.try_take(HOLD, Share::Shared) {
            return None;
        }
        let hold = Hold(self.clone());
        // Looked at again: it may have been evicted before we had the lock.
        let file = self.inner.data.file().try_clone().ok().filter(|_| self.is_complete())?;
        Some(Backing { file, _hold: hold })
    }
}

/// A complete version's file, kept from eviction. Read-only, though the kernel would let one write: who does breaks it.
#[derive(Debug)]
pub struct Backing {
    file: File,
    _hold: Hold,
}

impl AsFd for Backing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The shared lock of a backing.
#[derive(Debug)]
struct Hold(Cached);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.inner.locks.give_back(HOLD);
    }
}

impl OpenVersion {
    pub(super) fn is_complete(&self) -> bool {
        let live = self.map.live();
        let complete = live.complete.load(Ordering::SeqCst);
        // A stamp of another boot counts where all has reached the disk.
        let durable = || complete != 0 && live.flags.load(Ordering::SeqCst) & DURABLE != 0;
        self.map.blocks() == 0 || complete == self.stamp.as_number() || durable()
    }

    /// After a kill the count of blocks is too high. To be called while nothing is evicted.
    fn correct_count(&self) {
        let present = &self.map.live().present;
        let before = present.load(Ordering::Acquire);
        subtract(present, before.saturating_sub(count(&self.map)));
    }

    /// The data and the words before the flag: what the flag promises is on the disk when it is. Blocks are not evicted
    /// meanwhile, but wrong ones may be dropped, which `complete` tells.
    fn make_durable(&self) -> io::Result<()> {
        self.data.file().sync_data()?;
        self.map.sync()?;
        let live = self.map.live();
        live.flags.fetch_or(DURABLE, Ordering::SeqCst);
        if live.complete.load(Ordering::SeqCst) == 0 {
            live.flags.fetch_and(!DURABLE, Ordering::SeqCst);
        }
        Ok(())
    }
}
