//! Defines the trace of a failed request: the facts that a service's support needs. Errors of this
//! crate contain them as a [`Trace`].
//!
//! [`WireClient::send`](crate::wire::WireClient::send) and the readers of responses add the trace
//! of the request that failed first. The retry loops add the number of attempts. The command line
//! and Python print the trace.

use std::fmt;
use std::time::Duration;

use super::Error;

/// The trace of an error; `None` if no request was sent.
pub type Traced = Option<Box<Trace>>;

/// Maximum length of an identifier, in characters; the rest is cut off. S3 has the longest
/// identifiers, with 76 characters.
const MAX_ID_CHARACTERS: usize = 256;

/// Headers with the identifier of a request, the most specific first. They are used by S3 and
/// compatible servers, Azure, Google, web servers and content delivery networks. Sources:
/// docs/decisions/0150-failures.md.
pub(crate) const REQUEST_IDS: [&str; 8] = [
    "x-amz-request-id",
    "x-ms-request-id",
    "x-guploader-uploadid",
    "x-oss-request-id",
    "x-request-id",
    "x-amz-cf-id",
    "cf-ray",
    "x-correlation-id",
];

/// Header with S3's second identifier. S3's support needs both identifiers.
pub(crate) const HOST_ID: &str = "x-amz-id-2";

/// A failed request: its status, its identifiers and its attempts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The HTTP status; `None` if there was no response.
    pub status: Option<u16>,
    /// The identifier that the service gave the request.
    pub request_id: Option<String>,
    /// S3's `x-amz-id-2`.
    pub host_id: Option<String>,
    /// Number of requests sent, including the last.
    pub attempts: u32,
    /// Time since the first request was sent.
    pub took: Duration,
}

impl Trace {
    /// Returns an identifier without unprintable characters, cut to [`MAX_ID_CHARACTERS`]. `None`
    /// if nothing remains.
    pub(crate) fn identifier(text: &str) -> Option<String> {
        let text: String = text.chars().filter(|c| !c.is_control()).take(MAX_ID_CHARACTERS).collect();
        (!text.trim().is_empty()).then(|| text.trim().to_owned())
    }
}

impl fmt::Display for Trace {
    /// Formats a trace: `status 403, request id X, host id Y, 3 attempts in 1.2 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut facts = Vec::new();
        facts.extend(self.status.map(|status| format!("status {status}")));
        facts.extend(self.request_id.as_ref().map(|id| format!("request id {id}")));
        facts.extend(self.host_id.as_ref().map(|id| format!("host id {id}")));
        if self.attempts > 1 {
            facts.push(format!("{} attempts in {:.1} s", self.attempts, self.took.as_secs_f64()));
        }
        f.write_str(&facts.join(", "))
    }
}

/// Returns the trace field of an error, borrowed as the error is borrowed (shared or mutable).
/// `None` for errors that involve no request.
macro_rules! of_request {
    ($error:expr) => {
        match $error {
            Error::NotFound { trace, .. }
            | Error::Denied { trace, .. }
            | Error::Credentials { trace, .. }
            | Error::Archived { trace, .. }
            | Error::Changed { trace, .. }
            | Error::OwnTagRefused { trace, .. }
            | Error::RangeIgnored { trace, .. }
            | Error::Truncated { trace, .. }
            | Error::Unreachable { trace, .. }
            | Error::TimedOut { trace, .. }
            | Error::Disconnected { trace, .. }
            | Error::Unresponsive { trace, .. }
            | Error::SlowDown { trace, .. }
            | Error::Server { trace, .. }
            | Error::Protocol { trace, .. }
            | Error::PastEnd { trace, .. }
            | Error::Precondition { trace, .. }
            | Error::Unsupported { trace, .. } => Some(trace),
            _ => None,
        }
    };
}

impl Error {
    /// Returns the trace of the request that failed, if there was one.
    #[must_use]
    pub fn trace(&self) -> Option<&Trace> {
        of_request!(self).and_then(Option::as_deref)
    }

    fn slot(&mut self) -> Option<&mut Traced> {
        of_request!(self)
    }

    /// Sets the trace of the request that failed, unless the error already has a trace: the first
    /// request is the one that failed, and later requests were only sent to find the reason.
    #[must_use]
    pub(crate) fn traced(mut self, of: impl FnOnce() -> Trace) -> Self {
        if let Some(slot) = self.slot() {
            slot.get_or_insert_with(|| Box::new(of()));
        }
        self
    }

    /// Records the number of requests sent before this error was final, and the time they took.
    pub fn record_attempts(&mut self, attempts: u32, took: Duration) {
        if let Some(Some(trace)) = self.slot() {
            trace.attempts = trace.attempts.max(attempts);
            trace.took = trace.took.max(took);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing() -> Error {
        Error::NotFound { location: "s3://b/k".into(), trace: None }
    }

    #[test]
    fn the_first_trace_of_a_failure_is_kept() {
        let of = |status| move || Trace { status: Some(status), attempts: 1, ..Trace::default() };
        let mut error = missing().traced(of(404)).traced(of(200));
        error.record_attempts(3, Duration::from_millis(1200));
        let trace = error.trace().unwrap();
        assert_eq!((trace.status, trace.attempts), (Some(404), 3));
        assert_eq!(trace.to_string(), "status 404, 3 attempts in 1.2 s");
    }

    #[test]
    fn an_error_without_a_request_has_no_trace() {
        let mut error = missing();
        error.record_attempts(3, Duration::from_secs(1));
        assert_eq!(error.trace(), None);
        assert_eq!(Error::Cancelled.traced(Trace::default).trace(), None);
    }

    #[test]
    fn an_identifier_is_printable_and_short() {
        assert_eq!(Trace::identifier("A\x1b[2J "), Some("A[2J".to_owned()));
        assert_eq!(Trace::identifier(" \r\n"), None);
        assert_eq!(Trace::identifier(&"x".repeat(1000)).unwrap().len(), MAX_ID_CHARACTERS);
    }
}
