//! The workload `hydrate`: fetches the whole target into firstbyte's cache.

use std::time::Duration;

use firstbyte::{Hydrate, OperandKind};

use super::many_small::add_figures;
use crate::access::Session;
use crate::job::{Error, Job, Metrics, Result, Watch};

/// Length of one wait. Waits are repeated, because only the engine limits the time of a job.
const WAIT_STEP: Duration = Duration::from_secs(3600);

pub(super) fn run(job: &Job, session: &Session<'_>, watch: &Watch) -> Result<Metrics> {
    let depth = if session.location()?.is_directory_like() { OperandKind::Tree } else { OperandKind::Object };
    let hydration = session.client()?.hydrate(&job.target, &Hydrate { depth, ..Hydrate::default() })?;
    let progress = loop {
        let progress = hydration.wait(WAIT_STEP);
        if progress.is_over {
            break progress;
        }
    };
    let mut metrics = Metrics::new();
    watch.note(&mut metrics, "all_seconds");
    if let Some(failure) = progress.failed.first() {
        let what =
            format!("{} ({} of {} files failed)", failure.error, progress.failed.len(), progress.files);
        return Err(Error::target(failure.location.to_string(), what));
    }
    if progress.bytes_here != progress.bytes {
        let what = format!("{} of {} bytes are in the cache", progress.bytes_here, progress.bytes);
        return Err(Error::target(&job.target, what));
    }
    add_figures(job, &mut metrics, progress.files_done, progress.bytes_here)?;
    metrics.insert("fetched_bytes".into(), progress.fetched as f64);
    Ok(metrics)
}
