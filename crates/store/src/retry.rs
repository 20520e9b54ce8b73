//! Repeats one operation, such as a control request or a listing, after transient failures. For
//! callers with loops of their own, returns the pause before the next attempt: from
//! `firstbyte_pacing::backoff`, or as long as the server requests.

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
    /// Number of consecutive failures.
    failures: u32,
    /// Number of attempts, including the current one.
    attempts: u32,
    began: Instant,
    /// The tracing span of the current attempt. It adds the number of the attempt to all events of
    /// the request.
    span: Option<EnteredSpan>,
}

impl<'a> Retry<'a> {
    pub(crate) fn new(client: &'a Arc<WireClient>, cancel: &Cancel) -> Self {
        Self {
            client,
            cancel: client.scoped_cancel(cancel),
            failures: 0,
            attempts: 1,
            began: Instant::now(),
            span: Some(attempt_span(1)),
        }
    }

    /// Waits before the next attempt. Returns the error if no retry is left, the error is not
    /// transient, or the endpoint is silent and the options say to fail fast.
    pub(crate) fn wait_or_give_up(&mut self, mut error: Error) -> Result<()> {
        error.record_attempts(self.attempts, self.began.elapsed());
        let options = &self.client.options;
        let silent = matches!(error, Error::TimedOut { .. } | Error::Unresponsive { .. });
        if !error.is_transient() || (silent && options.outages == Outages::FailFast) {
            return Err(error);
        }
        self.failures = error.failures_after(self.failures);
        if self.failures > self.client.retries {
            return Err(error);
        }
        let wait = error.pause_after(self.failures);
        tracing::debug!(%error, ?wait, "trying again");
        self.client.counters.retries.fetch_add(1, Ordering::Relaxed);
        self.cancel.sleep(wait)?;
        self.attempts += 1;
        // The old span is left first; otherwise the new span would be nested in it.
        self.span = None;
        self.span = Some(attempt_span(self.attempts));
        Ok(())
    }
}

/// Returns the tracing span of an attempt. It adds the number of the attempt to all events within
/// it.
pub fn attempt_span(attempt: u32) -> EnteredSpan {
    // The span has the target of request events: a log that shows only requests then shows the
    // attempts too.
    tracing::debug_span!(target: "firstbyte_store::request", "attempt", attempt).entered()
}

impl Error {
    /// Returns the number of consecutive failures including this error, if there were `before`
    /// failures before it. A request that was not sent, because its endpoint does not respond, is
    /// not counted; the endpoint's own count is then returned if it is larger.
    #[must_use]
    pub fn failures_after(&self, before: u32) -> u32 {
        match self {
            Self::Unresponsive { silences, .. } => before.max(*silences),
            _ => before + 1,
        }
    }

    /// Returns the pause before the next attempt. `failures` is the number of consecutive failures.
    #[must_use]
    pub fn pause_after(&self, failures: u32) -> Duration {
        match self {
            Self::SlowDown { retry_after, .. } => backoff(failures, *retry_after),
            Self::Unresponsive { retry_in, .. } => *retry_in,
            _ => backoff(failures, None),
        }
    }
}
