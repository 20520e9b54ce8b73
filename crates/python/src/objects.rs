//! Implements the store operations of Python's listings and of the fsspec file system: describe,
//! list, match a pattern, delete, write a small object.

use firstbyte::operand::{Glob, Operand};
use firstbyte::{Error, OperandKind};
use firstbyte_location::{Entry, EntryKind, Location};
use firstbyte_store::{
    Cancel, Error as StoreError, Links, ListOptions, Payload, Precondition, PutOptions, Store,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::arguments::{LocationArgument, PathArgument};
use crate::client::PyClient;
use crate::error::{failure, failure_at};
use crate::name::{NameType, encode};
use crate::wait::interruptible;

/// Kind, length in bytes, seconds since 1970, and `ETag`. `None` for values that the store does not
/// report.
type Facts = (&'static str, Option<u64>, Option<f64>, Option<String>);

/// Describes the object or directory at `location`.
#[pyfunction]
pub(crate) fn stat(py: Python<'_>, client: &PyClient, location: LocationArgument) -> PyResult<Facts> {
    let LocationArgument(location) = location;
    let engine = client.route.uncached_client(py)?;
    let (at, cancel) = (location.clone(), Cancel::new());
    let store = engine.store().scoped(&cancel);
    let stat = interruptible(py, || cancel.cancel(), move || store.stat(&at))?;
    let stat = stat.map_err(|error| failure(py, &error.into(), Some(&location)))?;
    Ok((stat.kind.word(), stat.size(), seconds(stat.modified), stat.version.etag))
}

/// Lists the names below `location`, each with its full location and its attributes.
#[pyfunction]
pub(crate) fn list<'py>(
    py: Python<'py>,
    client: &PyClient,
    location: LocationArgument,
    recursive: bool,
) -> PyResult<Bound<'py, PyList>> {
    let LocationArgument(location) = location;
    let engine = client.route.uncached_client(py)?;
    let options = ListOptions { recursive, links: Links::FollowExisting, ..ListOptions::default() };
    let (at, cancel) = (location.clone(), Cancel::new());
    let store = engine.store().scoped(&cancel);
    let list = move || -> firstbyte_store::Result<Vec<_>> { entries(&store, &at, &options)?.collect() };
    let entries = interruptible(py, || cancel.cancel(), list)?;
    let entries = entries.map_err(|error| failure(py, &error.into(), Some(&location)))?;
    let rows = PyList::empty(py);
    for entry in entries.into_iter().filter(|entry| !entry.name.is_empty()) {
        let name = shown_name(&entry);
        let (name, place) = (NameType::Text.decode(py, name)?, text(py, &location.join(name))?);
        let facts: Facts = match entry.kind {
            EntryKind::Directory => (entry.kind.word(), None, None, None),
            kind => (kind.word(), entry.size, seconds(entry.modified), entry.etag),
        };
        rows.append((name, place, facts))?;
    }
    Ok(rows)
}

/// Lists a location. If the location does not exist, this call fails with `NotFound`. A `NotFound`
/// of a later page becomes another error, because callers would take `NotFound` for an empty
/// directory.
fn entries(
    store: &Store,
    location: &Location,
    options: &ListOptions,
) -> firstbyte_store::Result<impl Iterator<Item = firstbyte_store::Result<Entry>> + use<>> {
    let mut listing = store.list(location, options)?;
    let first = listing.next().transpose()?;
    let place = location.to_string();
    let interrupted = move |error| match error {
        StoreError::NotFound { .. } => {
            let line = format!("the listing ended early: {error}");
            StoreError::Io { location: place.clone(), source: std::io::Error::other(line) }
        }
        other => other,
    };
    Ok(first.map(Ok).into_iter().chain(listing.map(move |entry| entry.map_err(&interrupted))))
}

/// Returns the name that Python shows for an entry: without the `/` at the end of a directory's
/// name. The name of an object keeps its final `/` (consoles create `folder/` as an empty object),
/// because the object has no other name. A directory without a name of its own (`a//`) keeps the
/// `/` too.
pub(crate) fn shown_name(entry: &Entry) -> &[u8] {
    match entry.name.strip_suffix(b"/") {
        Some(name) if entry.kind == EntryKind::Directory && !name.is_empty() => name,
        _ => &entry.name,
    }
}

/// Returns the location of a name below `location`.
#[pyfunction]
pub(crate) fn join<'py>(
    py: Python<'py>,
    location: LocationArgument,
    name: &Bound<'py, PyString>,
) -> PyResult<Bound<'py, PyAny>> {
    text(py, &location.0.join(&encode(name)?))
}

