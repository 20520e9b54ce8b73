//! Implements `plan`, `merge`, and the copy and the hydration of a shard of a manifest. Results
//! have the JSON of the command line.

use std::ffi::OsString;
use std::sync::Arc;

use firstbyte::copy_rules::Wildcards;
use firstbyte::manifest::{Manifest, ManifestPlan, ShardChoice, ShardRun};
use firstbyte::{Copy, Error, KeepBlocks, Receipt, environment};
use firstbyte_store::Cancel;
use firstbyte_transfer::Stop;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arguments::{PathArgument, RateArgument, number};
use crate::client::PyClient;
use crate::copy::{CopyOutcome, RunStart, filter, outcome, with_locations};
use crate::error::failure;
use crate::hydrate::wait_for_job;
use crate::wait::interruptible;

/// Writes a manifest. Returns its header as JSON.
#[pyfunction]
pub(crate) fn plan(
    py: Python<'_>,
    client: &PyClient,
    sources: Vec<PathArgument>,
    out: PathArgument,
    shards: &Bound<'_, PyAny>,
    patterns: Vec<(bool, String)>,
) -> PyResult<String> {
    let (PathArgument(out), shards) = (out, number("shards", shards)?);
    let engine = client.route.uncached_client(py)?;
    let filter = filter(patterns);
    let sources: Vec<OsString> = sources.into_iter().map(|source| source.0.into_os_string()).collect();
    let cancel = Cancel::new();
    let store = engine.store().scoped(&cancel);
    let planned = interruptible(
        py,
        || cancel.cancel(),
        move || {
            let wildcards = Wildcards::Off;
            let request = ManifestPlan { sources: &sources, wildcards, filter: &filter, shards };
            firstbyte::manifest::plan(&store, request, &out)
        },
    )?;
    json(&planned.map_err(|error| failure(py, &error, None))?.header)
}

/// Copies a shard of a manifest.
#[pyfunction]
pub(crate) fn cp_shard<'py>(
    py: Python<'py>,
    client: &PyClient,
    manifest: PathArgument,
    shard: &str,
    destination: PathArgument,
    limit_rate: Option<RateArgument>,
) -> PyResult<CopyOutcome<'py>> {
    let [manifest, destination] = [manifest.0, destination.0];
    let engine = client.route.uncached_client(py)?;
    let run = Arc::new(open_shard(py, &manifest, shard)?);
    let copy = Copy { limit_rate: limit_rate.map(|rate| rate.0), stop: Stop::default(), ..Copy::default() };
    let (stop, mine, to) = (copy.stop.clone(), Arc::clone(&run), destination.clone());
    let start = RunStart::of(engine.store());
    let copied = interruptible(py, || stop.stop(), move || engine.cp_shard(&mine, &to, &copy))?;
    let summaries = copied.map_err(|error| failure(py, &error, None))?;
    let destination = destination.to_string_lossy().into_owned();
    let mut receipt = Receipt { left_out: Some(0), ..Receipt::new("cp", run.sources(), Some(destination)) };
    receipt.shard = Some(run.receipt());
    let (mut failures, mut failed) = (0, Vec::new());
    for summary in summaries {
        receipt.add(&summary);
        failures += summary.failures;
        failed.extend(with_locations(summary.failed));
    }
    outcome(py, receipt, &start, failures, failed)
}

/// Hydrates the objects of a shard of a manifest.
#[pyfunction]
pub(crate) fn hydrate_shard<'py>(
    py: Python<'py>,
    client: &PyClient,
    manifest: PathArgument,
    shard: &str,
    pin: bool,
    limit_rate: Option<RateArgument>,
) -> PyResult<CopyOutcome<'py>> {
    let engine = client.route.cached_client(py)?;
    let run = open_shard(py, &manifest.0, shard)?;
    let start = RunStart::of(engine.store());
    let keep = if pin { KeepBlocks::Always } else { KeepBlocks::WhileRoom };
    let job = py.detach(|| engine.hydrate_shard(&run, keep, limit_rate.map(|rate| rate.0)));
    let job = job.map_err(|error| failure(py, &error, None))?;
    let (mut receipt, failed) = wait_for_job(py, &job, run.sources())?;
    py.detach(|| run.hydrated(&failed)).map_err(|error| failure(py, &error, None))?;
    receipt.shard = Some(run.receipt());
    let failed: Vec<_> = failed
        .into_iter()
        .map(|failure| (failure.location.to_string(), Error::from(failure.error)))
        .collect();
    outcome(py, receipt, &start, failed.len() as u64, failed)
}

/// Merges the receipts of a manifest. Returns the result as JSON.
#[pyfunction]
pub(crate) fn merge(py: Python<'_>, manifest: PathArgument, receipts: Vec<PathArgument>) -> PyResult<String> {
    let (manifest, receipts) = (manifest.0, receipts.into_iter().map(|path| path.0).collect::<Vec<_>>());
    let merged =
        py.detach(|| Manifest::open(&manifest).and_then(|it| firstbyte::manifest::merge(&it, &receipts)));
    json(&merged.map_err(|error| failure(py, &error, None))?)
}

fn open_shard(py: Python<'_>, manifest: &std::path::Path, shard: &str) -> PyResult<ShardRun> {
    let choice: ShardChoice = shard.parse().map_err(|why| PyValueError::new_err(format!("shard: {why}")))?;
    let run = ShardRun::open(manifest, choice, &environment::variable);
    run.map_err(|error| failure(py, &error, None))
}

fn json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyValueError::new_err(error.to_string()))
}
