//! Implements `list_arrow` and `iter_batches`, which return a listing as columns.
//!
//! For a local directory, `list_arrow` builds all columns on the threads that read the directories,
//! and returns when the listing is complete. `iter_batches` takes batches from a stream, and keeps
//! only a few in memory. Errors below the root are kept beside the columns, and the listing
//! continues. `list_stored` and `iter_stored` do the same for a location in a store, whose listing
//! ends at the first error.

mod build;
mod source;
mod stored;

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use firstbyte_listing::{Depth, Detail, Error, ListingOptions, Symlinks};
use firstbyte_location::Location;
use firstbyte_store::{Cancel, Links, ListOptions};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyAny, PyCapsule, PyList, PyString};
use rustix_futex_sync::Mutex;

use crate::arguments::{LocationArgument, number};
use crate::arrow;
use crate::client::PyClient;
use crate::error::failure;
use crate::name::NameType;
use crate::place::DirectoryArgument;
use crate::wait::interruptible;
use build::{ColumnSet, ColumnsBuilder};
use source::{BatchFailure, BatchSource, INHERITED};

/// Number of rows in a batch of `list_arrow`. The consumer gets all batches at once.
const ROWS_PER_BATCH: NonZeroUsize = NonZeroUsize::new(1 << 16).unwrap();

/// The listing that the arguments of `list_arrow` or `iter_batches` describe.
struct Request {
    place: DirectoryArgument,
    options: ListingOptions,
    shape: ColumnSet,
}

impl Request {
    fn new(
        path: &Bound<'_, PyAny>,
        verb: &str,
        recursive: bool,
        stat: Option<&Bound<'_, PyAny>>,
        followlinks: bool,
    ) -> PyResult<Self> {
        let place = DirectoryArgument::new(path, verb)?;
        let detail = stat.map_or(Ok(Detail::Names), |stat| detail(stat, verb))?;
        let options = ListingOptions {
            depth: if recursive { Depth::Recursive } else { Depth::OneLevel },
            symlinks: if followlinks { Symlinks::Follow } else { Symlinks::Report },
            detail,
            ..ListingOptions::default()
        };
        let shape = ColumnSet::new(place.form, options.depth, detail);
        Ok(Self { place, options, shape })
    }

    fn root(&self) -> &Path {
        self.place.path().unwrap_or(Path::new("."))
    }

    fn builder(&self, rows: NonZeroUsize) -> ColumnsBuilder {
        ColumnsBuilder::new(self.shape.clone(), rows)
    }

    /// Makes the exception for an error because of which the root could not be listed.
    fn fail(&self, py: Python<'_>, error: &Error) -> PyErr {
        match error {
            Error::Io { path, source } if path == self.root() => self.place.fail(py, source),
            other => crate::error::listing_error(py, other, self.place.form),
        }
    }
}

/// Parses the argument `stat`, if it is not None.
fn detail(stat: &Bound<'_, PyAny>, verb: &str) -> PyResult<Detail> {
    let text = stat.cast::<PyString>().map(|text| text.to_string_lossy().into_owned());
    match text.as_deref() {
        Ok("size") => Ok(Detail::Size),
        Ok("full") => Ok(Detail::Full),
        wrong => {
            let why = format!("{verb}: stat should be None, 'size' or 'full', not {}", stat.repr()?);
            Err(if wrong.is_ok() { PyValueError::new_err(why) } else { PyTypeError::new_err(why) })
        }
    }
}

/// A complete listing: columns and errors.
#[pyclass(frozen, module = "firstbyte", name = "Listing")]
pub(crate) struct PyListing {
    fields: SchemaRef,
    batches: Vec<arrow_array::RecordBatch>,
    errors: Vec<Error>,
    form: NameType,
}

/// Lists `path` completely.
#[pyfunction]
pub(crate) fn list_arrow(
    path: &Bound<'_, PyAny>,
    recursive: bool,
    stat: Option<&Bound<'_, PyAny>>,
    followlinks: bool,
) -> PyResult<PyListing> {
    let py = path.py();
    let request = Request::new(path, "list_arrow", recursive, stat, followlinks)?;
    let builders = py.detach(|| {
        firstbyte_listing::scan(request.root(), &request.options, || request.builder(ROWS_PER_BATCH))
    });
    let builders = builders.map_err(|error| request.fail(py, &error))?;
    let (mut batches, mut errors) = (Vec::new(), Vec::new());
    for builder in builders {
        let (built, failed) = builder.finish().map_err(PyValueError::new_err)?;
        batches.extend(built);
        errors.extend(failed);
    }
    Ok(PyListing { fields: request.shape.fields, batches, errors, form: request.place.form })
}

#[pymethods]
impl PyListing {
    fn __len__(&self) -> usize {
        self.batches.iter().map(|batch| batch.num_rows()).sum()
    }

    /// Errors of the listing, each an OSError.
    #[getter]
    fn errors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        errors(py, &self.errors, self.form)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        arrow::schema_capsule(py, &self.fields)
    }

    /// Exports the columns, for any consumer and any number of times. A requested type is ignored.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = self.batches.clone().into_iter().map(Ok);
        arrow::stream_capsule(py, Arc::clone(&self.fields), batches)
    }
}

/// A listing in batches, in constant memory.
#[pyclass(frozen, module = "firstbyte")]
pub(crate) struct Batches {
    fields: SchemaRef,
    /// `None` once the remaining batches were handed over.
    source: Mutex<Option<BatchSource>>,
    errors: Arc<Mutex<Vec<Error>>>,
    form: NameType,
    /// The location, if it is in a store.
    location: Option<Location>,
}

