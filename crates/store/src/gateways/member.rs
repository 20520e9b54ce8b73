//! Remembers the failures of one gateway, and decides whether it gets requests.

use std::fmt::Display;
use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;

use super::MAX_SILENCE;

/// Time for which a failed gateway gets no requests.
const FAILURE_PAUSE: Duration = Duration::from_secs(30);

/// A gateway, and its failures.
pub(crate) struct Member {
    pub(super) url: String,
    failed_at: Mutex<Option<Instant>>,
    /// Time at which the gateway was first too late for a request, since its last response.
    silent_since: Mutex<Option<Instant>>,
}

impl Member {
    pub(super) fn new(url: String) -> Self {
        Self { url, failed_at: Mutex::default(), silent_since: Mutex::default() }
    }

    /// Returns true if the gateway gets requests, that is, unless it has failed lately.
    pub(super) fn gets_requests(&self) -> bool {
        let failed = self.failed_at.lock();
        failed.is_none_or(|failed| failed.elapsed() >= FAILURE_PAUSE)
    }

    /// Records a failure.
    pub(crate) fn record_failure(&self, why: impl Display) {
        let before = self.failed_at.lock().replace(Instant::now());
        if before.is_none_or(|before| before.elapsed() >= FAILURE_PAUSE) {
            tracing::warn!("{}: {why}; not asked for {FAILURE_PAUSE:?}", self.url);
        }
    }

    /// Records a response. The gateway is then no longer silent.
    pub(super) fn record_response(&self) {
        *self.silent_since.lock() = None;
    }

    /// Records that the gateway was too late for a request: another gateway responded first, or the
    /// caller gave up. A gateway that is only slow, for example because its cache is empty,
    /// responds to other requests in between.
    pub(crate) fn record_silence(&self) {
        self.record_silence_at(Instant::now());
    }

    fn record_silence_at(&self, now: Instant) {
        let mut silent = self.silent_since.lock();
        let since = *silent.get_or_insert(now);
        if now.duration_since(since) >= MAX_SILENCE {
            *silent = None;
            drop(silent);
            self.record_failure("it answers later than others");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_that_has_not_answered_for_a_while_gets_no_requests() {
        let (member, now) = (Member::new("http://a:1".into()), Instant::now());
        for _ in 0..9 {
            member.record_silence_at(now);
            member.record_silence_at(now + MAX_SILENCE / 2);
        }
        assert!(member.gets_requests());
        member.record_response();
        member.record_silence_at(now + MAX_SILENCE);
        assert!(member.gets_requests());
        member.record_silence_at(now + MAX_SILENCE * 2);
        assert!(!member.gets_requests());
    }
}
