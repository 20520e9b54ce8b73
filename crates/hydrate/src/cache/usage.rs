//! Counts the bytes that the cache uses, for all processes together, and decides whether more bytes
//! fit.
//!
//! The counters are on one page that every process maps. Bytes are added to the count before they
//! are used, and subtracted after they have been freed. So a process that is killed in between
//! leaves the count too high, never too low; a [recount](super::recount) corrects it. The count
//! covers the bytes that the disk allocates: whole pages of maps, blocks rounded up to file system
//! blocks, and extent lists.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use firstbyte_store::PrivateDirectory;

use super::CacheLimits;
use super::clock::boot;
use super::lock::{LockFile, LockMode, OPEN, Opener, let_others_open, try_lock, unlock};
use super::mapping::{Atomics, SharedMapping};
use super::shared_page::{self, CutAction};

/// Magic number and format. The format changes with the meaning of any byte. A page of another
/// format is reset, and the bytes are recounted.
const MAGIC: u64 = u64::from_ne_bytes(*b"fbuse\0\0\x01");
/// The count before the bytes were counted. No disk is this large, so nothing fits.
const UNKNOWN: u64 = 1 << 62;
/// The lock that a process holds while it recounts.
const RECOUNT: Range<u64> = 1..2;

/// The page of counters that all processes share.
#[repr(C)]
pub(super) struct UsagePage {
    magic: AtomicU64,
    /// Number of the boot ([`boot`](super::clock::boot)) during which a process last initialized
    /// the page.
    boot: AtomicU64,
    /// 1 while a process uses the cache. Stays 1 if that process is killed.
    in_use: AtomicU64,
    /// Number of bytes used.
    pub(super) used: AtomicU64,
    /// Number of bytes in transition: counted in only one of `used` and the version's header, or
    /// still reported as free by the file system.
    pub(super) moving: AtomicU64,
    /// Total number of bytes freed since the page was created.
    pub(super) freed: AtomicU64,
    /// 0 while the count may be too high, because a process was killed or the machine restarted;
    /// otherwise 1.
    exact: AtomicU64,
}

// SAFETY: all fields are atomics.
unsafe impl Atomics for UsagePage {}

/// The mapped page of counters, and the limits of the cache.
#[derive(Debug)]
pub(super) struct CacheUsage {
    /// The file of the page. A lock on this file shows that the cache is in use.
    file: LockFile,
    page: SharedMapping,
    limits: CacheLimits,
    /// Free bytes of the file system at the last query.
    available: AtomicU64,
}

impl CacheUsage {
    /// Opens the page `name`. The first process that opens it initializes it. `has_contents` says
    /// whether the cache may contain versions.
    pub(super) fn open(
        directory: &PrivateDirectory,
        name: &Path,
        limits: CacheLimits,
        has_contents: bool,
    ) -> io::Result<Self> {
        let (file, page, opener) = shared_page::open(directory, name, CutAction::Restore)?;
        let usage = Self { file, page, limits, available: AtomicU64::new(0) };
        usage.query_available();
        if opener == Opener::First {
            usage.prepare(has_contents);
        }
        let_others_open(&usage.file)?;
        Ok(usage)
    }

    fn prepare(&self, has_contents: bool) {
        let page = self.counters();
        if page.magic.load(Ordering::Relaxed) != MAGIC || page.boot.load(Ordering::Relaxed) != boot() {
            // After a power cut, the page on the disk may be older than the files of the versions.
            page.used.store(if has_contents { UNKNOWN } else { 0 }, Ordering::Relaxed);
            page.exact.store(u64::from(!has_contents), Ordering::Relaxed);
        } else if page.in_use.load(Ordering::Relaxed) != 0 {
            page.exact.store(0, Ordering::Relaxed);
        }
        page.moving.store(0, Ordering::Relaxed);
        page.boot.store(boot(), Ordering::Relaxed);
        page.in_use.store(1, Ordering::Relaxed);
        page.magic.store(MAGIC, Ordering::Release);
    }

    pub(super) fn counters(&self) -> &UsagePage {
        self.page.at(0)
    }

    /// Returns whether the count is exact, apart from bytes that were in transition in processes
    /// that have been killed.
    pub(super) fn is_exact(&self) -> bool {
        self.counters().exact.load(Ordering::Acquire) != 0
    }

    /// Claims the exclusive right to recount. Returns false while another process has the right.
    pub(super) fn begin_recount(&self) -> bool {
        try_lock(&self.file, &RECOUNT, LockMode::Exclusive).unwrap_or(false)
    }

    /// Ends a recount that found the count to be too high by `leak` bytes.
    pub(super) fn end_recount(&self, leak: u64) {
        subtract(&self.counters().used, leak);
        self.counters().exact.store(1, Ordering::Release);
        let _ = unlock(&self.file, &RECOUNT);
    }

    /// Returns whether the bytes have been counted.
    pub(super) fn is_known(&self) -> bool {
        self.used() < UNKNOWN / 2
    }

