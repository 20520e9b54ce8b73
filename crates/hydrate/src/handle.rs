//! Defines files and their handles, as callers use them. A [`Handle`] reads cached blocks directly
//! and requests the others from the open version. It also decides what to fetch ahead of its reads.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use firstbyte_location::{ByteRange, Location, Version, to_usize};
use rustix_futex_sync::Mutex;

use crate::block::{BLOCK, blocks_of};
use crate::block_store::CacheEntry;
use crate::block_table::{AheadRange, ObjectPart, ReadCallback, Rounding};
use crate::cache::{Backing, Pin, PinnedBlocks, VersionStatus};
use crate::error::Result;
use crate::limits::REQUEST_SIZE;
use crate::parquet_readahead::{Columns, FOOTER_END_BYTES};
use crate::read_ahead::{FoundBytes, ReadAhead};
use crate::version::SharedVersion;

/// Maximum number of requests that one [`Handle::prefetch`] queues, so that a hint with very many
/// ranges takes little memory.
pub const MOST_HINTED: u64 = 1024;

/// One version of one object. Clones refer to the same open version. All clones should be dropped
/// when the file is closed, because the version has open file descriptors after the first read.
#[derive(Clone)]
pub struct File {
    pub(crate) version: SharedVersion,
}

impl File {
    /// Returns the location of the object.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.version.table.location
    }

    /// Returns the version of the object.
    #[must_use]
    pub fn version(&self) -> &Version {
        &self.version.table.version
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.version.table.size()
    }

    /// Opens a handle.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle::new(self.clone())
    }

    /// Returns the whole file on local disk, if it is hydrated and verified, and is not packed with
    /// others. The file stays on the disk while the backing lives.
    #[must_use]
    pub fn backing(&self) -> Option<Backing> {
        self.version.table.blocks.backing()
    }

    /// Returns whether the file is hydrated and verified.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.version.table.blocks.cached().is_some_and(CacheEntry::is_complete)
    }

    /// Calls `work` with the whole content, if the file is packed in the cache. Returns `None`
    /// otherwise.
    pub fn with_packed<T>(&self, work: impl FnOnce(&[u8]) -> T) -> Option<T> {
        match self.version.table.blocks.cached()? {
            CacheEntry::Packed(packed) => packed.with_content(work),
            CacheEntry::Sparse(_) => None,
        }
    }

    /// Returns the CRC-32C of a block of [`BLOCK`] bytes, computed when the block was received.
    /// Returns `None` if the block is not cached, or the object is packed.
    #[must_use]
    pub fn block_checksum(&self, block: u64) -> Option<u32> {
        match self.version.table.blocks.cached()? {
            CacheEntry::Sparse(cached) => cached.block_checksum(block),
            CacheEntry::Packed(_) => None,
        }
    }

    /// Returns the state of the file in the cache. `None` without a cache.
    #[must_use]
    pub fn status(&self) -> Option<VersionStatus> {
        self.version.table.blocks.cached()?.status()
    }

    /// Exempts the file from eviction, or ends the exemption. Returns false if there is no cache.
    #[must_use]
    pub fn pin(&self, pin: Pin) -> bool {
        let cached = self.version.table.blocks.cached();
        cached.inspect(|cached| cached.pin(pin)).is_some()
    }

    /// Fetches the absent blocks of `range` for a reader that is expected soon. Waiting readers
    /// come first, hydration later. The fetches are no longer wanted when the owner of `interest`
    /// is dropped.
    pub fn prefetch(&self, range: ByteRange, interest: &Weak<()>) {
        let range = range.intersect(ByteRange::new(0, self.size()));
        if !range.is_empty() {
            let ahead =
                AheadRange { range: range.start..range.end, segment: REQUEST_SIZE, reader: range.start };
            self.version.fetch_ahead(&ahead, interest);
        }
    }
}

/// One open of a file. A handle observes its reads to distinguish sequential from random reads.
pub struct Handle {
    file: File,
    read_ahead: Mutex<ReadAhead>,
    columns: Mutex<Columns>,
    /// True if a read has begun.
    is_read: AtomicBool,
    /// True if this handle is counted as a sequential reader.
    is_sequential: AtomicBool,
    /// Fetches ahead for this handle are wanted as long as this value lives.
    alive: Arc<()>,
}

