//! Runs the request loop, and defines the rules by which it repeats an attempt.

use std::time::{Duration, Instant};

use firstbyte_pacing::{RETRIES, RequestTracker};
use firstbyte_store::{Cancel, Error as StoreError, Outages, POLL_INTERVAL, attempt_span};

use crate::attempt::Attempt;

/// Maximum number of attempts whose responses are malformed. A few responses may be damaged in
/// transit, but not all.
const MALFORMED_ATTEMPTS: u32 = 3;

/// A thread's slot in the request tracker. The thread sends one request at a time.
#[derive(Clone, Copy, Debug)]
pub struct TrackerSlot<'a> {
    /// The tracker. It cuts silent requests if its owner supervises it.
    pub tracker: &'a RequestTracker<Cancel>,
    /// The index of the slot. Each thread has its own.
    pub index: usize,
}

/// The reader, job or transfer for which a request is made.
pub trait Interest {
    /// Returns true if the request is still wanted after these tries. Called before each attempt,
    /// and during pauses.
    fn is_wanted(&self, tries: Tries) -> bool;

    /// Returns the number of consecutive failures, without progress, that are retried.
    fn retries(&self) -> u32 {
        RETRIES
    }

    /// Returns true if the endpoint has answered before. If it has, a failed connection is retried;
    /// an address that never answered is most likely wrong.
    fn is_known(&self) -> bool;

    /// Returns whether to wait for an endpoint that has stopped answering.
    fn outages(&self) -> Outages;

    /// Returns true if an attempt that has brought some bytes may be repeated.
    fn is_repeatable(&self) -> bool {
        true
    }

    /// Returns the latest time until which a reader waits, if there is one. If the time is later
    /// than before, a new reader has come, and failures are counted from 0 again.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// Counts an event.
    fn count(&self, event: RequestEvent);
}

/// An event in the life of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestEvent {
    /// A request was cut because of its silence.
    Cut,
    /// A request has failed, and is sent again.
    Retry,
    /// The server has asked for a lower rate.
    SlowDown,
}

/// The attempts at a request so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tries {
    /// Number of attempts cut because of their silence.
    pub cuts: u32,
    /// Number of consecutive failures. After progress, the count starts again.
    pub failures: u32,
    malformed: u32,
    /// The highest offset that any attempt has reached.
    highest: u64,
}

/// The error of an attempt. It may be an error of the store.
pub trait AttemptError {
    /// Returns the store's error, if this is one. Only such errors can be worth another attempt.
    fn store_error(&self) -> Option<&StoreError>;

    /// Returns the store's error, in order to record the number of attempts in it.
    fn store_error_mut(&mut self) -> Option<&mut StoreError>;
}

impl AttemptError for StoreError {
    fn store_error(&self) -> Option<&StoreError> {
        Some(self)
    }

    fn store_error_mut(&mut self) -> Option<&mut StoreError> {
        Some(self)
    }
}

/// The reason why a request is not sent again.
#[derive(Debug)]
pub enum RequestEnd<E> {
    /// The error is not transient, or no retry is left.
    Failed(E),
    /// The request is no longer wanted. The value is the last error; `None` if the last attempt was
    /// cut, or if there was no attempt.
    Unwanted(Option<E>),
}

impl<'a> TrackerSlot<'a> {
    /// Makes a request until it succeeds, fails for good or is no longer wanted. `once` makes one
    /// attempt and keeps what it achieved, so the next attempt requests only the rest. `opened`
    /// cancels a response that is already open.
    ///
    /// # Errors
    /// The last error of `once`, or [`RequestEnd::Unwanted`] if the request is no longer wanted.
    pub fn request<T, E: AttemptError>(
        self,
        interest: &impl Interest,
        mut opened: Option<Cancel>,
        mut once: impl FnMut(&mut Attempt<'a>) -> Result<T, E>,
    ) -> Result<T, RequestEnd<E>> {
        let (mut tries, mut last, began) = (Tries::default(), None, Instant::now());
        let mut attempts = 0;
        loop {
            attempts += 1;
            if !interest.is_wanted(tries) {
                return Err(RequestEnd::Unwanted(last));
            }
            let span = attempt_span(attempts);
            let mut attempt = Attempt::new(self.tracker, self.index, opened.take(), tries.cuts);
            let result = once(&mut attempt);
            let (cut, reached) = attempt.end(result.is_ok());
            drop(span);
            let mut error = match result {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            if let Some(cause) = error.store_error_mut() {
                cause.record_attempts(attempts, began.elapsed());
            }
            let progressed = reached > tries.highest;
            tries.highest = tries.highest.max(reached);
            if progressed && !interest.is_repeatable() {
                return Err(RequestEnd::Failed(error));
            }
            // A response may be cancelled just after its head has arrived. The attempt that opened
            // it then succeeds, and the cut shows only as `Cancelled` when a later attempt reads
            // the body. That counts as a cut too.
            if cut || matches!(error.store_error(), Some(StoreError::Cancelled)) {
                tries.cuts += 1;
                interest.count(RequestEvent::Cut);
                last = None;
                continue;
            }
            let pause = match error.store_error() {
                Some(cause) => tries.pause_after(cause, progressed, interest),
                None => None,
            };
            let Some(pause) = pause else { return Err(RequestEnd::Failed(error)) };
            if let Some(cause) = error.store_error() {
                tracing::debug!(error = %cause, failures = tries.failures, "trying again");
            }
            last = Some(error);
            tries.wait(pause, interest);
        }
    }
}

impl Tries {
    /// Counts a failure. Returns the pause before the next attempt, or `None` to give up.
    fn pause_after(
        &mut self,
        error: &StoreError,
        progressed: bool,
        interest: &impl Interest,
    ) -> Option<Duration> {
        if !self.may_recover(error, interest) {
            return None;
        }
        self.failures = if progressed { 1 } else { error.failures_after(self.failures) };
        if let StoreError::SlowDown { .. } = error {
            interest.count(RequestEvent::SlowDown);
        }
        if self.failures > interest.retries() {
            return None;
        }
        interest.count(RequestEvent::Retry);
        Some(error.pause_after(self.failures))
    }

    fn may_recover(&mut self, error: &StoreError, interest: &impl Interest) -> bool {
        match error {
            StoreError::Protocol { .. } => {
                self.malformed += 1;
                interest.is_known() && self.malformed < MALFORMED_ATTEMPTS
            }
            StoreError::Unreachable { .. } => interest.is_known(),
            StoreError::Unresponsive { .. } => interest.outages() == Outages::WaitFor,
            other => other.is_transient(),
        }
    }

    /// Waits for `pause` while the request is wanted. After [`POLL_INTERVAL`], a new reader ends
    /// the pause, because its own tries have not failed.
    fn wait(&mut self, pause: Duration, interest: &impl Interest) {
        let (start, deadline) = (Instant::now(), interest.deadline());
        loop {
            let left = pause.saturating_sub(start.elapsed());
            if left.is_zero() || !interest.is_wanted(*self) {
                return;
            }
            if start.elapsed() > POLL_INTERVAL && interest.deadline() > deadline {
                self.failures = 0;
                return;
            }
            std::thread::sleep(left.min(POLL_INTERVAL));
        }
    }
}
