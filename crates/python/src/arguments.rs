//! Converts arguments that several functions take: locations, sizes, rates, times and numbers. The
//! exception for a value that cannot be used names the argument.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use firstbyte::billing::parse_money;
use firstbyte_location::units::PositiveDuration;
use firstbyte_location::{Location, units};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyInt};
use pyo3::{Borrowed, FromPyObject};

/// A path or a URL, from `str`, `bytes` or `os.PathLike`. It is not parsed yet.
pub(crate) struct PathArgument(pub(crate) PathBuf);

impl FromPyObject<'_, '_> for PathArgument {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        // SAFETY: the argument is a live object; the result is a new reference, or null with an
        // exception set.
        let path = unsafe { Bound::from_owned_ptr_or_err(given.py(), ffi::PyOS_FSPath(given.as_ptr()))? };
        match path.cast::<PyBytes>() {
            Ok(bytes) => Ok(Self(path_of_bytes(bytes.as_bytes()))),
            Err(_) => Ok(Self(path.extract::<OsString>()?.into())),
        }
    }
}

/// Returns the path that `bytes` name. As in Python's own functions, bytes are a path and never a
/// URL, so `./` goes before a name that could be the beginning of a URL.
fn path_of_bytes(bytes: &[u8]) -> PathBuf {
    let is_ambiguous = bytes.first().is_some_and(|first| *first != b'/') && bytes.contains(&b':');
    let bytes = if is_ambiguous { [b"./", bytes].concat() } else { bytes.to_vec() };
    PathBuf::from(OsString::from_vec(bytes))
}

/// A location, from `str`, `bytes` or `os.PathLike`.
pub(crate) struct LocationArgument(pub(crate) Location);

impl FromPyObject<'_, '_> for LocationArgument {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let text: PathArgument = given.extract()?;
        Location::parse(OsStr::new(&text.0))
            .map(Self)
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }
}

/// Returns a location that names the same place after the process has changed its working
/// directory. Used for work that outlives the call to which the location was given. Messages show
/// the given spelling.
pub(crate) fn in_any_directory(location: &Location) -> Location {
    match location {
        Location::Local(path) => Location::Local(std::path::absolute(path).unwrap_or_else(|_| path.clone())),
        other => other.clone(),
    }
}

/// A size in bytes: a number, or a string as on the command line.
pub(crate) struct SizeArgument(pub(crate) u64);

impl FromPyObject<'_, '_> for SizeArgument {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        if given.is_instance_of::<PyInt>() {
            return Ok(Self(given.extract()?));
        }
        let text: String = given.extract()?;
        units::parse_size(&text).map(Self).map_err(|error| PyValueError::new_err(error.to_string()))
    }
}

/// The argument `limit_rate` in bytes per second: a number, or a string as on the command line.
pub(crate) struct RateArgument(pub(crate) u64);

impl FromPyObject<'_, '_> for RateArgument {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let refused = |error| name_argument("limit_rate", &given, error);
        if given.is_instance_of::<PyInt>() {
            return given.extract().map(Self).map_err(refused);
        }
        let text: String = given.extract().map_err(refused)?;
        units::parse_rate(&text).map(Self).map_err(|error| refused(PyValueError::new_err(error.to_string())))
    }
}

/// An amount in dollars: a number, or a string as on the command line.
pub(crate) struct Money(pub(crate) f64);

impl FromPyObject<'_, '_> for Money {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let dollars = if given.is_instance_of::<PyInt>() || given.is_instance_of::<PyFloat>() {
            Ok(given.extract::<f64>()?).and_then(|usd| match usd.is_finite() && usd >= 0.0 {
                true => Ok(usd),
                false => Err(format!("{usd} is no sum of money")),
            })
        } else {
            parse_money(&given.extract::<String>()?)
        };
        dollars.map(Self).map_err(PyValueError::new_err)
    }
}

/// A time limit: a number of seconds, or a string as on the command line.
pub(crate) struct TimeLimit(pub(crate) PositiveDuration);

impl FromPyObject<'_, '_> for TimeLimit {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let limit = if given.is_instance_of::<PyInt>() || given.is_instance_of::<PyFloat>() {
            PositiveDuration::from_seconds(given.extract()?)
        } else {
            given.extract::<String>()?.parse()
        };
        limit.map(Self).map_err(|error| PyValueError::new_err(error.to_string()))
    }
}

/// Converts the argument `name` to a number.
///
/// # Errors
/// `TypeError` for another type, `ValueError` for a number that is out of range.
pub(crate) fn number<T>(name: &str, value: &Bound<'_, PyAny>) -> PyResult<T>
where
    T: for<'a, 'py> FromPyObject<'a, 'py, Error = PyErr>,
{
    value.extract().map_err(|error| name_argument(name, value, error))
}

/// Adds the name of an argument to the exception for its value. A number that is out of range
/// becomes a `ValueError`.
pub(crate) fn name_argument(name: &str, value: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    let py = value.py();
    let (kind, text) = (error.get_type(py), error.value(py).to_string());
    // Subclasses have attributes, which a new exception would lack.
    if kind.is(py.get_type::<PyOverflowError>()) {
        PyValueError::new_err(format!("{name}: {value} is out of range"))
    } else if kind.is(py.get_type::<PyTypeError>()) {
        PyTypeError::new_err(format!("{name}: {text}"))
    } else if kind.is(py.get_type::<PyValueError>()) && !text.starts_with(name) {
        PyValueError::new_err(format!("{name}: {text}"))
    } else {
        error
    }
}
