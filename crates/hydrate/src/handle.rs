//! Files and their handles, as callers use them. A [`Handle`] reads cached blocks directly and
//! otherwise asks the version; it also decides what to read ahead.

use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use firstbyte_location::{ByteRange, Location, Version, to_usize};

use crate::Result;
use crate::cache::{Backing, Pin, PinnedBlocks, Status};
use crate::limits::REQUEST;
use crate::pending_read::Done;
use crate::read_ahead::{Ahead, Found, ReadAhead};
use crate::version::VersionState;

/// One version of one object. Clones are the same file. Hold it only while the file is open: from
/// its first read on it holds file descriptors.
#[derive(Clone)]
pub struct File {
    pub(crate) version: Arc<VersionState>,
}

impl File {
    /// The object's location.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.version.location
    }

    /// The version of the object.
    #[must_use]
    pub fn version(&self) -> &Version {
        &self.version.version
    }

    /// Length in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.version.size()
    }

    /// Opens a handle.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle::new(self.clone())
    }

    /// The whole file on local disk, if it is hydrated and verified. It stays while the backing
    /// lives.
    #[must_use]
    pub fn backing(&self) -> Option<Backing> {
        self.version.blocks.backing()
    }

    /// The state of the file in the cache. `None` without a cache.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        self.version.blocks.cached()?.status()
    }

    /// Exempts the file from eviction, or ends the exemption. Returns false without a cache.
    #[must_use]
    pub fn pin(&self, pin: Pin) -> bool {
        let cached = self.version.blocks.cached();
        cached.inspect(|cached| cached.pin(pin)).is_some()
    }

    /// Fetches the absent blocks of `range` for a reader expected soon: after readers that wait,
    /// before hydration. Ends when `interest` has no owner any more.
    pub fn prefetch(&self, range: ByteRange, interest: &Weak<()>) {
        let range = range.intersect(ByteRange::new(0, self.size()));
        if !range.is_empty() {
            let ahead = Ahead { range: range.start..range.end, segment: REQUEST, reader: range.start };
            self.version.fetch_ahead(&ahead, interest);
        }
    }
}

/// One open of a file. Its reads are observed together to distinguish sequential from random
/// reads.
pub struct Handle {
    file: File,
    read_ahead: Mutex<ReadAhead>,
    /// Fetches ahead for this handle are wanted while this lives.
    alive: Arc<()>,
}

impl Handle {
    fn new(file: File) -> Self {
        let read_ahead = Mutex::new(ReadAhead::new(file.size(), 0));
        Self { file, read_ahead, alive: Arc::new(()) }
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Reads into `buffer` from `offset`, waiting for absent blocks. Returns fewer bytes than the
    /// buffer holds only at the end of the file.
    ///
    /// # Errors
    /// [`Error::Changed`](crate::Error::Changed), [`Error::Deadline`](crate::Error::Deadline), and
    /// those of the store.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.read_at_while(buffer, offset, Duration::MAX, &mut || true)
    }

    /// Like [`read_at`](Self::read_at), but while waiting calls `go_on` every `tick`, and fails as
    /// cancelled if that returns false.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at), and the store's `Cancelled`.
    pub fn read_at_while(
        &self,
        buffer: &mut [u8],
        offset: u64,
        tick: Duration,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<usize> {
        let range = self.range(offset, buffer.len());
        let buffer = &mut buffer[..to_usize(range.len())];
        self.count(range);
        let version = &self.file.version;
        let present = version.blocks.read_at(buffer, range.start);
        if present == buffer.len() {
            self.look_ahead(range, Found::All);
            return Ok(present);
        }
        version.engine.counters.waited.fetch_add(1, Relaxed);
        let rest = range.skip(present as u64);
        let mut looked = false;
        let mut requested = || {
            if !std::mem::replace(&mut looked, true) {
                version.request_rest(rest, &Arc::downgrade(&self.alive));
                self.look_ahead(range, Found::Missing);
            }
        };
        let read = version.read(&mut buffer[present..], rest, &mut requested, tick, go_on);
        if read.is_err() {
            version.engine.counters.failed.fetch_add(1, Relaxed);
        }
        read?;
        Ok(buffer.len())
    }

    /// The cached file, to read `length` bytes from `offset` without a copy, or up to the end.
    /// `None` if not all of them are cached.
    pub fn pin_blocks(&self, offset: u64, length: usize) -> Option<(PinnedBlocks, ByteRange)> {
        let range = self.range(offset, length);
        let pinned = self.file.version.blocks.pin_blocks(range)?;
        self.count(range);
        self.look_ahead(range, Found::All);
        Some((pinned, range))
    }

    /// Reads `length` bytes from `offset` and calls `done` with them: at once if they are present,
    /// else from another thread when they have arrived.
    pub fn read_then(&self, offset: u64, length: usize, done: Done) {
        let range = self.range(offset, length);
        self.count(range);
        let version = &self.file.version;
        let length = to_usize(range.len());
        let mut buffer = SCRATCH.take();
        if buffer.len() < length {
            buffer.resize(length, 0);
        }
        let wanted = &mut buffer[..length];
        if version.blocks.read_at(wanted, range.start) == wanted.len() {
            self.look_ahead(range, Found::All);
            done(Ok(wanted));
            SCRATCH.set(buffer);
            return;
        }
        SCRATCH.set(buffer);
        let engine = Arc::clone(&version.engine);
        engine.counters.waited.fetch_add(1, Relaxed);
        let counted: Done = Box::new(move |result| {
            if result.is_err() {
                engine.counters.failed.fetch_add(1, Relaxed);
            }
            done(result);
        });
        version.read_then(range, counted);
        self.look_ahead(range, Found::Missing);
    }

    fn look_ahead(&self, range: ByteRange, found: Found) {
        if range.is_empty() {
            return;
        }
        let version = &self.file.version;
        let ahead: Option<Ahead> = {
            let mut read_ahead = self.read_ahead.lock().unwrap_or_else(PoisonError::into_inner);
            read_ahead.adapt(version.most_window(), version.engine.fetcher.server());
            read_ahead.note(range.start..range.end, found)
        };
        if let Some(ahead) = ahead {
            version.fetch_ahead(&ahead, &Arc::downgrade(&self.alive));
        }
    }

    fn count(&self, range: ByteRange) {
        let version = &self.file.version;
        let counters = &version.engine.counters;
        counters.reads.fetch_add(1, Relaxed);
        counters.read_bytes.fetch_add(range.len(), Relaxed);
        version.extend_reach(range.end);
        if let Some(observer) = version.engine.observer.get() {
            observer(&version.location, range);
        }
    }

    fn range(&self, offset: u64, length: usize) -> ByteRange {
        let size = self.file.size();
        ByteRange::new(offset.min(size), offset.saturating_add(length as u64).min(size))
    }
}

thread_local! {
    /// The buffer for cached bytes on their way to a callback. A buffer made for each read would
    /// be zeroed, and at the usual megabyte taken from the system and returned each time.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}
