//! Verifies a version as a whole when all of its blocks are present, and verifies every block of
//! the cache on request.
//!
//! A block that another process or an earlier open wrote is read again and compared with its CRC,
//! which finds errors of disk and memory. Blocks that this process wrote were read back right after
//! they were written. All blocks together are compared with the store's checksum, which finds
//! errors of the network. A large version is then synced, so that it is still complete after a
//! power cut. A small version is not synced, because verifying it again is cheaper than a sync.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::panic::resume_unwind;
use std::sync::atomic::Ordering;
use std::thread::{Builder, available_parallelism, scope};

use firstbyte_location::{Algorithm, Checksum, Hasher, to_usize};
use firstbyte_pacing::SHORTEST_REQUEST;
use firstbyte_store::{FileAccess, PrivateDirectory};

use super::block_map::{BlockWord, DURABLE, INTACT, crc};
use super::cached::CachedVersion;
use super::directory::CachePaths;
use super::lock::{LockMode, LockWait, WHOLE};
use super::open::{MissingAction, OpenVersion, open};
use super::usage::subtract;
use super::verified_runs::VerifiedRun;
use super::{Cache, Retention};
use crate::block::BLOCK;
use crate::error::{Error, Result};

/// Minimum length of a version that is synced when it is complete, bytes. A sync takes a few
/// milliseconds, in which a disk reads about this many bytes.
const MIN_SYNCED_SIZE: u64 = SHORTEST_REQUEST;
/// Tolerated error in the count of present blocks: blocks that are being filled, and blocks that
/// killed processes were filling.
const MAX_COUNT_ERROR: u64 = 64;
/// Smallest number of blocks for which another thread is started. A thread checks this many blocks
/// in about a millisecond.
const BLOCKS_PER_THREAD: u64 = SHORTEST_REQUEST / BLOCK;

/// The result of verifying a whole version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionVerification {
    /// All blocks are present and right.
    Complete,
    /// Blocks are absent, or were wrong and have been dropped.
    Missing,
    /// Blocks are being removed now.
    Busy,
}

impl CachedVersion {
    /// Returns whether every block is present. Some may be unverified.
    #[must_use]
    pub fn has_all_blocks(&self) -> bool {
        let near = self.inner.map.live().present.load(Ordering::Acquire) + MAX_COUNT_ERROR >= self.blocks();
        near && self.next_missing(0).is_none()
    }

    /// Returns whether all blocks are present and the whole version was verified.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.inner.is_complete()
    }

    /// Verifies the whole version. Reads every block except those that this process has read back
    /// right after writing them. Other threads can get a [`Backing`] as soon as the version is
    /// verified, before it is synced.
    ///
    /// # Errors
    /// - [`Error::Checksum`]: the blocks together are not the object. All of them are dropped.
    /// - [`Error::Cache`]: the version could not be synced. It stays complete until the machine
    ///   restarts.
    pub fn verify_complete(&self) -> Result<VersionVerification> {
        let inner = &self.inner;
        if self.is_complete() {
            return Ok(VersionVerification::Complete);
        }
        let Some(whole) = inner.locks.guard(WHOLE, LockMode::Shared) else {
            return Ok(VersionVerification::Busy);
        };
        if self.next_missing(0).is_some() {
            inner.correct_count();
            return Ok(VersionVerification::Missing);
        }
        let generation = inner.generation();
        let expected = inner.checksum.get();
        let VerifyPass { missing, wrong, checksum, .. } =
            inner.verify_pass(generation, expected.map(|checksum| checksum.algorithm));
        if missing || !wrong.is_empty() {
            inner.correct_count();
            // The lock is freed first, because blocks can be punched only while no thread holds it.
            drop(whole);
            wrong.into_iter().for_each(|block| inner.drop_blocks(block..block + 1));
            return Ok(VersionVerification::Missing);
        }
        if let Some((expected, found)) = expected.zip(checksum) {
            let place = self.location().map_or_else(String::new, |location| location.to_string());
            if let Err(error) = expected.verify(&found, &place) {
                drop(whole);
                inner.drop_blocks(0..self.blocks());
                return Err(Error::Checksum(error));
            }
        }
        let complete = &inner.map.live().complete;
        complete.store(inner.stamp.as_number(), Ordering::SeqCst);
        // Blocks that this process wrote were not read again, so a file that was cut short since
        // then would go unnoticed.
        if inner.invalidate_if_cut() || !inner.is_generation(generation) {
            complete.store(0, Ordering::SeqCst);
            return Ok(VersionVerification::Missing);
        }
        if self.is_synced() {
            inner.make_durable().map_err(Error::cache(&inner.shown_data(), "cannot sync it to disk"))?;
        }
        Ok(VersionVerification::Complete)
    }

    /// Returns the file of a version that is synced once it is complete. `None` if this version is
    /// never synced.
    #[must_use]
    pub fn unsynced_file(&self) -> Option<File> {
        self.is_synced().then(|| self.inner.data.file().try_clone().ok())?
    }

    /// Returns whether the version is synced once it is complete.
    fn is_synced(&self) -> bool {
        self.size() >= MIN_SYNCED_SIZE && self.inner.retention == Retention::Persistent
    }

    /// Returns the file of the version if it is complete. No block is removed while the backing
    /// lives.
    #[must_use]
    pub fn backing(&self) -> Option<Backing> {
        if !self.is_complete() || !self.inner.locks.try_lock(WHOLE, LockMode::Shared) {
            return None;
        }
        let backing = Backing(self.clone());
        // Checked again, because blocks may have been evicted just before the lock was taken.
        (self.is_complete() && !self.inner.invalidate_if_cut()).then_some(backing)
    }
}

