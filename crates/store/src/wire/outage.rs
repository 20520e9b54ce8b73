//! Tracks whether an endpoint responds. All requests to an endpoint share one state.
//! [`WireClient`](super::WireClient) calls this module.
//!
//! If an endpoint is dead, consecutive requests, such as those of a mount's readers, must not each
//! wait for a whole deadline. So once an endpoint has not responded for a deadline (an outage),
//! requests to it fail at once, except for an occasional probe, until a response ends the outage.
//! Even before that, a request waits only for the rest of the deadline of the oldest unanswered
//! request. The time since that request was sent, without any response, is called a silence here.
//! The caller passes the current time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;

use crate::limits::SHORT_WAIT;

/// Time from a failure to the next probe. It limits how late a recovery is noticed. A silence is
/// forgotten if no request waits for this time.
const PROBE_AFTER: Duration = SHORT_WAIT;
/// Shortest time for which a request waits for its response: several round trips, enough for an
/// endpoint that has just recovered.
pub(super) const MIN_WAIT: Duration = firstbyte_pacing::SILENCE;

/// The state of one endpoint. All connections to the endpoint share it.
#[derive(Debug, Default)]
pub(super) struct EndpointState {
    /// Number of body bytes received from the endpoint.
    received: AtomicU64,
    /// Number of body bytes sent to the endpoint.
    sent: AtomicU64,
    state: Mutex<OutageState>,
}

#[derive(Debug, Default)]
struct OutageState {
    /// Number of requests that wait for the head of a response.
    waiting: u32,
    /// Time at which the last request stopped waiting.
    watched_until: Option<Instant>,
    /// Time at which the current silence began, and the number of body bytes moved until then.
    silent: Option<(Instant, u64)>,
    outage: Option<Outage>,
}

/// An outage: the endpoint has not responded for a whole deadline.
#[derive(Debug)]
struct Outage {
    /// Number of consecutive requests without a response.
    silences: u32,
    /// Time from which the next probe is allowed.
    probe_at: Instant,
    is_probing: bool,
    /// Times of the latest series of cancelled probes: when its first probe began, and when its
    /// last one was cancelled. The probes of a series share one deadline, because a caller cancels
    /// a silent request and sends it again.
    cancelled: Option<(Instant, Instant)>,
}

impl Outage {
    fn new(now: Instant) -> Self {
        Self { silences: 1, probe_at: now + PROBE_AFTER, is_probing: false, cancelled: None }
    }

    /// Begins a probe. Returns the time since the first probe of its series began, or `None` if no
    /// probe is allowed.
    fn begin_probe(&mut self, deadline: Duration, now: Instant) -> Option<Duration> {
        if self.is_probing || now < self.probe_at {
            return None;
        }
        let recent = self.cancelled.filter(|(_, last)| now.saturating_duration_since(*last) < PROBE_AFTER);
        let (began, last) = recent.unwrap_or((now, now));
        let past = now.saturating_duration_since(began);
        if past >= deadline && !past.is_zero() {
            self.record_unanswered(last);
            return None;
        }
        self.cancelled = Some((began, now));
        self.is_probing = true;
        Some(past)
    }

    /// Records that a whole deadline has passed without a response to a probe.
    fn record_unanswered(&mut self, now: Instant) {
        *self = Self { silences: self.silences + 1, ..Self::new(now) };
    }
}

/// A request that may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Admitted {
    at: Instant,
    /// Time after which a silent endpoint counts as not responding.
    deadline: Duration,
    /// Time to wait for the head of the response.
    pub(super) wait: Duration,
    is_probe: bool,
}

/// A request that must not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RefusedRequest {
    /// Time until the next probe is allowed.
    pub(super) retry_in: Duration,
    /// Number of consecutive requests without a response.
    pub(super) silences: u32,
}

/// How an admitted request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestOutcome {
    /// The endpoint responded, refused the connection, or closed it.
    Answered,
    /// The endpoint did not respond in time.
    Silent,
    /// The request was cancelled locally.
    Abandoned,
}

