//! Hydration that was asked for through the control socket: begun here, so that readers of the mount come first, and it goes on
//! when whoever asked has gone.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use firstbyte_hydrate::{Job, WantedList, wanted};
use firstbyte_location::Location;
use serde_json::{Value, json};

use crate::filesystem::FileSystem;

/// Jobs that are over and still told about: who waits asks every tenth of a second, and thousands may be begun a day.
const MOST_OVER: usize = 64;
/// Failures told of one job; their number is told in full.
const MOST_FAILURES: usize = 100;

/// The jobs of a mount, by number.
#[derive(Default)]
pub(crate) struct Jobs {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    last: u64,
    jobs: HashMap<u64, Job>,
}

impl Jobs {
    /// Begins one: `location`, `recursive`, `pin`, `limit_rate` (bytes a second).
    #[expect(clippy::result_large_err, reason = "an item of a list, made once an object")]
    pub(crate) fn begin(&self, core: &FileSystem, request: &Value) -> Value {
        let Some(location) =
            request["location"].as_str().and_then(|text| Location::parse(OsStr::new(text)).ok())
        else {
            return json!({ "error": "a location is wanted" });
        };
        let location = core.source.with_secrets(location);
        let store = core.hydrator.store();
        let mut list: WantedList = if request["recursive"] == true {
            wanted::below(store, &location)
        } else {
            // Looked at by the job: who asks for one is answered at once.
            let store = store.clone();
            Box::new(std::iter::once_with(move || wanted::one(&store, &location)))
        };
        if let Some(cache) = core.hydrator.cache().filter(|_| request["pin"] == true) {
            list = wanted::pinned(list, cache, store);
        }
        match core.hydrator.hydrate(list, request["limit_rate"].as_u64()) {
            Ok(job) => json!({ "job": self.add(job) }),
            Err(error) => json!({ "error": error.to_string() }),
        }
    }

    /// How far a job is.
    pub(crate) fn progress(&self, request: &Value) -> Value {
        let Some(job) = self.get(request) else { return unknown() };
        let progress = job.progress();
        let failed = progress.failed.iter().take(MOST_FAILURES);
        let failed = failed.map(
            |failure| json!({ "location": failure.location.to_string(), "error": failure.error.to_string() }),
        );
        json!({
            "files": progress.files, "files_done": progress.files_done, "bytes": progress.bytes,
            "bytes_here": progress.bytes_here, "fetched": progress.fetched, "is_counted": progress.is_counted,
            "is_over": progress.is_over, "seconds": progress.elapsed.as_secs_f64(),
            "failures": progress.failed.len(), "failed": failed.collect::<Vec<_>>(),
        })
    }

    /// Ends a job; what it brought stays.
    pub(crate) fn cancel(&self, request: &Value) -> Value {
        let Some(job) = self.get(request) else { return unknown() };
        job.cancel();
        json!({})
    }

    fn add(&self, job: Job) -> u64 {
        let mut table = self.table();
        let over: Vec<u64> =
            table.jobs.iter().filter(|(_, job)| job.progress().is_over).map(|(number, _)| *number).collect();
        if over.len() >= MOST_OVER {
            over.iter().min().map(|oldest| table.jobs.remove(oldest));
        }
        table.last += 1;
        let number = table.last;
        table.jobs.insert(number, job);
        number
    }

    fn get(&self, request: &Value) -> Option<Job> {
        self.table().jobs.get(&request["job"].as_u64()?).cloned()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unknown() -> Value {
    json!({ "error": "no such job" })
}
