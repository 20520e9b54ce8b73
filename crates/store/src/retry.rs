//! Retries one operation, such as a control call or a listing, after transient failures, and
//! computes the pauses of all retries. A delay that the server requests takes precedence over the
//! usual pauses.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use firstbyte_pacing::backoff;
use tracing::span::EnteredSpan;

use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::options::Outages;
use crate::wire::WireClient;

/// The attempts of one operation.
pub(crate) struct Retry<'a> {
    client: &'a Arc<WireClient>,
    cancel: Cancel,
    tries: u32,
    /// Attempts, including the current one.
    attempts: u32,
    began: Instant,
    /// The span that adds the number of the attempt to the events of its request.
    span: Option<EnteredSpan>,
}

impl<'a> Retry<'a> {
    pub(crate) fn new(client: &'a Arc<WireClient>, cancel: &Cancel) -> Self {
        Self {
            client,
            cancel: client.scoped_cancel(cancel),
            tries: 0,
            attempts: 1,
            began: Instant::now(),
            span: Some(attempt_span(1)),
        }
    }

    /// Waits before the next attempt, or returns the error if no retry is left.
    pub(crate) fn wait_or_give_up(&mut self, mut error: Error) -> Result<()> {
        error.attempted(self.attempts, self.began.elapsed());
        let options = &self.client.options;
        let silent = matches!(error, Error::TimedOut { .. } | Error::Unresponsive { .. });
        if !error.is_transient() || (silent && options.outages == Outages::FailFast) {
            return Err(error);
        }
        self.tries = error.failures_after(self.tries);
        if self.tries > self.client.retries {
            return Err(error);
        }
        let wait = error.pause_after(self.tries);
        tracing::debug!(%error, ?wait, "trying again");
        self.client.counters.retries.fetch_add(1, Ordering::Relaxed);
        self.cancel.sleep(wait)?;
        self.attempts += 1;
        // The old span is left before the new one is entered, which would otherwise lie within it.
        self.span = None;
        self.span = Some(attempt_span(self.attempts));
        Ok(())
    }
}

/// Returns the span around an attempt, which gives its events the attempt's number.
pub fn attempt_span(attempt: u32) -> EnteredSpan {
    // The span has the target of requests, so that a log of requests alone shows the attempts.
    tracing::debug_span!(target: "firstbyte_store::request", "attempt", attempt).entered()
}

impl Error {
    /// Returns the number of failures in a row after `before` others: one more. A request that was
    /// not sent, because its endpoint does not respond, adds none, but the endpoint's own failures
    /// in a row count if they are more.
    #[must_use]
    pub fn failures_after(&self, before: u32) -> u32 {
        match self {
            Self::Unresponsive { silences, .. } => before.max(*silences),
            _ => before + 1,
        }
    }

    /// Returns the pause before the next attempt, after this number of failures in a row.
    #[must_use]
    pub fn pause_after(&self, failures: u32) -> Duration {
        match self {
            Self::SlowDown { retry_after, .. } => backoff(failures, *retry_after),
            Self::Unresponsive { retry_in, .. } => *retry_in,
            _ => backoff(failures, None),
        }
    }
}
