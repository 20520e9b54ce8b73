//! Logs requests. Each request makes one event: when its response was read or dropped, or when it
//! failed. The command line and Python print the events as text or JSON, or export them as spans.
//!
//! The number of the attempt is a field of the surrounding span, which the retry loops enter. The
//! event keeps that span, because the body may be read after the loop has ended.

use std::time::Instant;

use tracing::Span;

use super::request::WireRequest;
use super::response::ResponseHead;
use crate::error::{Error, Trace};

/// The target of these events.
pub(super) const TARGET: &str = "firstbyte_store::request";

/// Returns true if any subscriber reads these events.
fn is_read() -> bool {
    tracing::enabled!(target: TARGET, tracing::Level::DEBUG)
}

/// A request whose response is being read. Dropping the value sends the event.
pub(super) struct AnsweredRequest {
    operation: Option<String>,
    method: &'static str,
    location: String,
    range: Option<String>,
    sent: u64,
    began: Instant,
    trace: Trace,
    /// Number of bytes of the body read so far.
    received: u64,
    /// The span of the attempt to which the request belongs.
    attempt: Span,
}

impl AnsweredRequest {
    /// Begins when the head of a response has arrived. Returns `None` if no subscriber reads the
    /// event.
    pub(super) fn begin(request: &WireRequest<'_>, head: &ResponseHead, began: Instant) -> Option<Self> {
        is_read().then(|| Self {
            operation: request.operation.map(|operation| format!("{operation:?}")),
            method: request.method.as_str(),
            location: request.place.to_owned(),
            range: range_of(request),
            sent: request.payload.length(),
            began,
            trace: head.trace(),
            received: 0,
            attempt: Span::current(),
        })
    }

    /// Counts `count` more bytes of the body.
    pub(super) fn read(&mut self, count: usize) {
        self.received += count as u64;
    }
}

impl Drop for AnsweredRequest {
    fn drop(&mut self) {
        tracing::debug!(
            target: TARGET,
            parent: &self.attempt,
            operation = self.operation.as_deref().map(display),
            method = self.method,
            location = self.location,
            range = self.range,
            status = self.trace.status,
            bytes = self.received,
            sent = self.sent,
            milliseconds = milliseconds(self.began),
            request_id = self.trace.request_id,
            host_id = self.trace.host_id,
            "request"
        );
    }
}

/// Sends the event of a request that got no response.
pub(super) fn send_failure(request: &WireRequest<'_>, error: &Error, began: Instant) {
    if !is_read() {
        return;
    }
    tracing::debug!(
        target: TARGET,
        operation = request.operation.map(debug),
        method = request.method.as_str(),
        location = request.place,
        range = range_of(request),
        bytes = 0_u64,
        sent = request.payload.length(),
        milliseconds = milliseconds(began),
        kind = error.kind().name(),
        %error,
        "request"
    );
}

fn range_of(request: &WireRequest<'_>) -> Option<String> {
    request.headers.iter().find(|(name, _)| name == "range").map(|(_, value)| value.clone())
}

/// Returns the milliseconds since `began`, rounded to a microsecond.
fn milliseconds(began: Instant) -> f64 {
    (began.elapsed().as_secs_f64() * 1e6).round() / 1e3
}
