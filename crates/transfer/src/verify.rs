//! Computes checksums of content while it is transferred.
//!
//! CRCs of chunks can be combined, so they are computed as the bytes pass, in any order. A
//! sequential hash cannot be combined: a follower thread reads the finished start of the file back
//! from the page cache while the rest is still moving.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use firstbyte_location::{ByteRange, to_usize};
use firstbyte_store::{Algorithm, BUFFER, Checksum, Hasher, STACK};

use crate::error::{Error, Result};
use crate::plan::Plan;

/// Times that bytes are fetched until they have the expected checksum; without one, until two
/// fetches agree.
pub(crate) const FETCHES: u32 = 6;

/// The checksum of a range of a file.
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

/// The checksum of the whole from those of all its chunks, in order.
pub(crate) fn combine(plan: &Plan, algorithm: Algorithm, chunks: &[Option<Checksum>]) -> Option<Checksum> {
    let mut whole = Hasher::new(algorithm).finish();
    for (index, chunk) in (0..).zip(chunks) {
        whole = whole.combine(chunk.as_ref()?, plan.range(index).len())?;
    }
    Some(whole)
}

/// Hashes a file from its start while it is filled.
pub(crate) struct Follower {
    front: Arc<Front>,
    thread: JoinHandle<Result<Checksum>>,
}

#[derive(Default)]
struct Front {
    /// The end of the gapless start of the file, and whether that is the end of the file.
    state: Mutex<(u64, bool)>,
    moved: Condvar,
}

impl Follower {
    /// Starts the thread.
    pub(crate) fn start(file: File, algorithm: Algorithm) -> Result<Self> {
        let front = Arc::new(Front::default());
        let watched = Arc::clone(&front);
        let thread = std::thread::Builder::new()
            .name("hash".into())
            .stack_size(STACK)
            .spawn(move || watched.follow(&file, algorithm))
            .map_err(Error::io("starting a thread"))?;
        Ok(Self { front, thread })
    }

    /// The file is complete up to `end`.
    pub(crate) fn advance(&self, end: u64) {
        self.front.set(end, false);
    }

    /// Waits for the hash of everything up to `end`, where the file is complete.
    pub(crate) fn finish(self, end: u64) -> Result<Checksum> {
        self.front.set(end, true);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Front {
    fn set(&self, end: u64, last: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = (state.0.max(end), state.1 || last);
        self.moved.notify_one();
    }

    fn follow(&self, file: &File, algorithm: Algorithm) -> Result<Checksum> {
        let mut hasher = Hasher::new(algorithm);
        let mut at = 0;
        loop {
            let (end, last) = {
                let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                *self
                    .moved
                    .wait_while(state, |(end, last)| *end == at && !*last)
                    .unwrap_or_else(PoisonError::into_inner)
            };
            feed(file, ByteRange::new(at, end), &mut hasher)?;
            at = end;
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if last && state.0 == at {
                return Ok(hasher.finish());
            }
        }
    }
}
