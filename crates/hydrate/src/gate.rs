//! Background work makes way for readers.
//!
//! Whoever fetches for a reader is counted in. While anybody is in, and a moment after, background fetches go on only
//! block by block, at a tenth of the pace they had undisturbed. A moment after, because a reader who asks for one block
//! after the other is out between two of them.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What is left to background work while readers wait: enough that it ends, too little to be felt.
const SHARE: f64 = 0.1;
/// How long a reader counts as present after the last fetch: more than programs compute between two reads in a row.
const LINGER: Duration = Duration::from_millis(50);
/// Nobody is paced below this, bytes a second: what one slow connection gives.
const LEAST: f64 = 1e6;
/// Weight of the past in the average pace.
const MEMORY: f64 = 0.9;
/// The span that the pace is measured over.
const SPAN: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    readers: usize,
    left: Option<Instant>,
    /// Bytes a second of all background work, undisturbed.
    pace: f64,
    since: Instant,
    moved: u64,
    /// When the next block may pass while readers wait.
    next: Instant,
}

/// A reader's fetch under way.
pub(crate) struct Inside<'a> {
    gate: &'a Gate,
}

impl Default for Gate {
    fn default() -> Self {
        let now = Instant::now();
        let state = State { readers: 0, left: None, pace: 0.0, since: now, moved: 0, next: now };
        Self { state: Mutex::new(state) }
    }
}

impl Gate {
    /// A reader's fetch begins; it ends with what is returned.
    pub(crate) fn enter(&self) -> Inside<'_> {
        self.lock().readers += 1;
        Inside { gate: self }
    }

    /// Background work has moved so much; returns how long it has to pause before it goes on.
    pub(crate) fn pass(&self, bytes: u64, now: Instant) -> Duration {
        let mut state = self.lock();
        if !state.disturbed(now) {
            state.learn(bytes, now);
            return Duration::ZERO;
        }
        state.since = now;
        state.moved = 0;
        let each = Duration::from_secs_f64(bytes as f64 / (state.pace * SHARE).max(LEAST));
        state.next = state.next.max(now) + each;
        state.next - now
    }

    /// Whether background work may go on at once, although it was told to pause.
    pub(crate) fn is_clear(&self, now: Instant) -> bool {
        let mut state = self.lock();
        let clear = !state.disturbed(now);
        if clear {
            state.next = now;
        }
        clear
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn disturbed(&self, now: Instant) -> bool {
        self.readers > 0 || self.left.is_some_and(|left| now.saturating_duration_since(left) < LINGER)
    }

    fn learn(&mut self, bytes: u64, now: Instant) {
        self.moved += bytes;
        let span = now.saturating_duration_since(self.since);
        if span < SPAN {
            return;
        }
        let rate = self.moved as f64 / span.as_secs_f64();
        self.pace = if self.pace == 0.0 { rate } else { self.pace * MEMORY + rate * (1.0 - MEMORY) };
        self.since = now;
        self.moved = 0;
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        state.readers -= 1;
        state.left = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BLOCK;

    #[test]
    fn a_tenth_of_the_pace_is_left_while_readers_are_in() {
        let gate = Gate::default();
        let start = Instant::now();
        let mut now = start;
        // 400 MB/s, undisturbed, for a second.
        let each = Duration::from_secs_f64(BLOCK as f64 / 4e8);
        while now < start + Duration::from_secs(1) {
            assert_eq!(gate.pass(BLOCK, now), Duration::ZERO);
            now += each;
        }
        let inside = gate.enter();
        let (from, mut moved) = (now, 0);
        while now < from + Duration::from_secs(1) {
            moved += BLOCK;
            now += gate.pass(BLOCK, now);
        }
        assert!((35_000_000..45_000_000).contains(&moved), "{moved}");
        drop(inside);
        assert!(!gate.is_clear(Instant::now()), "the reader may come again at once");
        assert!(gate.is_clear(Instant::now() + LINGER));
    }
}
