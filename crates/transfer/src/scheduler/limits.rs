//! The limits of a run: the maximum of workers, and the controller that decides how many of them
//! work. The maximum follows from memory, the number of objects, the route and the rate limit.

use firstbyte_pacing::{Controller, Work};
use firstbyte_store::{THREAD_MEMORY, most_requests};

use crate::context::{Scope, Subject};
use crate::job::{Batch, Route};
use crate::plan::LEAST_PART;
use crate::request::{SMALL_BUFFER, buffer_size};
use crate::settings::Concurrency;

/// Memory of a worker with long bodies beyond that with small objects, in bytes: a TLS session
/// holds a record that has arrived in part.
const LONG_BODY: u64 = 16 << 10;

/// The limits of one run.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    /// Decides how many workers take part, from the start on.
    pub(super) controller: Controller,
    /// Workers at most.
    pub(super) workers: usize,
    /// Whether memory sets `workers`.
    pub(super) by_memory: bool,
    /// The most neighbouring pieces that are claimed together; `None` if only the object limits
    /// them.
    pub(super) together: Option<u32>,
}

impl Limits {
    /// So many workers from start to end.
    pub(super) fn fixed(workers: usize) -> Self {
        Self { controller: Controller::fixed(workers), workers, by_memory: false, together: None }
    }

    pub(super) fn of_jobs(scope: &Scope<'_>, Subject { batch, route, .. }: Subject<'_>) -> Self {
        let work = match (route, batch) {
            (Route::Local, _) => Work::Local,
            (_, Batch::One) => Work::One,
            (_, Batch::Many | Batch::Tree) => Work::Small,
        };
        let part = if route == Route::Relay { LEAST_PART } else { 0 };
        let first = (buffer_size(batch) - SMALL_BUFFER) as u64;
        let long = if batch == Batch::One { LONG_BODY } else { 0 };
        let fit = scope.settings.workers_of(THREAD_MEMORY + SMALL_BUFFER as u64 + part + long, first);
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
            by_memory: workers == fit,
            // Under a rate limit no request asks for much more than may come in a second.
            together: connections.map(|_| 1),
        }
    }
}
