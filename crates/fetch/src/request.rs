//! The loop, and the rules by which it repeats an attempt.

use std::time::{Duration, Instant};

use firstbyte_pacing::{RETRIES, RequestTracker};
use firstbyte_store::{Cancel, Error as StoreError, LOOK, Outages, attempt_span};

use crate::attempt::Attempt;

/// Attempts in spite of malformed answers: one may be damaged on its way, but not all.
const FEW: u32 = 3;

/// The place of a thread in the request tracker. The thread sends one request at a time.
#[derive(Clone, Copy, Debug)]
pub struct Slot<'a> {
    /// Cuts requests that are silent, if its owner supervises it.
    pub tracker: &'a RequestTracker<Cancel>,
    /// The number of the thread.
    pub index: usize,
}

/// The reader, job or transfer that a request is for.
pub trait Interest {
    /// Whether the request is still wanted after these tries. Asked before each, and in pauses.
    fn is_wanted(&self, tries: Tries) -> bool;

    /// Failures in a row, without progress, after which the last error is the result.
    fn retries(&self) -> u32 {
        RETRIES
    }

    /// Whether the endpoint has answered before, so that it is worth another try if it cannot be
    /// reached. An address that never answered is most likely wrong.
    fn is_known(&self) -> bool;

    /// Whether to wait for an endpoint that has stopped to answer.
    fn outages(&self) -> Outages;

    /// Whether an attempt that has brought some bytes may be made again.
    fn is_repeatable(&self) -> bool {
        true
    }

    /// The latest time until which a reader waits. A later one than before is that of a new reader,
    /// with tries of its own.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// Counts an event.
    fn count(&self, event: Event);
}

/// An event in the life of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A request was cut for its silence.
    Cut,
    /// A request failed, and is sent again.
    Retry,
    /// The server requested a lower rate.
    SlowDown,
}

/// The attempts so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tries {
    /// Attempts cut for their silence.
    pub cuts: u32,
    /// Failures in a row. Progress begins another row.
    pub failures: u32,
    malformed: u32,
    /// The highest offset reached.
    highest: u64,
}

/// An error of an attempt.
pub trait Failure {
    /// The store's error. No other is worth another attempt.
    fn store(&self) -> Option<&StoreError>;

    /// The same, to note the attempts in it.
    fn store_mut(&mut self) -> Option<&mut StoreError>;
}

impl Failure for StoreError {
    fn store(&self) -> Option<&StoreError> {
        Some(self)
    }

    fn store_mut(&mut self) -> Option<&mut StoreError> {
        Some(self)
    }
}

/// The reason for which a request is not sent again.
#[derive(Debug)]
pub enum Ended<E> {
    /// The request fails again, or has failed too often.
    Failed(E),
    /// The request is not wanted any more. The last error, unless the last attempt was cut.
    Unwanted(Option<E>),
}

impl<'a> Slot<'a> {
    /// Makes a request until it succeeds, fails for good, or is not wanted any more. `once` is one
    /// attempt. It keeps what it has achieved, so that the next attempt asks only for the rest.
    /// `opened` is the handle of an answer that is open already.
    ///
    /// # Errors
    /// The last error of `once`, or that the request is not wanted.
    pub fn request<T, E: Failure>(
        self,
        interest: &impl Interest,
        mut opened: Option<Cancel>,
        mut once: impl FnMut(&mut Attempt<'a>) -> Result<T, E>,
    ) -> Result<T, Ended<E>> {
        let (mut tries, mut last, began) = (Tries::default(), None, Instant::now());
        let mut attempts = 0;
        loop {
            attempts += 1;
            if !interest.is_wanted(tries) {
                return Err(Ended::Unwanted(last));
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
            if let Some(cause) = error.store_mut() {
                cause.attempted(attempts, began.elapsed());
            }
            let progressed = reached > tries.highest;
            tries.highest = tries.highest.max(reached);
            if progressed && !interest.is_repeatable() {
                return Err(Ended::Failed(error));
            }
            // An answer cut at the moment its head arrived reports it only to its first reader.
            if cut || matches!(error.store(), Some(StoreError::Cancelled)) {
                tries.cuts += 1;
                interest.count(Event::Cut);
                last = None;
                continue;
            }
            let pause = match error.store() {
                Some(cause) => tries.pause_after(cause, progressed, interest),
                None => None,
            };
            let Some(pause) = pause else { return Err(Ended::Failed(error)) };
            if let Some(cause) = error.store() {
                tracing::debug!(error = %cause, failures = tries.failures, "trying again");
            }
            last = Some(error);
            tries.wait(pause, interest);
        }
    }
}

impl Tries {
    /// Counts a failure. Returns the pause before the next attempt; `None` if there is none.
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
            interest.count(Event::SlowDown);
        }
        if self.failures > interest.retries() {
            return None;
        }
        interest.count(Event::Retry);
        Some(error.pause_after(self.failures))
    }

    fn may_recover(&mut self, error: &StoreError, interest: &impl Interest) -> bool {
        match error {
            StoreError::Protocol { .. } => {
                self.malformed += 1;
                interest.is_known() && self.malformed < FEW
            }
            StoreError::Unreachable { .. } => interest.is_known(),
            StoreError::Unresponsive { .. } => interest.outages() == Outages::WaitFor,
            other => other.is_transient(),
        }
    }

    /// Waits while the request is wanted. A reader that comes meanwhile does not wait for a pause
    /// that earlier failures caused.
    fn wait(&mut self, pause: Duration, interest: &impl Interest) {
        let (start, deadline) = (Instant::now(), interest.deadline());
        loop {
            let left = pause.saturating_sub(start.elapsed());
            if left.is_zero() || !interest.is_wanted(*self) {
                return;
            }
            if start.elapsed() > LOOK && interest.deadline() > deadline {
                self.failures = 0;
                return;
            }
            std::thread::sleep(left.min(LOOK));
        }
    }
}
