//! A rate limit over all workers: a bucket that fills at the rate and is emptied by what is moved.
//!
//! A worker takes what it has just moved, and sleeps as long as the bucket is in debt. Taking after the fact needs no
//! reservation and errs by one piece a worker at the most. Pure in time: the caller passes the clock.

use std::time::Duration;

/// What may be moved at once after a pause, in seconds of the rate: short enough that a second's average holds.
const BURST_SECONDS: f64 = 0.1;

/// The bucket of one limit.
#[derive(Debug)]
pub struct Bucket {
    rate: f64,
    tokens: f64,
    filled_at: Duration,
}

impl Bucket {
    /// A full bucket for `rate` bytes a second.
    #[must_use]
    pub fn new(rate: u64) -> Self {
        let rate = rate.max(1) as f64;
        Self { rate, tokens: rate * BURST_SECONDS, filled_at: Duration::ZERO }
    }

    /// Takes `bytes` at the time `now` since the start; returns how long to pause.
    pub fn take(&mut self, bytes: u64, now: Duration) -> Duration {
        let filled = now.saturating_sub(self.filled_at).as_secs_f64() * self.rate;
        self.tokens = (self.tokens + filled).min(self.rate * BURST_SECONDS) - bytes as f64;
        self.filled_at = now.max(self.filled_at);
        Duration::from_secs_f64((-self.tokens / self.rate).clamp(0.0, 3600.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_more_passes_than_the_rate_and_one_burst(pieces in proptest::collection::vec(1_u64..300_000, 1..100), rate in 1_000_u64..10_000_000) {
            let mut bucket = Bucket::new(rate);
            let (mut now, mut moved) = (Duration::ZERO, 0);
            for piece in pieces {
                moved += piece;
                now += bucket.take(piece, now);
                prop_assert!(moved as f64 <= rate as f64 * (now.as_secs_f64() + BURST_SECONDS) + 1.0);
            }
        }
    }
}
