//! `hydrate`, `status`, `release`: operations on the cache. Results have the field names of the
//! command line's receipts and rows.

use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use firstbyte::hydrate::cache::{Pin, Status};
use firstbyte::{Depth, Error, Hydrate, Keep};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::client::{Client, Rate};
use crate::error::{failure, failure_at};
use crate::wait::{TICK, interruptible};

/// Brings an object or a tree here and waits for it; what was done. A signal's handler that raises
/// ends it.
#[pyfunction]
pub(crate) fn hydrate<'py>(
    py: Python<'py>,
    client: &Client,
    location: PathBuf,
    recursive: bool,
    pin: bool,
    limit_rate: Option<Rate>,
) -> PyResult<Bound<'py, PyDict>> {
    let engine = client.route.cached(py)?;
    let how = Hydrate {
        depth: depth(recursive),
        keep: if pin { Keep::Always } else { Keep::WhileRoom },
        limit_rate: limit_rate.map(|rate| rate.0),
    };
    let wanted = location.clone();
    let job = interruptible(py, || (), move || engine.hydrate(&wanted, &how))?;
    let job = job.map_err(|error| fail(py, &error, &location))?;
    let done = loop {
        let progress = py.detach(|| job.wait(TICK));
        if progress.is_over {
            break progress;
        }
        py.check_signals().inspect_err(|_| job.cancel())?;
    };
    let receipt = PyDict::new(py);
    receipt.set_item("objects", done.files_done)?;
    receipt.set_item("bytes", done.bytes_here)?;
    receipt.set_item("seconds", done.elapsed.as_secs_f64())?;
    receipt.set_item("resumed_bytes", done.bytes_here.saturating_sub(done.fetched))?;
    receipt.set_item("failures", done.failed.len())?;
    let failed = done.failed.into_iter().map(|failure| {
        let location = failure.location.to_string();
        let error = failure_at(py, &Error::from(failure.error), Some(&location)).into_value(py);
        (location, error)
    });
    receipt.set_item("failed", PyList::new(py, failed.collect::<Vec<_>>())?)?;
    Ok(receipt)
}

/// What is here of an object or a tree; of everything without a location.
#[pyfunction]
pub(crate) fn status<'py>(
    py: Python<'py>,
    client: &Client,
    location: Option<PathBuf>,
    recursive: bool,
) -> PyResult<Bound<'py, PyList>> {
    let engine = client.route.cached(py)?;
    let found = py.detach(|| match &location {
        Some(location) => engine.status(location, depth(recursive)),
        None => Ok(engine.cache()?.statuses().collect::<Result<_, _>>()?),
    });
    let found: Vec<Status> = found.map_err(|error| failure(py, &error, None))?;
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

/// Lets go what is here of an object or a tree; of everything without a location. Versions, bytes,
/// versions in use.
#[pyfunction]
pub(crate) fn release(
    py: Python<'_>,
    client: &Client,
    location: Option<PathBuf>,
    recursive: bool,
) -> PyResult<(u64, u64, u64)> {
    let engine = client.route.cached(py)?;
    let released = py.detach(|| match &location {
        Some(location) => engine.release(location, depth(recursive)),
        None => engine.release_all(),
    });
    let released = released.map_err(|error| failure(py, &error, None))?;
    Ok((released.versions, released.bytes, released.busy))
}

fn depth(recursive: bool) -> Depth {
    if recursive { Depth::Tree } else { Depth::Object }
}

fn fail(py: Python<'_>, error: &Error, location: &std::path::Path) -> PyErr {
    failure_at(py, error, location.to_str())
}
