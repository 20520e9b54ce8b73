//! Slows background fetches down while readers fetch.
//!
//! While a reader's fetch is running, and for a moment after it, background fetches continue only
//! block by block, at a tenth of their undisturbed rate. The moment is needed because a reader that
//! requests one block after another has no running fetch between two blocks.

use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;

use crate::block::BLOCK;

/// Share of the undisturbed rate that background work gets while readers fetch. It is enough to
/// finish, and too little to disturb.
const BACKGROUND_SHARE: f64 = 0.1;
/// Time for which readers count as present after their last fetch. It is longer than most programs
/// compute between two reads. The undisturbed rate is measured over the same time.
const READER_LINGER: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct BackgroundThrottle {
    pace: Mutex<Pace>,
}

#[derive(Debug)]
struct Pace {
    /// Number of running fetches for readers.
    readers: usize,
    /// The time at which the last reader's fetch ended.
    last_reader_ended: Option<Instant>,
    /// Bytes per second of all background work, measured when it was last undisturbed.
    rate: f64,
    /// Start of the current measuring period.
    since: Instant,
    /// Bytes moved in the current measuring period.
    moved: u64,
    /// The time at which the next block may be fetched while readers are present.
    next: Instant,
}

/// A running fetch for a reader.
pub(crate) struct ReaderFetch<'a> {
    throttle: &'a BackgroundThrottle,
}

impl Default for BackgroundThrottle {
    fn default() -> Self {
        let now = Instant::now();
        let pace = Pace { readers: 0, last_reader_ended: None, rate: 0.0, since: now, moved: 0, next: now };
        Self { pace: Mutex::new(pace) }
    }
}

impl BackgroundThrottle {
    /// Registers a fetch for a reader until the returned value is dropped.
    pub(crate) fn begin_reader(&self) -> ReaderFetch<'_> {
        self.pace.lock().readers += 1;
        ReaderFetch { throttle: self }
    }

    /// Records bytes moved by background work. Returns the time for which that work must pause.
    pub(crate) fn pause_after(&self, bytes: u64, now: Instant) -> Duration {
        let mut pace = self.pace.lock();
        if !pace.has_readers(now) {
            pace.measure(bytes, now);
            return Duration::ZERO;
        }
        pace.since = now;
        pace.moved = 0;
        // One block per [`READER_LINGER`] is always allowed.
        let least = BLOCK as f64 / READER_LINGER.as_secs_f64();
        let each = Duration::from_secs_f64(bytes as f64 / (pace.rate * BACKGROUND_SHARE).max(least));
        pace.next = pace.next.max(now) + each;
        pace.next - now
    }

    /// Returns whether background work may continue at once because no reader is present.
    pub(crate) fn is_clear(&self, now: Instant) -> bool {
        let mut pace = self.pace.lock();
        let clear = !pace.has_readers(now);
        if clear {
            pace.next = now;
        }
        clear
    }
}

impl Pace {
    fn has_readers(&self, now: Instant) -> bool {
        self.readers > 0
            || self
                .last_reader_ended
                .is_some_and(|ended| now.saturating_duration_since(ended) < READER_LINGER)
    }

    fn measure(&mut self, bytes: u64, now: Instant) {
        self.moved += bytes;
        let period = now.saturating_duration_since(self.since);
        if period < READER_LINGER {
            return;
        }
        self.rate = self.moved as f64 / period.as_secs_f64();
        self.since = now;
        self.moved = 0;
    }
}

impl Drop for ReaderFetch<'_> {
    fn drop(&mut self) {
        let mut pace = self.throttle.pace.lock();
        pace.readers -= 1;
        pace.last_reader_ended = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_rate_is_left_while_readers_are_present() {
        let throttle = BackgroundThrottle::default();
        let start = Instant::now();
        let mut now = start;
        // Undisturbed work at 400 MB/s, for one second.
        let each = Duration::from_secs_f64(BLOCK as f64 / 4e8);
        while now < start + Duration::from_secs(1) {
            assert_eq!(throttle.pause_after(BLOCK, now), Duration::ZERO);
            now += each;
        }
        let reader = throttle.begin_reader();
        let (from, mut moved) = (now, 0);
        while now < from + Duration::from_secs(1) {
            moved += BLOCK;
            now += throttle.pause_after(BLOCK, now);
        }
        assert!((35_000_000..45_000_000).contains(&moved), "{moved}");
        drop(reader);
        assert!(!throttle.is_clear(Instant::now()), "the reader may come again at once");
        assert!(throttle.is_clear(Instant::now() + READER_LINGER));
    }
}
