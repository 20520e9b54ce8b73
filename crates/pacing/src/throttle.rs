//! Combines the rate limits of one transfer: its own limit, and the limits that it shares with
//! other transfers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::rate_limit::{Grant, RateLimit};

/// Any number of rate limits, all of which are enforced. Without limits, bytes are neither limited
/// nor counted. Clones share the limits.
#[derive(Clone, Debug, Default)]
pub struct Throttle {
    limits: Vec<Arc<RateLimit>>,
}

impl Throttle {
    /// Returns a throttle with one limit of its own, or without limits if `rate` is `None`.
    #[must_use]
    pub fn new(rate: Option<u64>) -> Self {
        rate.map(|rate| Arc::new(RateLimit::new(rate))).into_iter().collect()
    }

    /// Returns true if there is no limit.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        self.limits.is_empty()
    }

    /// Grants up to `want` bytes under all limits, like [`RateLimit::grant`].
    pub fn grant(&self, want: u64, now: Instant) -> Grant {
        let bytes = self.limits.iter().map(|limit| limit.piece()).fold(want, u64::min);
        let waits = self.limits.iter().map(|limit| limit.grant(bytes, now).wait);
        Grant { bytes, wait: waits.max().unwrap_or(Duration::ZERO) }
    }

    /// Takes back bytes that were granted but not moved.
    pub fn refund(&self, bytes: u64) {
        if bytes > 0 {
            self.limits.iter().for_each(|limit| limit.refund(bytes));
        }
    }

    /// Returns the number of connections that suffice for the lowest rate. `None` if there is no
    /// limit.
    #[must_use]
    pub fn connections(&self) -> Option<usize> {
        self.limits.iter().map(|limit| limit.connections()).min()
    }

    /// Returns the maximum number of bytes for which one request should ask. `None` if there is no
    /// limit.
    #[must_use]
    pub fn request(&self) -> Option<u64> {
        self.limits.iter().map(|limit| limit.request()).min()
    }

    /// Returns the number of bytes that the socket of each connection may buffer. `None` if there
    /// is no limit.
    #[must_use]
    pub fn socket_buffer(&self) -> Option<u64> {
        self.limits.iter().map(|limit| limit.socket_buffer()).min()
    }
}

impl FromIterator<Arc<RateLimit>> for Throttle {
    fn from_iter<T: IntoIterator<Item = Arc<RateLimit>>>(limits: T) -> Self {
        Self { limits: limits.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_limits_everything_is_granted_at_once() {
        let throttle = Throttle::default();
        assert!(throttle.is_unlimited() && throttle.socket_buffer().is_none());
        let grant = throttle.grant(u64::MAX, Instant::now());
        assert_eq!((grant.bytes, grant.wait), (u64::MAX, Duration::ZERO));
    }

    #[test]
    fn the_lowest_of_several_limits_decides() {
        let limits = [1_000_000, 50_000].map(|rate| Arc::new(RateLimit::new(rate)));
        let (throttle, now) = (Throttle::from_iter(limits), Instant::now());
        assert_eq!(throttle.grant(u64::MAX, now).bytes, 2_500);
        assert_eq!(throttle.grant(u64::MAX, now).wait, Duration::from_millis(50));
    }
}
