//! `cp`, and the copies of many objects at once for the fsspec file system. Ctrl-C ends both at
//! once; a later run of the same copy resumes.

use std::path::PathBuf;

use firstbyte::{Copy, Depth, Error};
use firstbyte_location::Location;
use firstbyte_store::Checksum;
use firstbyte_transfer::{Engine, Failure, Job, Over, Settings, Silent, Stop, Summary};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::client::{Client, Place, Rate};
use crate::error::{failure, failure_at};
use crate::wait::interruptible;

/// Copies an object or a tree; what was done.
#[pyfunction]
pub(crate) fn cp<'py>(
    py: Python<'py>,
    client: &Client,
    source: PathBuf,
    destination: PathBuf,
    recursive: bool,
    checksum: Option<&str>,
    limit_rate: Option<Rate>,
) -> PyResult<Bound<'py, PyDict>> {
    let engine = client.route.uncached(py)?;
    let copy = Copy {
        depth: if recursive { Depth::Tree } else { Depth::Object },
        checksum: checksum
            .map(Checksum::parse)
            .transpose()
            .map_err(|e| PyValueError::new_err(e.to_string()))?,
        limit_rate: limit_rate.map(|rate| rate.0),
        stop: Stop::default(),
    };
    let (stop, from, to) = (copy.stop.clone(), source.clone(), destination.clone());
    let summary = interruptible(py, || stop.stop(), move || engine.cp(&from, &to, &copy))?;
    receipt(py, summary.map_err(|error| at_either(py, &error, [&source, &destination]))?)
}

/// Copies objects, each to exactly the name beside it, and returns those that failed: the source,
/// and why.
#[pyfunction]
pub(crate) fn copy_many<'py>(
    py: Python<'py>,
    client: &Client,
    pairs: Vec<(Place, Place)>,
) -> PyResult<Bound<'py, PyList>> {
    let engine = client.route.uncached(py)?;
    let stop = Stop::default();
    let settings = Settings { stop: stop.clone(), ..engine.copies().clone() };
    let engine = Engine::new(engine.store().clone(), settings);
    let jobs = pairs.into_iter().map(|(source, destination)| (source.0, destination.0));
    let jobs: Vec<Job> = jobs
        .map(|(source, destination)| Job { source, destination, entry: None, over: Over::File })
        .collect();
    let done = interruptible(
        py,
        || stop.stop(),
        move || match <[Job; 1]>::try_from(jobs) {
            // One object by itself is cut into chunks that move together, however many there are.
            Ok([job]) => engine.copy(&job.source, &job.destination, &Silent).or_else(|error| {
                let failed = vec![Failure { location: job.source.to_string(), error }];
                Ok(Summary { failed, ..Summary::default() })
            }),
            Err(jobs) => engine.copy_many(&mut jobs.into_iter().map(Ok), &Silent),
        },
    )?;
    let mut summary = done.map_err(|error| failure(py, &error.into(), None))?;
    if let Some(error) = summary.ended.take() {
        return Err(failure(py, &error.into(), None));
    }
    failures(py, summary.failed)
}

/// The error, with the one of the places as its file name that it is about.
fn at_either(py: Python<'_>, error: &Error, places: [&PathBuf; 2]) -> PyErr {
    let line = error.to_string();
    let places = places.into_iter().filter_map(|place| Location::parse(place.as_os_str()).ok());
    failure(py, error, places.into_iter().find(|place| line.starts_with(&place.to_string())).as_ref())
}

/// What a copy did, by the names of the command line's receipts.
fn receipt(py: Python<'_>, summary: Summary) -> PyResult<Bound<'_, PyDict>> {
    let receipt = PyDict::new(py);
    receipt.set_item("objects", summary.objects)?;
    receipt.set_item("bytes", summary.bytes)?;
    receipt.set_item("skipped", summary.skipped)?;
    receipt.set_item("left_out", summary.special + summary.empty_directories)?;
    receipt.set_item("seconds", summary.seconds)?;
    receipt.set_item("first_byte_seconds", summary.first_byte_seconds)?;
    receipt.set_item("bytes_per_second", summary.bytes_per_second())?;
    receipt.set_item("requests", summary.requests)?;
    receipt.set_item("retries", summary.retries)?;
    receipt.set_item("hedged", summary.hedged)?;
    receipt.set_item("resumed_bytes", summary.resumed_bytes)?;
    receipt.set_item("reread_bytes", summary.reread_bytes)?;
    receipt.set_item("verified", summary.verified.map(|verified| verified.to_string()))?;
    receipt.set_item("version", summary.version.map(|version| version.to_string()))?;
    receipt.set_item("bound_by", summary.bound_by.map(|bound| bound.to_string()))?;
    receipt.set_item("failures", summary.failures)?;
    receipt.set_item("failed", failures(py, summary.failed)?)?;
    Ok(receipt)
}

fn failures(py: Python<'_>, failed: Vec<Failure>) -> PyResult<Bound<'_, PyList>> {
    let failed = failed.into_iter().map(|Failure { location, error }| {
        let error = failure_at(py, &Error::from(error), Some(&location)).into_value(py);
        (location, error)
    });
    PyList::new(py, failed.collect::<Vec<_>>())
}
