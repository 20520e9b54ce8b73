//! Defines `DirEntry`, which has the methods, results and errors of `os.DirEntry`.
//!
//! An entry holds its name and the type that the directory reports. Path and stat results are made
//! on demand and kept, as in `os.DirEntry`. Stat results come from `os.stat`, so they are
//! `stat_result`s of the running Python.
//!
//! Like `os.DirEntry`, the class cannot be part of a cycle and is not tracked by the garbage
//! collector, so a loop over 10^6 entries triggers no collections. Therefore `pyo3` stays at 0.29:
//! later releases give every class a header for the collector.

use std::sync::Arc;

use firstbyte_listing::BatchEntry;
use pyo3::Borrowed;
use pyo3::exceptions::{PyFileNotFoundError, PyTypeError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};
use rustix::fs::FileType;

use crate::name::NameType;
use crate::place::DirectoryArgument;

/// Facts about a directory that its entries need.
pub(crate) struct Parent {
    form: NameType,
    /// Prefix that turns an entry's name into its path; empty if the directory was given as a
    /// descriptor.
    prefix: Py<PyAny>,
    /// The caller's descriptor, if the directory was given as one. `os.stat` is then called
    /// relative to it.
    descriptor: Option<i32>,
}

impl Parent {
    /// Describes the directory at `place`.
    pub(crate) fn new(py: Python<'_>, place: &DirectoryArgument) -> PyResult<Self> {
        Ok(Self { form: place.form, prefix: place.prefix(py)?.unbind(), descriptor: place.descriptor() })
    }
}

/// An entry of a directory, as `scandir` gives it.
#[pyclass(frozen, module = "firstbyte", name = "DirEntry")]
pub(crate) struct DirEntry {
    /// The entry's file name, relative to the `scandir` path.
    #[pyo3(get)]
    name: Py<PyAny>,
    parent: Arc<Parent>,
    inode: u64,
    kind: FileType,
    path: PyOnceLock<Py<PyAny>>,
    /// Result of `stat` that follows links.
    stat: PyOnceLock<Py<PyAny>>,
    /// Result of `stat` that does not follow links.
    lstat: PyOnceLock<Py<PyAny>>,
}

/// Choice between a link's target and the link itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Links {
    Follow,
    Keep,
}

/// Converts `follow_symlinks`, which may be any object with a truth value.
impl<'py> FromPyObject<'_, 'py> for Links {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(if given.is_truthy()? { Self::Follow } else { Self::Keep })
    }
}

#[pymethods]
impl DirEntry {
    /// The entry's full path name: the `scandir` path joined with the name.
    #[getter]
    fn path<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyAny>> {
        let path = self
            .path
            .get_or_try_init(py, || self.parent.prefix.bind(py).add(self.name.bind(py)).map(Bound::unbind))?;
        Ok(path.bind(py))
    }

    /// Return inode of the entry; cached per entry.
    fn inode(&self) -> u64 {
        self.inode
    }

    /// Return True if the entry is a directory; cached per entry.
    #[pyo3(signature = (*, follow_symlinks = Links::Follow), text_signature = "($self, *, follow_symlinks=True)")]
    fn is_dir(&self, py: Python<'_>, follow_symlinks: Links) -> PyResult<bool> {
        self.is(py, FileType::Directory, follow_symlinks)
    }

    /// Return True if the entry is a file; cached per entry.
    #[pyo3(signature = (*, follow_symlinks = Links::Follow), text_signature = "($self, *, follow_symlinks=True)")]
    fn is_file(&self, py: Python<'_>, follow_symlinks: Links) -> PyResult<bool> {
        self.is(py, FileType::RegularFile, follow_symlinks)
    }

    /// Return True if the entry is a symbolic link; cached per entry.
    fn is_symlink(&self, py: Python<'_>) -> PyResult<bool> {
        match self.kind {
            FileType::Unknown => self.is(py, FileType::Symlink, Links::Keep),
            kind => Ok(kind == FileType::Symlink),
        }
    }

    /// Return True if the entry is a junction; cached per entry. There are none on Linux.
    fn is_junction(&self) -> bool {
        false
    }

    /// Return stat_result object for the entry; cached per entry.
    #[pyo3(signature = (*, follow_symlinks = Links::Follow), text_signature = "($self, *, follow_symlinks=True)")]
    fn stat<'py>(&self, py: Python<'py>, follow_symlinks: Links) -> PyResult<&Bound<'py, PyAny>> {
        let state = if follow_symlinks == Links::Follow && self.is_symlink(py)? {
            self.stat.get_or_try_init(py, || self.fetch(py, Links::Follow))
        } else {
            self.lstat.get_or_try_init(py, || self.fetch(py, Links::Keep))
        };
        Ok(state?.bind(py))
    }

    /// Returns the path for the entry.
    fn __fspath__<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyAny>> {
        self.path(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<DirEntry {}>", self.name.bind(py).repr()?))
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
        Err(PyTypeError::new_err("cannot pickle 'DirEntry' object"))
    }
}

impl DirEntry {
    /// Makes an entry from a directory entry, without further system calls.
    #[inline]
    pub(crate) fn new(py: Python<'_>, parent: &Arc<Parent>, entry: &BatchEntry<'_>) -> PyResult<Self> {
        Ok(Self {
            name: parent.form.decode(py, entry.name())?.unbind(),
            parent: Arc::clone(parent),
            inode: entry.inode(),
            kind: entry.file_type(),
            path: PyOnceLock::new(),
            stat: PyOnceLock::new(),
            lstat: PyOnceLock::new(),
        })
    }

    /// Returns whether the entry, or the target of its link, has this kind. A missing file has no
    /// kind.
    fn is(&self, py: Python<'_>, kind: FileType, links: Links) -> PyResult<bool> {
        let known =
            self.kind != FileType::Unknown && !(links == Links::Follow && self.kind == FileType::Symlink);
        if known {
            return Ok(self.kind == kind);
        }
        match self.stat(py, links) {
            Ok(state) => {
                let mode = state.getattr(intern!(py, "st_mode"))?.extract()?;
                Ok(FileType::from_raw_mode(mode) == kind)
            }
            Err(error) if error.is_instance_of::<PyFileNotFoundError>(py) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Calls `os.stat` with the path or, if the caller gave a descriptor, with the name and the
    /// descriptor.
    fn fetch(&self, py: Python<'_>, links: Links) -> PyResult<Py<PyAny>> {
        static STAT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let stat = STAT.import(py, "posix", "stat")?;
        let options = PyDict::new(py);
        options.set_item(intern!(py, "follow_symlinks"), links == Links::Follow)?;
        if let Some(descriptor) = self.parent.descriptor {
            options.set_item(intern!(py, "dir_fd"), descriptor)?;
        }
        Ok(stat.call((self.path(py)?,), Some(&options))?.unbind())
    }
}

/// Implements `cls[item]` for annotations such as `os.DirEntry[str]`.
pub(crate) fn generic_alias<'py>(
    cls: &Bound<'py, PyType>,
    item: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: both are live objects; the result is a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(cls.py(), ffi::Py_GenericAlias(cls.as_ptr(), item.as_ptr())) }
}
