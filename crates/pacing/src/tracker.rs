//! Tracks the requests in flight. Each worker has a slot. The worker writes to its slot, and a
//! supervisor reads all slots every few milliseconds.
//!
//! A worker begins a request in its slot, and reports the head and the bytes of the response. The
//! supervisor cancels requests that are silent for longer than the [`HedgePolicy`] allows. The
//! quickest response shows the distance of the server.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;

use crate::hedge::{HedgePolicy, SHORTEST_LIMIT, Wait};
use crate::proximity::{FAR, Proximity};
use crate::request_size::{ReadSizes, longest_request};

/// The value for an unknown time, and for a slot whose worker is not waiting for a server.
const IDLE: u64 = u64::MAX;
/// Length of the shortest body that shows the rate of a connection, in bytes.
const MIN_RATE_BODY_BYTES: u64 = 256 << 10;
/// Divisor that gives the weight of a body slower than the known rate. The weight is small, because
/// the body may have shared the link with many others.
const SLOW_BODY_DIVISOR: u64 = 32;

/// A request in flight that can be cancelled.
pub trait Abort {
    /// Cancels the request. The worker that waits for the request gets an error.
    fn abort(&self);
}

/// The slots of the workers, and what was measured about the server.
#[derive(Debug)]
pub struct RequestTracker<A> {
    slots: Vec<Slot<A>>,
    policy: Mutex<HedgePolicy>,
    in_flight: AtomicUsize,
    moving: AtomicUsize,
    /// Microseconds of the quickest response; [`IDLE`] before the first response. Long writes do
    /// not count, because sending them takes time.
    quickest: AtomicU64,
    /// Bytes per second of one connection; 0 before the first long body.
    rate: AtomicU64,
    start: Instant,
    /// Time at which the first read was sent.
    first_read: OnceLock<Instant>,
}

#[derive(Debug)]
struct Slot<A> {
    /// Microseconds from the start of the tracker to the start of the current wait, or [`IDLE`].
    since: AtomicU64,
    request: Mutex<Request<A>>,
}

#[derive(Debug)]
struct Request<A> {
    abort: Option<A>,
    wait: Wait,
    cuts: u32,
    is_cut: bool,
}

/// A request in flight. Its worker holds this value.
#[derive(Debug)]
pub struct InFlightRequest<'a, A> {
    tracker: &'a RequestTracker<A>,
    slot: &'a Slot<A>,
    began: Instant,
}

impl<A: Abort> RequestTracker<A> {
    /// Returns a tracker with the given number of slots, all idle.
    #[must_use]
    pub fn new(slots: usize, now: Instant) -> Self {
        let slot = |_| Slot {
            since: AtomicU64::new(IDLE),
            request: Mutex::new(Request { abort: None, wait: Wait::Head, cuts: 0, is_cut: false }),
        };
        Self {
            slots: (0..slots).map(slot).collect(),
            policy: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            moving: AtomicUsize::new(0),
            quickest: AtomicU64::new(IDLE),
            rate: AtomicU64::new(0),
            start: now,
            first_read: OnceLock::new(),
        }
    }

    /// Begins a request in a slot. The same request was cut `cuts` times before.
    pub fn begin(
        &self,
        slot: usize,
        wait: Wait,
        abort: A,
        cuts: u32,
        now: Instant,
    ) -> InFlightRequest<'_, A> {
        let slot = &self.slots[slot];
        self.policy.lock().sent();
        *slot.request.lock() = Request { abort: Some(abort), wait, cuts, is_cut: false };
        slot.since.store(self.micros(now), Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        if wait == Wait::Head {
            self.first_read.get_or_init(|| now);
        } else {
            self.moving.fetch_add(1, Ordering::Relaxed);
        }
        InFlightRequest { tracker: self, slot, began: now }
    }

    /// Cancels the requests that have been silent for too long. Of the requests with long bodies,
    /// cancels only one per call: if a crowded link starves several, ending one may suffice for the
    /// others.
    pub fn cut_silent(&self, now: Instant) {
        let now = self.micros(now);
        let mut policy = self.policy.lock();
        for slot in &self.slots {
            let since = slot.since.load(Ordering::Relaxed);
            let silence = Duration::from_micros(now.saturating_sub(since));
            // Computing the limit takes a median. In most calls, few requests are silent for long
            // enough to need it.
            if since == IDLE || silence <= SHORTEST_LIMIT {
                continue;
            }
            let mut request = slot.request.lock();
            let limit = policy.limit(request.wait, request.cuts);
            if silence > limit && !request.is_cut && policy.cut(request.wait) {
                request.is_cut = true;
                request.abort.iter().for_each(Abort::abort);
                if request.wait == Wait::Body {
                    return;
                }
            }
        }
    }

    /// Cancels every request.
    pub fn cancel_all(&self) {
        self.slots.iter().for_each(|slot| slot.request.lock().abort.iter().for_each(Abort::abort));
    }

