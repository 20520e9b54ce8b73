//! A read that waits for blocks on their way: of a thread that sleeps, or of a callback.
//!
//! Blocks that are kept when they come need not be held here: the last one to come says that all are, and the bytes are
//! read from where they are kept. Where nothing is kept (no cache, no room in it) each block is copied as it comes.
//! Memory is then one buffer a read, and that only from its first block on.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use firstbyte_location::{ByteRange, Location};

use crate::here::{Here, block_range};
use crate::{Done, Error};

/// Where a pending read's bytes are until all have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Where blocks are kept.
    Kept,
    /// In the read itself.
    Copied,
}

/// Who reads.
pub(crate) enum Reader {
    /// A thread, which calls [`Pending::wait`].
    Thread,
    /// Whoever gave this callback.
    Call(Done),
}

/// What a waiting thread is told.
pub(crate) enum Outcome {
    /// All blocks have come and been kept: read them.
    Here,
    /// The bytes.
    Bytes(Vec<u8>),
    Failed(Error),
}

/// One read that waits.
pub(crate) struct Pending {
    pub(crate) location: Location,
    pub(crate) range: ByteRange,
    pub(crate) deadline: Instant,
    hold: Hold,
    state: Mutex<State>,
    told: Condvar,
}

struct State {
    /// Blocks that have not come.
    left: usize,
    bytes: Vec<u8>,
    /// Nobody once it is over.
    reader: Option<Reader>,
    outcome: Option<Outcome>,
}

impl Pending {
    pub(crate) fn new(
        location: Location,
        range: ByteRange,
        hold: Hold,
        deadline: Instant,
        reader: Reader,
    ) -> Self {
        let state = State { left: 0, bytes: Vec::new(), reader: Some(reader), outcome: None };
        Self { location, range, deadline, hold, state: Mutex::new(state), told: Condvar::new() }
    }

    /// Whether a block that is here already needs no waiting for; where bytes are held it is copied now.
    pub(crate) fn takes(&self, here: &Here, block: u64) -> bool {
        if self.hold == Hold::Kept {
            return here.has(block);
        }
        let part = block_range(block).intersect(self.range);
        let mut state = self.lock();
        let target = state.part(self.range, part);
        here.read_at(target, part.start) == target.len()
    }

    /// So many blocks have yet to come.
    pub(crate) fn expect(&self, blocks: usize) {
        self.lock().left = blocks;
    }

    /// A block has come. Where it was the last, and a callback's bytes are to be read from where blocks are kept, the
    /// callback is returned.
    pub(crate) fn deliver(&self, block: u64, bytes: &[u8]) -> Option<Done> {
        let mut state = self.lock();
        state.reader.as_ref()?;
        let whole = block_range(block);
        let part = whole.intersect(self.range);
        let from = usize::try_from(part.start - whole.start).unwrap_or(0);
        let found = bytes.get(from..from + len(part)).unwrap_or_default();
        if self.hold == Hold::Copied {
            state.part(self.range, part).copy_from_slice(found);
        }
        state.left = state.left.saturating_sub(1);
        if state.left > 0 {
            return None;
        }
        match (state.reader.take()?, self.hold) {
            (Reader::Thread, Hold::Kept) => self.tell(&mut state, Outcome::Here),
            (Reader::Thread, Hold::Copied) => {
                let bytes = std::mem::take(&mut state.bytes);
                self.tell(&mut state, Outcome::Bytes(bytes));
            }
            (Reader::Call(done), _) if part == self.range => {
                drop(state);
                done(Ok(found));
            }
            (Reader::Call(done), Hold::Copied) => {
                let bytes = std::mem::take(&mut state.bytes);
                drop(state);
                done(Ok(&bytes));
            }
            (Reader::Call(done), Hold::Kept) => return Some(done),
        }
        None
    }

    /// All blocks were here after all.
    pub(crate) fn complete(&self) -> Option<Done> {
        let mut state = self.lock();
        let outcome = match self.hold {
            Hold::Kept => Outcome::Here,
            Hold::Copied => Outcome::Bytes(std::mem::take(&mut state.bytes)),
        };
        match (state.reader.take()?, outcome) {
            (Reader::Thread, outcome) => self.tell(&mut state, outcome),
            (Reader::Call(done), Outcome::Bytes(bytes)) => {
                drop(state);
                done(Ok(&bytes));
            }
            (Reader::Call(done), _) => return Some(done),
        }
        None
    }

    /// It is over without the bytes.
    pub(crate) fn fail(&self, error: &Error) {
        let mut state = self.lock();
        match state.reader.take() {
            Some(Reader::Thread) => self.tell(&mut state, Outcome::Failed(error.clone())),
            Some(Reader::Call(done)) => {
                drop(state);
                done(Err(error.clone()));
            }
            None => {}
        }
    }

    /// Whether somebody still waits.
    pub(crate) fn is_open(&self) -> bool {
        self.lock().reader.is_some()
    }

    /// Waits for a thread's outcome; `None` when the deadline has come first, or `go_on`, which is asked once every
    /// `tick`, has said no.
    pub(crate) fn wait(&self, tick: Duration, go_on: &mut dyn FnMut() -> bool) -> Option<Outcome> {
        let mut state = self.lock();
        loop {
            if let Some(outcome) = state.outcome.take() {
                return Some(outcome);
            }
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.reader = None;
                return None;
            }
            let (woken, waited) =
                self.told.wait_timeout(state, left.min(tick)).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if waited.timed_out() && tick < left && state.outcome.is_none() {
                // Asked without the lock: the answer may take the interpreter's.
                drop(state);
                let goes_on = go_on();
                state = self.lock();
                if !goes_on {
                    state.reader = None;
                    return None;
                }
            }
        }
    }

    fn tell(&self, state: &mut State, outcome: Outcome) {
        state.outcome = Some(outcome);
        self.told.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The place of `part` in the bytes of the read.
    fn part(&mut self, range: ByteRange, part: ByteRange) -> &mut [u8] {
        if self.bytes.is_empty() {
            self.bytes = vec![0; len(range)];
        }
        let start = len(ByteRange::new(range.start, part.start));
        &mut self.bytes[start..start + len(part)]
    }
}

fn len(range: ByteRange) -> usize {
    usize::try_from(range.len()).unwrap_or(usize::MAX)
}
