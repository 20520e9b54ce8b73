//! Makes one attempt at an operation: reports its requests to the tracker, and remembers the
//! highest offset that was reached.

use std::time::{Duration, Instant};

use firstbyte_pacing::{InFlightRequest, RequestTracker, Throttle, Wait};
use firstbyte_store::{Cancel, Get};

/// One attempt at an operation of the store, which may send several requests, one after another.
/// The code that sends the requests borrows the attempt.
#[derive(Debug)]
pub struct Attempt<'a> {
    tracker: &'a RequestTracker<Cancel>,
    slot: usize,
    cuts: u32,
    /// The handle that cancels a response which is already open.
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

    /// Begins to track a request, and ends the tracking of the previous request. The thread of the
    /// request waits for `wait`.
    pub fn begin(&mut self, wait: Wait) {
        if let Some(before) = self.in_flight.take() {
            before.end(true, Instant::now());
        }
        self.cancel = self.opened.take().unwrap_or_default();
        let (cancel, now) = (self.cancel.clone(), Instant::now());
        self.in_flight = Some(self.tracker.begin(self.slot, wait, cancel, self.cuts, now));
    }

    /// Returns the handle that cancels the request.
    #[must_use]
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// Returns the options for reading the whole object, in any version, under `throttle`.
    pub fn get_options(&mut self, throttle: &Throttle) -> Get {
        self.record_rate_limit(throttle);
        Get { cancel: self.cancel.clone(), throttle: throttle.clone(), ..Get::default() }
    }

    /// Records the rate limit. Under a limit, the client itself causes silences, so the tracker
    /// does not cut the request. Only the deadlines of the store end it.
    pub fn record_rate_limit(&mut self, throttle: &Throttle) {
        self.is_throttled = !throttle.is_unlimited();
        if self.is_throttled {
            self.record_pause();
        }
    }

    /// Records that the head of a response has arrived, and that `body` bytes follow. Returns the
    /// time that the head took.
    pub fn head_arrived(&self, body: u64) -> Duration {
        let now = Instant::now();
        let took = self.in_flight.as_ref().map(|request| request.head_arrived(body, now));
        if self.is_throttled {
            self.record_pause();
        }
        took.unwrap_or_default()
    }

    /// Records that bytes up to the offset `end` have arrived, or were accepted by the server.
    pub fn record_progress(&mut self, end: u64) {
        self.highest = self.highest.max(end);
        match &self.in_flight {
            Some(request) if !self.is_throttled => request.bytes_arrived(Instant::now()),
            _ => self.record_pause(),
        }
    }

    /// Records that the caller itself pauses. The silence then does not count against the server.
    pub fn record_pause(&self) {
        if let Some(request) = &self.in_flight {
            request.record_pause();
        }
    }

    /// Ends the attempt. Returns whether the last request was cut because of its silence, and the
    /// highest offset that the attempt reached.
    pub(crate) fn end(self, succeeded: bool) -> (bool, u64) {
        let cut = self.in_flight.is_some_and(|request| request.end(succeeded, Instant::now()));
        (cut, self.highest)
    }
}
