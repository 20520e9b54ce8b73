//! Implements `hydrate`, `status` and `release`, the operations on the cache. Results have the
//! field names of the command line's receipts and rows.

use std::sync::atomic::Ordering;
use std::time::UNIX_EPOCH;

use firstbyte::{Error, Hydrate, KeepBlocks, OperandKind, Receipt};
use firstbyte_hydrate::cache::{Pin, VersionStatus};
use firstbyte_hydrate::{HydrationFailure, HydrationJob};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::arguments::{PathArgument, RateArgument};
use crate::client::{CacheUse, PyClient};
use crate::copy::{CopyOutcome, RunStart, outcome};
use crate::error::{failure, failure_at};
use crate::wait::{self, SIGNAL_CHECK_INTERVAL, abandonable};

/// Hydrates an object or a tree and waits until it is hydrated. Returns the outcome.
#[pyfunction]
pub(crate) fn hydrate<'py>(
    py: Python<'py>,
    client: &PyClient,
    location: PathArgument,
    recursive: bool,
    pin: bool,
    limit_rate: Option<RateArgument>,
) -> PyResult<CopyOutcome<'py>> {
    let PathArgument(location) = location;
    let run = client.route.begin_run(py, CacheUse::Used, &[&location])?;
    let engine = run.engine.clone();
    let how = Hydrate {
        depth: depth(recursive),
        keep: if pin { KeepBlocks::Always } else { KeepBlocks::WhileRoom },
        limit_rate: limit_rate.map(|rate| rate.0),
    };
    let (start, wanted) = (RunStart::of(engine.store()), location.clone());
    let job = abandonable(py, move |abandoned| {
        let job = engine.hydrate(&wanted, &how);
        if let Ok(job) = &job
            && abandoned.load(Ordering::SeqCst)
        {
            job.cancel();
        }
        job
    })?;
    let job = job.map_err(|error| fail(py, &error, &location))?;
    let (mut receipt, failed) = wait_for_job(py, &job, location.to_string_lossy().into_owned())?;
    run.settle(&mut receipt);
    let failed = failed.into_iter();
    let failed: Vec<_> =
        failed.map(|failure| (failure.location.to_string(), Error::from(failure.error))).collect();
    outcome(py, receipt, &start, failed.len() as u64, failed)
}

/// Waits for a job. Returns its receipt and its failures.
pub(crate) fn wait_for_job(
    py: Python<'_>,
    job: &HydrationJob,
    source: String,
) -> PyResult<(Receipt, Vec<HydrationFailure>)> {
    let done = loop {
        let progress = py.detach(|| job.wait(SIGNAL_CHECK_INTERVAL));
        if progress.is_over {
            break progress;
        }
        wait::check(py).inspect_err(|_| job.cancel())?;
    };
    let receipt = Receipt {
        objects: done.files_done,
        bytes: done.bytes_here,
        resumed_bytes: done.bytes_here.saturating_sub(done.fetched),
        ..Receipt::new("hydrate", source, None)
    };
    Ok((receipt, done.failed))
}

/// Lists the cached versions of an object or a tree. Without a location, lists all cached versions.
#[pyfunction]
pub(crate) fn status<'py>(
    py: Python<'py>,
    client: &PyClient,
    location: Option<PathArgument>,
    recursive: bool,
) -> PyResult<Bound<'py, PyList>> {
    if !client.route.has_cache(py)? {
        return Ok(PyList::empty(py));
    }
    let engine = client.route.cached_client(py)?;
    let found = py.detach(|| match &location {
        Some(location) => engine.status(&location.0, depth(recursive)),
        None => Ok(engine.cache()?.statuses().collect::<Result<_, _>>()?),
    });
    let found: Vec<VersionStatus> = found.map_err(|error| failure(py, &error, None))?;
    let rows = PyList::empty(py);
    for status in found {
        let row = PyDict::new(py);
        row.set_item("location", status.location.to_string())?;
        row.set_item("version", status.version.to_string())?;
        row.set_item("state", status.state.word())?;
        row.set_item("bytes_here", status.here)?;
        row.set_item("size", status.size)?;
        row.set_item("pinned", status.pin == Pin::Pinned)?;
        row.set_item("last_open", status.last_use.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())?;
        rows.append(row)?;
    }
    Ok(rows)
}

/// Releases an object or a tree. Without a location, releases everything. Returns the number of
/// versions, the number of bytes, and the number of versions in use.
#[pyfunction]
pub(crate) fn release(
    py: Python<'_>,
    client: &PyClient,
    location: Option<PathArgument>,
    recursive: bool,
) -> PyResult<(u64, u64, u64)> {
    if !client.route.has_cache(py)? {
        return Ok((0, 0, 0));
    }
    let engine = client.route.cached_client(py)?;
    let released = py.detach(|| match &location {
        Some(location) => engine.release(&location.0, depth(recursive)),
        None => engine.release_all(),
    });
    let released = released.map_err(|error| failure(py, &error, None))?;
    Ok((released.versions, released.bytes, released.busy))
}

fn depth(recursive: bool) -> OperandKind {
    if recursive { OperandKind::Tree } else { OperandKind::Object }
}

fn fail(py: Python<'_>, error: &Error, location: &std::path::Path) -> PyErr {
    failure_at(py, error, location.to_str())
}
