//! Supervises a run on the thread that called the engine: starts workers, applies the concurrency
//! that the [`Controller`] chooses, cuts off silent requests, and ends the run when it is stopped.

use std::thread::Scope;
use std::time::Instant;

use firstbyte_pacing::{Controller, Observation, Proximity, Work};

use super::Scheduler;
use super::queue::Queue;
use crate::context::{Context, load_relaxed};
use crate::error::Result;
use crate::job::{ObjectCount, TransferRoute};
use crate::settings::Hedging;

/// Supervises until the run is over. Returns whether the concurrency has ever reached its cap.
pub(super) fn supervise<'scope>(
    run: &'scope Scheduler<'_>,
    scope: &'scope Scope<'scope, '_>,
) -> Result<bool> {
    let context = &run.context;
    let mut controller = run.limits.controller.clone();
    let (mut spawned, mut capped) = (0, false);
    // Maximum number of workers that the system allows. It becomes known when the system refuses to
    // start a worker.
    let mut max_workers = usize::MAX;
    run.set_limit(controller.concurrency());
    loop {
        let mut queue = run.queue.lock();
        if run.is_over(&queue) {
            drop(queue);
            run.wake_all();
            return Ok(capped);
        }
        if wanted_workers(run, &queue).min(max_workers) <= spawned {
            queue = run.attention.wait_timeout(queue, Controller::TICK).0;
        }
        // The queue is observed after the wait, so that the controller decides on the latest
        // values.
        let (seen, wanted) = (observe(context, &queue), wanted_workers(run, &queue).min(max_workers));
        let parts = queue.parts_in_flight();
        let raised = queue.parts.observe(seen.now, seen.bytes, parts);
        drop(queue);
        if raised {
            run.work.notify_all();
        }
        while spawned < wanted.min(max_workers) {
            match run.spawn(scope, spawned) {
                Ok(()) => spawned += 1,
                Err(error) if spawned == 0 => return Err(error),
                Err(error) => {
                    tracing::debug!(%error, spawned, "no further worker");
                    max_workers = spawned;
                }
            }
        }
        if context.is_ended() {
            // The cancellation is repeated at every tick: a request may have started after the last
            // one, and a mover that ends the run wakes no other thread.
            context.tracker.cancel_all();
            run.wake_all();
        }
        if context.settings.hedging == Hedging::On {
            context.tracker.cut_silent(Instant::now());
        }
        run.set_limit(controller.tick(&seen));
        capped |= seen.waiting.is_some() && controller.is_at_cap();
    }
}

/// Returns the number of workers that should exist.
fn wanted_workers(run: &Scheduler<'_>, queue: &Queue) -> usize {
    queue.demand().min(queue.limit).min(run.limits.workers)
}

fn observe(context: &Context<'_>, queue: &Queue) -> Observation {
    let (meters, tracker) = (&context.meters, &context.tracker);
    let now = Instant::now();
    let on_network = context.run_kind.route == TransferRoute::Network;
    let work = match (context.run_kind.route, context.run_kind.batch) {
        (TransferRoute::Local, _) => Work::Local,
        (_, ObjectCount::One) => Work::One,
        (_, ObjectCount::Many | ObjectCount::Tree) if queue.is_large() => Work::Large,
        (_, ObjectCount::Many | ObjectCount::Tree) => Work::Small,
    };
    Observation {
        now,
        bytes: context.moved_so_far(),
        requests: load_relaxed(&meters.steps),
        slowdowns: load_relaxed(&meters.slowdowns),
        under_way: if on_network { tracker.in_flight() } else { queue.busy },
        moving: tracker.moving(),
        round_trip: tracker.round_trip().unwrap_or_default(),
        server: if on_network { tracker.server() } else { Proximity::Unknown },
        silent: on_network && tracker.is_silent(now),
        // Parts that wait because of the limit on parts do not count, because more requests would
        // not help them.
        waiting: (queue.waiting() > 0 && !queue.is_full_of_parts()).then_some(work),
    }
}
