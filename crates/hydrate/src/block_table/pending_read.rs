//! Represents a read that waits for blocks. Either a thread sleeps until the blocks have arrived,
//! or a callback gets the bytes.
//!
//! A thread lends its memory, and each block is copied into that memory as it arrives. For a
//! callback, the read holds no bytes while arriving blocks are cached: after the last block has
//! arrived, the bytes are read from the cache. If blocks are not cached, because there is no cache
//! or no room in it, each block is copied as it arrives into one buffer, which is allocated with
//! the first block.

use std::ops::Range;
use std::time::{Duration, Instant};

use firstbyte_location::{ByteRange, Location, to_usize};
use rustix_futex_sync::{Condvar, Mutex, MutexGuard};

use super::part::ObjectPart;
use crate::block::{BLOCK, SEGMENT, block_range, blocks_of};
use crate::block_store::BlockStore;
use crate::error::{Error, Result};

/// Callback that is called once, with the bytes of a read or with an error.
pub type ReadCallback = Box<dyn FnOnce(Result<&[u8]>) + Send>;

/// Where the bytes for a callback are until all of them have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// The bytes stay in the cache.
    FromCache,
    /// The bytes are copied into the pending read.
    Copied,
}

/// The receiver of the bytes of a read.
pub(crate) enum Receiver {
    /// A thread that owns the memory of these parts, which are sorted by offset. The thread calls
    /// [`PendingRead::wait`].
    Thread(Vec<ObjectPart>),
    Callback(ByteRange, Delivery, ReadCallback),
}

/// One read that waits.
pub(crate) struct PendingRead {
    pub(crate) location: Location,
    progress: Mutex<Progress>,
    ended: Condvar,
}

struct Progress {
    deadline: Instant,
    /// Number of blocks that have not arrived.
    missing_blocks: usize,
    /// The bytes for a callback with [`Delivery::Copied`].
    bytes: Vec<u8>,
    /// `None` once the read has ended.
    receiver: Option<Receiver>,
    outcome: Option<Result<()>>,
}

/// A callback whose bytes are all in the cache and can be read.
pub(crate) struct ReadyRead {
    pub(crate) range: ByteRange,
    pub(crate) deadline: Instant,
    pub(crate) done: ReadCallback,
}

impl PendingRead {
    pub(crate) fn new(location: Location, deadline: Instant, receiver: Receiver) -> Self {
        let progress = Progress {
            deadline,
            missing_blocks: 0,
            bytes: Vec::new(),
            receiver: Some(receiver),
            outcome: None,
        };
        Self { location, progress: Mutex::new(progress), ended: Condvar::new() }
    }

    /// Returns the blocks that the read needs, in ascending order.
    pub(crate) fn blocks(&self) -> Vec<u64> {
        match &self.progress.lock().receiver {
            None => Vec::new(),
            Some(Receiver::Callback(range, ..)) => blocks_of(*range).collect(),
            Some(Receiver::Thread(parts)) => {
                let mut blocks: Vec<u64> = Vec::new();
                for part in parts {
                    let next = blocks.last().map_or(0, |last| last + 1);
                    let own = blocks_of(part.range);
                    blocks.extend(own.start.max(next)..own.end);
                }
                blocks
            }
        }
    }

    /// Returns whether a block is present, so that the read need not wait for it. Copies the block
    /// unless the read takes its bytes from the cache at the end.
    pub(crate) fn accept_present(&self, blocks: &BlockStore, block: u64) -> bool {
        let whole = block_range(block);
        let read = |(at, target): (u64, &mut [u8])| blocks.read_at(target, at) == target.len();
        match &mut *self.progress.lock() {
            Progress { receiver: Some(Receiver::Thread(parts)), .. } => {
                parts.iter_mut().all(|part| read(part.overlap(whole)))
            }
            Progress { receiver: Some(Receiver::Callback(range, Delivery::Copied, _)), bytes, .. } => {
                let part = whole.intersect(*range);
                read((part.start, target(bytes, *range, part)))
            }
            Progress { .. } => blocks.has(block),
        }
    }

    /// Returns whether one part of this read is long and contains all of `bytes`, a range of the
    /// object. The reader of a long part is unlikely to request the same bytes again.
    pub(crate) fn has_long_part_with(&self, bytes: ByteRange) -> bool {
        let within =
            |range: ByteRange| range.start <= bytes.start && bytes.end <= range.end && range.len() >= SEGMENT;
        match &self.progress.lock().receiver {
            Some(Receiver::Thread(parts)) => parts.iter().any(|part| within(part.range)),
            _ => false,
        }
    }

    /// Sets the number of blocks that have yet to arrive.
    pub(crate) fn expect(&self, blocks: usize) {
        self.progress.lock().missing_blocks = blocks;
    }

    /// Returns the smallest range that contains all bytes of `blocks` that the read needs.
    pub(crate) fn bytes_within(&self, blocks: &Range<u64>) -> ByteRange {
        let all = ByteRange::new(blocks.start * BLOCK, blocks.end.saturating_mul(BLOCK));
        let needed = |range: ByteRange| range.intersect(all);
        match &self.progress.lock().receiver {
            None => ByteRange::new(all.start, all.start),
            Some(Receiver::Callback(range, ..)) => needed(*range),
            Some(Receiver::Thread(parts)) => {
                let parts = parts.iter().map(|part| needed(part.range)).filter(|range| !range.is_empty());
                let union =
                    |a: ByteRange, b: ByteRange| ByteRange::new(a.start.min(b.start), a.end.max(b.end));
                parts.reduce(union).unwrap_or(ByteRange::new(all.start, all.start))
            }
        }
    }

