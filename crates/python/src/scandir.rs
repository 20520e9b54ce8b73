//! Implements `scandir`, which returns the entries of a directory one by one.
//!
//! The package's Python code adds the audit event, and the warning about an iterator that was
//! dropped while its directory was open.

use std::sync::Arc;

use firstbyte_listing::Batch;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyTuple, PyType};
use rustix_futex_sync::Mutex;

use crate::entry::{DirEntry, Parent, generic_alias};
use crate::place::DirectoryArgument;
use crate::reading::DirectoryReading;

/// An iterator over a directory's entries, for use from any thread.
#[pyclass(frozen, subclass, module = "firstbyte")]
pub(crate) struct Scandir {
    place: DirectoryArgument,
    parent: Arc<Parent>,
    state: Mutex<ScandirState>,
}

struct ScandirState {
    reading: DirectoryReading,
    batch: Option<Batch>,
    /// Index of the next entry in the batch.
    next: usize,
}

#[pymethods]
impl Scandir {
    #[new]
    fn new(py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<Self> {
        let place = DirectoryArgument::new(path, "scandir")?;
        let parent = Arc::new(Parent::new(py, &place)?);
        let state = ScandirState { reading: DirectoryReading::open(py, &place)?, batch: None, next: 0 };
        Ok(Self { place, parent, state: Mutex::new(state) })
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<DirEntry>> {
        let mut state = self.state.lock_py_attached(py);
        let state = &mut *state;
        loop {
            if let Some(batch) = &state.batch
                && state.next < batch.len()
            {
                let entry = batch.entry(state.next);
                state.next += 1;
                return DirEntry::new(py, &self.parent, &entry).map(Some);
            }
            state.next = 0;
            state.batch = state.reading.next(py, &self.place, state.batch.take())?;
            if state.batch.is_none() {
                return Ok(None);
            }
        }
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) {
        self.close(py);
    }

    /// Ends the iteration and closes the directory. May be called any number of times.
    fn close(&self, py: Python<'_>) {
        let mut state = self.state.lock_py_attached(py);
        state.reading.close(py);
        state.batch = None;
    }

    /// True if the directory is still open: it was neither read to its end nor closed by the
    /// caller.
    #[getter]
    fn is_open(&self, py: Python<'_>) -> bool {
        let state = self.state.lock_py_attached(py);
        state.reading.is_open() || state.batch.as_ref().is_some_and(|batch| state.next < batch.len())
    }

    /// See PEP 585.
    #[classmethod]
    #[pyo3(signature = (item, /))]
    fn __class_getitem__<'py>(
        cls: &Bound<'py, PyType>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        generic_alias(cls, item)
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err("cannot pickle 'ScandirIterator' object"))
    }
}
