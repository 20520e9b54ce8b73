//! Watches a run from the thread that called for it: starts workers, finds the level, cuts silent requests, ends the
//! run at its deadline or when it is stopped.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::thread::Scope;
use std::time::Duration;

use crate::engine::{Batch, Route};
use crate::flight::Distance;
use crate::level::{Level, START_NEAR};
use crate::run::Run;
use crate::window::{Reading, Window};
use crate::{Hedging, Result};

/// How often it looks: a tenth of the shortest patience, and far less than a percent of a core.
const TICK: Duration = Duration::from_millis(10);
/// What a finished object or piece counts for beside its bytes: work that is all small requests has a throughput too.
const STEP_BYTES: u64 = 64 << 10;

/// Watches until the run is over. Returns whether the level was ever held down by its cap.
pub(crate) fn supervise<'scope>(
    run: &'scope Run<'_>,
    scope: &'scope Scope<'scope, '_>,
    mut level: Level,
    workers: usize,
) -> Result<bool> {
    let mut window = Window::default();
    let (mut spawned, mut capped, mut landed) = (0, false, false);
    run.set_level(level.now());
    loop {
        if level.has_leapt() {
            if run.flights.known_distance() == Some(Distance::Near) {
                run.set_level(level.land());
                window.restart(&reading(run));
                (capped, landed) = (false, true);
            } else if run.flights.are_far() {
                level.confirm();
            }
        }
        // Bytes of large objects from a server that is near take few requests: fewer than begun with, before others are started.
        if level.is_fresh()
            && run.route == Route::Network
            && run.flights.distance() == Distance::Near
            && (run.batch == Batch::One || run.queue().is_large())
            && let Some(now) = level.begin_near(START_NEAR)
        {
            run.set_level(now);
            window.restart(&reading(run));
        }
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
            // Many objects far away are all waiting, which costs nobody anything, and a level found by doubling would be
            // found when a thousand of them have come: as many as may be, at once.
            // Once only: answers that take now more, now less than what is far would have it leap for ever.
            let may_leap = run.batch != Batch::One && level.is_fresh() && !landed;
            if may_leap && (run.flights.are_far() || seems_far(run)) {
                run.set_level(level.leap());
            } else if let Some(now) = window.measure(&reading(run), &mut level) {
                run.set_level(now);
            }
            capped |= level.is_at_cap();
        }
    }
}

/// Whether many small objects seem to come from afar, before an answer has told. One that refuses is an answer too.
fn seems_far(run: &Run<'_>) -> bool {
    run.route == Route::Network
        && run.flights.seem_far()
        && run.meters.slowdowns.load(Ordering::Relaxed) == 0
        && !run.queue().is_large()
}

fn reading(run: &Run<'_>) -> Reading {
    let meters = &run.meters;
    Reading {
        moved: meters.moved.load(Ordering::Relaxed) + STEP_BYTES * meters.steps.load(Ordering::Relaxed),
        slowdowns: meters.slowdowns.load(Ordering::Relaxed),
        round_trip: run.flights.median_wait().unwrap_or_default(),
        processors: run.flights.heed(),
    }
}

fn end_if_due(run: &Run<'_>) {
    if run.is_ended() {
        // Again on every tick: a request may have begun in between.
        run.flights.cancel_all();
    }
}
