//! Watches a run from the thread that called for it: starts workers, finds the level, cuts silent requests, ends the
//! run at its deadline or when it is stopped.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::thread::Scope;
use std::time::{Duration, Instant};

use crate::engine::Batch;
use crate::level::Level;
use crate::processors::Processors;
use crate::run::Run;
use crate::{Error, Hedging, Result};

/// How often it looks: a tenth of the shortest patience, and far less than a percent of a core.
const TICK: Duration = Duration::from_millis(10);
/// The shortest window that throughput is measured over: some pieces of every connection fall into it.
const WINDOW: Duration = Duration::from_millis(60);
/// A window goes on until this much was moved, but no longer than [`LONGEST_WINDOW`]: less is noise.
const WINDOW_BYTES: u64 = 2 << 20;
const LONGEST_WINDOW: Duration = Duration::from_millis(1_000);
/// What a finished object or piece counts for beside its bytes: an S3 request costs a server about as much as this.
const STEP_BYTES: u64 = 64 << 10;

/// A server that answers no sooner than this is far away. Many objects are then all waiting, which costs nobody
/// anything, and a level found by doubling would be found when a thousand of them have come: as many as may be, at once.
const FAR: Duration = Duration::from_millis(10);

/// The window being measured.
struct Window {
    since: Instant,
    settling: bool,
    mark: u64,
    slowdowns: u64,
    processors: Processors,
}

/// Watches until the run is over. Returns whether the level was ever held down by its cap.
pub(crate) fn supervise<'scope>(
    run: &'scope Run<'_>,
    scope: &'scope Scope<'scope, '_>,
    mut level: Level,
    workers: usize,
) -> Result<bool> {
    let mut window = Window::new(0, 0, true);
    let (mut spawned, mut capped) = (0, false);
    run.set_level(level.now());
    loop {
        let (wanted, plenty) = {
            let queue = run.queue();
            if queue.is_over() {
                return Ok(capped);
            }
            let wanted = queue.demand().min(queue.level).min(workers);
            let plenty = queue.waiting() > 0;
            if wanted <= spawned {
                drop(run.attention.wait_timeout(queue, TICK).unwrap_or_else(PoisonError::into_inner));
            }
            (wanted, plenty)
        };
        while spawned < wanted {
            run.spawn(scope, spawned)?;
            spawned += 1;
        }
        end_if_due(run);
        if run.settings.hedging == Hedging::On {
            run.flights.cut_silent();
        }
        // At the end of the work throughput falls for want of it: nothing to be learnt.
        if plenty {
            let far = || run.flights.least_wait().is_some_and(|wait| wait >= FAR);
            if run.batch == Batch::Many && level.is_fresh() && far() {
                run.set_level(level.leap());
            } else if let Some(now) = window.measure(run, &mut level) {
                run.set_level(now);
            }
            capped |= level.is_at_cap();
        }
    }
}

fn end_if_due(run: &Run<'_>) {
    if run.settings.stop.is_stopped() {
        run.end(Error::Interrupted);
    }
    if let Some(after) = run.settings.deadline.filter(|after| run.started.elapsed() >= *after) {
        run.end(Error::Deadline { after });
    }
    if run.is_ended() {
        // Again on every tick: a request may have begun in between.
        run.flights.cancel_all();
    }
}

impl Window {
    /// Ends the window when it is long enough; returns the level for the next one where it differs.
    fn measure(&mut self, run: &Run<'_>, level: &mut Level) -> Option<usize> {
        let meters = &run.meters;
        let slowdowns = meters.slowdowns.load(Ordering::Relaxed);
        let moved = meters.moved.load(Ordering::Relaxed) + STEP_BYTES * meters.steps.load(Ordering::Relaxed);
        let before = level.now();
        if slowdowns > self.slowdowns {
            level.back_off();
            *self = Self::new(moved, slowdowns, false);
            return Some(level.now());
        }
        let round_trip = run.flights.median_wait().unwrap_or_default();
        let elapsed = self.since.elapsed();
        if self.settling {
            // Connections just opened have to answer first.
            if elapsed >= round_trip.max(TICK * 2) && moved > self.mark {
                *self = Self::new(moved, slowdowns, false);
            }
            return None;
        }
        let enough = moved - self.mark >= WINDOW_BYTES || elapsed >= LONGEST_WINDOW;
        if elapsed < WINDOW.max(round_trip * 2).min(LONGEST_WINDOW) || !enough {
            return None;
        }
        let now = level.observe((moved - self.mark) as f64 / elapsed.as_secs_f64(), self.processors.room());
        tracing::trace!(before, now, megabytes = (moved - self.mark) >> 20, ?elapsed, "level");
        *self = Self::new(moved, slowdowns, now > before);
        (now != before).then_some(now)
    }

    fn new(mark: u64, slowdowns: u64, settling: bool) -> Self {
        Self { since: Instant::now(), settling, mark, slowdowns, processors: Processors::now() }
    }
}
