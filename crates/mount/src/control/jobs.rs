//! Keeps the hydration jobs that clients of the control socket have started. The daemon runs these
//! jobs, so readers of the mount have priority, and a job continues after its client has ended.

use std::collections::HashMap;
use std::ffi::OsStr;

use firstbyte_hydrate::{HydrationJob, HydrationList, wanted};
use firstbyte_location::Location;
use rustix_futex_sync::Mutex;

use super::protocol::{ControlResponse, HydrateRequest, JobFailure, JobProgress};
use crate::filesystem::FileSystem;

/// Maximum number of ended jobs that are remembered. Not all are, because thousands of jobs may be
/// started in a day. A client asks ten times a second, so it usually learns of the end of its job
/// before 64 other jobs have ended.
const MAX_ENDED_JOBS: usize = 64;
/// Maximum number of failures in one answer. Clients ask for the others one answer after another.
const MAX_REPORTED_FAILURES: usize = 100;

/// The jobs of a mount, by their numbers.
#[derive(Default)]
pub(super) struct MountJobs {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    last: u64,
    jobs: HashMap<u64, HydrationJob>,
}

impl MountJobs {
    #[expect(clippy::result_large_err, reason = "an item of a list, made once an object")]
    pub(super) fn begin(&self, core: &FileSystem, request: HydrateRequest) -> ControlResponse {
        let location = match Location::parse(OsStr::new(&request.location)) {
            Ok(location) => core.source.with_secrets(location),
            Err(error) => return ControlResponse::Error { error: error.to_string() },
        };
        let store = core.hydrator.store();
        let mut list: HydrationList = if request.recursive {
            wanted::below(store, &location)
        } else {
            // The object is looked up by the job's thread, so that the client gets its answer at
            // once.
            let store = store.clone();
            Box::new(std::iter::once_with(move || wanted::one(&store, &location)))
        };
        if request.pin {
            list = core.hydrator.pinned(list);
        }
        match core.hydrator.hydrate(list, request.limit_rate) {
            Ok(job) => ControlResponse::Begun { job: self.add(job) },
            Err(error) => ControlResponse::Error { error: error.to_string() },
        }
    }

    /// Returns the progress of a job, and its next failures. The client has the first
    /// `known_failures` failures already.
    pub(super) fn progress(&self, job: u64, known_failures: usize) -> ControlResponse {
        let Some(job) = self.get(job) else { return unknown_job() };
        let progress = job.progress();
        let next = progress.failed.iter().skip(known_failures).take(MAX_REPORTED_FAILURES);
        let failed = next.map(|failure| JobFailure {
            location: failure.location.to_string(),
            error: failure.error.to_string(),
        });
        ControlResponse::Progress(JobProgress {
            files: progress.files,
            files_done: progress.files_done,
            bytes: progress.bytes,
            bytes_here: progress.bytes_here,
            fetched: progress.fetched,
            is_counted: progress.totals_are_final,
            is_over: progress.is_over,
            seconds: progress.elapsed.as_secs_f64(),
            failures: progress.failed.len(),
            failed: failed.collect(),
            known_failures,
        })
    }

    /// Ends a job. The blocks that it has fetched stay in the cache.
    pub(super) fn cancel(&self, job: u64) -> ControlResponse {
        let Some(job) = self.get(job) else { return unknown_job() };
        job.cancel();
        ControlResponse::Done {}
    }

    fn add(&self, job: HydrationJob) -> u64 {
        let mut table = self.table.lock();
        let over: Vec<u64> =
            table.jobs.iter().filter(|(_, job)| job.progress().is_over).map(|(number, _)| *number).collect();
        if over.len() >= MAX_ENDED_JOBS {
            over.iter().min().map(|oldest| table.jobs.remove(oldest));
        }
        table.last += 1;
        let number = table.last;
        table.jobs.insert(number, job);
        number
    }

    fn get(&self, job: u64) -> Option<HydrationJob> {
        self.table.lock().jobs.get(&job).cloned()
    }
}

fn unknown_job() -> ControlResponse {
    ControlResponse::Error { error: "no such job".into() }
}
