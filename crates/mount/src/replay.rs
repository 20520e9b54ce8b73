//! Fetches the content of a start file before programs ask for it: lists its directories and, at
//! the same time, fetches its ranges in order.
//!
//! Programs do not wait for the fetches. Bytes that have not arrived are read as without a start
//! file, and a range that is being fetched is not fetched again. If the version of an object is not
//! the recorded one, the object is not fetched ahead.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use firstbyte_hydrate::{Error as HydrateError, HydrationJob, HydrationList, StartFile};
use firstbyte_location::Location;
use firstbyte_store::{Moment, STACK};

use crate::error::{Error, Result};
use crate::filesystem::{FIRST_PAGE_NAMES, FileSystem};

/// Maximum number of directories that are listed at the same time. It is the number of connections
/// of an S3 client for small requests.
const MAX_LISTERS: usize = 16;

/// Interval at which the job is checked for its end, which is logged.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Starts to fetch, on a thread of its own.
pub(crate) fn begin(core: &Arc<FileSystem>, start: Arc<StartFile>) -> Result<()> {
    let weak = Arc::downgrade(core);
    let run = move || {
        // If the mount has ended, nothing has to be fetched.
        let Some(core) = weak.upgrade() else { return };
        let job = thread::scope(|scope| {
            list_directories(scope, &core, &start);
            core.hydrator.replay(ranges_of(&core, &start))
        });
        drop(core);
        match job {
            Ok(job) => wait_and_log_outcome(&job),
            Err(error) => tracing::warn!("the start file is not fetched: {error}"),
        }
    };
    let thread = thread::Builder::new().name("start".into()).stack_size(STACK);
    thread.spawn(run).map(drop).map_err(|error| Error::io(Path::new("--replay"), "cannot be fetched", error))
}

/// Starts threads that list directories, and keep the first page of each directory for lookups.
fn list_directories<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    core: &'scope FileSystem,
    start: &'scope StartFile,
) {
    let next = Arc::new(AtomicUsize::new(0));
    for _ in 0..MAX_LISTERS.min(start.directories().len()) {
        let next = Arc::clone(&next);
        let list = move || {
            while let Some(location) = start.directories().get(next.fetch_add(1, Relaxed)) {
                list(core, location);
            }
        };
        // With fewer threads, the listings only take longer.
        let _ = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, list);
    }
}

fn list(core: &FileSystem, location: &Location) {
    let location = core.source.with_secrets(location.clone());
    let Some(path) = core.source.path_of(&location) else { return };
    let begun = Moment::now();
    let listed = core.source.list(&path);
    match listed.and_then(|children| children.take(FIRST_PAGE_NAMES + 1).collect::<Result<Vec<_>>>()) {
        Ok(children) => core.keep(&path, children, begun),
        // The directory does not exist any more, or its reader will list it and report the error.
        Err(error) => tracing::debug!(%location, %error, "not listed ahead"),
    }
}

/// Returns the ranges of the start file, with the locations of this mount.
fn ranges_of(core: &Arc<FileSystem>, start: &Arc<StartFile>) -> HydrationList {
    let source = Arc::clone(&core.source);
    start.wanted_as(move |mut wanted| {
        wanted.location = source.with_secrets(wanted.location);
        wanted
    })
}

/// Waits until the job is over, and logs its outcome.
fn wait_and_log_outcome(job: &HydrationJob) {
    loop {
        let progress = job.wait(POLL_INTERVAL);
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
