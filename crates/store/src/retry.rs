//! Waiting out transient failures.
//!
//! The wait doubles from one try to the next and is drawn at random from its upper half, so that many clients refused
//! together do not come back together. A server that names a time is believed.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::wire::Client;
use crate::{Cancel, Error, Outages, Result};

/// First wait: S3's SlowDown passes within a few of these.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// Longest wait between two tries.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// The tries of one operation.
pub(crate) struct Retry<'a> {
    client: &'a Arc<Client>,
    cancel: Cancel,
    tries: u32,
}

impl<'a> Retry<'a> {
    pub(crate) fn new(client: &'a Arc<Client>, cancel: &Cancel) -> Self {
        Self { client, cancel: client.scoped_cancel(cancel), tries: 0 }
    }

    /// Waits before the next try; gives the error back where there is to be none.
    pub(crate) fn wait_or_give_up(&mut self, error: Error) -> Result<()> {
        let options = &self.client.options;
        let silent = matches!(error, Error::TimedOut { .. } | Error::Unresponsive { .. });
        if !error.is_transient() || (silent && options.outages == Outages::FailFast) {
            return Err(error);
        }
        // A request that was not sent is no try: the endpoint's failures count, whichever request they were.
        self.tries = match &error {
            Error::Unresponsive { silences, .. } => self.tries.max(*silences),
            _ => self.tries + 1,
        };
        if self.tries > options.retries {
            return Err(error);
        }
        let asked = match &error {
            Error::SlowDown { retry_after, .. } => *retry_after,
            Error::Unresponsive { retry_in, .. } => Some(*retry_in),
            _ => None,
        };
        let wait = asked.unwrap_or_else(|| backoff(self.tries - 1)).min(LONGEST_WAIT);
        tracing::debug!(%error, ?wait, "trying again");
        self.client.counters.retries.fetch_add(1, Ordering::Relaxed);
        self.cancel.sleep(wait)
    }
}

fn backoff(tries: u32) -> Duration {
    let full = FIRST_WAIT.saturating_mul(1 << tries.min(16)).min(LONGEST_WAIT);
    // The standard library's hasher keys are random: enough to spread clients.
    let random = RandomState::new().build_hasher().finish();
    let share = u32::try_from(random % 1000).unwrap_or(0);
    full / 2 + (full / 2) * share / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_stay_within_their_bounds() {
        for tries in 0..40 {
            let full = FIRST_WAIT.saturating_mul(1 << tries.min(16)).min(LONGEST_WAIT);
            assert!((full / 2..=full).contains(&backoff(tries)));
        }
    }
}
