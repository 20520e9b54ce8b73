//! Requests under way, as the watch sees them: one slot a worker, written by the worker, read every few milliseconds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use firstbyte_store::Cancel;

use crate::patience::{Patience, Wait};
use crate::window::Heed;

/// A slot whose worker waits for nothing a server could be blamed for.
const IDLE: u64 = u64::MAX;

/// A server that answers no sooner than this is far away: requests to it mostly wait.
const FAR: Duration = Duration::from_millis(10);

/// So many requests that fell silent together are no coincidence ...
const TOGETHER: usize = 4;
/// ... where together means within about a tick of the watch.
const SPREAD: Duration = Duration::from_millis(10);

/// How far away a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    /// What a request costs is processor time, here or there: few are made, and large ones.
    Near,
    /// What it costs is the round trip, and a connection has its own limit: many are made at once.
    Far,
}

/// The slots, and how long requests may stay silent.
#[derive(Debug)]
pub struct Flights {
    slots: Vec<Slot>,
    patience: Mutex<Patience>,
    start: Instant,
    /// When the head of an answer was first waited for.
    first_asked: OnceLock<Instant>,
}

#[derive(Debug)]
struct Slot {
    /// Microseconds since the start at which the wait began that is still going on.
    since: AtomicU64,
    request: Mutex<Request>,
}

#[derive(Debug)]
struct Request {
    cancel: Cancel,
    wait: Wait,
    cuts: u32,
    cut: bool,
}

/// One request under way, seen by its worker.
pub struct Flight<'a> {
    flights: &'a Flights,
    slot: &'a Slot,
    began: Instant,
}

impl Flights {
    /// So many slots, all idle.
    #[must_use]
    pub fn new(slots: usize) -> Self {
        let slot = |_| Slot {
            since: AtomicU64::new(IDLE),
            request: Mutex::new(Request { cancel: Cancel::new(), wait: Wait::Head, cuts: 0, cut: false }),
        };
        Self {
            slots: (0..slots).map(slot).collect(),
            patience: Mutex::default(),
            start: Instant::now(),
            first_asked: OnceLock::new(),
        }
    }

    /// Begins a request in a slot; `cuts` times it was cut and asked again already.
    pub fn begin(&self, slot: usize, wait: Wait, cancel: Cancel, cuts: u32) -> Flight<'_> {
        let slot = &self.slots[slot];
        lock(&self.patience).asked();
        *lock(&slot.request) = Request { cancel, wait, cuts, cut: false };
        slot.since.store(self.now(), Ordering::Relaxed);
        let began = Instant::now();
        if wait == Wait::Head {
            self.first_asked.get_or_init(|| began);
        }
        Flight { flights: self, slot, began }
    }

    /// Cuts requests that have been silent for too long. Long bodies one at a time: when a crowded link lets several
    /// starve, ending one may be all the others need.
    pub fn cut_silent(&self) {
        let now = self.now();
        let silence = |slot: &Slot| {
            let since = slot.since.load(Ordering::Relaxed);
            (since != IDLE).then(|| Duration::from_micros(now.saturating_sub(since)))
        };
        let silences: Vec<_> = self.slots.iter().map(silence).collect();
        let mut patience = lock(&self.patience);
        for (slot, silence) in self.slots.iter().zip(&silences) {
            let Some(silence) = *silence else { continue };
            let mut request = lock(&slot.request);
            let limit = patience.limit(request.wait, request.cuts, is_shared(silence, &silences));
            if silence > limit && !request.cut && patience.cut(request.wait) {
                tracing::debug!(wait = ?request.wait, cuts = request.cuts, ?silence, ?limit, "silent: asking again");
                request.cut = true;
                request.cancel.cancel();
                if request.wait == Wait::Body {
                    return;
                }
            }
        }
    }

    /// Ends every request, for the run has ended.
    pub fn cancel_all(&self) {
        self.slots.iter().for_each(|slot| lock(&slot.request).cancel.cancel());
    }

    /// How long a request typically takes to show an effect, where enough is known.
    #[must_use]
    pub fn median_wait(&self) -> Option<Duration> {
        lock(&self.patience).median_wait()
    }

    /// Whether the server is known to be far away, by what any request takes at the least: small ones then only wait.
    #[must_use]
    pub fn are_far(&self) -> bool {
        lock(&self.patience).least_wait().is_some_and(|wait| wait >= FAR)
    }

    /// Whether no read has been answered for so long that the server seems to be far away: known a round trip sooner than by
    /// [`are_far`](Self::are_far), and perhaps wrong.
    #[must_use]
    pub fn seem_far(&self) -> bool {
        let silent = self.first_asked.get().is_some_and(|asked| asked.elapsed() >= FAR);
        silent && lock(&self.patience).fastest_head().is_none()
    }

    /// How far away the server is; far while nothing is known. One answer tells that it is near.
    #[must_use]
    pub fn distance(&self) -> Distance {
        self.known_distance().unwrap_or(Distance::Far)
    }

    /// How far away the server is, once an answer has told.
    #[must_use]
    pub fn known_distance(&self) -> Option<Distance> {
        let wait = lock(&self.patience).fastest_head()?;
        Some(if wait < FAR { Distance::Near } else { Distance::Far })
    }

    /// What to make of full processors: those of a machine whose jobs read what is fetched say nothing about a link. The
    /// heads of answers tell; a large write takes its time to a server beside us too.
    #[must_use]
    pub fn heed(&self) -> Heed {
        let far = lock(&self.patience).least_head().is_some_and(|wait| wait >= FAR);
        if far { Heed::Ignore } else { Heed::Limit }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(IDLE - 1)
    }
}

