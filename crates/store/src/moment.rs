//! Measures ages that include the time for which the machine was suspended.
//!
//! A snapshot of a virtual machine, such as SnapStart of AWS Lambda makes, may be resumed hours
//! later. The steady clock (`CLOCK_MONOTONIC`) does not count that time, nor the time for which a
//! laptop sleeps. After it, connections are dead, and resolved addresses may have changed.

use std::time::{Duration, Instant, SystemTime};

/// A point in time, by two clocks.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    steady: Instant,
    wall: SystemTime,
}

impl Moment {
    /// Returns the present.
    #[must_use]
    pub fn now() -> Self {
        Self { steady: Instant::now(), wall: SystemTime::now() }
    }

    /// Returns the time since this moment, by the clock that advanced most. So an age does not
    /// shrink if the wall clock is set back.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.steady.elapsed().max(self.wall.elapsed().unwrap_or_default())
    }

    /// Returns this moment by the steady clock, for comparisons with other moments.
    #[must_use]
    pub fn steady(&self) -> Instant {
        self.steady
    }

    /// Returns this moment as it is after the machine was suspended for `time`. For tests.
    #[must_use]
    pub fn before_suspension(self, time: Duration) -> Self {
        Self { wall: self.wall - time, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn an_age_includes_the_time_of_a_suspension_and_ignores_a_clock_that_was_set_back() {
        let now = Moment::now();
        assert!(now.before_suspension(HOUR).age() >= HOUR);
        let set_back = Moment { wall: now.wall + HOUR, ..now };
        assert!(set_back.age() < HOUR);
        let old = Moment { steady: now.steady.checked_sub(Duration::from_secs(1)).unwrap(), ..set_back };
        assert!(old.age() >= Duration::from_secs(1));
    }
}
