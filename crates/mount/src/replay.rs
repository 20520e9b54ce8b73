//! Fetches what a start file names, before programs ask for it: its directories, and beside them
//! its ranges in order.
//!
//! Programs need not wait for it: what has not arrived is read as without a start file, and a range
//! that is being fetched already is not fetched twice. An object of another version than the
//! recorded one is left to its readers.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use firstbyte_hydrate::{Error as HydrateError, Job, StartFile, WantedList};
use firstbyte_location::Location;
use firstbyte_store::STACK;

use crate::error::{Error, Result};
use crate::filesystem::{FileSystem, PEEK};

/// Directories listed at once: as many as an S3 client has connections for small requests.
const LISTERS: usize = 16;

/// Interval at which the end of the job is looked for, to log it.
const TICK: Duration = Duration::from_millis(500);

/// Begins to fetch, on a thread of its own.
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
        // With fewer threads it takes longer.
        let _ = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, list);
    }
}

fn list(core: &FileSystem, location: &Location) {
    let location = core.source.with_secrets(location.clone());
    let Some(path) = core.source.path_of(&location) else { return };
    let begun = Instant::now();
    let listed = core.source.list(&path);
    match listed.and_then(|children| children.take(PEEK + 1).collect::<Result<Vec<_>>>()) {
        Ok(children) => core.keep(&path, children, begun),
        // It is gone, or will be asked for by its reader.
        Err(error) => tracing::debug!(%location, %error, "not listed ahead"),
    }
}

/// The ranges, at this mount's locations.
fn wanted(core: &Arc<FileSystem>, start: &Arc<StartFile>) -> WantedList {
    let source = Arc::clone(&core.source);
    start.wanted_as(move |mut wanted| {
        wanted.location = source.with_secrets(wanted.location);
        wanted
    })
}

/// Logs how the job ends.
fn report(job: &Job) {
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
