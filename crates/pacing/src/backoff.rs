//! The pause before a failed request is sent again: it doubles with each failure and is spread at
//! random, so that clients refused together do not come back together. A server that names a time
//! is believed, up to a bound.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use crate::DEADLINE;

/// The first pause: S3's SlowDown passes within a few of these.
const FIRST: Duration = Duration::from_millis(100);

/// Pauses that double up to a longest one.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    longest: Duration,
}

impl Backoff {
    /// Pauses of at most `longest`.
    #[must_use]
    pub const fn up_to(longest: Duration) -> Self {
        Self { longest }
    }

    /// The pause after `failures` failures in a row (at least one); `asked` is what the server
    /// asked for, at least.
    #[must_use]
    pub fn pause(self, failures: u32, asked: Option<Duration>) -> Duration {
        // The standard library keys each hasher at random.
        let random = RandomState::new().build_hasher().finish() % 1_000;
        self.pause_at(failures, asked, random as f64 / 1_000.0)
    }

    /// The same pause at a place between its shortest (0) and its longest (1).
    #[must_use]
    pub fn pause_at(self, failures: u32, asked: Option<Duration>, place: f64) -> Duration {
        let doubled = FIRST.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(self.longest);
        let spread = doubled.mul_f64(0.5 + place / 2.0);
        spread.max(asked.unwrap_or_default().min(DEADLINE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_are_spread_over_their_upper_half() {
        let backoff = Backoff::up_to(Duration::from_secs(5));
        for failures in 1..40 {
            let full = FIRST.saturating_mul(1 << (failures - 1).min(16)).min(Duration::from_secs(5));
            assert!((full / 2..=full).contains(&backoff.pause(failures, None)));
        }
    }

    #[test]
    fn a_server_that_names_a_time_is_believed_up_to_a_bound() {
        let backoff = Backoff::up_to(Duration::from_secs(5));
        assert_eq!(backoff.pause(1, Some(Duration::from_secs(7))), Duration::from_secs(7));
        assert_eq!(backoff.pause(1, Some(Duration::from_secs(7_000))), DEADLINE);
    }
}
