//! The state of one gateway: whether it is asked.

use std::fmt::Display;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A gateway that has failed is not asked for so long.
const SKIPPED: Duration = Duration::from_secs(30);

/// A gateway.
pub(crate) struct Member {
    pub(super) url: String,
    failed: Mutex<Option<Instant>>,
}

impl Member {
    pub(super) fn new(url: String) -> Self {
        Self { url, failed: Mutex::default() }
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
}
