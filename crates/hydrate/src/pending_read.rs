//! A read that waits for blocks. Either a thread sleeps until they have arrived, or a callback gets
//! the bytes.
//!
//! If arriving blocks are cached, the read holds no bytes: when the last block has arrived, they
//! are read from the cache. If blocks are not cached (no cache, or no room in it), each is copied
//! as it arrives, into one buffer that is allocated with the first.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use firstbyte_location::{ByteRange, Location, to_usize};

use crate::block::block_range;
use crate::block_store::BlockStore;
use crate::{Error, Result};

/// Called once with the bytes of a read, or its error.
pub type Done = Box<dyn FnOnce(Result<&[u8]>) + Send>;

/// The place of the bytes of a pending read until all have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// In the cache.
    FromCache,
    /// In the pending read.
    Copied,
}

/// The receiver of the bytes.
pub(crate) enum Receiver {
    /// A thread, which calls [`PendingRead::wait`].
    Thread,
    Callback(Done),
}

/// The outcome for a waiting thread.
pub(crate) enum Outcome {
    /// All blocks were cached.
    Cached,
    Bytes(Vec<u8>),
    Failed(Error),
}

/// One read that waits.
pub(crate) struct PendingRead {
    pub(crate) location: Location,
    pub(crate) range: ByteRange,
    pub(crate) deadline: Instant,
    delivery: Delivery,
    progress: Mutex<Progress>,
    ended: Condvar,
}

struct Progress {
    /// Blocks that have not arrived.
    left: usize,
    bytes: Vec<u8>,
    /// `None` once the read has ended.
    receiver: Option<Receiver>,
    outcome: Option<Outcome>,
}

impl PendingRead {
    pub(crate) fn new(
        location: Location,
        range: ByteRange,
        delivery: Delivery,
        deadline: Instant,
        receiver: Receiver,
    ) -> Self {
        let progress = Progress { left: 0, bytes: Vec::new(), receiver: Some(receiver), outcome: None };
        Self { location, range, deadline, delivery, progress: Mutex::new(progress), ended: Condvar::new() }
    }

    /// Whether a block is present, so that the read need not wait for it. Copies it if the bytes
    /// are held here.
    pub(crate) fn accept_present(&self, blocks: &BlockStore, block: u64) -> bool {
        if self.delivery == Delivery::FromCache {
            return blocks.has(block);
        }
        let part = block_range(block).intersect(self.range);
        let mut progress = self.lock();
        let target = progress.part(self.range, part);
        blocks.read_at(target, part.start) == target.len()
    }

    /// Sets the number of blocks that have yet to arrive.
    pub(crate) fn expect(&self, blocks: usize) {
        self.lock().left = blocks;
    }

    /// Accepts a block. If it was the last, and the bytes for a callback have to be read from the
    /// cache, returns the callback.
    pub(crate) fn deliver(&self, block: u64, bytes: &[u8]) -> Option<Done> {
        let mut progress = self.lock();
        progress.receiver.as_ref()?;
        let whole = block_range(block);
        let part = whole.intersect(self.range);
        let from = to_usize(part.start - whole.start);
        let found = bytes.get(from..from + to_usize(part.len())).unwrap_or_default();
        if self.delivery == Delivery::Copied {
            progress.part(self.range, part).copy_from_slice(found);
        }
        progress.left = progress.left.saturating_sub(1);
        if progress.left > 0 {
            return None;
        }
        if part == self.range && matches!(progress.receiver, Some(Receiver::Callback(_))) {
            if let Some(Receiver::Callback(done)) = progress.receiver.take() {
                drop(progress);
                done(Ok(found));
            }
            return None;
        }
        self.finish(progress)
    }

    /// Ends a read of which all blocks are present. If the bytes for a callback have to be read
    /// from the cache, returns the callback.
    pub(crate) fn complete(&self) -> Option<Done> {
        self.finish(self.lock())
    }

    fn finish(&self, mut progress: MutexGuard<'_, Progress>) -> Option<Done> {
        let receiver = progress.receiver.take()?;
        let outcome = match self.delivery {
            Delivery::FromCache => Outcome::Cached,
            Delivery::Copied => Outcome::Bytes(std::mem::take(&mut progress.bytes)),
        };
        match (receiver, outcome) {
            (Receiver::Thread, outcome) => self.wake(&mut progress, outcome),
            (Receiver::Callback(done), Outcome::Bytes(bytes)) => {
                drop(progress);
                done(Ok(&bytes));
            }
            (Receiver::Callback(done), _) => return Some(done),
        }
        None
    }

    /// Ends the read with an error.
    pub(crate) fn fail(&self, error: &Error) {
        let mut progress = self.lock();
        match progress.receiver.take() {
            Some(Receiver::Thread) => self.wake(&mut progress, Outcome::Failed(error.clone())),
            Some(Receiver::Callback(done)) => {
                drop(progress);
                done(Err(error.clone()));
            }
            None => {}
        }
    }

    /// Whether the read has not ended.
    pub(crate) fn is_open(&self) -> bool {
        self.lock().receiver.is_some()
    }

    /// Waits for the outcome. `None` at the deadline, or if `go_on`, called every `tick`, returns
    /// false.
    pub(crate) fn wait(&self, tick: Duration, go_on: &mut dyn FnMut() -> bool) -> Option<Outcome> {
        let mut progress = self.lock();
        loop {
            if let Some(outcome) = progress.outcome.take() {
                return Some(outcome);
            }
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                progress.receiver = None;
                return None;
            }
            let (woken, waited) =
                self.ended.wait_timeout(progress, left.min(tick)).unwrap_or_else(PoisonError::into_inner);
            progress = woken;
            if waited.timed_out() && tick < left && progress.outcome.is_none() {
                // Called without the lock, because it may take that of the Python interpreter.
                drop(progress);
                let goes_on = go_on();
                progress = self.lock();
                if !goes_on {
                    progress.receiver = None;
                    return None;
                }
            }
        }
    }

    fn wake(&self, progress: &mut Progress, outcome: Outcome) {
        progress.outcome = Some(outcome);
        self.ended.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress {
    /// The buffer for `part` of the read.
    fn part(&mut self, range: ByteRange, part: ByteRange) -> &mut [u8] {
        if self.bytes.is_empty() {
            self.bytes = vec![0; to_usize(range.len())];
        }
        let start = to_usize(part.start - range.start);
        &mut self.bytes[start..start + to_usize(part.len())]
    }
}