/// Returns the locations that match a pattern, spelled like the pattern, in byte order. Without a
/// wildcard, returns the location itself if it exists.
#[pyfunction]
pub(crate) fn glob<'py>(
    py: Python<'py>,
    client: &PyClient,
    pattern: PathArgument,
) -> PyResult<Bound<'py, PyList>> {
    let operand = Operand::parse(pattern.0.as_os_str()).map_err(|error| failure(py, &error, None))?;
    let engine = client.route.uncached_client(py)?;
    let cancel = Cancel::new();
    let store = engine.store().scoped(&cancel);
    let begins = operand.root_text().to_vec();
    let root = operand.root.clone();
    let find = move || match &operand.glob {
        Some(glob) => matches(&store, &operand.root, glob),
        None => match store.stat(&operand.root).map_err(Error::from) {
            Err(error) if is_gone(&error) => Ok(Vec::new()),
            found => found.map(|_| vec![Vec::new()]),
        },
    };
    let names = interruptible(py, || cancel.cancel(), find)?;
    let names = names.map_err(|error| failure(py, &error, Some(&root)))?;
    let found = names.iter().map(|name| NameType::Text.decode(py, &[begins.as_slice(), name].concat()));
    PyList::new(py, found.collect::<PyResult<Vec<_>>>()?)
}

/// Returns the names below `root` that match, in byte order. If the pattern limits the depth of
/// matches, lists only directories that can contain a match.
fn matches(store: &Store, root: &Location, glob: &Glob) -> firstbyte::Result<Vec<Vec<u8>>> {
    let mut waiting = VecDeque::from([(Vec::new(), 1)]);
    let mut found = Vec::new();
    while let Some((directory, level)) = waiting.pop_front() {
        let place = if directory.is_empty() { root.clone() } else { root.join(&directory) };
        let options = ListOptions {
            recursive: glob.levels.is_none(),
            beginning: glob.beginning(level - 1),
            links: Links::FollowExisting,
            ..ListOptions::default()
        };
        let listing = match entries(store, &place, &options).map_err(Error::from) {
            Err(error) if is_gone(&error) => continue,
            listing => listing?,
        };
        for entry in listing {
            let entry = entry?;
            let name = [&directory[..], entry.name.strip_suffix(b"/").unwrap_or(&entry.name)].concat();
            let is_above = glob.levels.is_some_and(|levels| level < levels as usize);
            if entry.kind == EntryKind::Directory && is_above && glob.enters(&name, OperandKind::Object) {
                waiting.push_back(([&name[..], b"/"].concat(), level + 1));
            }
            if glob.takes(&name, OperandKind::Object) {
                found.push([&directory[..], shown_name(&entry)].concat());
            }
        }
    }
    found.sort_unstable();
    // An object and a directory may have the same name.
    found.dedup();
    Ok(found)
}

/// Returns whether a directory does not exist, or no longer exists.
fn is_gone(error: &Error) -> bool {
    matches!(error.io_kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Deletes objects. A missing object is not an error. Returns the objects that failed, with their
/// errors.
#[pyfunction]
pub(crate) fn delete<'py>(
    py: Python<'py>,
    client: &PyClient,
    locations: Vec<LocationArgument>,
) -> PyResult<Bound<'py, PyList>> {
    let locations: Vec<Location> = locations.into_iter().map(|place| place.0).collect();
    let engine = client.route.uncached_client(py)?;
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

/// Writes an object from memory. With `exclusive`, writes it only if it does not exist.
#[pyfunction]
pub(crate) fn put(
    py: Python<'_>,
    client: &PyClient,
    location: LocationArgument,
    content: &Bound<'_, PyBytes>,
    exclusive: bool,
) -> PyResult<()> {
    let LocationArgument(location) = location;
    let engine = client.route.uncached_client(py)?;
    let precondition = if exclusive { Precondition::Absent } else { Precondition::None };
    let options = PutOptions { precondition, ..PutOptions::default() };
    let (at, cancel) = (location.clone(), options.sending.cancel.clone());
    // The content is copied, because a write that the caller has abandoned may outlive the
    // argument.
    let payload = content.as_bytes().to_vec();
    let put = move || engine.store().put(&at, Payload::Bytes(&payload), &options);
    let written = interruptible(py, || cancel.cancel(), put)?;
    written.map(drop).map_err(|error| failure(py, &error.into(), Some(&location)))
}

/// Converts a location for Python. Local names are decoded as Python's `os` does.
fn text<'py>(py: Python<'py>, location: &Location) -> PyResult<Bound<'py, PyAny>> {
    use std::os::unix::ffi::OsStrExt;
    match location.as_local() {
        Some(path) => NameType::Text.decode(py, path.as_os_str().as_bytes()),
        None => Ok(location.to_string().into_pyobject(py)?.into_any()),
    }
}

fn seconds(time: Option<SystemTime>) -> Option<f64> {
    time.map(|time| match time.duration_since(UNIX_EPOCH) {
        Ok(after) => after.as_secs_f64(),
        Err(before) => -before.duration().as_secs_f64(),
    })
}
