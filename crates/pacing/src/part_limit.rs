//! Decides how many parts of uploads are sent at once.
//!
//! A part that is interrupted has to be sent again from its start. If many parts share a slow link,
//! each takes long, and a killed run has finished few. Fewer parts at once fill the link as well,
//! and finish one after another. The queue of a run reads the limit, and workers report how long
//! each part took.

use std::time::Duration;

use crate::controller::START_NEAR;

/// The fewest parts at once: while one waits for its answer, another fills the link.
const FEWEST_PARTS: usize = 2;
/// The time that the parts in flight should take together. It bounds the link time that a kill
/// wastes.
const IN_FLIGHT_TIME: Duration = Duration::from_secs(2);

/// The number of parts that may be sent at once.
#[derive(Clone, Copy, Debug)]
pub struct PartLimit {
    most: usize,
}

impl PartLimit {
    /// Returns a limit that follows the measured link. On a fast link the first parts take a round
    /// trip or two.
    pub fn measuring() -> Self {
        Self { most: START_NEAR }
    }

    /// Returns a limit that allows any number.
    pub fn none() -> Self {
        Self { most: usize::MAX }
    }

    /// Returns how many parts may be in flight.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Reports that a part took `took` while `under_way` parts, itself included, were being sent.
    pub fn observe(&mut self, under_way: usize, took: Duration) {
        if self.most == usize::MAX {
            return;
        }
        // The parts that the link finishes in a second, times the seconds that may be in flight.
        let most =
            under_way as f64 * IN_FLIGHT_TIME.as_secs_f64() / took.as_secs_f64().max(f64::MIN_POSITIVE);
        // A float out of range becomes `usize::MAX`, which stands for no limit.
        self.most = (most.ceil() as usize).clamp(FEWEST_PARTS, usize::MAX - 1);
    }
}

impl Default for PartLimit {
    fn default() -> Self {
        Self::none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: f64 = 8e6;

    /// Returns the limit after some parts over a link of `rate` bytes per second, with `each` for
    /// one connection.
    fn settle(rate: f64, each: f64) -> usize {
        let mut limit = PartLimit::measuring();
        for _ in 0..20 {
            let parts = limit.most().min(64);
            let share = (rate / parts as f64).min(each);
            limit.observe(parts, Duration::from_secs_f64(PART / share + 0.03));
        }
        limit.most()
    }

    #[test]
    fn on_a_thin_link_two_parts_fill_it_and_on_a_fast_one_there_is_room_for_all() {
        assert_eq!(settle(1e6, 1e6), FEWEST_PARTS);
        assert_eq!(settle(8e6, 8e6), FEWEST_PARTS);
        assert!((12..=30).contains(&settle(100e6, 100e6)), "{}", settle(100e6, 100e6));
        assert!(settle(400e6, 40e6) >= 64);
        assert!(settle(4e9, 4e9) >= 64);
    }

    #[test]
    fn a_part_that_stalled_is_forgotten_with_the_next() {
        let mut limit = PartLimit::measuring();
        limit.observe(12, Duration::from_secs(30));
        assert_eq!(limit.most(), FEWEST_PARTS);
        limit.observe(2, Duration::from_millis(50));
        assert!(limit.most() >= 64);
    }
}