    /// Returns the median time from the start of a request to its response. Long writes do not
    /// count. While too few requests have ended, returns the time of the quickest response; `None`
    /// before the first response.
    #[must_use]
    pub fn round_trip(&self) -> Option<Duration> {
        self.policy.lock().median().or(self.quickest())
    }

    /// Returns the number of requests in flight. A worker that pauses between two attempts has no
    /// request in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Returns the number of requests in flight whose bytes are moving: bodies and writes.
    #[must_use]
    pub fn moving(&self) -> usize {
        self.moving.load(Ordering::Relaxed)
    }

    /// Learns the time of a response to a request that has no slot.
    pub fn learn_answer(&self, took: Duration) {
        self.learn(Wait::Head, took);
    }

    /// Returns the distance of the server.
    #[must_use]
    pub fn server(&self) -> Proximity {
        Proximity::of(self.quickest())
    }

    /// Returns the sizes for the requests of a read.
    #[must_use]
    pub fn read_sizes(&self) -> ReadSizes {
        ReadSizes::of(self.quickest(), self.rate())
    }

    /// Returns the length, in bytes, of the longest request of a transfer.
    #[must_use]
    pub fn longest_request(&self) -> u64 {
        longest_request(self.server(), self.quickest().unwrap_or_default(), self.rate())
    }

    /// Returns the bytes per second of one connection, if known.
    #[must_use]
    pub fn rate(&self) -> Option<u64> {
        Some(self.rate.load(Ordering::Relaxed)).filter(|rate| *rate > 0)
    }

    /// Learns the rate of a connection from a body of `bytes` bytes that took `took` after its
    /// head. Ignores short bodies, because they do not show the rate.
    pub fn learn_rate(&self, bytes: u64, took: Duration) {
        if bytes < MIN_RATE_BODY_BYTES {
            return;
        }
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
        let seen = bytes.saturating_mul(1_000_000) / micros;
        let rate = self.rate.load(Ordering::Relaxed);
        // If two workers store at the same time, a sample is lost. There are many samples.
        let rate =
            if seen > rate { seen } else { rate - rate / SLOW_BODY_DIVISOR + seen / SLOW_BODY_DIVISOR };
        self.rate.store(rate.max(1), Ordering::Relaxed);
    }

    fn quickest(&self) -> Option<Duration> {
        let quickest = self.quickest.load(Ordering::Relaxed);
        (quickest != IDLE).then(|| Duration::from_micros(quickest))
    }

    /// Returns true if reads have been unanswered for so long that the server is probably far away.
    /// This is known a round trip sooner than the result of [`server`](Self::server), and may be
    /// wrong.
    #[must_use]
    pub fn is_silent(&self, now: Instant) -> bool {
        let waited = self.first_read.get().is_some_and(|asked| now.saturating_duration_since(*asked) >= FAR);
        waited && self.server() == Proximity::Unknown
    }

    fn learn(&self, wait: Wait, took: Duration) {
        self.policy.lock().learn(wait, took);
        if matches!(wait, Wait::Head | Wait::ShortWrite) {
            let took = u64::try_from(took.as_micros()).unwrap_or(IDLE - 1);
            self.quickest.fetch_min(took, Ordering::Relaxed);
        }
    }

    fn micros(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.start).as_micros()).unwrap_or(IDLE - 1)
    }
}

