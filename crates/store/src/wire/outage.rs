//! Whether an endpoint answers: one state per endpoint, shared by all requests to it.
//!
//! Waiters that come one after the other, as the kernel sends readers of one page, would each wait out a deadline of
//! their own. So once an endpoint has been silent for a whole deadline, requests to it fail at once, but for one probe
//! now and then; the first answer ends that. Until then a request waits only for what is left of the deadline that
//! began with the oldest unanswered one. The rules are pure in time: the caller passes the clock. `Client` calls.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long after a failure a probe is let through: within this an endpoint that is back is found.
const PROBE_AFTER: Duration = Duration::from_secs(1);
/// The least a request waits for its answer: several round trips, so that an endpoint that has just come back is heard.
pub(super) const LEAST_WAIT: Duration = Duration::from_millis(500);
/// A silence ends when for so long no request has been waiting: nothing is known about that time.
const UNWATCHED: Duration = Duration::from_secs(1);

/// What one endpoint has done: shared by its connections.
#[derive(Debug, Default)]
pub(super) struct Endpoint {
    /// Body bytes that came from it.
    received: AtomicU64,
    /// Body bytes that it took.
    taken: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Requests that wait for the head of an answer.
    waiting: u32,
    /// When the last of them stopped waiting.
    watched_until: Option<Instant>,
    /// When the oldest silence began that no answer has ended, and what had been moved until then.
    silent: Option<(Instant, u64)>,
    outage: Option<Outage>,
}

/// The endpoint has been silent for a whole deadline.
#[derive(Debug)]
struct Outage {
    /// Deadlines that ran out in a row.
    silences: u32,
    /// When the next request is let through.
    probe_at: Instant,
    probing: bool,
}

/// A request that may go out, until its outcome is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Admitted {
    at: Instant,
    /// How long to wait for the head of the answer.
    pub(super) wait: Duration,
    probe: bool,
}

/// A request that does not go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// When a request may be let through.
    pub(super) retry_in: Duration,
    /// Deadlines that ran out in a row.
    pub(super) silences: u32,
}

/// What became of a request that was let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The endpoint did something: it answered, refused the connection, or closed it.
    Answered,
    /// It did nothing until the wait was over.
    Silent,
    /// The request was ended from here.
    Abandoned,
}

