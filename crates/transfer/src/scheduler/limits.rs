//! Computes the limits of a run: the maximum number of workers, and the controller that decides how
//! many of them work. The maximum depends on memory, the number of objects, the route and the rate
//! limit.

use firstbyte_pacing::{Controller, START, Work};
use firstbyte_store::{THREAD_MEMORY, most_requests};

use crate::context::{CallScope, RunKind};
use crate::job::{ObjectCount, TransferRoute};
use crate::plan::MIN_PART_SIZE;
use crate::request::buffer_size;
use crate::settings::Concurrency;

/// Additional memory of a worker that receives long bodies, bytes: data that its connection has
/// read ahead of the worker.
const LONG_BODY: u64 = 16 << 10;

/// The limits of one run.
#[derive(Clone, Debug)]
pub(super) struct RunLimits {
    /// Decides how many workers are active, from the start of the run on.
    pub(super) controller: Controller,
    /// Maximum number of workers, limited by memory, file descriptors and the rate limit.
    pub(super) workers: usize,
    /// True if memory determines `workers`.
    pub(super) is_limited_by_memory: bool,
    /// Maximum number of neighbouring pieces that one worker claims at a time. `None` if only the
    /// object itself has a limit.
    pub(super) max_pieces: Option<u32>,
}

impl RunLimits {
    /// Returns the limits of a run with a constant number of workers.
    pub(super) fn fixed(workers: usize) -> Self {
        Self {
            controller: Controller::fixed(workers),
            workers,
            is_limited_by_memory: false,
            max_pieces: None,
        }
    }

    pub(super) fn of_jobs(scope: &CallScope<'_>, RunKind { batch, route, .. }: RunKind<'_>) -> Self {
        let work = match (route, batch) {
            (TransferRoute::Local, _) => Work::Local,
            (_, ObjectCount::One) => Work::One,
            (_, ObjectCount::Many | ObjectCount::Tree) => Work::Small,
        };
        let part = if route == TransferRoute::Relay { MIN_PART_SIZE } else { 0 };
        let body = if batch == ObjectCount::One { LONG_BODY } else { 0 };
        let [first, other] = [0, START].map(|worker| buffer_size(batch, worker) as u64);
        let fit = scope.settings.workers_of(THREAD_MEMORY + other + body + part, first - other);
        let connections = scope.throttles.reading.connections();
        let most = fit.min(most_requests()).min(connections.unwrap_or(usize::MAX));
        let (workers, controller) = match scope.settings.concurrency {
            Concurrency::Fixed(limit) => (limit.min(most), Controller::fixed(limit.min(most))),
            Concurrency::Auto => (most, Controller::new(work, most)),
        };
        tracing::debug!(?route, ?batch, requests = controller.concurrency(), at_most = workers, "run");
        Self {
            controller,
            workers,
            is_limited_by_memory: workers == fit,
            // With a rate limit, a request has only one piece, so that it requests little more than
            // can arrive in a second.
            max_pieces: connections.map(|_| 1),
        }
    }
}
