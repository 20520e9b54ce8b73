//! One open of a file: the fast path of a read, and where its readers go on.

use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firstbyte_location::ByteRange;

use crate::cache::Lent;
use crate::streams::{Ahead, Found, Streams};
use crate::{Done, File, Result};

/// One open of a file: its reads are taken together to tell streams from random reads.
pub struct Handle {
    file: File,
    streams: Mutex<Streams>,
    /// What is fetched ahead for this handle is wanted as long as this lives.
    alive: Arc<()>,
}

impl Handle {
    pub(crate) fn new(file: File) -> Self {
        let streams = Mutex::new(Streams::new(file.size(), 0));
        Self { file, streams, alive: Arc::new(()) }
    }

    /// The file it is open on.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Reads into `buffer` from `offset` on, waiting for what is not here; fewer bytes than asked only at the end.
    ///
    /// # Errors
    /// [`Error::Changed`](crate::Error::Changed), [`Error::Deadline`](crate::Error::Deadline), and what the store says.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.read_at_while(buffer, offset, Duration::MAX, &mut || true)
    }

    /// As [`read_at`](Self::read_at), but while it waits it asks `go_on`, once every `tick`, and gives up as cancelled
    /// when that says no.
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
        let buffer = &mut buffer[..len(range)];
        self.count(range);
        let node = &self.file.node;
        let here = node.here.read_at(buffer, range.start);
        if here == buffer.len() {
            self.look_ahead(range, Found::All);
            return Ok(here);
        }
        node.shared.counters.waited.fetch_add(1, Relaxed);
        let rest = range.skip(here as u64);
        let mut looked = false;
        let mut asked = || {
            if !std::mem::replace(&mut looked, true) {
                node.read_ahead(rest, &Arc::downgrade(&self.alive));
                self.look_ahead(range, Found::Missing);
            }
        };
        let read = node.read(&mut buffer[here..], rest, &mut asked, tick, go_on);
        if read.is_err() {
            node.shared.counters.failed.fetch_add(1, Relaxed);
        }
        read?;
        Ok(buffer.len())
    }

    /// The cached file to read `length` bytes from `offset` on, or those up to its end, without a copy. `None` where they are
    /// not all here, and have to be asked for by one of the others.
    pub fn lend(&self, offset: u64, length: usize) -> Option<(Lent, ByteRange)> {
        let range = self.range(offset, length);
        let lent = self.file.node.here.lend(range)?;
        self.count(range);
        self.look_ahead(range, Found::All);
        Some((lent, range))
    }

    /// Reads `length` bytes from `offset` on and calls `done` with them: at once where they are here, else from
    /// another thread when they have come.
    pub fn read_then(&self, offset: u64, length: usize, done: Done) {
        let range = self.range(offset, length);
        self.count(range);
        let node = &self.file.node;
        let mut buffer = SCRATCH.take();
        if buffer.len() < len(range) {
            buffer.resize(len(range), 0);
        }
        let wanted = &mut buffer[..len(range)];
        if node.here.read_at(wanted, range.start) == wanted.len() {
            self.look_ahead(range, Found::All);
            done(Ok(wanted));
            SCRATCH.set(buffer);
            return;
        }
        SCRATCH.set(buffer);
        let shared = Arc::clone(&node.shared);
        shared.counters.waited.fetch_add(1, Relaxed);
        let counted: Done = Box::new(move |result| {
            if result.is_err() {
                shared.counters.failed.fetch_add(1, Relaxed);
            }
            done(result);
        });
        node.read_then(range, counted);
        self.look_ahead(range, Found::Missing);
    }

    fn look_ahead(&self, range: ByteRange, found: Found) {
        if range.is_empty() {
            return;
        }
        let ahead: Option<Ahead> = {
            let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
            let node = &self.file.node;
            streams.adapt(node.most_window(), node.shared.crew.distance());
            streams.note(range.start..range.end, found)
        };
        if let Some(ahead) = ahead {
            self.file.node.ahead(&ahead, &Arc::downgrade(&self.alive));
        }
    }

    fn count(&self, range: ByteRange) {
        let shared = &self.file.node.shared;
        shared.counters.reads.fetch_add(1, Relaxed);
        shared.counters.read_bytes.fetch_add(range.len(), Relaxed);
        self.file.node.reaches(range.end);
        if let Some(observer) = shared.observer.get() {
            observer(&self.file.node.location, range);
        }
    }

    fn range(&self, offset: u64, length: usize) -> ByteRange {
        let size = self.file.size();
        ByteRange::new(offset.min(size), offset.saturating_add(length as u64).min(size))
    }
}

thread_local! {
    /// What a thread reads cached bytes into, to hand them on: a buffer made for each read would be zeroed, and one of the usual
    /// megabyte taken from the system and given back each time.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

fn len(range: ByteRange) -> usize {
    usize::try_from(range.len()).unwrap_or(usize::MAX)
}
