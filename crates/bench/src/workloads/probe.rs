//! The workload `probe`: measures the limits of the target within a time, like `firstbyte probe`,
//! and reports the figures. The probe only reads the target.

use std::time::Duration;

use firstbyte_probe::{Budget, ProbeOptions, ProbeReport, ProbeRights, probe};

use firstbyte_store::Cancel;

use crate::access::Session;
use crate::job::{Error, Job, Metrics, Result, Watch};

/// Default for the time of a probe, in seconds.
const DEFAULT_SECONDS: u64 = 20;

pub(super) fn run(job: &Job, session: &Session<'_>, watch: &Watch) -> Result<Metrics> {
    let time = Duration::from_secs(job.limit_seconds.unwrap_or(DEFAULT_SECONDS));
    // The probe has no budget of money, because the measurement has one.
    let options = ProbeOptions {
        budget: Budget { time, spending: None },
        rights: ProbeRights::ReadOnly,
        disk: std::env::temp_dir(),
        cancel: Cancel::new(),
    };
    let report = probe(session.client()?.store(), &session.location()?, &options)
        .map_err(|error| Error::target(&job.target, error.to_string()))?;
    let mut metrics = figures(&report);
    watch.note(&mut metrics, "all_seconds");
    Ok(metrics)
}

/// Returns the measured figures of a report.
fn figures(report: &ProbeReport) -> Metrics {
    let (rates, names) = (report.rates.as_ref(), report.names.as_ref());
    let of = |ceiling: &Option<firstbyte_probe::Ceiling>| ceiling.map(|found| found.per_second);
    let all = [
        ("first_byte_seconds", report.latencies.first_byte.map(|times| times.p50)),
        ("open_seconds", report.latencies.open.map(|times| times.p50)),
        ("connection_bytes_per_second", rates.map(|rates| rates.connection)),
        ("total_bytes_per_second", rates.map(|rates| rates.total)),
        ("burst_bytes", rates.and_then(|rates| Some(rates.burst?.bucket))),
        ("requests_per_second", of(&report.ceiling)),
        ("small_files_per_second", of(&report.small_files)),
        ("names_per_second", names.and_then(firstbyte_probe::ListingSpeed::per_second)),
        ("disk_write_bytes_per_second", report.disk.as_ref().map(|disk| disk.write)),
        ("disk_read_bytes_per_second", report.disk.as_ref().map(|disk| disk.read)),
        ("bytes", Some(report.spent.bytes as f64)),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}