/// The file of a complete version, exempt from eviction. The descriptor is writable, but writing to
/// it corrupts the cache.
#[derive(Debug)]
pub struct Backing(CachedVersion);

impl AsFd for Backing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.inner.data.file().as_fd()
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        self.0.inner.locks.unlock(WHOLE);
    }
}

/// The result of reading adjacent blocks. The default is the result of reading no blocks.
#[derive(Default)]
struct VerifyPass {
    bytes: u64,
    /// True if blocks are absent.
    missing: bool,
    /// Blocks that do not match their CRC.
    wrong: Vec<u64>,
    /// The requested checksum over all bytes. Meaningless if blocks are missing or wrong.
    checksum: Option<Checksum>,
}

impl VerifyPass {
    /// Adds the result of reading the blocks that follow.
    fn append(&mut self, next: Self) {
        self.missing |= next.missing;
        self.wrong.extend(next.wrong);
        self.checksum = match (self.bytes, next.bytes) {
            (0, _) => next.checksum,
            (_, 0) => self.checksum.take(),
            (_, bytes) => self
                .checksum
                .take()
                .zip(next.checksum)
                .and_then(|(so_far, next)| so_far.combine(&next, bytes)),
        };
        self.bytes += next.bytes;
    }
}

impl From<VerifiedRun> for VerifyPass {
    fn from(run: VerifiedRun) -> Self {
        Self { bytes: run.bytes, checksum: run.checksum, ..Self::default() }
    }
}

impl OpenVersion {
    pub(super) fn is_complete(&self) -> bool {
        let live = self.map.live();
        let complete = live.complete.load(Ordering::SeqCst);
        // The stamp of an earlier boot is valid only if the version was synced.
        let durable = || complete != 0 && live.flags.load(Ordering::SeqCst) & DURABLE != 0;
        self.map.blocks() == 0 || complete == self.stamp.as_number() || durable()
    }

    /// Corrects the count of present blocks, which is too high after a kill. The caller must ensure
    /// that no block is being removed.
    fn correct_count(&self) {
        let present = &self.map.live().present;
        let before = present.load(Ordering::Acquire);
        subtract(present, before.saturating_sub(self.map.count_present()));
    }

    /// Syncs the data and the map before it sets the flag [`DURABLE`], so the flag is never set too
    /// early. Blocks are not evicted during the sync, but wrong blocks may be dropped, which clears
    /// `complete`.
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

    /// Checks every block that is not yet verified in this generation against its CRC, and computes
    /// a checksum with `algorithm` over all blocks.
    fn verify_pass(&self, generation: u64, algorithm: Option<Algorithm>) -> VerifyPass {
        let mut known = self.verified.lock().runs(generation);
        // The checksums of runs can be combined only for some algorithms. For any other, all blocks
        // are read.
        known.retain(|run| run.checksum.as_ref().map(|checksum| checksum.algorithm) == algorithm);
        let (mut pass, mut at) = (VerifyPass::default(), 0);
        for run in known {
            pass.append(self.verify_gap(at..run.blocks.start, algorithm));
            at = run.blocks.end;
            pass.append(run.into());
        }
        pass.append(self.verify_gap(at..self.map.blocks(), algorithm));
        pass
    }

    /// Reads the unverified blocks between two verified runs, with several threads if there are
    /// many blocks. One thread checks 1 GiB in 0.2 s, and readers of the whole file wait for the
    /// result.
    fn verify_gap(&self, gap: Range<u64>, algorithm: Option<Algorithm>) -> VerifyPass {
        let blocks = gap.end - gap.start;
        let sequential = algorithm.is_some_and(|algorithm| !algorithm.is_combinable());
        let most = blocks / BLOCKS_PER_THREAD;
        if sequential || most <= 1 {
            return self.verify_part(gap, algorithm);
        }
        // The number of processors is asked for only if there are enough blocks: the call reads
        // files of the kernel, which takes as long as checking a small object.
        let threads = available_parallelism().map_or(1, NonZeroUsize::get) as u64;
        let parts = threads.min(most);
        let part = |index| gap.start + blocks * index / parts..gap.start + blocks * (index + 1) / parts;
        scope(|scope| {
            let others: Vec<_> = (1..parts)
                .map(|index| {
                    let thread = Builder::new().name("verify".into());
                    (index, thread.spawn_scoped(scope, move || self.verify_part(part(index), algorithm)))
                })
                .collect();
            let mut pass = self.verify_part(part(0), algorithm);
            for (index, thread) in others {
                pass.append(match thread {
                    Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                    Err(_) => self.verify_part(part(index), algorithm),
                });
            }
            pass
        })
    }

