//! `LazyFile`: an object opened for reading. The file object that `open` returns is built on it.
//!
//! Every read has an offset and waits without the interpreter's lock, so threads can share a file.
//! In a forked child the file is opened again, in the same version, at its first read.

use std::sync::{Arc, Mutex, PoisonError};

use firstbyte_location::{Location, Version, to_usize};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::client::{Client, Place, Route};
use crate::error::failure;
use crate::fork::Own;
use crate::wait::{self, interruptible};

/// One open of one version of an object.
#[pyclass(frozen, module = "firstbyte._native")]
pub(crate) struct LazyFile {
    route: Arc<Route>,
    location: Location,
    version: Version,
    /// Nothing once it is closed.
    file: Mutex<Option<Own<Arc<firstbyte::LazyFile>>>>,
}

/// Opens what is at `location` now.
#[pyfunction]
pub(crate) fn open(py: Python<'_>, client: &Client, location: Place) -> PyResult<LazyFile> {
    let Place(location) = location;
    let engine = client.route.engine(py, &location)?;
    let opened = match location.as_local() {
        Some(_) => py.detach(|| engine.open_location(&location)),
        None => {
            let location = location.clone();
            interruptible(py, || (), move || engine.open_location(&location))?
        }
    };
    let file = opened.map_err(|error| failure(py, &error, Some(&location)))?;
    Ok(LazyFile {
        route: Arc::clone(&client.route),
        location,
        version: file.version().clone(),
        file: Mutex::new(Some(Own::new(Arc::new(file)))),
    })
}

#[pymethods]
impl LazyFile {
    /// Up to `length` bytes from `offset` on; fewer only at the end.
    fn read_at<'py>(&self, py: Python<'py>, offset: u64, length: usize) -> PyResult<Bound<'py, PyBytes>> {
        let file = self.file(py)?;
        let left = to_usize(file.size().saturating_sub(offset));
        PyBytes::new_with(py, length.min(left), |buffer| {
            wait::read(py, &file, buffer, offset)?
                .map(drop)
                .map_err(|error| failure(py, &error, Some(&self.location)))
        })
    }

    /// Fills `buffer` from `offset` on and returns how many bytes there were.
    fn read_into(&self, py: Python<'_>, offset: u64, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let file = self.file(py)?;
        let buffer = PyUntypedBuffer::get(buffer)?;
        if buffer.readonly() || !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err("a buffer to read into is writable and in one piece"));
        }
        if buffer.len_bytes() == 0 {
            return Ok(0);
        }
        // SAFETY: the buffer is writable, in one piece, that long, and stays as long as it is held
        // here. That no other code uses it meanwhile is up to the caller, as for every `readinto`.
        let slice =
            unsafe { std::slice::from_raw_parts_mut(buffer.buf_ptr().cast::<u8>(), buffer.len_bytes()) };
        wait::read(py, &file, slice, offset)?.map_err(|error| failure(py, &error, Some(&self.location)))
    }

    /// Lets the file go; reads are errors from now on.
    fn close(&self, py: Python<'_>) {
        let file = self.slot().take();
        py.detach(|| drop(file));
    }

    /// Length in bytes.
    #[getter]
    fn size(&self) -> u64 {
        self.version.size.unwrap_or(0)
    }

    /// The identity of this version of the object.
    #[getter]
    fn version(&self) -> String {
        self.version.to_string()
    }

    /// Where it is.
    #[getter]
    fn location(&self) -> String {
        self.location.to_string()
    }
}

impl LazyFile {
    /// The file, in this process.
    fn file(&self, py: Python<'_>) -> PyResult<Arc<firstbyte::LazyFile>> {
        match self.slot().as_ref().map(Own::get) {
            Some(Some(file)) => return Ok(Arc::clone(file)),
            Some(None) => {}
            None => return Err(PyValueError::new_err("I/O operation on closed file")),
        }
        let engine = self.route.engine(py, &self.location)?;
        let file = Arc::new(engine.open_version(&self.location, self.version.clone()));
        *self.slot() = Some(Own::new(Arc::clone(&file)));
        Ok(file)
    }

    /// Taken only with the interpreter's lock held: see [`crate::fork`].
    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Own<Arc<firstbyte::LazyFile>>>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