impl Endpoint {
    /// Counts body bytes.
    pub(super) fn receive(&self, bytes: u64) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts body bytes sent.
    pub(super) fn take(&self, bytes: u64) {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Body bytes received so far.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Body bytes in both directions: where they move it is not silent.
    fn moved(&self) -> u64 {
        self.received().wrapping_add(self.taken.load(Ordering::Relaxed))
    }

    /// Asks whether a request may go out; if it may, [`end`](Self::end) must be called with its outcome.
    pub(super) fn admit(&self, deadline: Duration, now: Instant) -> Result<Admitted, Refused> {
        let mut state = self.lock();
        let mut probe = false;
        if let Some(outage) = &mut state.outage {
            if outage.probing || now < outage.probe_at {
                let retry_in = if outage.probing { PROBE_AFTER } else { outage.probe_at - now };
                return Err(Refused { retry_in, silences: outage.silences });
            }
            outage.probing = true;
            probe = true;
        }
        let unwatched = state.waiting == 0
            && state.watched_until.is_none_or(|until| now.saturating_duration_since(until) > UNWATCHED);
        let moved = self.moved();
        if unwatched || state.silent.is_some_and(|(_, before)| before != moved) {
            state.silent = None;
        }
        let (since, _) = *state.silent.get_or_insert((now, moved));
        state.waiting += 1;
        // A probe finds out about the present, so it has a whole deadline.
        let past = if probe { Duration::ZERO } else { now.saturating_duration_since(since) };
        let wait = deadline.saturating_sub(past).max(LEAST_WAIT.min(deadline));
        Ok(Admitted { at: now, wait, probe })
    }

    /// Whether anything has come from the endpoint since this request went out: then it deserves a whole deadline.
    pub(super) fn answered_since(&self, admitted: &Admitted) -> bool {
        let state = self.lock();
        state.silent.is_none_or(|(since, before)| since > admitted.at || before != self.moved())
    }

    /// Takes what became of a request.
    pub(super) fn end(&self, admitted: &Admitted, outcome: Outcome, now: Instant) {
        let silent = outcome == Outcome::Silent && (admitted.probe || !self.answered_since(admitted));
        let mut state = self.lock();
        state.waiting = state.waiting.saturating_sub(1);
        state.watched_until = Some(now);
        match (outcome, &mut state.outage) {
            (Outcome::Answered, _) => {
                state.silent = None;
                state.outage = None;
            }
            (Outcome::Silent, Some(outage)) => {
                if admitted.probe {
                    outage.silences += 1;
                    outage.probing = false;
                }
                // From the failure on, not from the last: who waited for this one finds the endpoint known to be silent.
                outage.probe_at = now + PROBE_AFTER;
            }
            (Outcome::Silent, None) if silent => {
                state.outage = Some(Outage { silences: 1, probe_at: now + PROBE_AFTER, probing: false });
            }
            (Outcome::Abandoned, Some(outage)) if admitted.probe => outage.probing = false,
            _ => {}
        }
    }

    /// The body of an answer fell silent for `deadline`. That alone is no outage, but the next request shall not wait as
    /// long again.
    pub(super) fn stalled(&self, deadline: Duration, now: Instant) {
        let moved = self.moved();
        let mut state = self.lock();
        state.watched_until = Some(now);
        let since = now.checked_sub(deadline).unwrap_or(now);
        state.silent.get_or_insert((since, moved));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_secs(3);
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waiters_one_after_the_other_share_one_deadline() {
        let (endpoint, mut now) = (Endpoint::default(), Instant::now());
        let start = now;
        for _ in 0..10 {
            if let Ok(admitted) = endpoint.admit(DEADLINE, now) {
                now += admitted.wait;
                endpoint.end(&admitted, Outcome::Silent, now);
            }
        }
        assert!(now - start <= DEADLINE, "{:?}", now - start);
    }

    #[test]
    fn a_request_that_goes_out_late_in_a_silence_waits_for_what_is_left_of_it() {
        let (endpoint, now) = (Endpoint::default(), Instant::now());
        let first = endpoint.admit(DEADLINE, now).unwrap();
        let second = endpoint.admit(DEADLINE, now + 2 * SECOND).unwrap();
        assert_eq!((first.wait, second.wait), (DEADLINE, SECOND));
        assert!(endpoint.admit(DEADLINE, now + 10 * SECOND).unwrap().wait >= LEAST_WAIT);
    }

    #[test]
    fn one_probe_at_a_time_is_let_through_and_an_answer_ends_the_outage() {
        let (endpoint, now) = (Endpoint::default(), Instant::now());
        let first = endpoint.admit(DEADLINE, now).unwrap();
        let failed = now + DEADLINE;
        endpoint.end(&first, Outcome::Silent, failed);
        assert!(endpoint.admit(DEADLINE, failed).is_err());
        let probe = endpoint.admit(DEADLINE, failed + PROBE_AFTER).unwrap();
        assert_eq!(probe.wait, DEADLINE);
        assert_eq!(endpoint.admit(DEADLINE, failed + 3 * PROBE_AFTER).unwrap_err().silences, 1);
        endpoint.end(&probe, Outcome::Silent, failed + 4 * PROBE_AFTER);
        assert_eq!(endpoint.admit(DEADLINE, failed + 4 * PROBE_AFTER).unwrap_err().silences, 2);
        let probe = endpoint.admit(DEADLINE, failed + 6 * PROBE_AFTER).unwrap();
        endpoint.end(&probe, Outcome::Answered, failed + 6 * PROBE_AFTER);
        assert_eq!(endpoint.admit(DEADLINE, failed + 6 * PROBE_AFTER).unwrap().wait, DEADLINE);
    }

    #[test]
    fn a_probe_that_is_abandoned_leaves_room_for_the_next() {
        let (endpoint, now) = (Endpoint::default(), Instant::now());
        let first = endpoint.admit(DEADLINE, now).unwrap();
        endpoint.end(&first, Outcome::Silent, now + DEADLINE);
        let later = now + DEADLINE + PROBE_AFTER;
        let probe = endpoint.admit(DEADLINE, later).unwrap();
        endpoint.end(&probe, Outcome::Abandoned, later);
        assert!(endpoint.admit(DEADLINE, later).is_ok());
    }

    #[test]
    fn an_endpoint_that_sends_bodies_is_not_silent() {
        let (endpoint, now) = (Endpoint::default(), Instant::now());
        let first = endpoint.admit(DEADLINE, now).unwrap();
        endpoint.receive(1);
        assert!(endpoint.answered_since(&first));
        endpoint.end(&first, Outcome::Silent, now + DEADLINE);
        assert_eq!(endpoint.admit(DEADLINE, now + DEADLINE).unwrap().wait, DEADLINE);
    }

    #[test]
    fn a_time_in_which_no_request_waited_is_no_silence() {
        let (endpoint, now) = (Endpoint::default(), Instant::now());
        let first = endpoint.admit(DEADLINE, now).unwrap();
        endpoint.end(&first, Outcome::Abandoned, now + SECOND);
        assert_eq!(endpoint.admit(DEADLINE, now + 60 * SECOND).unwrap().wait, DEADLINE);
    }

    #[test]
    fn after_a_body_that_stalled_the_next_request_is_not_waited_for_as_long_again() {
        let (endpoint, now) = (Endpoint::default(), Instant::now());
        let first = endpoint.admit(DEADLINE, now).unwrap();
        endpoint.end(&first, Outcome::Answered, now);
        endpoint.stalled(DEADLINE, now + DEADLINE);
        assert_eq!(endpoint.admit(DEADLINE, now + DEADLINE).unwrap().wait, LEAST_WAIT);
    }
}
