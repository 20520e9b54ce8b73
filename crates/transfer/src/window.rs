//! The windows of time over which throughput is measured, to find the level by.
//!
//! A window is long enough that what was moved in it is no accident, and begins only when connections just opened have
//! answered.

use std::time::{Duration, Instant};

use crate::level::Level;
use crate::processors::{Processors, Room};

/// The shortest window: some pieces of every connection fall into it.
const WINDOW: Duration = Duration::from_millis(60);
/// A window goes on until this much was moved, but no longer than [`LONGEST_WINDOW`]: less is noise.
const WINDOW_BYTES: u64 = 2 << 20;
const LONGEST_WINDOW: Duration = Duration::from_millis(1_000);
/// Connections just opened are given at least this long to settle.
const SETTLE: Duration = Duration::from_millis(20);

/// The window being measured.
pub struct Window {
    since: Instant,
    mark: u64,
    slowdowns: u64,
    /// As they stood at the start; nothing while connections just opened settle, for that measures nothing.
    processors: Option<Processors>,
}

/// What the meters say at one moment.
pub struct Reading {
    /// Bytes moved so far, and what else counts as such.
    pub moved: u64,
    /// How often servers asked for fewer requests so far.
    pub slowdowns: u64,
    /// How long a request typically takes to show an effect.
    pub round_trip: Duration,
    /// Whether full processors are a reason to send fewer requests.
    pub processors: Heed,
}

/// What to make of full processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heed {
    /// Requests take them from each other, or from a server on the same machine.
    Limit,
    /// They are at somebody else's work, and requests to a server far away mostly wait.
    Ignore,
}

impl Default for Window {
    fn default() -> Self {
        Self::settling(0, 0)
    }
}

impl Window {
    /// Ends the window when it is long enough; returns the level for the next one where it differs.
    pub fn measure(&mut self, reading: &Reading, level: &mut Level) -> Option<usize> {
        let Reading { moved, slowdowns, round_trip, processors: heed } = *reading;
        let before = level.now();
        if slowdowns > self.slowdowns {
            level.back_off();
            *self = Self::measuring(moved, slowdowns);
            return Some(level.now());
        }
        let elapsed = self.since.elapsed();
        let Some(processors) = &self.processors else {
            // Connections just opened have to answer first.
            if elapsed >= round_trip.max(SETTLE) && moved > self.mark {
                *self = Self::measuring(moved, slowdowns);
            }
            return None;
        };
        let enough = moved - self.mark >= WINDOW_BYTES || elapsed >= LONGEST_WINDOW;
        if elapsed < WINDOW.max(round_trip * 2).min(LONGEST_WINDOW) || !enough {
            return None;
        }
        let room = if heed == Heed::Ignore { Room::Some } else { processors.room() };
        let now = level.observe((moved - self.mark) as f64 / elapsed.as_secs_f64(), room);
        tracing::trace!(before, now, megabytes = (moved - self.mark) >> 20, ?elapsed, "level");
        *self =
            if now > before { Self::settling(moved, slowdowns) } else { Self::measuring(moved, slowdowns) };
        (now != before).then_some(now)
    }

    /// Begins anew where work went out and has come again: what was moved in between tells nothing.
    pub fn restart(&mut self, reading: &Reading) {
        // A server that asked for less meanwhile is still to be heeded.
        *self = Self::settling(reading.moved, self.slowdowns);
    }

    fn settling(mark: u64, slowdowns: u64) -> Self {
        Self { since: Instant::now(), mark, slowdowns, processors: None }
    }

    fn measuring(mark: u64, slowdowns: u64) -> Self {
        Self { processors: Some(Processors::now()), ..Self::settling(mark, slowdowns) }
    }
}