/// Whether other requests fell silent at the same moment: that points at the link, the server or the disk, and not at
/// one connection. Requests that stall by themselves do so at different times.
fn is_shared(silence: Duration, all: &[Option<Duration>]) -> bool {
    all.iter().flatten().filter(|other| other.abs_diff(silence) <= SPREAD).count() >= TOGETHER
}

impl Flight<'_> {
    /// The answer's head is here; from now on its body, so long, is waited for. Returns how long the head took.
    pub fn head_arrived(&self, body: u64) -> Duration {
        let took = self.began.elapsed();
        lock(&self.flights.patience).learn(Wait::Head, took);
        lock(&self.slot.request).wait = Wait::body(body);
        self.slot.since.store(self.flights.now(), Ordering::Relaxed);
        took
    }

    /// Bytes arrived.
    pub fn heard(&self) {
        self.slot.since.store(self.flights.now(), Ordering::Relaxed);
    }

    /// The worker itself pauses: no silence of the server's.
    pub fn paused(&self) {
        self.slot.since.store(IDLE, Ordering::Relaxed);
    }

    /// The request is over. Returns whether it was cut for its silence.
    pub fn end(self, succeeded: bool) -> bool {
        self.slot.since.store(IDLE, Ordering::Relaxed);
        let (wait, cut) = {
            let request = lock(&self.slot.request);
            (request.wait, request.cut)
        };
        // One lock at a time: the watch takes them in the other order.
        if succeeded && wait == Wait::Write {
            lock(&self.flights.patience).learn(Wait::Write, self.began.elapsed());
        }
        cut
    }
}

/// A panicking worker leaves nothing half-changed here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paused_or_finished_request_is_never_cut() {
        let flights = Flights::new(2);
        let cancel = Cancel::new();
        let flight = flights.begin(0, Wait::Head, cancel.clone(), 0);
        flight.paused();
        flights.cut_silent();
        assert!(!cancel.is_cancelled());
        assert!(!flight.end(true));
    }

    #[test]
    fn requests_that_fall_silent_together_share_a_cause() {
        let shared = |silence, all: &[u64]| {
            let all: Vec<_> = all.iter().map(|ms| Some(Duration::from_millis(*ms))).collect();
            is_shared(Duration::from_millis(silence), &all)
        };
        assert!(shared(302, &[302, 303, 302, 301, 1, 504]));
        assert!(!shared(504, &[302, 303, 302, 301, 1, 504]), "this one stalled by itself");
        assert!(!shared(302, &[302, 303]), "two may well stall together");
        assert!(!shared(302, &[302, 330, 350, 370]), "they stalled one by one");
    }

    #[test]
    fn full_processors_count_unless_the_heads_of_answers_come_from_afar() {
        let heed = |wait, ms| {
            let flights = Flights::new(1);
            (0..10).for_each(|_| lock(&flights.patience).learn(wait, Duration::from_millis(ms)));
            flights.heed()
        };
        assert_eq!(Flights::new(1).heed(), Heed::Limit);
        assert_eq!(heed(Wait::Head, 2), Heed::Limit);
        assert_eq!(heed(Wait::Head, 30), Heed::Ignore);
        assert_eq!(heed(Wait::Write, 30), Heed::Limit);
    }

    #[test]
    fn one_quick_answer_tells_that_a_server_is_near() {
        let flights = Flights::new(1);
        let learn = |ms| lock(&flights.patience).learn(Wait::Head, Duration::from_millis(ms));
        assert_eq!(flights.distance(), Distance::Far);
        learn(30);
        assert_eq!(flights.distance(), Distance::Far);
        learn(2);
        assert_eq!(flights.distance(), Distance::Near);
    }

    #[test]
    fn silence_of_reads_makes_a_server_seem_far_until_one_is_answered() {
        let flights = Flights::new(2);
        let write = flights.begin(0, Wait::Write, Cancel::new(), 0);
        std::thread::sleep(FAR);
        assert!(!flights.seem_far(), "a write takes its time anywhere");
        let read = flights.begin(1, Wait::Head, Cancel::new(), 0);
        std::thread::sleep(FAR);
        assert!(flights.seem_far() && !flights.are_far());
        lock(&flights.patience).learn(Wait::Head, Duration::from_millis(2));
        assert!(!flights.seem_far());
        assert!(!read.end(true) && !write.end(true));
    }

    #[test]
    fn ending_the_run_cancels_what_is_under_way() {
        let flights = Flights::new(1);
        let cancel = Cancel::new();
        let _flight = flights.begin(0, Wait::Head, cancel.clone(), 0);
        flights.cancel_all();
        assert!(cancel.is_cancelled());
    }
}
