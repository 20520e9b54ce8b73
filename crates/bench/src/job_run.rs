//! Runs one job: reaches its target, does its workload once, and returns its figures. Called by
//! `bench job`.

use crate::access::Session;
use crate::job::{Access, Job, Metrics, Result, Watch, Workload};
use crate::workloads;

/// Does the work of `job` once. The caller started `watch` with the process.
///
/// Metrics are seconds since that start (`ready_seconds`, `opened_seconds`, `first_byte_seconds`,
/// `part_seconds`, `all_seconds`), counts and rates; each name contains the unit. `bytes` counts
/// the data of the work. `requests`, `retries` and `wire_bytes` exist only if firstbyte itself
/// moved the data. Contenders are compared by `seconds`: the time from the start to the end of the
/// work, without mounting and unmounting, except that `open` and `cold-start` include mounting.
///
/// # Errors
/// The target is not reached or does not fit, or the content is wrong: see
/// [`is_wrong_content`](crate::job::Error::is_wrong_content). Everything that the job mounted is
/// unmounted.
pub fn run(job: &Job, watch: &Watch) -> Result<Metrics> {
    let session = Session::start(job)?;
    let mut metrics = Metrics::new();
    watch.note(&mut metrics, "ready_seconds");
    metrics.append(&mut workloads::run(job, &session, watch)?);
    for (name, value) in session.end()? {
        // Figures of the work take precedence over those of a preparing copy.
        metrics.entry(name).or_insert(value);
    }
    let seconds = compared_seconds(job, &metrics);
    metrics.entry("seconds".into()).or_insert(seconds);
    Ok(metrics)
}

/// Returns the time by which contenders are compared. A mount is made once for many reads, so only
/// the stages of `open` include it. No time includes unmounting.
fn compared_seconds(job: &Job, metrics: &Metrics) -> f64 {
    let at = |name: &str| metrics.get(name).copied().unwrap_or_default();
    match (job.access, job.workload) {
        (Access::Mount, Workload::Open | Workload::ColdStart) => at("all_seconds"),
        (Access::Mount, _) => at("all_seconds") - at("ready_seconds"),
        _ => at("all_seconds"),
    }
}