    fn verify_part(&self, blocks: Range<u64>, algorithm: Option<Algorithm>) -> VerifyPass {
        let mut hasher = algorithm.map(Hasher::new);
        let mut pass = VerifyPass::default();
        // Most gaps are empty, because the blocks around them were read back when they were
        // written.
        let mut buffer =
            vec![0; if blocks.is_empty() { 0 } else { to_usize(BLOCK.min(self.identity.size())) }];
        for block in blocks {
            match self.check(block, &mut buffer) {
                Check::Right(bytes) => hasher.as_mut().into_iter().for_each(|hasher| hasher.update(bytes)),
                Check::Missing => pass.missing = true,
                Check::Wrong => pass.wrong.push(block),
            }
            pass.bytes += self.block_len(block) as u64;
        }
        pass.checksum = hasher.map(Hasher::finish);
        pass
    }

    /// Reads a block and compares it with its CRC, even if the block was verified before.
    fn check<'a>(&self, block: u64, buffer: &'a mut [u8]) -> Check<'a> {
        let bytes = &mut buffer[..self.block_len(block)];
        loop {
            let generation = self.generation();
            let Some(word) = self.map.word(block) else { return Check::Missing };
            let before = BlockWord(word.load(Ordering::Acquire));
            if !before.is_present() || generation & INTACT == 0 {
                return Check::Missing;
            }
            let read = self.data.file().read_exact_at(bytes, block * BLOCK);
            if self.invalidate_if_cut() {
                return Check::Missing;
            }
            if let Err(error) = read {
                self.warn_unreadable(&error);
                return Check::Wrong;
            }
            if !self.is_generation(generation) {
                continue;
            }
            if crc(bytes) != before.crc() {
                return Check::Wrong;
            }
            if !before.has(self.stamp) {
                let fresh = BlockWord::new(before.crc(), self.stamp);
                let _ = word.compare_exchange(before.0, fresh.0, Ordering::Release, Ordering::Relaxed);
            }
            return Check::Right(bytes);
        }
    }

    /// Returns whether a block is present and right. A wrong block is dropped.
    pub(super) fn verify_block(&self, block: u64) -> bool {
        match self.check(block, &mut vec![0; self.block_len(block)]) {
            Check::Right(_) => true,
            Check::Missing => false,
            Check::Wrong => {
                self.drop_blocks(block..block + 1);
                false
            }
        }
    }
}

/// The result of checking a block against its CRC.
enum Check<'a> {
    /// The block is present and has these bytes.
    Right(&'a [u8]),
    Missing,
    /// The block differs from what was written.
    Wrong,
}

/// The result of verifying the whole cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerificationReport {
    /// Number of versions examined.
    pub versions: u64,
    /// Number of versions whose files are corrupt. The next open creates these files again. A
    /// version whose creation was interrupted is not counted, because it had no blocks.
    pub corrupt: u64,
    /// Number of blocks that are right.
    pub blocks: u64,
    /// Number of blocks that were wrong and have been dropped.
    pub wrong: u64,
}

impl Cache {
    /// Reads every block of every version, and drops the damaged blocks. Other processes may use
    /// the cache at the same time.
    ///
    /// # Errors
    /// [`Error::Cache`]: the directory, or a file in it, cannot be read.
    pub fn verify(&self) -> Result<VerificationReport> {
        let mut report = self.verify_packed();
        let mut statuses = self.statuses();
        let mut buffer = vec![0; to_usize(BLOCK)];
        while let Some(map) = statuses.next_map() {
            let paths = CachePaths::of_map(map?);
            let opened = open(
                &self.shared,
                paths.clone(),
                MissingAction::Skip,
                Retention::Persistent,
                LockWait::Briefly,
            )?;
            let Some(version) = opened else {
                report.corrupt +=
                    u64::from(self.shared.dir.has(&paths.map) && !is_unfinished(&self.shared.dir, &paths));
                continue;
            };
            report.versions += 1;
            for (block, _) in version.map.words() {
                match version.check(block, &mut buffer) {
                    Check::Right(_) => report.blocks += 1,
                    Check::Missing => {}
                    Check::Wrong => {
                        report.wrong += 1;
                        version.drop_blocks(block..block + 1);
                    }
                }
            }
        }
        Ok(report)
    }
}

/// Returns whether the creation of a version was interrupted. Because the header is written last,
/// such a version has no blocks.
fn is_unfinished(directory: &PrivateDirectory, paths: &CachePaths) -> bool {
    let mut magic = [0; 8];
    let unwritten = directory.file(&paths.map, FileAccess::Read).is_ok_and(|map| {
        let read = map.read_exact_at(&mut magic, 0);
        read.is_err_and(|error| error.kind() == io::ErrorKind::UnexpectedEof) || magic == [0; 8]
    });
    let data = directory.file(&paths.data, FileAccess::Read).and_then(|data| data.metadata());
    unwritten && data.map_or(true, |data| data.blocks() == 0)
}
