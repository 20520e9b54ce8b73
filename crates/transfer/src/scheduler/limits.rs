//! The limits of a run: the maximum of workers, and the controller that decides how many of them
//! work. The maximum follows from memory, the number of objects, the route and the rate limit.

use firstbyte_location::to_usize;
use firstbyte_pacing::{Controller, Starts, Work};

use crate::context::{Scope, Subject};
use crate::job::{Batch, Route};
use crate::request::buffer_size;
use crate::{Concurrency, relay};

/// Memory of the process beside its workers: program, runtime, credentials, a page of a listing.
const BASE_MEMORY: u64 = 14 << 20;
/// Memory of a worker beside its buffer: touched stack, socket and TLS state. With the buffer
/// 80 KiB, measured between 64 and 256 workers on small objects.
const WORKER_MEMORY: u64 = 56 << 10;

/// The limits of one run.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    /// Decides how many workers take part, from the start on.
    pub(super) controller: Controller,
    /// Workers at most.
    pub(super) workers: usize,
    /// Whether memory sets `workers`.
    pub(super) by_memory: bool,
    /// Neighbouring pieces claimed together at most; `None` if only the object limits them.
    pub(super) together: Option<u32>,
}

impl Limits {
    /// So many workers from start to end.
    pub(super) fn fixed(workers: usize) -> Self {
        Self { controller: Controller::fixed(workers), workers, by_memory: false, together: None }
    }

    pub(super) fn of_jobs(scope: &Scope<'_>, Subject { batch, route, .. }: Subject<'_>) -> Self {
        let (most, work) = match batch {
            Batch::One => (Controller::MOST_OF_ONE, Work::One),
            Batch::Many | Batch::Tree => (Controller::MOST, Work::Small),
        };
        let starts = if route == Route::Local { Starts::LOCAL } else { Starts::NETWORK };
        let part = if route == Route::Relay { relay::PART } else { 0 };
        let each = WORKER_MEMORY + buffer_size(batch) as u64 + part;
        let fit = to_usize(scope.settings.memory.saturating_sub(BASE_MEMORY) / each).max(1);
        let connections = scope.throttles.reading.connections();
        let enough = connections.unwrap_or(most);
        let workers = fit.min(most).min(enough);
        let controller = match scope.settings.concurrency {
            Concurrency::Fixed(limit) => Controller::fixed(limit.min(workers)),
            Concurrency::Auto => Controller::new(starts, work, workers),
        };
        tracing::debug!(?route, ?batch, requests = controller.concurrency(), at_most = workers, "run");
        Self {
            controller,
            workers,
            by_memory: workers < most && enough >= most,
            // Under a rate limit no request asks for much more than may come in a second.
            together: connections.map(|_| 1),
        }
    }
}
