//! Decides how many parts of uploads are sent at once.
//!
//! A part that is cut off has to be sent again whole. If many parts share a slow link, each takes
//! long, and a killed run has finished few. Fewer parts at once use the link as well and finish one
//! after another. The queue of a run reads the limit, and workers report how long each part took.

use std::time::Duration;

use crate::controller::START_NEAR;

/// Parts at least: while one waits for its answer another fills the link.
const LEAST: usize = 2;
/// The parts under way should take this long together. It bounds the link's time that a kill
/// wastes.
const UNDER_WAY: Duration = Duration::from_secs(2);

/// The limit, and what is known of the link.
#[derive(Clone, Copy, Debug)]
pub struct PartLimit {
    most: usize,
}

impl PartLimit {
    /// Finds the limit by measuring. On a fast link the first parts are through within a round trip
    /// or two.
    pub fn measuring() -> Self {
        Self { most: START_NEAR }
    }

    /// No limit.
    pub fn none() -> Self {
        Self { most: usize::MAX }
    }

    /// Parts that may be under way.
    pub fn most(&self) -> usize {
        self.most
    }

    /// A part took so long while `under_way` were sent, itself included.
    pub fn observe(&mut self, under_way: usize, took: Duration) {
        if self.most == usize::MAX {
            return;
        }
        // So many parts go through in a second; those of as many seconds as may be under way.
        let most = under_way as f64 * UNDER_WAY.as_secs_f64() / took.as_secs_f64().max(f64::MIN_POSITIVE);
        // A float that is too large becomes the largest integer, which would stand for no limit.
        self.most = (most.ceil() as usize).clamp(LEAST, usize::MAX - 1);
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

    /// The limit after some parts over a link of `rate` bytes a second in all and `each` for a
    /// connection.
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
        assert_eq!(settle(1e6, 1e6), LEAST);
        assert_eq!(settle(8e6, 8e6), LEAST);
        assert!((12..=30).contains(&settle(100e6, 100e6)), "{}", settle(100e6, 100e6));
        assert!(settle(400e6, 40e6) >= 64);
        assert!(settle(4e9, 4e9) >= 64);
    }

    #[test]
    fn a_part_that_stalled_is_forgotten_with_the_next() {
        let mut limit = PartLimit::measuring();
        limit.observe(12, Duration::from_secs(30));
        assert_eq!(limit.most(), LEAST);
        limit.observe(2, Duration::from_millis(50));
        assert!(limit.most() >= 64);
    }
}
