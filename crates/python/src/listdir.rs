//! Implements `listdir`, which returns all names in a directory as one list.

use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::place::DirectoryArgument;
use crate::reading::DirectoryReading;

/// Returns the names of the entries of the directory `path`, in the file system's order.
#[pyfunction]
pub(crate) fn listdir<'py>(py: Python<'py>, path: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
    let place = DirectoryArgument::new(path, "listdir")?;
    let mut reading = DirectoryReading::open(py, &place)?;
    let names = PyList::empty(py);
    let mut batch = None;
    while let Some(next) = reading.next(py, &place, batch)? {
        for entry in next.entries() {
            names.append(place.form.decode(py, entry.name())?)?;
        }
        batch = Some(next);
    }
    Ok(names)
}
