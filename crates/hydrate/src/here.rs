//! The blocks of one version that are on this machine: in the cache, else in memory.
//!
//! The cached version is opened by the first who looks, for most names of a directory are never read.

use std::ops::Range;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use firstbyte_location::{ByteRange, Checksum, Location, Version};
use firstbyte_store::{Error as StoreError, Sink};

use crate::cache::{self, Backing, Cache, Cached, Claim, Lent, Spare, Verified};
use crate::pending::Hold;
use crate::pool::Pool;
use crate::{BLOCK, Error};

/// What became of a block that was fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// It is in the cache.
    Kept,
    /// It is in memory, until something else needs the place.
    Held,
}

/// Whether a block came straight into the cached file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// It is in the cache.
    Yes,
    /// It is still to come.
    No(Keeping),
}

/// What is known of the cache's room for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// Nothing.
    Untried,
    /// There is none, and nobody need look again.
    Refused,
}

/// Whether blocks may be fetched by this process now.
pub(crate) enum Turn {
    /// Yes, as long as this is held; there is nothing to hold where others do not see the blocks.
    Ours { _claim: Option<Claim> },
    /// Another process fetches some of them.
    Theirs,
}

pub(crate) struct Here {
    file: u64,
    size: u64,
    cache: Option<(Cache, Location, Version)>,
    cached: OnceLock<Option<Cached>>,
    /// What the store tells of the whole, once it has been asked.
    checksum: OnceLock<Option<Checksum>>,
    /// Whether the last block was kept.
    keeps: AtomicBool,
    /// Whether blocks may go straight into the file: it has failed none yet.
    takes: AtomicBool,
    /// Whether a thread verifies the whole, or is about to.
    verifying: AtomicBool,
    /// Why the whole was not what the store says when it was last verified.
    refuted: Mutex<Option<Error>>,
    pool: Arc<Pool>,
}

impl Here {
    pub(crate) fn new(
        file: u64,
        size: u64,
        cache: Option<(Cache, Location, Version)>,
        pool: Arc<Pool>,
    ) -> Self {
        Self {
            file,
            size,
            cache,
            cached: OnceLock::new(),
            checksum: OnceLock::new(),
            keeps: AtomicBool::new(true),
            takes: AtomicBool::new(true),
            verifying: AtomicBool::new(false),
            refuted: Mutex::default(),
            pool,
        }
    }

    /// The version in the cache, where there is one that can be used.
    pub(crate) fn cached(&self) -> Option<&Cached> {
        let open = || {
            let (cache, location, version) = self.cache.as_ref()?;
            let opened = cache.version(location, version, self.checksum.get().cloned().flatten());
            opened.inspect_err(|error| tracing::warn!(%location, %error, "read without the cache")).ok()
        };
        self.cached.get_or_init(open).as_ref()
    }

