//! How many requests at once: a level that is raised while throughput grows with it, and no further.
//!
//! Pure: told the throughput of a window, it says the level for the next. Doubling finds 64 from 8 in three windows,
//! which matters because a gigabyte at 400 MB/s lasts 2.7 s. A raise that brought nothing is taken back: on a short
//! path more requests only take processor time from each other. Where the processors are full none is added, and half of
//! them is tried instead, since fewer connections at once keep more of their bytes in the caches.

use crate::processors::Room;

/// Growth of throughput that pays for twice the requests; less than this lies within the noise of a window.
const GAIN: f64 = 1.12;
/// A lowered level stays unless throughput fell by more than this: within the noise of a window.
const LOSS: f64 = 1.05;
/// Windows at a level that was found good, before one step more is tried: conditions change, but seldom.
const HOLD: u32 = 20;

/// The level large objects go on with where the first answer shows that the server is near: on one machine or in one rack a
/// few requests keep both ends busy, and twelve take a tenth more of a server's processors. What more would help is found.
pub const START_NEAR: usize = 4;

#[derive(Debug)]
enum Phase {
    /// The level has been raised from one that had this throughput.
    Raised { from: usize, rate: f64 },
    /// The level has been lowered from one that had this throughput, because the processors were full.
    Lowered { from: usize, rate: f64 },
    /// Nothing is known of the level yet.
    Fresh,
    /// The level is the cap, because the work seems to be all waiting; it was this before.
    Leapt { from: usize },
    /// The level is good for so many windows.
    Holding { left: u32 },
}

/// The number of requests at once, and what is known of it.
#[derive(Debug)]
pub struct Level {
    now: usize,
    cap: usize,
    phase: Phase,
}

impl Level {
    /// Starts at `start` and never leaves 1 to `cap`.
    #[must_use]
    pub fn new(start: usize, cap: usize) -> Self {
        let cap = cap.max(1);
        Self { now: start.clamp(1, cap), cap, phase: Phase::Fresh }
    }

    /// A level that stays.
    #[must_use]
    pub fn fixed(level: usize) -> Self {
        Self { now: level.max(1), cap: level.max(1), phase: Phase::Holding { left: u32::MAX } }
    }

    /// The level at present.
    #[must_use]
    pub fn now(&self) -> usize {
        self.now
    }

    /// Whether it cannot rise any further.
    #[must_use]
    pub fn is_at_cap(&self) -> bool {
        self.now == self.cap
    }

    /// Takes the throughput of a whole window at the present level, in any unit, and whether the processors had room in it; returns the level for the next one.
    pub fn observe(&mut self, rate: f64, room: Room) -> usize {
        match self.phase {
            Phase::Raised { from, rate: before } if rate < before * GAIN => {
                self.now = from;
                self.phase = Phase::Holding { left: HOLD };
            }
            Phase::Lowered { from, rate: before } if rate * LOSS < before => {
                self.now = from;
                self.phase = Phase::Holding { left: HOLD };
            }
            Phase::Fresh if room == Room::None && self.now > 1 => {
                self.phase = Phase::Lowered { from: self.now, rate };
                self.now = self.now.div_ceil(2);
            }
            Phase::Lowered { .. } => self.phase = Phase::Holding { left: HOLD },
            Phase::Leapt { .. } => self.phase = Phase::Holding { left: HOLD },
            _ if room == Room::None => self.phase = Phase::Holding { left: HOLD },
            Phase::Raised { .. } | Phase::Fresh => self.raise(rate, 2.0),
            Phase::Holding { left: 0 } => self.raise(rate, 1.5),
            Phase::Holding { ref mut left } => *left = left.saturating_sub(u32::from(self.now < self.cap)),
        }
        self.now
    }

    /// Goes to the cap at once: the work seems to be all waiting. To be [`confirmed`](Self::confirm), or taken back.
    pub fn leap(&mut self) -> usize {
        self.phase = Phase::Leapt { from: self.now };
        self.now = self.cap;
        self.now
    }

    /// Whether there was a leap that has been neither confirmed nor taken back.
    #[must_use]
    pub fn has_leapt(&self) -> bool {
        matches!(self.phase, Phase::Leapt { .. })
    }

    /// Stays after a leap: the work is all waiting indeed.
    pub fn confirm(&mut self) {
        if self.has_leapt() {
            self.phase = Phase::Holding { left: HOLD };
        }
    }

    /// Takes a leap back, because the work is not all waiting. Returns the level, of which as little is known as before.
    pub fn land(&mut self) -> usize {
        if let Phase::Leapt { from } = self.phase {
            self.now = from;
            self.phase = Phase::Fresh;
        }
        self.now
    }

