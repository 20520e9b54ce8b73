//! Decides whether a failed request is sent again, and waits before that. Called by `fetch`.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use firstbyte_pacing::{RETRIES, backoff};
use firstbyte_store::{Error as StoreError, LOOK};

use super::FetchMeters;
use crate::Error;
use crate::inflight::Priority;
use crate::version::Fetch;

/// Tries after malformed responses, of which one may be damaged in transit but not all; and retries
/// of a fetch ahead. If a read comes to wait for that, retries continue until its deadline.
const FEW: u32 = 3;

/// The failure of an attempt.
pub(super) enum Failed {
    /// The request was silent for too long, and was cut.
    Cut,
    Store(StoreError),
}

/// The reason for which a request is not repeated.
pub(super) enum GaveUp {
    /// It would fail again.
    Permanent(Error),
    /// No read and no job wants it any more.
    Unwanted(Error),
}

/// The failures of one fetch.
#[derive(Default)]
pub(super) struct Retry {
    pub(super) cuts: u32,
    /// In a row.
    failures: u32,
    malformed: u32,
}

impl Retry {
    /// Waits until the request may be repeated, or returns why it is not.
    pub(super) fn wait(
        &mut self,
        meters: &FetchMeters,
        fetch: &Fetch,
        failed: Failed,
        progressed: bool,
    ) -> Result<(), GaveUp> {
        let counters = &fetch.version.engine.counters;
        let not_repeatable = progressed && fetch.version.is_fetched_once();
        let error = match failed {
            Failed::Cut if not_repeatable => {
                let location = fetch.version.location.to_string();
                return Err(GaveUp::Permanent(Error::Unversioned { location }));
            }
            Failed::Cut => {
                self.cuts += 1;
                counters.cuts.fetch_add(1, Ordering::Relaxed);
                return self.after_cut(fetch);
            }
            Failed::Store(error) => error,
        };
        self.failures = if progressed { 1 } else { self.failures + 1 };
        if not_repeatable || !self.is_retryable(fetch, &error) {
            return Err(GaveUp::Permanent(error.into()));
        }
        if is_unwanted(fetch, self.failures) {
            return Err(GaveUp::Unwanted(error.into()));
        }
        counters.retries.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(%error, failures = self.failures, "trying again");
        let (start, pause) = (Instant::now(), self.pause(meters, &error));
        let deadline = fetch.version.latest_deadline(fetch.id);
        while start.elapsed() < pause {
            std::thread::sleep(LOOK.min(pause));
            if is_unwanted(fetch, self.failures) {
                return Err(GaveUp::Unwanted(error.into()));
            }
            // A read that started meanwhile has a try of its own, and does not wait for a pause
            // that earlier failures caused.
            if start.elapsed() > LOOK && fetch.version.latest_deadline(fetch.id) > deadline {
                self.failures = 0;
                break;
            }
        }
        Ok(())
    }

    /// A cut request is repeated at once, if it is still wanted.
    fn after_cut(&self, fetch: &Fetch) -> Result<(), GaveUp> {
        if !is_unwanted(fetch, self.cuts) {
            return Ok(());
        }
        let location = fetch.version.location.to_string();
        let timed_out = StoreError::TimedOut { location, after: fetch.version.engine.settings.deadline };
        // A cancelled job cut the request itself: that is not a failure of the server.
        let error = if fetch.is_wanted() { timed_out } else { StoreError::Cancelled };
        Err(GaveUp::Unwanted(error.into()))
    }

    fn is_retryable(&mut self, fetch: &Fetch, error: &StoreError) -> bool {
        let malformed = matches!(error, StoreError::Protocol { .. });
        self.malformed += u32::from(malformed);
        // Readers share one deadline; background work waits until the server responds again.
        let unresponsive = matches!(error, StoreError::Unresponsive { .. });
        if unresponsive && fetch.priority != Priority::Background {
            return false;
        }
        error.is_transient()
            || matches!(error, StoreError::Unreachable { .. })
            || (malformed && self.malformed < FEW)
    }

    fn pause(&self, meters: &FetchMeters, error: &StoreError) -> Duration {
        let asked = match error {
            StoreError::SlowDown { retry_after, .. } => {
                meters.slowdowns.fetch_add(1, Ordering::Relaxed);
                *retry_after
            }
            StoreError::Unresponsive { retry_in, .. } => Some(*retry_in),
            _ => None,
        };
        backoff(self.failures, asked)
    }
}

/// Whether no read and no job wants the fetch after so many tries.
fn is_unwanted(fetch: &Fetch, tries: u32) -> bool {
    if let Some(deadline) = fetch.version.latest_deadline(fetch.id) {
        return deadline <= Instant::now();
    }
    match fetch.priority {
        Priority::Demand => true,
        Priority::Ahead => tries > FEW || !fetch.is_wanted(),
        Priority::Background => tries > RETRIES || !fetch.is_wanted(),
    }
}