/// Begins to list `path`.
#[pyfunction]
pub(crate) fn iter_batches(
    path: &Bound<'_, PyAny>,
    recursive: bool,
    stat: Option<&Bound<'_, PyAny>>,
    followlinks: bool,
    batch_size: &Bound<'_, PyAny>,
) -> PyResult<Batches> {
    let py = path.py();
    let request = Request::new(path, "iter_batches", recursive, stat, followlinks)?;
    let rows = rows_of(batch_size)?;
    let stream = py.detach(|| firstbyte_listing::stream(request.root(), &request.options));
    let stream = stream.map_err(|error| request.fail(py, &error))?;
    let errors = Arc::default();
    let source = BatchSource::local(stream, request.builder(rows), Arc::clone(&errors));
    Ok(Batches {
        fields: request.shape.fields,
        source: Mutex::new(Some(source)),
        errors,
        form: request.place.form,
        location: None,
    })
}

/// Begins to list everything below a location in a store.
#[pyfunction]
pub(crate) fn iter_stored(
    py: Python<'_>,
    client: &PyClient,
    location: LocationArgument,
    recursive: bool,
    batch_size: &Bound<'_, PyAny>,
) -> PyResult<Batches> {
    let location = location.0;
    let rows = rows_of(batch_size)?;
    let source = begin(py, client, &location, recursive, rows)?;
    Ok(Batches {
        fields: stored::fields(recursive),
        source: Mutex::new(Some(source)),
        errors: Arc::default(),
        form: NameType::Text,
        location: Some(location),
    })
}

/// Lists everything below a location in a store.
#[pyfunction]
pub(crate) fn list_stored(
    py: Python<'_>,
    client: &PyClient,
    location: LocationArgument,
    recursive: bool,
) -> PyResult<PyListing> {
    let location = location.0;
    let source = begin(py, client, &location, recursive, ROWS_PER_BATCH)?;
    let cancel = source.cancel().unwrap_or_default();
    let batches = interruptible(py, || cancel.cancel(), move || source.collect::<Result<_, _>>())?;
    let batches = batches.map_err(|why| fail(py, &why, Some(&location)))?;
    Ok(PyListing { fields: stored::fields(recursive), batches, errors: Vec::new(), form: NameType::Text })
}

/// Begins the listing of a store. Returns once its first page has arrived.
fn begin(
    py: Python<'_>,
    client: &PyClient,
    location: &Location,
    recursive: bool,
    rows: NonZeroUsize,
) -> PyResult<BatchSource> {
    let engine = client.route.uncached_client(py)?;
    let options = ListOptions { recursive, links: Links::FollowExisting, ..ListOptions::default() };
    let (at, cancel) = (location.clone(), Cancel::new());
    let store = engine.store().scoped(&cancel);
    let listing = interruptible(py, || cancel.cancel(), move || store.list(&at, &options))?;
    let listing = listing.map_err(|error| failure(py, &error.into(), Some(location)))?;
    let builder = stored::StoredColumnsBuilder::new(stored::fields(recursive), rows);
    Ok(BatchSource::stored(listing, builder, cancel))
}

fn rows_of(batch_size: &Bound<'_, PyAny>) -> PyResult<NonZeroUsize> {
    NonZeroUsize::new(number("batch_size", batch_size)?)
        .ok_or_else(|| PyValueError::new_err("iter_batches: batch_size should be at least 1, not 0"))
}

fn fail(py: Python<'_>, why: &BatchFailure, location: Option<&Location>) -> PyErr {
    match why {
        BatchFailure::Name(line) => PyValueError::new_err(line.clone()),
        BatchFailure::Inherited => PyRuntimeError::new_err(INHERITED),
        BatchFailure::Store(error) => failure(py, error, location),
    }
}

#[pymethods]
impl Batches {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        let mut source = self.source.lock_py_attached(py);
        let listing = source.as_mut().ok_or_else(handed_over_error)?;
        let next = match listing.cancel() {
            None => py.detach(|| listing.next()),
            Some(cancel) => {
                // If the wait is interrupted, the listing is dropped, which ends it.
                let Some(mut listing) = source.take() else { return Ok(None) };
                let step = move || (listing.next(), listing);
                let (next, listing) = interruptible(py, || cancel.cancel(), step)?;
                *source = Some(listing);
                next
            }
        };
        let next = next.transpose().map_err(|why| fail(py, &why, self.location.as_ref()))?;
        Ok(next.map(RecordBatch))
    }

    /// Errors so far, each an OSError.
    #[getter]
    fn errors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = self.errors.lock_py_attached(py);
        errors(py, &list, self.form)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        arrow::schema_capsule(py, &self.fields)
    }

    /// Exports the remaining batches to one consumer, which reads them as it needs them.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let mut source = self.source.lock_py_attached(py);
        let source = source.take().ok_or_else(handed_over_error)?;
        let batches = source.map(|batch| batch.map_err(|why| why.to_string()));
        arrow::stream_capsule(py, Arc::clone(&self.fields), batches)
    }
}

fn handed_over_error() -> PyErr {
    PyRuntimeError::new_err("these batches were handed over to an Arrow consumer: begin another listing")
}

/// Some rows of a listing.
#[pyclass(frozen, module = "firstbyte")]
pub(crate) struct RecordBatch(arrow_array::RecordBatch);

#[pymethods]
impl RecordBatch {
    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        arrow::schema_capsule(py, self.0.schema_ref())
    }

    /// Exports the columns, for any consumer and any number of times. A requested type is ignored.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema;
        arrow::array_capsules(py, &self.0)
    }
}

/// Converts errors to Python exceptions.
fn errors<'py>(py: Python<'py>, errors: &[Error], form: NameType) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, errors.iter().map(|error| crate::error::listing_error(py, error, form).into_value(py)))
}
