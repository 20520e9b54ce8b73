//! Errors as Python has them: an `OSError` of the subclass its code calls for, with the file's name as it was given.

use std::io;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::name::Form;

/// The operating system's `error` at `filename`, which may be any object that names a file, or `None`.
pub(crate) fn os_error(error: &io::Error, filename: Bound<'_, PyAny>) -> PyErr {
    match error.raw_os_error() {
        // Called with a code and a text, OSError makes the right subclass of itself.
        Some(code) => PyOSError::new_err((code, text(code), filename.unbind())),
        None => PyOSError::new_err(error.to_string()),
    }
}

/// What Python calls the error with this code: the text alone, without Rust's "(os error 2)".
fn text(code: i32) -> String {
    let text = io::Error::from_raw_os_error(code).to_string();
    text.rsplit_once(" (os error").map_or(text.clone(), |(text, _)| text.to_owned())
}

/// What went wrong in the midst of a listing; its paths are in the form the root was given in.
pub(crate) fn listing(py: Python<'_>, error: &firstbyte_listing::Error, form: Form) -> PyErr {
    use std::os::unix::ffi::OsStrExt;

    use firstbyte_listing::Error;

    let (path, source) = match error {
        Error::Io { path, source } => (path, source),
        // What the system says of a link that cannot be resolved; the path says which one.
        Error::Loop { path } => (path, &io::Error::from_raw_os_error(rustix::io::Errno::LOOP.raw_os_error())),
        Error::Disordered { .. } => return PyOSError::new_err(error.to_string()),
    };
    let bytes = path.as_os_str().as_bytes();
    let filename = form.decode(py, bytes).unwrap_or_else(|_| PyBytes::new(py, bytes).into_any());
    os_error(source, filename)
}
