//! Requests under way, as the watch sees them: one slot a worker, written by the worker, read every few milliseconds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use firstbyte_store::Cancel;

use crate::patience::{Patience, Wait};

/// A slot whose worker waits for nothing a server could be blamed for.
const IDLE: u64 = u64::MAX;

/// So many silent requests are no coincidence any more ...
const TOGETHER: usize = 4;
/// ... if they fell silent within this time of each other.
const SPREAD: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Flights {
    slots: Vec<Slot>,
    patience: Mutex<Patience>,
    start: Instant,
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
pub(crate) struct Flight<'a> {
    flights: &'a Flights,
    slot: &'a Slot,
    began: Instant,
}

impl Flights {
    pub(crate) fn new(slots: usize) -> Self {
        let slot = |_| Slot {
            since: AtomicU64::new(IDLE),
            request: Mutex::new(Request { cancel: Cancel::new(), wait: Wait::Head, cuts: 0, cut: false }),
        };
        Self { slots: (0..slots).map(slot).collect(), patience: Mutex::default(), start: Instant::now() }
    }

    /// Begins a request in a slot; `cuts` times it was cut and asked again already.
    pub(crate) fn begin(&self, slot: usize, wait: Wait, cancel: Cancel, cuts: u32) -> Flight<'_> {
        let slot = &self.slots[slot];
        lock(&self.patience).asked();
        *lock(&slot.request) = Request { cancel, wait, cuts, cut: false };
        slot.since.store(self.now(), Ordering::Relaxed);
        Flight { flights: self, slot, began: Instant::now() }
    }

    /// Cuts every request that has been silent for too long.
    pub(crate) fn cut_silent(&self) {
        let now = self.now();
        let silence = |slot: &Slot| {
            let since = slot.since.load(Ordering::Relaxed);
            (since != IDLE).then(|| Duration::from_micros(now.saturating_sub(since)))
        };
        let silences: Vec<_> = self.slots.iter().map(silence).collect();
        let outage = is_outage(&silences.iter().flatten().copied().collect::<Vec<_>>());
        let mut patience = lock(&self.patience);
        for (slot, silence) in self.slots.iter().zip(&silences) {
            let Some(silence) = *silence else { continue };
            let mut request = lock(&slot.request);
            let limit = patience.limit(request.wait, request.cuts, outage);
            if silence > limit && !request.cut && patience.may_cut() {
                patience.cut();
                request.cut = true;
                request.cancel.cancel();
            }
        }
    }

    /// Ends every request, for the run has ended.
    pub(crate) fn cancel_all(&self) {
        self.slots.iter().for_each(|slot| lock(&slot.request).cancel.cancel());
    }

    /// How long a request typically takes to show an effect, where enough is known.
    pub(crate) fn median_wait(&self) -> Option<Duration> {
        lock(&self.patience).median_wait()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(IDLE - 1)
    }
}

/// Whether requests fell silent together: that points at the link or the disk, not at their connections. Requests that
/// stall by themselves do so at different times.
fn is_outage(silences: &[Duration]) -> bool {
    let (least, most) = (silences.iter().min().copied(), silences.iter().max().copied());
    let spread = most.unwrap_or_default().saturating_sub(least.unwrap_or_default());
    silences.len() >= TOGETHER && least.is_some_and(|least| least > SPREAD && spread < SPREAD)
}

impl Flight<'_> {
    /// The answer's head is here; from now on its body is waited for. Returns how long the head took.
    pub(crate) fn head_arrived(&self) -> Duration {
        let took = self.began.elapsed();
        lock(&self.flights.patience).learn(Wait::Head, took);
        lock(&self.slot.request).wait = Wait::Body;
        self.slot.since.store(self.flights.now(), Ordering::Relaxed);
        took
    }

    /// Bytes arrived.
    pub(crate) fn heard(&self) {
        self.slot.since.store(self.flights.now(), Ordering::Relaxed);
    }

    /// The worker itself pauses: no silence of the server's.
    pub(crate) fn paused(&self) {
        self.slot.since.store(IDLE, Ordering::Relaxed);
    }

    /// The request is over. Returns whether it was cut for its silence.
    pub(crate) fn end(self, succeeded: bool) -> bool {
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
    fn an_outage_is_many_requests_falling_silent_at_once() {
        let silences = |all: &[u64]| all.iter().map(|ms| Duration::from_millis(*ms)).collect::<Vec<_>>();
        assert!(is_outage(&silences(&[300, 310, 320, 330])));
        assert!(!is_outage(&silences(&[300, 310])), "two may well stall together");
        assert!(!is_outage(&silences(&[300, 310, 320, 10])), "one still moves");
        assert!(!is_outage(&silences(&[300, 800, 1_300, 2_000])), "they stalled one by one");
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