    /// Copies the bytes that are here from `offset` on without a gap; returns how many.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> usize {
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let mut read = self.cached().map_or(0, |cached| cached.read_at(&mut buffer[done..], at));
            if read == 0 {
                read = self.pool.read_at(self.file, &mut buffer[done..], at);
            }
            if read == 0 {
                break;
            }
            done += read;
        }
        done
    }

    /// The cached file, where all of `range` is in it.
    pub(crate) fn lend(&self, range: ByteRange) -> Option<Lent> {
        self.cached()?.lend(range)
    }

    pub(crate) fn has(&self, block: u64) -> bool {
        self.is_kept(block) || self.pool.has(self.file, block)
    }

    /// Whether a block is in the cache.
    pub(crate) fn is_kept(&self, block: u64) -> bool {
        self.cached().is_some_and(|cached| cached.is_present(block))
    }

    /// Tells of one block after the other, in order, whether it is in the cache: of many that are not that takes less time than
    /// asking for each.
    pub(crate) fn kept_in_order(&self) -> impl FnMut(u64) -> bool {
        let (mut asked, mut next) = (false, None);
        move |block| {
            if !asked || next.is_some_and(|next| next < block) {
                next = self.cached().and_then(|cached| cached.next_present(block));
                asked = true;
            }
            next == Some(block)
        }
    }

    /// As [`has`](Self::has), of one block after the other, in order.
    pub(crate) fn has_in_order(&self) -> impl FnMut(u64) -> bool {
        let mut kept = self.kept_in_order();
        move |block| kept(block) || self.pool.has(self.file, block)
    }

    /// Whether there is a cache for it at all.
    pub(crate) fn can_keep(&self) -> bool {
        self.cached().is_some()
    }

    /// Whether what is fetched now is likely to be kept: the last block was.
    pub(crate) fn keeps(&self) -> bool {
        self.keeps.load(Relaxed) && self.can_keep()
    }

    /// Where the bytes of a read that waits are best held: blocks that are not kept may be gone when the last has come.
    pub(crate) fn hold(&self) -> Hold {
        if self.keeps() { Hold::Kept } else { Hold::Copied }
    }

    /// Takes a block that was fetched. Where room has to be made for it, what `spare` says stays.
    pub(crate) fn store(&self, block: u64, bytes: &[u8], keeping: Keeping, spare: Spare) -> Stored {
        let fill = |cached: &Cached| cached.fill_sparing(block, bytes, spare) != cache::Stored::NoRoom;
        let kept = keeping == Keeping::Untried && self.cached().is_some_and(fill);
        self.keeps.store(kept, Relaxed);
        if kept {
            return Stored::Kept;
        }
        self.pool.put(self.file, block, bytes);
        Stored::Held
    }

    /// Takes a block that `bring` writes into the cached file, so that only what is in the file passes through memory: see
    /// [`Cached::receive`]. `bring` is called only where that comes to something.
    pub(crate) fn receive(
        &self,
        block: u64,
        buffer: &mut [u8],
        spare: Spare,
        bring: impl FnOnce(&Sink, u64, &mut [u8]) -> Result<(), StoreError>,
    ) -> Result<Received, StoreError> {
        let Some(cached) = self.cached().filter(|_| self.takes.load(Relaxed)) else {
            return Ok(Received::No(Keeping::Untried));
        };
        let mut brought = false;
        let received = cached.receive(block, buffer, spare, |sink, at, buffer| {
            brought = true;
            bring(sink, at, buffer)
        });
        match received {
            Ok(cache::Stored::NoRoom) => Ok(Received::No(Keeping::Refused)),
            Ok(_) if brought => {
                self.keeps.store(true, Relaxed);
                Ok(Received::Yes)
            }
            Ok(_) => Ok(Received::No(Keeping::Untried)),
            Err(error) => {
                // A full disk, or one that fails: bytes that were on their way into it are lost, in memory they are not.
                if matches!(error, StoreError::Io { .. }) {
                    self.takes.store(false, Relaxed);
                }
                Err(error)
            }
        }
    }

    /// Asks for the right to fetch blocks, which processes that share the cache give each other.
    pub(crate) fn turn(&self, blocks: &Range<u64>) -> Turn {
        let Some(cached) = self.cached() else { return Turn::Ours { _claim: None } };
        cached.claim(blocks.clone()).map_or(Turn::Theirs, |claim| Turn::Ours { _claim: Some(claim) })
    }

    /// Tells the checksum over the whole, or that the store has none; what was told first counts.
    pub(crate) fn expect(&self, checksum: Option<Checksum>) {
        if self.checksum.set(checksum.clone()).is_ok()
            && let (Some(Some(cached)), Some(checksum)) = (self.cached.get(), checksum)
        {
            cached.expect(checksum);
        }
    }

    /// Whether the store has been asked for the checksum over the whole.
    pub(crate) fn knows_checksum(&self) -> bool {
        self.checksum.get().is_some()
    }

    /// Whether all has come, and no thread verifies it. If this returns true, the caller must call [`verify`](Self::verify).
    pub(crate) fn is_to_be_verified(&self) -> bool {
        let ripe = self.cached().is_some_and(|cached| cached.all_here() && !cached.is_complete());
        ripe && !self.verifying.swap(true, Acquire)
    }

    /// Verifies the whole.
    pub(crate) fn verify(&self, location: &Location) {
        let Some(cached) = self.cached() else { return };
        let verified = cached.verify_complete();
        let mut refuted = self.refuted.lock().unwrap_or_else(PoisonError::into_inner);
        match verified {
            // Another process does it, or blocks turned out to be missing: the fetch that brings the last one begins again.
            Ok(Verified::Busy | Verified::Missing) => {}
            Ok(Verified::Complete) => *refuted = None,
            Err(error) => {
                tracing::error!(%location, %error, "the whole could not be verified");
                if let Error::Checksum(_) = error {
                    *refuted = Some(error);
                }
            }
        }
        drop(refuted);
        // Whatever was found: blocks may go and come again, and the whole is then verified anew.
        self.verifying.store(false, Release);
    }

    /// Why the whole was not what the store says when it was last verified.
    pub(crate) fn refuted(&self) -> Option<Error> {
        self.refuted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes room for those of `blocks` that are not in the cache, and for `promised` bytes beside them, by evicting what `spare`
    /// allows; and notes that the version is in use. From `least_refused` bytes on only room that is free already counts. Returns
    /// the bytes of disk that the missing blocks take.
    ///
    /// # Errors
    /// The bytes that do not fit; `None` where it cannot be kept at all. Nothing was evicted then.
    pub(crate) fn make_room(
        &self,
        blocks: &Range<u64>,
        promised: u64,
        spare: Spare,
        least_refused: u64,
    ) -> Result<u64, Option<u64>> {
        let (cache, location, version) = self.cache.as_ref().ok_or(None)?;
        let makes_room = |bytes: u64| {
            let all = bytes + promised;
            let fits = if all < least_refused { cache.make_room(all, spare) } else { cache.has_room(all) };
            if fits { Ok(bytes) } else { Err(Some(all)) }
        };
        // To make the files of a version may evict anything, so room for them is made first.
        let new = self.cached.get().is_none() && !cache.has_files(location, version);
        if new {
            makes_room(cache.cost(location, version, blocks).ok_or(None)?)?;
        }
        let cached = self.cached().ok_or(None)?;
        cached.touch();
        match cached.cost_of_missing(blocks) {
            0 => Ok(0),
            bytes => makes_room(bytes),
        }
    }

    /// Lets go of a version that could not be brought and of which nothing is in the cache: a pin on it would outlive the job.
    pub(crate) fn let_go_if_empty(&self) {
        if let Some((cache, location, version)) = &self.cache
            && cache.has_files(location, version)
            && self.cached().is_some_and(|cached| cached.next_present(0).is_none())
        {
            let released = cache.release_version(location, version);
            let _ = released.inspect_err(|error| tracing::warn!(%location, %error, "not released"));
        }
    }

    /// Whether nothing more is to be expected of verification.
    pub(crate) fn is_settled(&self) -> bool {
        self.cached().is_none_or(Cached::is_complete)
    }

    pub(crate) fn backing(&self) -> Option<Backing> {
        self.cached()?.backing()
    }

    /// The bytes of some blocks, as far as the file goes.
    pub(crate) fn bytes(&self, blocks: &Range<u64>) -> ByteRange {
        ByteRange::new(blocks.start * BLOCK, blocks.end.saturating_mul(BLOCK).min(self.size))
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.pool.forget(self.file);
    }
}

/// The bytes of a block, past the file's end where it is the last.
pub(crate) fn block_range(block: u64) -> ByteRange {
    ByteRange::at(block * BLOCK, BLOCK)
}

/// The blocks that hold some bytes.
pub(crate) fn blocks_of(range: ByteRange) -> Range<u64> {
    range.start / BLOCK..range.end.div_ceil(BLOCK)
}
