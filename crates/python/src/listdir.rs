//! `listdir`: returns all names in a directory as one list.

use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::place::Place;
use crate::reading::Reading;

/// Returns the names of the entries of the directory `path`, in the file system's order.
#[pyfunction]
pub(crate) fn listdir<'py>(py: Python<'py>, path: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
    let place = Place::new(path, "listdir")?;
    let mut reading = Reading::open(py, &place)?;
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
