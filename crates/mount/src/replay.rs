//! Fetches the content of a start file before programs ask for it: its directories, and at the same
//! time its ranges in order.
//!
//! Programs need not wait for it: bytes that have not arrived are read as without a start file, and
//! a range that is being fetched is not fetched twice. An object of another version than the
//! recorded one is left to its readers.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use firstbyte_hydrate::{Error as HydrateError, HydrationJob, HydrationList, StartFile};
use firstbyte_location::Location;
use firstbyte_store::STACK;

use crate::error::{Error, Result};
use crate::filesystem::{FIRST_PAGE_NAMES, FileSystem};

/// The most directories listed at once: as many as an S3 client has connections for small requests.
const LISTERS: usize = 16;

/// The interval at which the job is checked for its end, to log it.
const TICK: Duration = Duration::from_millis(500);

/// Begins to fetch, on its own thread.
pub(crate) fn begin(core: &Arc<FileSystem>, start: Arc<StartFile>) -> Result<()> {
    let weak = Arc::downgrade(core);
    let run = move || {
        // A mount that has ended needs nothing more.
        let Some(core) = weak.upgrade() else { return };
        let job = thread::scope(|scope| {
            list_directories(scope, &core, &start);
            core.hydrator.replay(wanted(&core, &start))
        });
        drop(core);
        match job {
            Ok(job) => report(&job),
            Err(error) => tracing::warn!("the start file is not fetched: {error}"),
        }
    };
    let thread = thread::Builder::new().name("start".into()).stack_size(STACK);
    thread.spawn(run).map(drop).map_err(|error| Error::io(Path::new("--replay"), "cannot be fetched", error))
}

/// Starts threads that list directories, and keep the first page of each for lookups.
fn list_directories<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    core: &'scope FileSystem,
    start: &'scope StartFile,
) {
    let next = Arc::new(AtomicUsize::new(0));
    for _ in 0..LISTERS.min(start.directories().len()) {
        let next = Arc::clone(&next);
        let list = move || {
            while let Some(location) = start.directories().get(next.fetch_add(1, Relaxed)) {
                list(core, location);
            }
        };
        // With fewer threads the listings only take longer.
        let _ = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, list);
    }
}

fn list(core: &FileSystem, location: &Location) {
    let location = core.source.with_secrets(location.clone());
    let Some(path) = core.source.path_of(&location) else { return };
    let begun = Instant::now();
    let listed = core.source.list(&path);
    match listed.and_then(|children| children.take(FIRST_PAGE_NAMES + 1).collect::<Result<Vec<_>>>()) {
        Ok(children) => core.keep(&path, children, begun),
        // The directory is gone, or its reader will list it.
        Err(error) => tracing::debug!(%location, %error, "not listed ahead"),
    }
}

/// Returns the ranges, at this mount's locations.
fn wanted(core: &Arc<FileSystem>, start: &Arc<StartFile>) -> HydrationList {
    let source = Arc::clone(&core.source);
    start.wanted_as(move |mut wanted| {
        wanted.location = source.with_secrets(wanted.location);
        wanted
    })
}

/// Logs how the job ends.
fn report(job: &HydrationJob) {
    loop {
        let progress = job.wait(TICK);
        if !progress.is_over {
            continue;
        }
        let is_changed = |error: &HydrateError| matches!(error, HydrateError::Changed { .. });
        let changed = progress.failed.iter().filter(|failure| is_changed(&failure.error)).count();
        for failure in progress.failed.iter().filter(|failure| !is_changed(&failure.error)) {
            tracing::warn!("of the start file: {}: {}", failure.location, failure.error);
        }
        if changed > 0 {
            tracing::warn!(
                "the start file is stale: {changed} ranges of objects that have changed are read when they are asked \
                 for; record it again"
            );
        }
        tracing::info!("the start file is here: {} bytes", progress.bytes_here);
        return;
    }
}
