//! Computes the pause before a failed request is sent again. It doubles with each failure and has a
//! random part, so that clients refused together do not retry together. A pause that the server
//! requests is used instead, up to a bound. Transfers, hydration and control calls share it.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

/// The first pause: S3's SlowDown passes within a few of these.
pub(crate) const FIRST: Duration = Duration::from_millis(100);
/// The longest pause: a server that recovers is in use again this much later at most.
const LONGEST: Duration = Duration::from_secs(5);
/// How long to wait for a server, unless the user sets another time. For a write the time includes
/// the sending, and other requests share the network with it. Until enough writes have ended, this
/// is the only limit of a write.
pub const DEADLINE: Duration = Duration::from_secs(30);
/// Retries of work that may wait: with these pauses some 20 s of a failing server.
pub const RETRIES: u32 = 9;

/// The pause after `failures` failures in a row (at least one); `asked` is what the server asked
/// for, at least.
#[must_use]
pub fn backoff(failures: u32, asked: Option<Duration>) -> Duration {
    // The standard library keys each hasher at random.
    let random = RandomState::new().build_hasher().finish() % 1_000;
    backoff_at(failures, asked, random as f64 / 1_000.0)
}

/// The same pause at a place between its shortest (0) and its longest (1).
#[must_use]
pub fn backoff_at(failures: u32, asked: Option<Duration>, place: f64) -> Duration {
    let doubled = FIRST.saturating_mul(power_of_two(failures.saturating_sub(1))).min(LONGEST);
    let spread = doubled.mul_f64(0.5 + place / 2.0);
    spread.max(asked.unwrap_or_default().min(DEADLINE))
}

/// Two to this power, as far as it can be represented.
pub(crate) fn power_of_two(power: u32) -> u32 {
    1_u32.checked_shl(power).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_are_spread_over_their_upper_half() {
        for failures in 1..40 {
            let full = FIRST.saturating_mul(1 << (failures - 1).min(16)).min(LONGEST);
            assert!((full / 2..=full).contains(&backoff(failures, None)));
        }
    }

    #[test]
    fn a_server_that_names_a_time_is_believed_up_to_a_bound() {
        assert_eq!(backoff(1, Some(Duration::from_secs(7))), Duration::from_secs(7));
        assert_eq!(backoff(1, Some(Duration::from_secs(7_000))), DEADLINE);
    }
}
