//! Remembers the failures of one gateway, and decides whether it gets requests.

use std::fmt::Display;
use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;

use super::MAX_SILENCE;

/// Time for which a failed gateway gets no requests.
const FAILURE_PAUSE: Duration = Duration::from_secs(30);

pub(crate) struct Member {
    pub(super) url: String,
    failed: Mutex<Option<Instant>>,
    /// Time at which the gateway was first found not to respond, since its last response.
    silent: Mutex<Option<Instant>>,
}

impl Member {
    pub(super) fn new(url: String) -> Self {
        Self { url, failed: Mutex::default(), silent: Mutex::default() }
    }

    /// Returns true if the gateway gets requests, that is, unless it has failed lately.
    pub(super) fn is_asked(&self) -> bool {
        let failed = self.failed.lock();
        failed.is_none_or(|failed| failed.elapsed() >= FAILURE_PAUSE)
    }

    /// Records a failure.
    pub(crate) fn failed(&self, why: impl Display) {
        let before = self.failed.lock().replace(Instant::now());
        if before.is_none_or(|before| before.elapsed() >= FAILURE_PAUSE) {
            tracing::warn!("{}: {why}; not asked for {FAILURE_PAUSE:?}", self.url);
        }
    }

    /// Records a response, which ends the time without one.
    pub(super) fn answered(&self) {
        *self.silent.lock() = None;
    }

    /// Records that the gateway did not respond to a request before another gateway did or the
    /// caller gave up. A gateway that is merely slow, as with an empty cache, responds to other
    /// requests in between.
    pub(crate) fn was_silent(&self) {
        self.was_silent_at(Instant::now());
    }

    fn was_silent_at(&self, now: Instant) {
        let mut silent = self.silent.lock();
        let since = *silent.get_or_insert(now);
        if now.duration_since(since) >= MAX_SILENCE {
            *silent = None;
            drop(silent);
            self.failed("it answers later than others");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_is_passed_by_when_it_has_not_answered_for_a_while() {
        let (member, now) = (Member::new("http://a:1".into()), Instant::now());
        for _ in 0..9 {
            member.was_silent_at(now);
            member.was_silent_at(now + MAX_SILENCE / 2);
        }
        assert!(member.is_asked());
        member.answered();
        member.was_silent_at(now + MAX_SILENCE);
        assert!(member.is_asked());
        member.was_silent_at(now + MAX_SILENCE * 2);
        assert!(!member.is_asked());
    }
}
