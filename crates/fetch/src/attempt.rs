//! One attempt at a request: what it reports to the tracker, and how far it came.

use std::time::{Duration, Instant};

use firstbyte_pacing::{InFlightRequest, RequestTracker, Throttle, Wait};
use firstbyte_store::{Cancel, Get};

/// One attempt, lent to the code that makes it.
#[derive(Debug)]
pub struct Attempt<'a> {
    tracker: &'a RequestTracker<Cancel>,
    slot: usize,
    cuts: u32,
    /// The handle of an answer that is open already.
    opened: Option<Cancel>,
    cancel: Cancel,
    in_flight: Option<InFlightRequest<'a, Cancel>>,
    is_throttled: bool,
    highest: u64,
}

impl<'a> Attempt<'a> {
    pub(crate) fn new(
        tracker: &'a RequestTracker<Cancel>,
        slot: usize,
        opened: Option<Cancel>,
        cuts: u32,
    ) -> Self {
        let (cancel, in_flight) = (Cancel::new(), None);
        Self { tracker, slot, cuts, opened, cancel, in_flight, is_throttled: false, highest: 0 }
    }

    /// Begins to track a request, which waits for `wait`. An attempt may make several, one after
    /// the other.
    pub fn begin(&mut self, wait: Wait) {
        if let Some(before) = self.in_flight.take() {
            before.end(true, Instant::now());
        }
        self.cancel = self.opened.take().unwrap_or_default();
        let (cancel, now) = (self.cancel.clone(), Instant::now());
        self.in_flight = Some(self.tracker.begin(self.slot, wait, cancel, self.cuts, now));
    }

    /// The handle that ends the request.
    #[must_use]
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// A read of everything, of any version, for this attempt.
    pub fn get(&mut self, throttle: &Throttle) -> Get {
        self.keep_to(throttle);
        Get { cancel: self.cancel.clone(), throttle: throttle.clone(), ..Get::default() }
    }

    /// Notes the rate limit. Under one, a silence is our own pause: only the store's deadlines end
    /// the request.
    pub fn keep_to(&mut self, throttle: &Throttle) {
        self.is_throttled = !throttle.is_unlimited();
        if self.is_throttled {
            self.paused();
        }
    }

    /// The head of an answer has arrived, and a body of so many bytes follows. Returns how long
    /// the head took.
    pub fn head_arrived(&self, body: u64) -> Duration {
        let now = Instant::now();
        let took = self.in_flight.as_ref().map(|request| request.head_arrived(body, now));
        if self.is_throttled {
            self.paused();
        }
        took.unwrap_or_default()
    }

    /// Bytes up to the offset `end` have arrived, or were accepted by the server.
    pub fn reached(&mut self, end: u64) {
        self.highest = self.highest.max(end);
        match &self.in_flight {
            Some(request) if !self.is_throttled => request.bytes_arrived(Instant::now()),
            _ => self.paused(),
        }
    }

    /// The caller itself pauses: the silence is not the server's.
    pub fn paused(&self) {
        if let Some(request) = &self.in_flight {
            request.paused();
        }
    }

    /// Ends it. Returns whether it was cut for its silence, and the highest offset that it reached.
    pub(crate) fn end(self, succeeded: bool) -> (bool, u64) {
        let cut = self.in_flight.is_some_and(|request| request.end(succeeded, Instant::now()));
        (cut, self.highest)
    }
}
