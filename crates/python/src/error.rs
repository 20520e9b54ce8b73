//! Converts errors to Python exceptions: the subclass of `OSError` for the error code, with the
//! file name as the caller gave it.

use std::io;

use firstbyte_location::Location;
use firstbyte_store::{FailureKind, Trace};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyString};
use rustix::io::Errno;

use crate::name::NameType;

/// Makes an exception from the operating system's `error`. `filename` may be any object that names
/// a file, or `None`.
pub(crate) fn os_error(error: &io::Error, filename: Bound<'_, PyAny>) -> PyErr {
    match error.raw_os_error() {
        // OSError, called with a code and a string, makes an instance of the right subclass.
        Some(code) => PyOSError::new_err((code, errno_text(code), filename.unbind())),
        None => PyOSError::new_err(error.to_string()),
    }
}

/// Returns Python's text for an error code, which has no "(os error 2)" at its end.
fn errno_text(code: i32) -> String {
    let text = io::Error::from_raw_os_error(code).to_string();
    text.rsplit_once(" (os error").map_or(text.clone(), |(text, _)| text.to_owned())
}

/// Makes the exception for an error during a listing. The exception's paths have the type of the
/// root's path.
pub(crate) fn listing_error(py: Python<'_>, error: &firstbyte_listing::Error, form: NameType) -> PyErr {
    use std::os::unix::ffi::OsStrExt;

    use firstbyte_listing::Error;

    let (path, source) = match error {
        Error::Io { path, source } => (path, source),
        // `Loop` and `Refused` become the operating system's error for a link that cannot be
        // resolved.
        Error::Loop { path } | Error::Refused { path } => {
            (path, &io::Error::from_raw_os_error(rustix::io::Errno::LOOP.raw_os_error()))
        }
        Error::Disordered { .. } => return PyOSError::new_err(error.to_string()),
    };
    let bytes = path.as_os_str().as_bytes();
    let filename = form.decode(py, bytes).unwrap_or_else(|_| PyBytes::new(py, bytes).into_any());
    os_error(source, filename)
}

/// Makes the exception for a failed operation on an object. Its class is the one that a local file
/// would give, and its file name is the location. For an argument that cannot be used, makes a
/// `ValueError`.
pub(crate) fn failure(py: Python<'_>, error: &firstbyte::Error, location: Option<&Location>) -> PyErr {
    use std::os::unix::ffi::OsStrExt;

    // A local name need not be text, and then the text of the location names no file.
    let path = location.and_then(Location::as_local).map(|path| path.as_os_str().as_bytes());
    let path = path.and_then(|bytes| NameType::Text.decode(py, bytes).ok());
    named_failure(py, error, location.map(ToString::to_string).as_deref(), path)
}

/// Makes the same exception as [`failure`], for a location given as a string. Remedies that only
/// apply to the command line are left out.
pub(crate) fn failure_at(py: Python<'_>, error: &firstbyte::Error, location: Option<&str>) -> PyErr {
    named_failure(py, error, location, None)
}

/// Makes the exception for `location`. Its file name is `path`, or else the location.
fn named_failure<'py>(
    py: Python<'py>,
    error: &firstbyte::Error,
    location: Option<&str>,
    path: Option<Bound<'py, PyAny>>,
) -> PyErr {
    let line = with_python_name(error.to_string());
    let code = match error.number() {
        Some(code) => Some(code),
        None if error.io_kind() == io::ErrorKind::InvalidInput => None,
        None => Some(errno(error.io_kind()).raw_os_error()),
    };
    // OSError appends its file name to the message, so the location is removed from the text.
    let place = location.filter(|place| line.starts_with(*place) && code.is_some());
    let cut = place.and_then(|place| line[place.len()..].strip_prefix(": "));
    let text = cut.unwrap_or(&line);
    let text = match code {
        Some(code) => &text.replace(&format!(" (os error {code})"), ""),
        None => text,
    };
    let kind = if code.is_none() { FailureKind::BadInput } else { error.kind() };
    let filename = place.map(|place| path.unwrap_or_else(|| PyString::new(py, place).into_any()));
    make_exception(py, kind, code, text, filename, error.trace()).unwrap_or_else(|failed| failed)
}

/// Replaces the option of the command line with which a message begins by its name in Python.
fn with_python_name(line: String) -> String {
    let Some((option, why)) = line.strip_prefix("--").and_then(|rest| rest.split_once(": ")) else {
        return line;
    };
    let name = match option {
        "no-sign-request" => "anonymous",
        "tag" => "tags",
        "sse-kms-key-id" => "sse",
        other => &other.replace('-', "_"),
    };
    format!("{name}: {why}")
}

/// Calls `firstbyte._errors.exception_for`, which makes the exception for `kind`.
fn make_exception(
    py: Python<'_>,
    kind: FailureKind,
    code: Option<i32>,
    text: &str,
    filename: Option<Bound<'_, PyAny>>,
    trace: Option<&Trace>,
) -> PyResult<PyErr> {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let facts = PyDict::new(py);
    if let Some(trace) = trace {
        if let Some(status) = trace.status {
            facts.set_item("status", status)?;
        }
        for (name, value) in [("request_id", &trace.request_id), ("host_id", &trace.host_id)] {
            if let Some(value) = value {
                facts.set_item(name, value)?;
            }
        }
        facts.set_item("attempts", trace.attempts)?;
        facts.set_item("seconds", trace.took.as_secs_f64())?;
    }
    let make = MAKE.import(py, "firstbyte._errors", "exception_for")?;
    Ok(PyErr::from_value(make.call1((kind.name(), code, text, filename, facts))?))
}

fn errno(kind: io::ErrorKind) -> Errno {
    use io::ErrorKind;
    match kind {
        ErrorKind::NotFound => Errno::NOENT,
        ErrorKind::PermissionDenied => Errno::ACCESS,
        ErrorKind::AlreadyExists => Errno::EXIST,
        ErrorKind::IsADirectory => Errno::ISDIR,
        ErrorKind::StaleNetworkFileHandle => Errno::STALE,
        ErrorKind::TimedOut => Errno::TIMEDOUT,
        ErrorKind::HostUnreachable => Errno::HOSTUNREACH,
        ErrorKind::ConnectionReset => Errno::CONNRESET,
        ErrorKind::StorageFull => Errno::NOSPC,
        ErrorKind::Unsupported => Errno::OPNOTSUPP,
        ErrorKind::Interrupted => Errno::INTR,
        _ => Errno::IO,
    }
}
