//! When a version was last used, and what eviction compares that with.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Values below this are seconds: so did earlier builds write them, and as nanoseconds they would lie in January 1970.
const SECONDS: u64 = 1 << 40;

/// An instant of the system's clock, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// The present.
    #[must_use]
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    /// As a header has it.
    pub(super) fn from_word(word: u64) -> Self {
        Self(if word < SECONDS { word.saturating_mul(1_000_000_000) } else { word })
    }

    /// For a header.
    pub(super) fn word(self) -> u64 {
        self.0
    }

    /// For people.
    pub(super) fn time(self) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_of_earlier_builds_are_read_as_such() {
        let now = Moment::now();
        let seconds = now.word() / 1_000_000_000;
        assert_eq!(Moment::from_word(now.word()), now);
        assert_eq!(Moment::from_word(seconds).word(), seconds * 1_000_000_000);
        assert!(Moment::from_word(seconds) <= now);
        assert_eq!(Moment::from_word(0).time(), UNIX_EPOCH);
    }
}