impl Handle {
    fn new(file: File) -> Self {
        let read_ahead = Mutex::new(ReadAhead::new(file.size(), 0));
        Self {
            file,
            read_ahead,
            columns: Mutex::default(),
            is_read: AtomicBool::new(false),
            is_sequential: AtomicBool::new(false),
            alive: Arc::new(()),
        }
    }

    /// Returns the file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Reads into `buffer` from `offset` on, waiting for absent blocks. Returns fewer bytes than
    /// the buffer holds only at the end of the file.
    ///
    /// # Errors
    /// [`Error::Changed`](crate::Error::Changed), [`Error::Deadline`](crate::Error::Deadline), and
    /// the errors of the store.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.read_at_while(buffer, offset, 0, Duration::MAX, &mut || true)
    }

    /// Reads like [`read_at`](Self::read_at), but calls `go_on` every `tick` while it waits, and
    /// fails as cancelled if `go_on` returns false. `expected` is the number of bytes that the
    /// caller is about to read from `offset` on. If they are more than the buffer holds, all of
    /// them are requested at once.
    ///
    /// # Errors
    /// The errors of [`read_at`](Self::read_at), and the store's `Cancelled`.
    pub fn read_at_while(
        &self,
        buffer: &mut [u8],
        offset: u64,
        expected: usize,
        tick: Duration,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<usize> {
        let range = self.range(offset, buffer.len());
        let expected = self.range(offset, buffer.len().max(expected));
        let buffer = &mut buffer[..to_usize(range.len())];
        self.count(range);
        let version = &self.file.version;
        if !self.is_read.swap(true, Relaxed) {
            self.recall_columns();
        }
        let present = version.table.blocks.read_at(buffer, range.start);
        if present == buffer.len() {
            version.table.extend_reach(range.end);
            self.look_ahead(expected, FoundBytes::All);
            self.learn_columns(expected, buffer);
            return Ok(present);
        }
        version.request_with(range.skip(present as u64), expected, &Arc::downgrade(&self.alive));
        // SAFETY: `fill` returns only after the part has been dropped.
        let part = unsafe { ObjectPart::new(range.start + present as u64, &mut buffer[present..]) };
        let rounding = if expected == range { self.rounding(range) } else { Rounding::Blocks };
        self.fill(vec![part], rounding, expected, tick, go_on)?;
        self.learn_columns(expected, buffer);
        Ok(buffer.len())
    }

    /// Reads many ranges in parallel, each given by its offset and its buffer. One request fetches
    /// neighbouring ranges. Ranges may overlap, and may be in any order. Returns the number of
    /// bytes read into each buffer, which is less than the buffer holds only at the end of the
    /// file. Calls `go_on` every `tick` while it waits, and fails as cancelled if `go_on` returns
    /// false.
    ///
    /// # Errors
    /// The errors of [`read_at`](Self::read_at), and the store's `Cancelled`. Some buffers may be
    /// filled.
    pub fn read_ranges_while(
        &self,
        ranges: &mut [(u64, &mut [u8])],
        tick: Duration,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<usize>> {
        let mut parts = Vec::with_capacity(ranges.len());
        let mut lengths = Vec::with_capacity(ranges.len());
        for (offset, buffer) in ranges.iter_mut() {
            let range = self.range(*offset, buffer.len());
            self.count(range);
            let length = to_usize(range.len());
            // SAFETY: `fill` returns only after the part has been dropped. The buffers do not
            // overlap.
            parts.push(unsafe { ObjectPart::new(range.start, &mut buffer[..length]) });
            lengths.push(length);
        }
        self.fill(parts, Rounding::Blocks, ByteRange::new(0, 0), tick, go_on)?;
        Ok(lengths)
    }

    /// Decides whether a read requests whole blocks. Without a cache, a random reader does not need
    /// whole blocks, unless its reads are so short that it may come back to the same block.
    fn rounding(&self, read: ByteRange) -> Rounding {
        let read_ahead = self.read_ahead.lock();
        let is_random = read.len() >= BLOCK / 2 && read_ahead.is_random(&(read.start..read.end));
        drop(read_ahead);
        if is_random && !self.file.version.table.blocks.has_cache() {
            Rounding::Bytes
        } else {
            Rounding::Blocks
        }
    }

    /// Fills `parts`, and fetches ahead of the reader whose read is `read`.
    fn fill(
        &self,
        parts: Vec<ObjectPart>,
        rounding: Rounding,
        read: ByteRange,
        tick: Duration,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let version = &self.file.version;
        version.context.counters.waited.fetch_add(1, Relaxed);
        let mut looked = false;
        let mut requested = || {
            if !std::mem::replace(&mut looked, true) {
                self.look_ahead(read, FoundBytes::Missing);
                self.expect_columns(read);
            }
        };
        let filled = version.read(parts, rounding, &mut requested, tick, go_on);
        if filled.is_err() {
            version.context.counters.failed.fetch_add(1, Relaxed);
        }
        filled
    }

    /// Starts to fetch `ranges`, which the caller is about to read, and returns at once. The call
    /// is a hint: it makes at most [`MOST_HINTED`] requests, and without a cache it fetches no more
    /// than a read-ahead window holds. Fetches that have not started when the handle is dropped are
    /// not made.
    pub fn prefetch(&self, ranges: &[ByteRange]) {
        let version = &self.file.version;
        let mut ranges: Vec<ByteRange> =
            ranges.iter().map(|range| range.intersect(ByteRange::new(0, self.file.size()))).collect();
        ranges.retain(|range| !range.is_empty());
        ranges.sort_by_key(|range| range.start);
        let Some(reader) = ranges.first().map(|range| range.start) else { return };
        let sizes = version.context.queue.read_sizes();
        let segment = sizes.request / BLOCK * BLOCK;
        let (mut left, mut requests) = (version.max_window(), MOST_HINTED);
        for range in merged(&ranges, sizes.gap) {
            let blocks = blocks_of(range);
            let length =
                ((blocks.end - blocks.start) * BLOCK).min(left).min(segment.saturating_mul(requests));
            if length == 0 {
                return;
            }
            left -= length;
            requests -= length.div_ceil(segment);
            let start = blocks.start * BLOCK;
            let ahead = AheadRange { range: start..(start + length).min(self.file.size()), segment, reader };
            version.fetch_ahead(&ahead, &Arc::downgrade(&self.alive));
        }
    }

    /// Pins `length` bytes from `offset` on, or up to the end of the file, so that they can be read
    /// from the cached file without a copy. Returns `None` unless all of them are cached.
    pub fn pin_blocks(&self, offset: u64, length: usize) -> Option<(PinnedBlocks, ByteRange)> {
        let range = self.range(offset, length);
        let pinned = self.file.version.table.blocks.pin_blocks(range)?;
        self.count(range);
        self.file.version.table.extend_reach(range.end);
        self.look_ahead(range, FoundBytes::All);
        Some((pinned, range))
    }

    /// Reads `length` bytes from `offset` on, and calls `done` with them. If the bytes are present,
    /// `done` is called before this function returns; otherwise, another thread calls it when they
    /// have arrived.
    pub fn read_then(&self, offset: u64, length: usize, done: ReadCallback) {
        let range = self.range(offset, length);
        self.count(range);
        let version = &self.file.version;
        version.table.extend_reach(range.end);
        let length = to_usize(range.len());
        let mut buffer = SCRATCH.take();
        if buffer.len() < length {
            buffer.resize(length, 0);
        }
        let wanted = &mut buffer[..length];
        if version.table.blocks.read_at(wanted, range.start) == wanted.len() {
            self.look_ahead(range, FoundBytes::All);
            done(Ok(wanted));
            SCRATCH.set(buffer);
            return;
        }
        SCRATCH.set(buffer);
        let context = Arc::clone(&version.context);
        context.counters.waited.fetch_add(1, Relaxed);
        let counted: ReadCallback = Box::new(move |result| {
            if result.is_err() {
                context.counters.failed.fetch_add(1, Relaxed);
            }
            done(result);
        });
        version.read_then(range, counted);
        self.look_ahead(range, FoundBytes::Missing);
    }

    fn look_ahead(&self, range: ByteRange, found: FoundBytes) {
        if range.is_empty() {
            return;
        }
        let version = &self.file.version;
        let ahead: Option<AheadRange> = {
            let mut read_ahead = self.read_ahead.lock();
            let queue = &version.context.queue;
            read_ahead.adapt(version.max_window(), queue.server(), queue.rate());
            read_ahead.note(range.start..range.end, found)
        };
        if let Some(ahead) = ahead {
            if !self.is_sequential.swap(true, Relaxed) {
                version.context.memory.sequential.fetch_add(1, Relaxed);
            }
            version.fetch_ahead(&ahead, &Arc::downgrade(&self.alive));
        }
    }

    /// Fetches the ranges that a reader of Parquet columns is expected to read next.
    fn expect_columns(&self, read: ByteRange) {
        let ranges = self.columns.lock().note(read, self.file.version.max_window());
        self.prefetch(&ranges);
    }

    /// Recognizes a Parquet file whose footer is present. For example, pyarrow opens a file twice:
    /// first to read the footer, and then to read the columns.
    fn recall_columns(&self) {
        let size = self.file.size();
        let mut end = [0; FOOTER_END_BYTES];
        let Some(start) = size.checked_sub(FOOTER_END_BYTES as u64) else { return };
        if self.file.version.table.blocks.read_at(&mut end, start) < FOOTER_END_BYTES {
            return;
        }
        let mut columns = self.columns.lock();
        columns.note_end(&end, size);
        if let Some(footer) = columns.unparsed_footer_in(ByteRange::new(0, size)) {
            self.parse_present(&mut columns, footer);
        }
    }

    /// Recognizes a Parquet file by the bytes at the start of `read`, and fetches the ranges that
    /// its reader is expected to read next.
    fn learn_columns(&self, read: ByteRange, bytes: &[u8]) {
        let size = self.file.size();
        let ranges = {
            let mut columns = self.columns.lock();
            if columns.is_other() || read.is_empty() {
                return;
            }
            if read.start + bytes.len() as u64 == size {
                columns.note_end(bytes, size);
            }
            if let Some(footer) = columns.unparsed_footer_in(read) {
                let skipped = footer.start.checked_sub(read.start).map(to_usize);
                match skipped.and_then(|from| bytes.get(from..from + to_usize(footer.len()))) {
                    Some(found) => columns.parse(found, size),
                    None => self.parse_present(&mut columns, footer),
                }
            }
            columns.note(read, self.file.version.max_window())
        };
        self.prefetch(&ranges);
    }

    /// Parses a footer whose bytes are present.
    fn parse_present(&self, columns: &mut Columns, footer: ByteRange) {
        let mut held = vec![0; to_usize(footer.len())];
        if self.file.version.table.blocks.read_at(&mut held, footer.start) == held.len() {
            columns.parse(&held, self.file.size());
        }
    }

    fn count(&self, range: ByteRange) {
        let version = &self.file.version;
        let counters = &version.context.counters;
        counters.reads.fetch_add(1, Relaxed);
        counters.read_bytes.fetch_add(range.len(), Relaxed);
        if let Some(observer) = version.context.observer.get() {
            observer(&version.table.location, range);
        }
    }

    fn range(&self, offset: u64, length: usize) -> ByteRange {
        let size = self.file.size();
        ByteRange::new(offset.min(size), offset.saturating_add(length as u64).min(size))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if *self.is_sequential.get_mut() {
            self.file.version.context.memory.sequential.fetch_sub(1, Relaxed);
        }
    }
}

/// Joins ascending ranges that have at most `gap` bytes between them.
fn merged(ranges: &[ByteRange], gap: u64) -> Vec<ByteRange> {
    let mut merged: Vec<ByteRange> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(gap) => last.end = last.end.max(range.end),
            _ => merged.push(*range),
        }
    }
    merged
}

thread_local! {
    /// The thread's buffer for the cached bytes that a callback gets. A new buffer for each read
    /// would have to be zeroed, and at the usual size of 1 MiB it would be obtained from the system
    /// and returned to it each time.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}
