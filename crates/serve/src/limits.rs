//! Limits the rate of responses: for each connection, and for all connections together. Bytes
//! wait here before they are sent.

use std::sync::Arc;
use std::time::Instant;

use firstbyte_pacing::{RateLimit, Throttle};

use crate::site::Site;

/// The limits that a new connection keeps to.
pub(crate) fn of_connection(site: &Site) -> Throttle {
    let own = site.config.limits.connection_rate.map(|rate| Arc::new(RateLimit::new(rate)));
    site.rate.iter().cloned().chain(own).collect()
}

/// Waits until some bytes may be sent, `most` at the most; returns how many.
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

/// Waits until all of `bytes` may be sent.
pub(crate) async fn wait_for_all(throttle: &Throttle, bytes: usize) {
    let mut left = bytes as u64;
    while left > 0 {
        left -= wait_for(throttle, left).await;
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