    /// Starts with `most` at most, because the server is found to be near; the level where that changes it.
    pub fn begin_near(&mut self, most: usize) -> Option<usize> {
        let may_be_lower = self.is_fresh() && self.now > most;
        may_be_lower.then(|| self.begin_with(most))
    }

    /// Starts lower than was thought at first, before anything has been learnt.
    fn begin_with(&mut self, start: usize) -> usize {
        self.now = self.now.min(start.max(1));
        self.now
    }

    /// Nothing has been learnt yet.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        matches!(self.phase, Phase::Fresh)
    }

    /// The server asked for less, or stopped answering.
    pub fn back_off(&mut self) {
        // A leap may have been the reason.
        self.land();
        self.now = (self.now / 2).max(1);
        self.phase = Phase::Holding { left: HOLD };
    }

    fn raise(&mut self, rate: f64, by: f64) {
        let from = self.now;
        self.now = ((from as f64 * by).ceil() as usize).min(self.cap);
        self.phase =
            if self.now > from { Phase::Raised { from, rate } } else { Phase::Holding { left: HOLD } };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MOST: usize = 64;

    fn settle(level: &mut Level, windows: usize, throughput: impl Fn(usize) -> f64) -> usize {
        for _ in 0..windows {
            level.observe(throughput(level.now()), Room::Some);
        }
        level.now()
    }

    #[test]
    fn it_rises_while_connections_add_throughput_and_stops_where_the_link_is_full() {
        let link = |level: usize| (level as f64 * 40.0).min(400.0);
        let mut level = Level::new(8, MOST);
        assert_eq!(settle(&mut level, 3, link), 16);
        assert_eq!(settle(&mut level, 10, link), 16);
    }

    #[test]
    fn latency_bound_work_reaches_the_cap_in_three_windows() {
        assert_eq!(settle(&mut Level::new(8, MOST), 3, |level| level as f64), MOST);
    }

    #[test]
    fn a_start_can_be_lowered_and_not_raised() {
        let mut level = Level::new(12, MOST);
        assert_eq!(level.begin_with(4), 4);
        assert_eq!(level.begin_with(8), 4);
        assert!(level.is_fresh());
        assert_eq!(settle(&mut level, 4, |level| level as f64), MOST);
    }

    #[test]
    fn it_does_not_grow_where_nothing_is_gained() {
        assert_eq!(settle(&mut Level::new(4, MOST), 15, |_| 1.0), 4);
    }

    #[test]
    fn a_leap_ends_at_the_cap_and_stays_for_a_while() {
        let mut level = Level::new(4, MOST);
        assert!(level.is_fresh());
        assert_eq!(level.leap(), MOST);
        assert!(!level.is_fresh());
        level.confirm();
        assert_eq!(level.land(), MOST, "nothing to take back");
        assert_eq!(settle(&mut level, 10, |_| 1.0), MOST);
    }

    #[test]
    fn a_leap_that_was_wrong_is_taken_back_and_the_level_found_by_measuring() {
        let mut level = Level::new(4, MOST);
        level.leap();
        assert!(level.has_leapt());
        assert_eq!(level.land(), 4);
        assert!(level.is_fresh());
        assert_eq!(settle(&mut level, 15, |_| 1.0), 4);
    }

    #[test]
    fn who_is_refused_after_a_leap_goes_on_with_less_than_before_it() {
        let mut level = Level::new(8, MOST);
        level.leap();
        level.back_off();
        assert_eq!(level.now(), 4);
    }

    #[test]
    fn it_does_not_grow_where_the_processors_are_full() {
        let mut level = Level::new(4, MOST);
        for _ in 0..30 {
            level.observe(level.now() as f64, Room::None);
        }
        assert_eq!(level.now(), 4, "fewer moved less");
    }

    #[test]
    fn half_as_many_do_where_the_processors_are_full_and_nothing_is_lost() {
        let mut level = Level::new(12, MOST);
        for _ in 0..10 {
            level.observe(100.0, Room::None);
        }
        assert_eq!(level.now(), 6);
    }

    #[test]
    fn a_server_that_asks_for_less_gets_less_for_a_while() {
        let mut level = Level::new(16, MOST);
        level.back_off();
        assert_eq!(settle(&mut level, 10, |level| level as f64), 8);
    }

    proptest! {
        #[test]
        fn it_never_leaves_its_bounds(cap in 1_usize..100, rates in proptest::collection::vec(0.0_f64..1e9, 0..200)) {
            let mut level = Level::new(8, cap);
            for (index, rate) in rates.into_iter().enumerate() {
                if index % 17 == 3 { level.back_off() }
                let now = level.observe(rate, if index % 5 == 0 { Room::None } else { Room::Some });
                prop_assert!((1..=cap).contains(&now));
            }
        }
    }
}