impl EndpointState {
    pub(super) fn count_received(&self, bytes: u64) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn count_sent(&self, bytes: u64) {
        self.sent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the number of body bytes received so far.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Returns the number of body bytes moved in both directions. While it grows, the endpoint is
    /// not silent.
    fn moved(&self) -> u64 {
        self.received().wrapping_add(self.sent.load(Ordering::Relaxed))
    }

    /// Decides whether a request may be sent. After an admission, the caller must call
    /// [`request_ended`](Self::request_ended) with the outcome.
    pub(super) fn admit(&self, deadline: Duration, now: Instant) -> Result<Admitted, RefusedRequest> {
        let mut state = self.state.lock();
        let mut probe = None;
        if let Some(outage) = &mut state.outage {
            probe = outage.begin_probe(deadline, now);
            if probe.is_none() {
                let retry_in = if outage.is_probing { PROBE_AFTER } else { outage.probe_at - now };
                return Err(RefusedRequest { retry_in, silences: outage.silences });
            }
        }
        let unwatched = state.waiting == 0
            && state.watched_until.is_none_or(|until| now.saturating_duration_since(until) > PROBE_AFTER);
        let moved = self.moved();
        if unwatched || state.silent.is_some_and(|(_, before)| before != moved) {
            state.silent = None;
        }
        let (since, _) = *state.silent.get_or_insert((now, moved));
        state.waiting += 1;
        // A probe waits for a whole deadline, even after a long silence.
        let past = probe.unwrap_or_else(|| now.saturating_duration_since(since));
        let wait = deadline.saturating_sub(past).max(MIN_WAIT.min(deadline));
        Ok(Admitted { at: now, deadline, wait, is_probe: probe.is_some() })
    }

    /// Returns true if the endpoint has responded since this request was sent. The request may then
    /// wait for a whole deadline.
    pub(super) fn has_answered_since(&self, admitted: &Admitted) -> bool {
        let state = self.state.lock();
        state.silent.is_none_or(|(since, before)| since > admitted.at || before != self.moved())
    }

    /// Records the end of an admitted request, and its outcome.
    pub(super) fn request_ended(&self, admitted: &Admitted, outcome: RequestOutcome, now: Instant) {
        let silent =
            outcome == RequestOutcome::Silent && (admitted.is_probe || !self.has_answered_since(admitted));
        let moved = self.moved();
        let mut state = self.state.lock();
        // A cancelled request counts as unanswered if the silence has lasted for a whole deadline.
        let overdue = state.silent.is_some_and(|(since, before)| {
            before == moved && now.saturating_duration_since(since) >= admitted.deadline
        });
        state.waiting = state.waiting.saturating_sub(1);
        state.watched_until = Some(now);
        match (outcome, &mut state.outage) {
            (RequestOutcome::Answered, _) => {
                state.silent = None;
                state.outage = None;
            }
            // The pause before the next probe begins with this failure, so callers that waited for
            // this request fail immediately.
            (RequestOutcome::Silent, Some(outage)) if admitted.is_probe => outage.record_unanswered(now),
            (RequestOutcome::Silent, Some(outage)) => outage.probe_at = now + PROBE_AFTER,
            (RequestOutcome::Abandoned, Some(outage)) if admitted.is_probe => {
                outage.is_probing = false;
                outage.cancelled = outage.cancelled.map(|(began, _)| (began, now));
            }
            (RequestOutcome::Silent, None) if silent => state.outage = Some(Outage::new(now)),
            (RequestOutcome::Abandoned, None) if overdue => state.outage = Some(Outage::new(now)),
            _ => {}
        }
    }

    /// Records that a body has stalled for `deadline`. A stalled body is no outage, but shortens
    /// the wait of the next request.
    pub(super) fn stalled(&self, deadline: Duration, now: Instant) {
        let moved = self.moved();
        let mut state = self.state.lock();
        state.watched_until = Some(now);
        let since = now.checked_sub(deadline).unwrap_or(now);
        state.silent.get_or_insert((since, moved));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_secs(3);
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn consecutive_requests_share_one_deadline() {
        let (endpoint, mut now) = (EndpointState::default(), Instant::now());
        let start = now;
        for _ in 0..10 {
            if let Ok(admitted) = endpoint.admit(DEADLINE, now) {
                now += admitted.wait;
                endpoint.request_ended(&admitted, RequestOutcome::Silent, now);
            }
        }
        assert!(now - start <= DEADLINE, "{:?}", now - start);
    }

    #[test]
    fn a_request_sent_late_in_a_silence_waits_for_the_rest_of_the_deadline() {
        let (endpoint, now) = (EndpointState::default(), Instant::now());
        let first = endpoint.admit(DEADLINE, now).unwrap();
        let second = endpoint.admit(DEADLINE, now + 2 * SECOND).unwrap();
        assert_eq!((first.wait, second.wait), (DEADLINE, SECOND));
        assert!(endpoint.admit(DEADLINE, now + 10 * SECOND).unwrap().wait >= MIN_WAIT);
    }

    #[test]
    fn one_probe_at_a_time_is_sent_and_a_response_ends_the_outage() {
        let (endpoint, now) = (EndpointState::default(), Instant::now());
        let first = endpoint.admit(DEADLINE, now).unwrap();
        let failed = now + DEADLINE;
        endpoint.request_ended(&first, RequestOutcome::Silent, failed);
        assert!(endpoint.admit(DEADLINE, failed).is_err());
        let probe = endpoint.admit(DEADLINE, failed + PROBE_AFTER).unwrap();
        assert_eq!(probe.wait, DEADLINE);
        assert_eq!(endpoint.admit(DEADLINE, failed + 3 * PROBE_AFTER).unwrap_err().silences, 1);
        endpoint.request_ended(&probe, RequestOutcome::Silent, failed + 4 * PROBE_AFTER);
        assert_eq!(endpoint.admit(DEADLINE, failed + 4 * PROBE_AFTER).unwrap_err().silences, 2);
        let probe = endpoint.admit(DEADLINE, failed + 6 * PROBE_AFTER).unwrap();
        endpoint.request_ended(&probe, RequestOutcome::Answered, failed + 6 * PROBE_AFTER);
        assert_eq!(endpoint.admit(DEADLINE, failed + 6 * PROBE_AFTER).unwrap().wait, DEADLINE);
    }

    #[test]
    fn after_a_cancelled_probe_another_one_may_be_sent() {
        let (endpoint, now) = (EndpointState::default(), Instant::now());
        let first = endpoint.admit(DEADLINE, now).unwrap();
        endpoint.request_ended(&first, RequestOutcome::Silent, now + DEADLINE);
        let later = now + DEADLINE + PROBE_AFTER;
        let probe = endpoint.admit(DEADLINE, later).unwrap();
        endpoint.request_ended(&probe, RequestOutcome::Abandoned, later);
        assert!(endpoint.admit(DEADLINE, later).is_ok());
    }

    #[test]
    fn probes_that_are_cancelled_share_one_deadline() {
        let (endpoint, now) = (EndpointState::default(), Instant::now());
        let first = endpoint.admit(DEADLINE, now).unwrap();
        endpoint.request_ended(&first, RequestOutcome::Silent, now + DEADLINE);
        let mut at = now + DEADLINE + PROBE_AFTER;
        for left in [DEADLINE, 2 * SECOND, SECOND] {
            let probe = endpoint.admit(DEADLINE, at).unwrap();
            assert_eq!(probe.wait, left);
            at += SECOND;
            endpoint.request_ended(&probe, RequestOutcome::Abandoned, at);
        }
        assert_eq!(endpoint.admit(DEADLINE, at).unwrap_err().silences, 2);
        assert_eq!(endpoint.admit(DEADLINE, at + PROBE_AFTER).unwrap().wait, DEADLINE);
    }

    #[test]
    fn a_probe_long_after_one_that_was_cancelled_gets_a_whole_deadline() {
        let (endpoint, now) = (EndpointState::default(), Instant::now());
        let first = endpoint.admit(DEADLINE, now).unwrap();
        endpoint.request_ended(&first, RequestOutcome::Silent, now + DEADLINE);
        let at = now + DEADLINE + PROBE_AFTER;
        let probe = endpoint.admit(DEADLINE, at).unwrap();
        endpoint.request_ended(&probe, RequestOutcome::Abandoned, at);
        assert_eq!(endpoint.admit(DEADLINE, at + 60 * SECOND).unwrap().wait, DEADLINE);
    }

    #[test]
    fn requests_that_are_all_cancelled_for_their_silence_make_an_outage_after_a_deadline() {
        let (endpoint, now) = (EndpointState::default(), Instant::now());
        for at in [0, 1, 2] {
            let admitted = endpoint.admit(DEADLINE, now + at * SECOND).unwrap();
            endpoint.request_ended(&admitted, RequestOutcome::Abandoned, now + (at + 1) * SECOND);
        }
        assert!(endpoint.admit(DEADLINE, now + DEADLINE).is_err());
    }

    #[test]
    fn an_endpoint_that_sends_bodies_is_not_silent() {
        let (endpoint, now) = (EndpointState::default(), Instant::now());
        let first = endpoint.admit(DEADLINE, now).unwrap();
        endpoint.count_received(1);
        assert!(endpoint.has_answered_since(&first));
        endpoint.request_ended(&first, RequestOutcome::Silent, now + DEADLINE);
        assert_eq!(endpoint.admit(DEADLINE, now + DEADLINE).unwrap().wait, DEADLINE);
    }

    #[test]
    fn a_time_without_requests_does_not_count_as_silence() {
        let (endpoint, now) = (EndpointState::default(), Instant::now());
        let first = endpoint.admit(DEADLINE, now).unwrap();
        endpoint.request_ended(&first, RequestOutcome::Abandoned, now + SECOND);
        assert_eq!(endpoint.admit(DEADLINE, now + 60 * SECOND).unwrap().wait, DEADLINE);
    }

    #[test]
    fn after_a_stalled_body_the_next_request_waits_less() {
        let (endpoint, now) = (EndpointState::default(), Instant::now());
        let first = endpoint.admit(DEADLINE, now).unwrap();
        endpoint.request_ended(&first, RequestOutcome::Answered, now);
        endpoint.stalled(DEADLINE, now + DEADLINE);
        assert_eq!(endpoint.admit(DEADLINE, now + DEADLINE).unwrap().wait, MIN_WAIT);
    }
}
