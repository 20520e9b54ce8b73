//! How much the cache takes, counted by all processes together, and whether more fits.
//!
//! One page, mapped by everyone. Bytes are counted before they are taken and given back after they are free, so a process
//! killed in between leaves the count too high, never too low; [`recount`](super::recount) puts that right later. What
//! is counted is what the disk gives: whole pages of maps, blocks rounded up to the file system's, and its lists of them.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::Limits;
use super::boot::boot;
use super::lock::{First, Lockable, OPEN, Share, enter, entered, release, set};

/// Raised when the meaning of a byte changes; a page of another kind is written anew, and counted again.
const MAGIC: u64 = u64::from_ne_bytes(*b"fbuse\0\0\x01");
/// One page of the smallest kind.
const LEN: usize = 4096;
/// More than any disk has: nothing fits until the count is known.
const UNKNOWN: u64 = 1 << 62;
/// The lock of whoever counts again.
const COUNT: Range<u64> = 1..2;

/// The shared page.
#[repr(C)]
pub(super) struct Counters {
    magic: AtomicU64,
    /// The boot in which the rest was written.
    boot: AtomicU64,
    /// 1 while a process uses the cache or was killed doing so.
    in_use: AtomicU64,
    /// Bytes counted.
    pub(super) taken: AtomicU64,
    /// Bytes on their way: counted by only one of this page and their version, or not missed by the disk yet.
    pub(super) moving: AtomicU64,
    /// Bytes ever given back.
    pub(super) freed: AtomicU64,
    /// 0 while the count can be too high, since processes were killed or the machine restarted.
    exact: AtomicU64,
}

/// Whether versions are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    /// There are none.
    Nothing,
    /// There can be some.
    Something,
}

/// The shared page, mapped, and the limits it is held against.
#[derive(Debug)]
pub(super) struct Usage {
    /// Its lock says that the cache is in use.
    file: Lockable,
    page: NonNull<Counters>,
    limits: Limits,
    /// Bytes that the file system had free when it was last asked.
    available: AtomicU64,
}

// SAFETY: the page holds atomics only, and lives until the value is dropped.
unsafe impl Send for Usage {}
// SAFETY: as above.
unsafe impl Sync for Usage {}

impl Usage {
    /// Opens the page at `path`, prepared by whoever comes first.
    pub(super) fn open(path: &Path, limits: Limits, contents: Contents) -> io::Result<Self> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let file = Lockable::new(file);
        let first = enter(&file)?;
        if first == First::Yes && file.metadata()?.len() != LEN as u64 {
            file.write_all_at(&[0; LEN], 0)?;
            file.set_len(LEN as u64)?;
        }
        if file.metadata()?.len() < LEN as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // SAFETY: a new mapping at a place of the kernel's choice, of a file that is that long and without holes.
        let page = unsafe {
            mmap(std::ptr::null_mut(), LEN, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0)?
        };
        let page = NonNull::new(page.cast::<Counters>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let usage = Self { file, page, limits, available: AtomicU64::new(0) };
        usage.free();
        if first == First::Yes {
            usage.prepare(contents);
        }
        entered(&usage.file)?;
        Ok(usage)
    }

    /// What the first process does to the page.
    fn prepare(&self, contents: Contents) {
        let page = self.counters();
        if page.magic.load(Ordering::Relaxed) != MAGIC || page.boot.load(Ordering::Relaxed) != boot() {
            // After a power cut the page may be older than the files.
            let empty = contents == Contents::Nothing;
            page.taken.store(if empty { 0 } else { UNKNOWN }, Ordering::Relaxed);
            page.exact.store(u64::from(empty), Ordering::Relaxed);
        } else if page.in_use.load(Ordering::Relaxed) != 0 {
            page.exact.store(0, Ordering::Relaxed);
        }
        page.moving.store(0, Ordering::Relaxed);
        page.boot.store(boot(), Ordering::Relaxed);
        page.in_use.store(1, Ordering::Relaxed);
        page.magic.store(MAGIC, Ordering::Release);
    }

    pub(super) fn counters(&self) -> &Counters {
        // SAFETY: mapped by `open`, as long as a page; atomics only.
        unsafe { self.page.as_ref() }
    }

    /// Whether the count is right, but for what processes killed since had on its way.
    pub(super) fn is_exact(&self) -> bool {
        self.counters().exact.load(Ordering::Acquire) != 0
    }

    /// The right to count again; one process at a time has it. `false` while another does.
    pub(super) fn begin_count(&self) -> bool {
        set(&self.file, &COUNT, Share::Exclusive).unwrap_or(false)
    }

    /// What was counted too much is known.
    pub(super) fn end_count(&self, leak: u64) {
        subtract(&self.counters().taken, leak);
        self.counters().exact.store(1, Ordering::Release);
        let _ = release(&self.file, &COUNT);
    }

    /// Whether the bytes taken are known.
    pub(super) fn is_known(&self) -> bool {
        self.taken() < UNKNOWN / 2
    }

