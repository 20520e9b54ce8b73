//! The store operations that the fsspec file system needs: describe, list, delete, write a small
//! object.

use firstbyte_location::{Kind, Location};
use firstbyte_store::{Cancel, ListOptions, Payload, Precondition, PutOptions};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use std::time::{SystemTime, UNIX_EPOCH};

use crate::client::{Client, Place};
use crate::error::{failure, failure_at};
use crate::name::Form;
use crate::wait::interruptible;

/// Kind, length, seconds since 1970, `ETag`: as far as the store reports them.
type Facts = (&'static str, Option<u64>, Option<f64>, Option<String>);

/// Describes what is at `location`.
#[pyfunction]
pub(crate) fn stat(py: Python<'_>, client: &Client, location: Place) -> PyResult<Facts> {
    let Place(location) = location;
    let engine = client.route.uncached(py)?;
    let (at, cancel) = (location.clone(), Cancel::new());
    let store = engine.store().scoped(&cancel);
    let stat = interruptible(py, || cancel.cancel(), move || store.stat(&at))?;
    let stat = stat.map_err(|error| failure(py, &error.into(), Some(&location)))?;
    Ok((stat.kind.word(), stat.size(), seconds(stat.modified), stat.version.etag))
}

/// Lists what is under `location`: full locations, each with its facts.
#[pyfunction]
pub(crate) fn list<'py>(
    py: Python<'py>,
    client: &Client,
    location: Place,
    recursive: bool,
) -> PyResult<Bound<'py, PyList>> {
    let Place(location) = location;
    let engine = client.route.uncached(py)?;
    let options = ListOptions { recursive, ..ListOptions::default() };
    let (at, cancel) = (location.clone(), Cancel::new());
    let store = engine.store().scoped(&cancel);
    let list = move || -> firstbyte_store::Result<Vec<_>> { store.list(&at, &options)?.collect() };
    let entries = interruptible(py, || cancel.cancel(), list)?;
    let entries = entries.map_err(|error| failure(py, &error.into(), Some(&location)))?;
    let rows = PyList::empty(py);
    for entry in entries.into_iter().filter(|entry| !entry.name.is_empty()) {
        let facts: Facts = (entry.kind.word(), entry.size, seconds(entry.modified), entry.etag);
        let facts = match entry.kind {
            Kind::Directory => (facts.0, None, None, None),
            _ => facts,
        };
        rows.append((text(py, &location.join(&entry.name))?, facts))?;
    }
    Ok(rows)
}

/// Deletes objects; deleting what is not there is no error. Returns those that failed.
#[pyfunction]
pub(crate) fn delete<'py>(
    py: Python<'py>,
    client: &Client,
    locations: Vec<Place>,
) -> PyResult<Bound<'py, PyList>> {
    let locations: Vec<Location> = locations.into_iter().map(|place| place.0).collect();
    let engine = client.route.uncached(py)?;
    let cancel = Cancel::new();
    let store = engine.store().scoped(&cancel);
    let failed = interruptible(py, || cancel.cancel(), move || store.delete_many(&locations))?;
    let failed = failed.into_iter().map(|(location, error)| {
        let location = location.to_string();
        let error = failure_at(py, &error.into(), Some(&location)).into_value(py);
        (location, error)
    });
    PyList::new(py, failed.collect::<Vec<_>>())
}

/// Writes an object that is in memory; with `exclusive`, only if there is none.
#[pyfunction]
pub(crate) fn put(
    py: Python<'_>,
    client: &Client,
    location: Place,
    content: &Bound<'_, PyBytes>,
    exclusive: bool,
) -> PyResult<()> {
    let Place(location) = location;
    let engine = client.route.uncached(py)?;
    let precondition = if exclusive { Precondition::Absent } else { Precondition::None };
    let options = PutOptions { precondition, ..PutOptions::default() };
    let (at, cancel) = (location.clone(), options.sending.cancel.clone());
    // A copy: a write that is left behind may outlive what it was given.
    let payload = content.as_bytes().to_vec();
    let put = move || engine.store().put(&at, Payload::Bytes(&payload), &options);
    let written = interruptible(py, || cancel.cancel(), put)?;
    written.map(drop).map_err(|error| failure(py, &error.into(), Some(&location)))
}

/// A location as Python has it: local names are decoded as `os` does it.
fn text<'py>(py: Python<'py>, location: &Location) -> PyResult<Bound<'py, PyAny>> {
    use std::os::unix::ffi::OsStrExt;
    match location.as_local() {
        Some(path) => Form::Text.decode(py, path.as_os_str().as_bytes()),
        None => Ok(location.to_string().into_pyobject(py)?.into_any()),
    }
}

fn seconds(time: Option<SystemTime>) -> Option<f64> {
    time.map(|time| match time.duration_since(UNIX_EPOCH) {
        Ok(after) => after.as_secs_f64(),
        Err(before) => -before.duration().as_secs_f64(),
    })
}
