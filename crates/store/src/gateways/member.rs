//! The state of one gateway: whether it is asked.

use std::fmt::Display;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A gateway that has failed is not asked for so long.
const SKIPPED: Duration = Duration::from_secs(30);

/// A gateway that was overtaken by another so often in a row, without an answer in between, counts
/// as failed.
pub(super) const STRIKES: u32 = 2;

/// A gateway.
pub(crate) struct Member {
    pub(super) url: String,
    failed: Mutex<Option<Instant>>,
    strikes: AtomicU32,
}

impl Member {
    pub(super) fn new(url: String) -> Self {
        Self { url, failed: Mutex::default(), strikes: AtomicU32::new(0) }
    }

    /// Whether it is asked: it has not failed lately.
    pub(super) fn is_asked(&self) -> bool {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.is_none_or(|failed| failed.elapsed() >= SKIPPED)
    }

    /// Notes a failure.
    pub(crate) fn failed(&self, why: impl Display) {
        let before = self.failed.lock().unwrap_or_else(PoisonError::into_inner).replace(Instant::now());
        if before.is_none_or(|before| before.elapsed() >= SKIPPED) {
            tracing::warn!("{}: {why}; not asked for {SKIPPED:?}", self.url);
        }
    }

    /// Notes an answer.
    pub(super) fn answered(&self) {
        self.strikes.store(0, Relaxed);
    }

    /// Notes a silence, which another did not have or the caller did not wait for.
    pub(crate) fn was_silent(&self) {
        if self.strikes.fetch_add(1, Relaxed) + 1 >= STRIKES {
            self.answered();
            self.failed("it answers later than others");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_is_passed_by_after_silences_in_a_row() {
        let member = Member::new("http://a:1".into());
        for _ in 0..9 {
            member.was_silent();
            member.answered();
        }
        assert!(member.is_asked());
        (0..STRIKES).for_each(|_| member.was_silent());
        assert!(!member.is_asked());
    }
}
