//! Computes the pause before a failed request is sent again. It doubles with each failure and has a
//! random part, so that clients refused together do not retry together. A pause that the server
//! requests is used instead, up to a bound. Transfers, hydration and control calls share these
//! pauses.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

/// The first pause. S3's SlowDown ends within a few of these.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause, and so the longest idle time after a server has recovered.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The default time to wait for a server. For a write it includes the sending, during which other
/// requests share the network. Until enough writes have ended, it is a write's only limit.
pub const DEADLINE: Duration = Duration::from_secs(30);
/// Retries of work that may wait. With these pauses they outlast about 20 s of failures.
pub const RETRIES: u32 = 9;

/// Returns the pause after `failures` failures in a row (at least 1). It is at least `asked`, the
/// pause that the server requested, up to [`DEADLINE`].
#[must_use]
pub fn backoff(failures: u32, asked: Option<Duration>) -> Duration {
    // The standard library keys each hasher at random.
    let random = RandomState::new().build_hasher().finish() % 1_000;
    backoff_at(failures, asked, random as f64 / 1_000.0)
}

/// Returns the pause of [`backoff`] with `place`, 0 (shortest) to 1 (longest), as its random part.
#[must_use]
pub fn backoff_at(failures: u32, asked: Option<Duration>, place: f64) -> Duration {
    let doubled = FIRST_PAUSE.saturating_mul(power_of_two(failures.saturating_sub(1))).min(LONGEST_PAUSE);
    let spread = doubled.mul_f64(0.5 + place / 2.0);
    spread.max(asked.unwrap_or_default().min(DEADLINE))
}

/// Returns 2 to this power, or the largest number if that overflows.
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