    /// Accepts the bytes of a block from object offset `start` on. After the last block, returns
    /// the callback if its bytes have to be read from the cache.
    pub(crate) fn deliver(&self, block: u64, start: u64, bytes: &[u8]) -> Option<ReadyRead> {
        let mut progress = self.progress.lock();
        let Progress { receiver, bytes: held, missing_blocks, .. } = &mut *progress;
        let whole = block_range(block);
        let found = |at: u64, length: usize| {
            let from = to_usize(at - start);
            bytes.get(from..from + length).unwrap_or_default()
        };
        *missing_blocks = missing_blocks.saturating_sub(1);
        let is_last = *missing_blocks == 0;
        match receiver.as_mut()? {
            Receiver::Thread(parts) => parts.iter_mut().for_each(|part| {
                let (at, memory) = part.overlap(whole);
                memory.copy_from_slice(found(at, memory.len()));
            }),
            Receiver::Callback(range, delivery, _) => {
                let part = whole.intersect(*range);
                let found = found(part.start, to_usize(part.len()));
                if part == *range {
                    if let Some(Receiver::Callback(_, _, done)) = receiver.take() {
                        drop(progress);
                        done(Ok(found));
                    }
                    return None;
                }
                if *delivery == Delivery::Copied {
                    target(held, *range, part).copy_from_slice(found);
                }
            }
        }
        if is_last { self.finish(progress) } else { None }
    }

    /// Ends a read whose blocks are all present: wakes its thread, or calls its callback with the
    /// copied bytes. If the bytes are only in the cache, returns the callback; the caller reads the
    /// bytes and calls it.
    pub(crate) fn complete(&self) -> Option<ReadyRead> {
        self.finish(self.progress.lock())
    }

    fn finish(&self, mut progress: MutexGuard<'_, Progress>) -> Option<ReadyRead> {
        match progress.receiver.take()? {
            Receiver::Thread(_) => self.wake(&mut progress, Ok(())),
            Receiver::Callback(range, Delivery::FromCache, done) => {
                return Some(ReadyRead { range, deadline: progress.deadline, done });
            }
            Receiver::Callback(_, Delivery::Copied, done) => {
                let bytes = std::mem::take(&mut progress.bytes);
                drop(progress);
                done(Ok(&bytes));
            }
        }
        None
    }

    /// Ends the read with an error.
    pub(crate) fn fail(&self, error: &Error) {
        let mut progress = self.progress.lock();
        match progress.receiver.take() {
            Some(Receiver::Thread(_)) => self.wake(&mut progress, Err(error.clone())),
            Some(Receiver::Callback(_, _, done)) => {
                drop(progress);
                done(Err(error.clone()));
            }
            None => {}
        }
    }

    /// Ends the read of a thread that no longer waits. From now on, the memory of the thread is not
    /// written.
    pub(crate) fn abandon(&self) {
        self.progress.lock().receiver = None;
    }

    /// Returns whether the receiver is a callback. A callback has no thread that wakes at the
    /// deadline.
    pub(super) fn is_callback(&self) -> bool {
        matches!(self.progress.lock().receiver, Some(Receiver::Callback(..)))
    }

    /// Returns whether the read has not ended.
    pub(crate) fn is_open(&self) -> bool {
        self.progress.lock().receiver.is_some()
    }

    /// Returns the time at which the read fails.
    pub(crate) fn deadline(&self) -> Instant {
        self.progress.lock().deadline
    }

    /// Sets a later deadline.
    pub(crate) fn extend(&self, deadline: Instant) {
        self.progress.lock().deadline = deadline;
    }

    /// Waits for the outcome. Returns `None` at the deadline, or if `go_on` returns false. `go_on`
    /// is called every `tick`.
    pub(crate) fn wait(&self, tick: Duration, go_on: &mut dyn FnMut() -> bool) -> Option<Result<()>> {
        let mut progress = self.progress.lock();
        loop {
            if let Some(outcome) = progress.outcome.take() {
                return Some(outcome);
            }
            let left = progress.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                progress.receiver = None;
                return None;
            }
            let (woken, waited) = self.ended.wait_timeout(progress, left.min(tick));
            progress = woken;
            if waited.timed_out() && tick < left && progress.outcome.is_none() {
                // `go_on` is called without the lock, because it may take the lock of the Python
                // interpreter.
                drop(progress);
                let goes_on = go_on();
                progress = self.progress.lock();
                if !goes_on {
                    progress.receiver = None;
                    return None;
                }
            }
        }
    }

    fn wake(&self, progress: &mut Progress, outcome: Result<()>) {
        progress.outcome = Some(outcome);
        self.ended.notify_one();
    }
}

/// Returns the memory for `part` in the buffer of a callback's read of `range`. Allocates the
/// buffer if it is empty.
fn target(bytes: &mut Vec<u8>, range: ByteRange, part: ByteRange) -> &mut [u8] {
    if bytes.is_empty() {
        *bytes = vec![0; to_usize(range.len())];
    }
    let start = to_usize(part.start - range.start);
    &mut bytes[start..start + to_usize(part.len())]
}
