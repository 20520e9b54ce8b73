//! Computes the deadline of one invocation, and the margin before the deadline at which work stops.
//!
//! Lambda kills a function at its deadline, and then the answer is lost. Every wait of an action
//! ends when [`Deadline::is_near`] is true.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::meter::ReceiveRate;

/// Lambda's maximum timeout. It also applies if the host states no valid deadline: `cargo lambda
/// watch` states one in 1970.
const MAX_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// Earliest deadline that counts as valid (2000-01-01), as the time since 1970.
const EARLIEST_DEADLINE: Duration = Duration::from_secs(946_684_800);
/// Time to end a run, and to write and send the answer, on a whole processor: about ten times the
/// measured time.
const REPLY_TIME: Duration = Duration::from_millis(150);
/// Maximum time for the reply of a function with a small share of a processor.
const MAX_REPLY_TIME: Duration = Duration::from_secs(1);
/// Bytes of memory (1,769 MiB) at which a function gets a whole processor. With less memory, its
/// share of the processor is proportional to the memory.
const MEMORY_OF_ONE_PROCESSOR: u64 = 1769 << 20;
/// Maximum number of bytes in flight for which a stop waits.
const MAX_IN_FLIGHT_BYTES: f64 = (2 << 20) as f64;
/// The wait for bytes in flight takes at most the invocation's whole time divided by this number.
const MAX_WAIT_DIVISOR: u32 = 4;

/// The time at which an invocation must end.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    started: Instant,
    ends: Instant,
    floor: Duration,
}

impl Deadline {
    /// Makes a deadline from Lambda's statement, in `milliseconds` since 1970. The invocation began
    /// at `started`, and the function has `memory` bytes.
    #[must_use]
    pub fn new(started: Instant, milliseconds: u64, memory: Option<u64>) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let stated = Duration::from_millis(milliseconds);
        let left = if stated < EARLIEST_DEADLINE {
            MAX_TIMEOUT
        } else {
            stated.saturating_sub(since).min(MAX_TIMEOUT)
        };
        Self { started, ends: Instant::now() + left, floor: floor(memory) }
    }

    /// Returns the time since the start of the invocation.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the start of the invocation.
    #[must_use]
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Returns the time until the deadline.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.ends.saturating_duration_since(Instant::now())
    }

    /// Returns the time that is reserved for the answer of any action.
    #[must_use]
    pub fn floor(&self) -> Duration {
        self.floor
    }

    /// Returns how long before the deadline work stops: the time for the answer, and for the bytes
    /// in flight at the measured rate.
    #[must_use]
    pub fn margin(&self, rate: Option<ReceiveRate>) -> Duration {
        let longest = self.ends.saturating_duration_since(self.started) / MAX_WAIT_DIVISOR;
        let in_flight = rate.map_or(Duration::ZERO, |rate| rate.time_of(MAX_IN_FLIGHT_BYTES));
        self.floor + in_flight.min(longest)
    }

    /// Returns the part of the reserved time that sending an answer takes.
    #[must_use]
    pub fn last_moment(&self) -> Duration {
        self.floor / 3
    }

    /// Returns whether there is time to tidy up before the answer is sent.
    pub(crate) fn leaves_time_to_tidy(&self) -> bool {
        self.remaining() > self.floor / 2
    }

    /// Returns whether work has to stop now.
    #[must_use]
    pub fn is_near(&self, rate: Option<ReceiveRate>) -> bool {
        self.remaining() <= self.margin(rate)
    }
}

/// Returns the time reserved for the answer. The time grows as the function's share of a processor
/// shrinks.
#[expect(clippy::cast_precision_loss, reason = "a ratio of sizes of memory")]
fn floor(memory: Option<u64>) -> Duration {
    let memory =
        memory.filter(|memory| *memory > 0).unwrap_or(MEMORY_OF_ONE_PROCESSOR).min(MEMORY_OF_ONE_PROCESSOR);
    REPLY_TIME.mul_f64(MEMORY_OF_ONE_PROCESSOR as f64 / memory as f64).min(MAX_REPLY_TIME)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(seconds: u64, memory: u64) -> Deadline {
        let ends = SystemTime::now() + Duration::from_secs(seconds);
        let ends = ends.duration_since(UNIX_EPOCH).unwrap().as_millis();
        Deadline::new(Instant::now(), u64::try_from(ends).unwrap(), Some(memory))
    }

    #[test]
    fn the_margin_grows_for_small_functions_and_slow_links() {
        let (large, small) = (within(100, 3008 << 20), within(100, 512 << 20));
        assert_eq!(large.margin(None), REPLY_TIME);
        assert!(small.margin(None) > 3 * REPLY_TIME && small.margin(None) < MAX_REPLY_TIME);
        assert_eq!(within(100, 128 << 20).margin(None), MAX_REPLY_TIME);
        let slow = Some(ReceiveRate::new(1 << 20, Duration::from_secs(1)));
        let margin = large.margin(slow);
        assert!(
            margin > REPLY_TIME + Duration::from_millis(1_900) && margin < Duration::from_secs(3),
            "{margin:?}"
        );
        let dead = Some(ReceiveRate::new(1, Duration::from_secs(1)));
        assert!(large.margin(dead) < Duration::from_secs(26));
        assert!(!large.is_near(slow) && within(0, 3008 << 20).is_near(None));
    }

    #[test]
    fn a_deadline_in_1970_does_not_count_and_one_in_the_past_is_over() {
        let none = Deadline::new(Instant::now(), 600_000, None);
        assert!(none.remaining() > Duration::from_secs(800));
        let past = Deadline::new(Instant::now(), 1_700_000_000_000, None);
        assert_eq!(past.remaining(), Duration::ZERO);
    }
}
