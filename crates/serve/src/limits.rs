//! Rate limits: a virtual clock that runs ahead by the time the bytes sent should have taken.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How far the clock may lag behind real time: what an idle spell earns as a burst.
const BURST: Duration = Duration::from_millis(50);

/// A rate shared by all who [`RateLimit::charge`] it.
#[derive(Debug)]
pub(crate) struct RateLimit {
    bytes_per_second: Option<u64>,
    paid_until: Mutex<Option<Instant>>,
}

impl RateLimit {
    /// `None` is no limit.
    pub(crate) fn new(bytes_per_second: Option<u64>) -> Self {
        Self { bytes_per_second, paid_until: Mutex::new(None) }
    }

    /// Waits until `bytes` more are within the rate.
    pub(crate) async fn charge(&self, bytes: u64) {
        let Some(rate) = self.bytes_per_second else { return };
        let until = self.advance(bytes, rate.max(1));
        tokio::time::sleep_until(until).await;
    }

    /// The most to send between two charges: a twentieth of a second's worth, so that the rate is smooth.
    pub(crate) fn quantum(&self) -> u64 {
        self.bytes_per_second.map_or(u64::MAX, |rate| (rate / 20).max(4096))
    }

    fn advance(&self, bytes: u64, rate: u64) -> Instant {
        let now = Instant::now();
        let cost = Duration::from_secs_f64(bytes as f64 / rate as f64);
        let mut paid_until = self.paid_until.lock().unwrap_or_else(PoisonError::into_inner);
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let until = paid_until.map_or(now, |until| until.max(earliest)) + cost;
        *paid_until = Some(until);
        until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn bytes_take_the_time_the_rate_gives_them() {
        let limit = RateLimit::new(Some(1000));
        let start = Instant::now();
        for _ in 0..10 {
            limit.charge(500).await;
        }
        assert_eq!(start.elapsed().as_millis() / 10, 500);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_limit_nothing_waits() {
        let start = Instant::now();
        RateLimit::new(None).charge(u64::MAX).await;
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}
