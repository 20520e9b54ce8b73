//! Computes checksums of content while it is transferred.
//!
//! CRCs of chunks can be combined, so they are computed as the bytes arrive, in any order.
//! Sequential hashes such as SHA-256 cannot be combined. For them, a follower thread reads the file
//! from its start back from the page cache, up to the first gap, while the rest is still arriving.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread::JoinHandle;

use firstbyte_location::{ByteRange, to_usize};
use firstbyte_store::{Algorithm, BUFFER, Checksum, Hasher, STACK};
use rustix_futex_sync::{Condvar, Mutex};

use crate::error::{Error, Result};
use crate::plan::ChunkPlan;

/// Maximum number of fetches of a small object, or of repeated fetches of a chunk in one audit.
/// Fetching ends earlier if the object has the expected checksum, or if two fetches of the chunk
/// agree.
pub(crate) const MAX_FETCHES: u32 = 6;

/// Computes the checksum of a range of a file.
pub(crate) fn of_range(file: &File, range: ByteRange, algorithm: Algorithm) -> Result<Checksum> {
    let mut hasher = Hasher::new(algorithm);
    feed(file, range, &mut hasher)?;
    Ok(hasher.finish())
}

fn feed(file: &File, range: ByteRange, hasher: &mut Hasher) -> Result<()> {
    let mut buffer = vec![0; BUFFER];
    let mut at = range.start;
    while at < range.end {
        let step = BUFFER.min(to_usize(range.end - at));
        file.read_exact_at(&mut buffer[..step], at).map_err(Error::io("reading back the partial file"))?;
        hasher.update(&buffer[..step]);
        at += step as u64;
    }
    Ok(())
}

/// Combines the checksums of all chunks, in order. Returns `None` if a checksum is missing or
/// cannot be combined.
pub(crate) fn combine(
    plan: &ChunkPlan,
    algorithm: Algorithm,
    chunks: &[Option<Checksum>],
) -> Option<Checksum> {
    let mut whole = Hasher::new(algorithm).finish();
    for (index, chunk) in (0..).zip(chunks) {
        whole = whole.combine(chunk.as_ref()?, plan.range(index).len())?;
    }
    Some(whole)
}

/// Number of bytes that are hashed before the thread checks again whether the hash is still needed.
/// The slowest algorithm takes a tenth of a second for them.
const BYTES_BETWEEN_CHECKS: u64 = 32 << 20;

/// A thread that hashes a file from its start while the file is being filled.
pub(crate) struct Follower {
    front: Arc<Front>,
    /// `None` after the thread was joined.
    thread: Option<JoinHandle<Result<Checksum>>>,
}

#[derive(Default)]
struct Front {
    state: Mutex<FrontState>,
    moved: Condvar,
}

#[derive(Clone, Copy, Default)]
struct FrontState {
    /// The offset up to which the file has no gaps.
    end: u64,
    filling: FillState,
}

/// How much of the file has arrived.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum FillState {
    #[default]
    GoesOn,
    /// The file is complete up to `end`.
    Complete,
    /// The hash is no longer needed.
    Abandoned,
}

impl Follower {
    pub(crate) fn start(file: File, algorithm: Algorithm) -> Result<Self> {
        let front = Arc::new(Front::default());
        let watched = Arc::clone(&front);
        let thread = std::thread::Builder::new()
            .name("hash".into())
            .stack_size(STACK)
            .spawn(move || watched.follow(&file, algorithm))
            .map_err(Error::io("starting a thread"))?;
        Ok(Self { front, thread: Some(thread) })
    }

    /// Records that the file has no gaps up to `end`.
    pub(crate) fn advance(&self, end: u64) {
        self.front.set(end, FillState::GoesOn);
    }

    /// Waits for the hash of the bytes up to `end`, which is the end of the complete file.
    pub(crate) fn finish(mut self, end: u64) -> Result<Checksum> {
        self.front.set(end, FillState::Complete);
        let Some(thread) = self.thread.take() else { return Err(Error::Interrupted) };
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Follower {
    /// Ends the thread of a download that was not completed. The thread has the file open and so
    /// shares the lock on the partial file, which the next run in this process needs.
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.front.set(0, FillState::Abandoned);
            // A panic is ignored here, because no caller needs the thread's result.
            let _ = thread.join();
        }
    }
}

impl Front {
    fn set(&self, end: u64, filling: FillState) {
        let mut state = self.state.lock();
        state.end = state.end.max(end);
        if filling != FillState::GoesOn {
            state.filling = filling;
        }
        self.moved.notify_one();
    }

    fn follow(&self, file: &File, algorithm: Algorithm) -> Result<Checksum> {
        let mut hasher = Hasher::new(algorithm);
        let mut at = 0;
        loop {
            let waits = |state: &mut FrontState| state.end == at && state.filling == FillState::GoesOn;
            let state = self.moved.wait_while(self.state.lock(), waits);
            let FrontState { end, filling } = *state;
            drop(state);
            match filling {
                FillState::Abandoned => return Err(Error::Interrupted),
                FillState::Complete if end == at => return Ok(hasher.finish()),
                FillState::GoesOn | FillState::Complete => {}
            }
            let step = end.min(at + BYTES_BETWEEN_CHECKS);
            feed(file, ByteRange::new(at, step), &mut hasher)?;
            at = step;
        }
    }
}
