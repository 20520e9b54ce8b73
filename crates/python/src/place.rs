//! Parses the directory argument of `listdir`, `scandir`, `walk`, `Layout` and the listings as
//! columns: a path as `str` or `bytes`, an open descriptor, or None for the current directory.
//!
//! The package's Python code resolves `os.PathLike`, and passes arguments of other types on to
//! `os`.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use firstbyte_listing::DirectoryReader;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString};
use rustix::io::Errno;

use crate::error::os_error;
use crate::name::{NameType, encode};

/// A directory, and the Python type of its names.
pub(crate) struct DirectoryArgument {
    at: ArgumentPlace,
    pub(crate) form: NameType,
    /// The argument as given, for errors.
    given: Py<PyAny>,
}

enum ArgumentPlace {
    Path(PathBuf),
    Descriptor(i32),
}

impl DirectoryArgument {
    /// Parses `given`, the argument of the function `verb`.
    ///
    /// # Errors
    /// `TypeError` for another type, `ValueError` for a zero byte, `UnicodeEncodeError` for a
    /// string that cannot be a name.
    pub(crate) fn new(given: &Bound<'_, PyAny>, verb: &str) -> PyResult<Self> {
        let (at, form) = if let Ok(text) = given.cast::<PyString>() {
            (ArgumentPlace::Path(path(encode(text)?, verb)?), NameType::Text)
        } else if let Ok(bytes) = given.cast::<PyBytes>() {
            (ArgumentPlace::Path(path(bytes.as_bytes().to_vec(), verb)?), NameType::Bytes)
        } else if given.is_none() {
            (ArgumentPlace::Path(PathBuf::from(".")), NameType::Text)
        } else if let Ok(descriptor) = given.cast::<PyInt>() {
            (ArgumentPlace::Descriptor(descriptor.extract()?), NameType::Text)
        } else {
            let kind = given.get_type().name()?.to_string();
            let line =
                format!("{verb}: path should be string, bytes, os.PathLike, integer or None, not {kind}");
            return Err(PyTypeError::new_err(line));
        };
        Ok(Self { at, form, given: given.clone().unbind() })
    }

    /// Opens the directory, without the interpreter's lock. A descriptor is duplicated; the
    /// duplicate shares the position of the original.
    ///
    /// # Errors
    /// `OSError` with the argument as its file name.
    pub(crate) fn open(&self, py: Python<'_>) -> PyResult<DirectoryReader> {
        let opened = py.detach(|| match &self.at {
            ArgumentPlace::Path(path) => open(path),
            ArgumentPlace::Descriptor(number) => duplicate(*number),
        });
        opened.map_err(|error| match error.raw_os_error() {
            // For a number that is not an open descriptor, `os` raises an error without a file
            // name.
            Some(code) if code == Errno::BADF.raw_os_error() => os_error(&error, py.None().into_bound(py)),
            _ => self.fail(py, &error),
        })
    }

    /// Makes the exception for an error at this directory.
    pub(crate) fn fail(&self, py: Python<'_>, error: &std::io::Error) -> PyErr {
        os_error(error, self.given.bind(py).clone())
    }

    /// Returns the path, if the argument is a path.
    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.at {
            ArgumentPlace::Path(path) => Some(path),
            ArgumentPlace::Descriptor(_) => None,
        }
    }

    /// Returns the number of the caller's descriptor, if the argument is a descriptor.
    pub(crate) fn descriptor(&self) -> Option<i32> {
        match self.at {
            ArgumentPlace::Path(_) => None,
            ArgumentPlace::Descriptor(number) => Some(number),
        }
    }

    /// Returns the prefix that turns an entry's name into its path: the path with a `/`. Empty for
    /// a descriptor.
    pub(crate) fn prefix<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let bytes = self.path().map_or(&b""[..], |path| path.as_os_str().as_bytes());
        let slash: &[u8] = if bytes.is_empty() || bytes.ends_with(b"/") { b"" } else { b"/" };
        self.form.decode(py, &[bytes, slash].concat())
    }
}

/// Makes a path from bytes, none of which may be zero.
fn path(bytes: Vec<u8>, verb: &str) -> PyResult<PathBuf> {
    if bytes.contains(&0) {
        return Err(PyValueError::new_err(format!("{verb}: embedded null character in path")));
    }
    Ok(PathBuf::from(OsStr::from_bytes(&bytes)))
}

/// Opens the directory at `path`. Fails with the operating system's error.
pub(crate) fn open(path: &Path) -> std::io::Result<DirectoryReader> {
    DirectoryReader::open(path).map_err(|error| match error {
        firstbyte_listing::Error::Io { source, .. } => source,
        other => std::io::Error::other(other),
    })
}

fn duplicate(number: i32) -> std::io::Result<DirectoryReader> {
    // Borrowing -1 would be undefined behaviour. The kernel gives out no negative numbers.
    if number < 0 {
        return Err(Errno::BADF.into());
    }
    // SAFETY: the caller passed the number of its descriptor. If the number is not an open
    // descriptor, the duplication fails and the number is not used again.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    let own = rustix::io::fcntl_dupfd_cloexec(borrowed, 0)?;
    if !rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(own.as_fd())?.st_mode).is_dir() {
        return Err(Errno::NOTDIR.into());
    }
    Ok(DirectoryReader::from(own))
}
