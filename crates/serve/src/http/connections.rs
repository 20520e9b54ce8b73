//! Holds the state that the connections of one server share: limits, the total rate, counters and
//! the access log. Created by the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use firstbyte_pacing::{RateLimit, Throttle};
use tokio::sync::Notify;

use crate::config::{AccessLog, ServerLimits};
use crate::http::metrics::ServerMetrics;

/// State that the connections of one server share.
#[derive(Debug)]
pub(crate) struct Connections {
    /// Bounds on connections, time and rate.
    pub(crate) limits: ServerLimits,
    /// The receiver of log lines for requests.
    pub(crate) access_log: AccessLog,
    /// The counters behind `/metrics`.
    pub(crate) metrics: Arc<ServerMetrics>,
    /// Limit on the total rate of all connections.
    rate: Option<Arc<RateLimit>>,
    /// Wakes the connection that has been idle longest, because another one waits to be accepted.
    crowded: Notify,
    /// True while a connection waits to be accepted. If no connection is idle then, the
    /// notification is stored. The next idle connection gets it, and closes only if this flag is
    /// still set.
    is_crowded: AtomicBool,
}

impl Connections {
    /// Makes the state of a server with these limits.
    pub(crate) fn new(limits: ServerLimits, access_log: AccessLog, metrics: Arc<ServerMetrics>) -> Self {
        let rate = limits.rate.map(|rate| Arc::new(RateLimit::new(rate)));
        Self { limits, access_log, metrics, rate, crowded: Notify::new(), is_crowded: AtomicBool::new(false) }
    }

    /// Asks the connection that has been idle longest to close, then waits for `room`.
    pub(crate) async fn make_room<T>(&self, room: impl Future<Output = T>) -> T {
        self.is_crowded.store(true, Relaxed);
        self.crowded.notify_one();
        let made = room.await;
        self.is_crowded.store(false, Relaxed);
        made
    }

    /// Waits, on an idle connection, until it is asked to close.
    pub(crate) async fn wait_for_close_request(&self) {
        loop {
            self.crowded.notified().await;
            if self.is_crowded.load(Relaxed) {
                return;
            }
        }
    }

    /// Returns the rate limits of a new connection.
    pub(crate) fn throttle(&self) -> Throttle {
        let own = self.limits.connection_rate.map(|rate| Arc::new(RateLimit::new(rate)));
        self.rate.iter().cloned().chain(own).collect()
    }
}

/// Waits until the rate limits allow some bytes. Returns how many may be sent, at most `most`.
pub(crate) async fn wait_for(throttle: &Throttle, most: u64) -> u64 {
    if throttle.is_unlimited() || most == 0 {
        return most;
    }
    let grant = throttle.grant(most, Instant::now());
    if !grant.wait.is_zero() {
        tokio::time::sleep(grant.wait).await;
    }
    grant.bytes
}

/// Waits until `bytes` bytes may be sent.
pub(crate) async fn wait_for_all(throttle: &Throttle, bytes: usize) {
    let mut remaining = bytes as u64;
    while remaining > 0 {
        remaining -= wait_for(throttle, remaining).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn without_a_limit_nothing_waits() {
        let start = tokio::time::Instant::now();
        assert_eq!(wait_for(&Throttle::default(), u64::MAX).await, u64::MAX);
        assert!(start.elapsed().is_zero());
    }
}
