//! Computes the pause before a failed request is sent again. The pause doubles with each failure,
//! up to 5 s. A part of it is random, so clients that were refused together do not retry together.
//! If the server requests a longer pause, that pause is used, up to a bound. Transfers, hydration
//! and control requests share these pauses.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

/// The first pause. S3's SlowDown ends within a few pauses of this length.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Maximum pause, unless the server requests a longer one. A server that has recovered is therefore
/// idle for at most this long.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Default time to wait for a server. For a write, the time includes the sending, during which
/// other requests share the network. Until enough writes have been timed for a shorter limit, this
/// time is also the only limit of a write. A server cannot request a longer pause than this.
pub const DEADLINE: Duration = Duration::from_secs(30);
/// Default number of retries. With these pauses, the retries outlast 11 to 21 s of failures.
pub const RETRIES: u32 = 9;

/// Returns the pause after `failures` consecutive failures (at least 1). If the server requested
/// the pause `asked`, the result is at least that long, up to [`DEADLINE`].
#[must_use]
pub fn backoff(failures: u32, asked: Option<Duration>) -> Duration {
    // The standard library chooses the key of each hasher at random.
    let random = RandomState::new().build_hasher().finish() % 1_000;
    backoff_at(failures, asked, random as f64 / 1_000.0)
}

/// Returns the pause of [`backoff`] with `place` as its random part: 0 gives the shortest pause, 1
/// the longest.
#[must_use]
pub fn backoff_at(failures: u32, asked: Option<Duration>, place: f64) -> Duration {
    let doubled = FIRST_PAUSE.saturating_mul(power_of_two(failures.saturating_sub(1))).min(LONGEST_PAUSE);
    let spread = doubled.mul_f64(0.5 + place / 2.0);
    spread.max(asked.unwrap_or_default().min(DEADLINE))
}

/// Returns 2 to the given power, or the largest `u32` if that overflows.
pub(crate) fn power_of_two(power: u32) -> u32 {
    1_u32.checked_shl(power).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_are_spread_over_their_upper_half() {
        for failures in 1..40 {
            let full = FIRST_PAUSE.saturating_mul(1 << (failures - 1).min(16)).min(LONGEST_PAUSE);
            assert!((full / 2..=full).contains(&backoff(failures, None)));
        }
    }

    #[test]
    fn a_server_that_names_a_time_is_believed_up_to_a_bound() {
        assert_eq!(backoff(1, Some(Duration::from_secs(7))), Duration::from_secs(7));
        assert_eq!(backoff(1, Some(Duration::from_secs(7_000))), DEADLINE);
    }
}
