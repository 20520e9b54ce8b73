//! Runs one job: reaches its target, does its workload once, and returns its figures. Called by
//! `bench job`.

use crate::access::Session;
use crate::job::{Access, Job, Metrics, Result, Watch, Workload};
use crate::workloads;

/// Does the work of `job` once. `watch` was started with the process.
///
/// Metrics are seconds since then (`ready_seconds`, `opened_seconds`, `first_byte_seconds`,
/// `part_seconds`, `all_seconds`), counts and rates, each with its unit in its name. `bytes` is the
/// data that the work was about; `requests`, `retries` and `wire_bytes` are there if firstbyte
/// itself moved it. `seconds` is what contenders are compared by: from the start to the end of the
/// work, without mounting and unmounting, but for `open` and `cold-start`, which are about that.
///
/// # Errors
/// Its target is not reached or not what it should be, or the content is
/// wrong: see [`is_wrong_content`](crate::job::Error::is_wrong_content). What the job mounted is
/// unmounted.
pub fn run(job: &Job, watch: &Watch) -> Result<Metrics> {
    let session = Session::start(job)?;
    let mut metrics = Metrics::new();
    watch.note(&mut metrics, "ready_seconds");
    metrics.append(&mut workloads::run(job, &session, watch)?);
    for (name, value) in session.end()? {
        // What the work was about comes before what a copy was about.
        metrics.entry(name).or_insert(value);
    }
    let seconds = seconds(job, &metrics);
    metrics.entry("seconds".into()).or_insert(seconds);
    Ok(metrics)
}

/// The time that contenders are compared by. A mount is made once for many reads, so only the
/// stages of `open` include it; unmounting is in none.
fn seconds(job: &Job, metrics: &Metrics) -> f64 {
    let at = |name: &str| metrics.get(name).copied().unwrap_or_default();
    match (job.access, job.workload) {
        (Access::Mount, Workload::Open | Workload::ColdStart) => at("all_seconds"),
        (Access::Mount, _) => at("all_seconds") - at("ready_seconds"),
        _ => at("all_seconds"),
    }
}