    /// Returns the count of used bytes. After a process was killed it may be too high, and before
    /// the first recount it is about `UNKNOWN`.
    pub(super) fn used(&self) -> u64 {
        self.counters().used.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes that fit within the limits now.
    pub(super) fn room(&self) -> u64 {
        let within = self.limits.size.map_or(u64::MAX, |size| size.saturating_sub(self.used()));
        let moving = self.counters().moving.load(Ordering::SeqCst);
        within.min(self.query_available().saturating_sub(self.limits.reserve).saturating_sub(moving))
    }

    /// Returns the number of bytes that the cache can hold in total, as of the last query of the
    /// file system.
    pub(super) fn capacity(&self) -> u64 {
        let free = self.available.load(Ordering::Relaxed).saturating_sub(self.limits.reserve);
        self.limits.size.unwrap_or(u64::MAX).min(free.saturating_add(self.used()))
    }

    /// Asks the file system for its free bytes, and keeps the number for
    /// [`capacity`](Self::capacity). Returns 0 if the file system does not report them.
    fn query_available(&self) -> u64 {
        let Ok(stat) = rustix::fs::fstatvfs(&self.file) else { return 0 };
        let available = stat.f_bavail.saturating_mul(stat.f_frsize);
        self.available.store(available, Ordering::Relaxed);
        available
    }

    /// Adds `bytes` to the count. Returns `None` if they do not fit.
    pub(super) fn reserve(&self, bytes: u64) -> Option<Reservation<'_>> {
        let page = self.counters();
        let limit = self.limits.size.unwrap_or(UNKNOWN / 2);
        let add = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit);
        page.moving.fetch_add(bytes, Ordering::SeqCst);
        if page.used.fetch_update(Ordering::SeqCst, Ordering::Relaxed, add).is_err() {
            subtract(&page.moving, bytes);
            return None;
        }
        let reservation = Reservation { usage: self, bytes, charged: None };
        let needed = self.limits.reserve.saturating_add(page.moving.load(Ordering::SeqCst));
        (self.query_available() >= needed).then_some(reservation)
    }

    /// Announces that `bytes` of a version are about to be freed.
    pub(super) fn begin_freeing(&self, bytes: u64) -> Freeing<'_> {
        self.counters().moving.fetch_add(bytes, Ordering::SeqCst);
        Freeing { usage: self, bytes }
    }

    pub(super) fn limits(&self) -> CacheLimits {
        self.limits
    }
}

impl Drop for CacheUsage {
    fn drop(&mut self) {
        // The last process that closes the cache marks the count as exact, so that the next one
        // need not recount.
        if self.is_exact() && try_lock(&self.file, &OPEN, LockMode::Exclusive).unwrap_or(false) {
            self.counters().in_use.store(0, Ordering::Relaxed);
        }
    }
}

/// Bytes that are counted for a version before they are used. Unless [`keep`](Self::keep) is
/// called, dropping this value subtracts them again.
#[derive(Debug)]
pub(super) struct Reservation<'a> {
    usage: &'a CacheUsage,
    bytes: u64,
    charged: Option<&'a AtomicU64>,
}

impl<'a> Reservation<'a> {
    /// Adds the bytes to the charge in the version's header as well.
    pub(super) fn charge(&mut self, charged: &'a AtomicU64) {
        charged.fetch_add(self.bytes, Ordering::SeqCst);
        self.charged = Some(charged);
    }

    /// Subtracts bytes that turned out not to be needed.
    pub(super) fn reduce(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        if let Some(charged) = self.charged {
            subtract(charged, bytes);
        }
        let page = self.usage.counters();
        subtract(&page.used, bytes);
        page.freed.fetch_add(bytes, Ordering::SeqCst);
        subtract(&page.moving, bytes);
    }

    /// Returns the number of bytes that are counted.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Records that the bytes are now used.
    pub(super) fn keep(mut self) {
        subtract(&self.usage.counters().moving, self.bytes);
        self.bytes = 0;
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.reduce(self.bytes);
    }
}

/// Bytes that are about to be freed. Unless [`complete`](Self::complete) is called, dropping this
/// value leaves them counted.
#[derive(Debug)]
pub(super) struct Freeing<'a> {
    usage: &'a CacheUsage,
    bytes: u64,
}

impl Freeing<'_> {
    /// Subtracts the bytes from the count: they are free, and no longer counted in the version's
    /// header.
    pub(super) fn complete(self) {
        let page = self.usage.counters();
        subtract(&page.used, self.bytes);
        page.freed.fetch_add(self.bytes, Ordering::SeqCst);
    }
}

impl Drop for Freeing<'_> {
    fn drop(&mut self) {
        subtract(&self.usage.counters().moving, self.bytes);
    }
}

/// Subtracts `bytes` from a counter, but not below 0. If the counter has drifted, the next recount
/// corrects it.
pub(super) fn subtract(counter: &AtomicU64, bytes: u64) {
    let _ =
        counter.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |value| Some(value.saturating_sub(bytes)));
}

/// Returns the bytes that the disk allocates for a file.
pub(super) fn on_disk(file: &File) -> u64 {
    // `st_blocks` counts units of 512 bytes, independent of the file system's block size.
    file.metadata().map_or(0, |meta| meta.blocks() * 512)
}

/// Returns the bytes that the disk allocates for `len` bytes: whole file system blocks of the usual
/// size.
pub(super) fn block_cost(len: usize) -> u64 {
    (len as u64).next_multiple_of(4096)
}