impl<A: Abort> InFlightRequest<'_, A> {
    /// Records that the head of the response has arrived. The wait for the `length` bytes of the
    /// body begins. Returns the time that the head took.
    pub fn head_arrived(&self, length: u64, now: Instant) -> Duration {
        let took = now.saturating_duration_since(self.began);
        self.tracker.learn(Wait::Head, took);
        let before = std::mem::replace(&mut self.slot.request.lock().wait, Wait::body(length));
        if before == Wait::Head {
            self.tracker.moving.fetch_add(1, Ordering::Relaxed);
        }
        self.bytes_arrived(now);
        took
    }

    /// Records that bytes have arrived, or that the server has accepted bytes.
    pub fn bytes_arrived(&self, now: Instant) {
        self.slot.since.store(self.tracker.micros(now), Ordering::Relaxed);
    }

    /// Records that the worker itself pauses. Its silence then does not count against the server.
    pub fn record_pause(&self) {
        self.slot.since.store(IDLE, Ordering::Relaxed);
    }

    /// Ends the request. Returns true if the request was cut because it was silent.
    pub fn end(self, succeeded: bool, now: Instant) -> bool {
        self.slot.since.store(IDLE, Ordering::Relaxed);
        let (wait, cut) = {
            let request = self.slot.request.lock();
            (request.wait, request.is_cut)
        };
        self.tracker.in_flight.fetch_sub(1, Ordering::Relaxed);
        if wait != Wait::Head {
            self.tracker.moving.fetch_sub(1, Ordering::Relaxed);
        }
        // The supervisor takes these two locks in the opposite order. So only one lock is held here
        // at a time.
        if succeeded && matches!(wait, Wait::Write | Wait::ShortWrite) {
            self.tracker.learn(wait, now.saturating_duration_since(self.began));
        }
        cut
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[derive(Clone, Debug, Default)]
    struct Flag(Rc<Cell<bool>>);

    impl Abort for Flag {
        fn abort(&self) {
            self.0.set(true);
        }
    }

    #[test]
    fn a_silent_request_is_cut_and_a_paused_one_is_not() {
        let start = Instant::now();
        let tracker = RequestTracker::new(2, start);
        let (silent, waits) = (Flag::default(), Flag::default());
        let request = tracker.begin(0, Wait::Head, silent.clone(), 0, start);
        let paused = tracker.begin(1, Wait::Head, waits.clone(), 0, start);
        paused.record_pause();
        tracker.cut_silent(start + 499 * MS);
        assert!(!silent.0.get());
        tracker.cut_silent(start + 501 * MS);
        assert!(silent.0.get() && !waits.0.get());
        assert!(request.end(false, start + 502 * MS) && !paused.end(true, start + 502 * MS));
    }

    #[test]
    fn one_quick_answer_shows_that_a_server_is_near() {
        let start = Instant::now();
        let tracker = RequestTracker::new(1, start);
        let answer = |took| {
            let request = tracker.begin(0, Wait::Head, Flag::default(), 0, start);
            request.head_arrived(1, start + took);
            request.end(true, start + took);
        };
        assert_eq!(tracker.server(), Proximity::Unknown);
        answer(30 * MS);
        assert_eq!(tracker.server(), Proximity::Far);
        answer(2 * MS);
        assert_eq!(tracker.server(), Proximity::Near);
    }

    #[test]
    fn the_rate_of_a_connection_is_that_of_long_bodies_alone() {
        let tracker = RequestTracker::<Flag>::new(1, Instant::now());
        let unknown = tracker.read_sizes();
        tracker.learn_rate(1000, MS);
        assert_eq!(tracker.read_sizes(), unknown, "too short");
        for _ in 0..100 {
            tracker.learn_rate(40_000 * 50, 50 * MS);
        }
        let rate = || tracker.rate.load(Ordering::Relaxed);
        assert!((39_000_000..=40_000_000).contains(&rate()), "{}", rate());
        tracker.learn_rate(40_000 * 50, 500 * MS);
        assert!(rate() > 38_000_000, "one slow body: {}", rate());
        (0..1000).for_each(|_| tracker.learn_rate(40_000 * 50, 500 * MS));
        assert!(rate() < 5_000_000, "{}", rate());
    }

    #[test]
    fn a_long_write_does_not_show_the_distance() {
        let start = Instant::now();
        let tracker = RequestTracker::new(1, start);
        let write = |length| {
            tracker.begin(0, Wait::write(length), Flag::default(), 0, start).end(true, start + 2 * MS);
        };
        write(8 << 20);
        assert_eq!(tracker.server(), Proximity::Unknown);
        write(100);
        assert_eq!(tracker.server(), Proximity::Near);
    }

    #[test]
    fn silence_of_reads_suggests_a_far_server_until_one_is_answered() {
        let start = Instant::now();
        let tracker = RequestTracker::new(2, start);
        let write = tracker.begin(0, Wait::Write, Flag::default(), 0, start);
        assert!(!tracker.is_silent(start + FAR), "a write takes long anywhere");
        let read = tracker.begin(1, Wait::Head, Flag::default(), 0, start + FAR);
        assert!(!tracker.is_silent(start + FAR * 3 / 2));
        assert!(tracker.is_silent(start + FAR * 2));
        read.head_arrived(1, start + FAR * 3);
        assert!(!tracker.is_silent(start + FAR * 4));
        assert!(!write.end(true, start + FAR * 4));
    }

    #[test]
    fn requests_whose_bytes_are_moving_are_counted() {
        let start = Instant::now();
        let tracker = RequestTracker::new(3, start);
        let begin = |slot, wait| tracker.begin(slot, wait, Flag::default(), 0, start);
        let (read, write, opened) = (begin(0, Wait::Head), begin(1, Wait::Write), begin(2, Wait::Body));
        assert_eq!((tracker.in_flight(), tracker.moving()), (3, 2));
        read.head_arrived(9, start + MS);
        assert_eq!(tracker.moving(), 3);
        for request in [read, write, opened] {
            request.end(false, start + MS);
        }
        begin(0, Wait::Head).end(false, start + MS);
        assert_eq!((tracker.in_flight(), tracker.moving()), (0, 0));
    }

    #[test]
    fn all_requests_can_be_cancelled() {
        let start = Instant::now();
        let tracker = RequestTracker::new(1, start);
        let flag = Flag::default();
        let _request = tracker.begin(0, Wait::Head, flag.clone(), 0, start);
        tracker.cancel_all();
        assert!(flag.0.get());
    }
}
