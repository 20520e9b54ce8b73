//! Retries after transient failures of one operation: control calls and listings. A delay requested
//! by the server takes precedence over the usual pauses.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use firstbyte_pacing::backoff;

use crate::wire::Client;
use crate::{Cancel, Error, Outages, Result};

/// The attempts of one operation.
pub(crate) struct Retry<'a> {
    client: &'a Arc<Client>,
    cancel: Cancel,
    tries: u32,
}

impl<'a> Retry<'a> {
    pub(crate) fn new(client: &'a Arc<Client>, cancel: &Cancel) -> Self {
        Self { client, cancel: client.scoped_cancel(cancel), tries: 0 }
    }

    /// Waits before the next attempt, or returns the error if there is none left.
    pub(crate) fn wait_or_give_up(&mut self, error: Error) -> Result<()> {
        let options = &self.client.options;
        let silent = matches!(error, Error::TimedOut { .. } | Error::Unresponsive { .. });
        if !error.is_transient() || (silent && options.outages == Outages::FailFast) {
            return Err(error);
        }
        // A request that was not sent does not count as an attempt; the failures of the endpoint
        // count instead.
        self.tries = match &error {
            Error::Unresponsive { silences, .. } => self.tries.max(*silences),
            _ => self.tries + 1,
        };
        if self.tries > self.client.retries {
            return Err(error);
        }
        let wait = match &error {
            Error::SlowDown { retry_after, .. } => backoff(self.tries, *retry_after),
            Error::Unresponsive { retry_in, .. } => *retry_in,
            _ => backoff(self.tries, None),
        };
        tracing::debug!(%error, ?wait, "trying again");
        self.client.counters.retries.fetch_add(1, Ordering::Relaxed);
        self.cancel.sleep(wait)
    }
}