    /// Bytes taken, as counted.
    pub(super) fn taken(&self) -> u64 {
        self.counters().taken.load(Ordering::Relaxed)
    }

    /// Bytes that can be added now without breaking a limit.
    pub(super) fn room(&self) -> u64 {
        let within = self.limits.size.map_or(u64::MAX, |size| size.saturating_sub(self.taken()));
        within.min(self.free())
    }

    /// Bytes that the cache can take in all, with what it has: as of the last look at the file system.
    pub(super) fn capacity(&self) -> u64 {
        let free = self.available.load(Ordering::Relaxed).saturating_sub(self.limits.reserve);
        self.limits.size.unwrap_or(u64::MAX).min(free.saturating_add(self.taken()))
    }

    /// Bytes on the file system beyond the reserve and what is being written.
    fn free(&self) -> u64 {
        let Ok(stat) = rustix::fs::fstatvfs(&self.file) else { return 0 };
        let available = stat.f_bavail.saturating_mul(stat.f_frsize);
        self.available.store(available, Ordering::Relaxed);
        let moving = self.counters().moving.load(Ordering::SeqCst);
        available.saturating_sub(self.limits.reserve).saturating_sub(moving)
    }

    /// Counts `bytes` if they fit.
    pub(super) fn take(&self, bytes: u64) -> Option<Reservation<'_>> {
        let page = self.counters();
        let limit = self.limits.size.unwrap_or(UNKNOWN / 2);
        let add = |taken: u64| taken.checked_add(bytes).filter(|sum| *sum <= limit);
        page.moving.fetch_add(bytes, Ordering::SeqCst);
        if page.taken.fetch_update(Ordering::SeqCst, Ordering::Relaxed, add).is_err() {
            subtract(&page.moving, bytes);
            return None;
        }
        let reservation = Reservation { usage: self, bytes, charged: None };
        let stat = rustix::fs::fstatvfs(&self.file).ok()?;
        let available = stat.f_bavail.saturating_mul(stat.f_frsize);
        self.available.store(available, Ordering::Relaxed);
        let needed = self.limits.reserve.saturating_add(page.moving.load(Ordering::SeqCst));
        (available >= needed).then_some(reservation)
    }

    /// Bytes of a version are about to be free.
    pub(super) fn returning(&self, bytes: u64) -> Returning<'_> {
        self.counters().moving.fetch_add(bytes, Ordering::SeqCst);
        Returning { usage: self, bytes }
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }
}

impl Drop for Usage {
    fn drop(&mut self) {
        // The last to leave says so, and the next need not count again.
        if self.is_exact() && set(&self.file, &OPEN, Share::Exclusive).unwrap_or(false) {
            self.counters().in_use.store(0, Ordering::Relaxed);
        }
        // SAFETY: mapped by `open` with this length; all references into it borrow from `self`.
        let _ = unsafe { munmap(self.page.as_ptr().cast(), LEN) };
    }
}

/// Bytes counted, on their way to a version. Dropped before they are kept, they are given back.
#[derive(Debug)]
pub(super) struct Reservation<'a> {
    usage: &'a Usage,
    bytes: u64,
    charged: Option<&'a AtomicU64>,
}

impl<'a> Reservation<'a> {
    /// They are about to be taken for the version whose header has this count.
    pub(super) fn charge(&mut self, charged: &'a AtomicU64) {
        charged.fetch_add(self.bytes, Ordering::SeqCst);
        self.charged = Some(charged);
    }

    /// Some of them are not needed.
    pub(super) fn give_back(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        if let Some(charged) = self.charged {
            subtract(charged, bytes);
        }
        let page = self.usage.counters();
        subtract(&page.taken, bytes);
        page.freed.fetch_add(bytes, Ordering::SeqCst);
        subtract(&page.moving, bytes);
    }

    /// They have been taken.
    pub(super) fn keep(mut self) {
        subtract(&self.usage.counters().moving, self.bytes);
        self.bytes = 0;
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}

/// Bytes on their way back. Dropped before they are free, they stay counted.
#[derive(Debug)]
pub(super) struct Returning<'a> {
    usage: &'a Usage,
    bytes: u64,
}

impl Returning<'_> {
    /// They are free, and the version, if there still is one, does not count them any more.
    pub(super) fn done(self) {
        let page = self.usage.counters();
        subtract(&page.taken, self.bytes);
        page.freed.fetch_add(self.bytes, Ordering::SeqCst);
    }
}

impl Drop for Returning<'_> {
    fn drop(&mut self) {
        subtract(&self.usage.counters().moving, self.bytes);
    }
}

/// Subtracts, but not below 0: a count that drifted is put right by the next recount.
pub(super) fn subtract(counter: &AtomicU64, bytes: u64) {
    let _ =
        counter.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |value| Some(value.saturating_sub(bytes)));
}

/// Bytes of disk behind a file.
pub(super) fn on_disk(file: &File) -> u64 {
    // Blocks of stat are 512 bytes, whatever the file system's are.
    file.metadata().map_or(0, |meta| meta.blocks() * 512)
}
