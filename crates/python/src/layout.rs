//! Defines `PyLayout`: hash-prefix directories, implemented by the layout crate.
//!
//! Names are passed as `str` or `bytes`, and returned in the type in which the root was given. The
//! interpreter's lock is held only while arguments are converted.

use std::os::fd::IntoRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use firstbyte_layout::{
    self as layout, DigitSource, Error, LayoutDurability, LayoutScheme, Leaf, SchemeError,
};
use firstbyte_location::shown;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBytes, PyString};
use rustix::io::Errno;
use rustix_futex_sync::Mutex;

use crate::arguments::number;
use crate::error::os_error;
use crate::name::{NameType, encode};
use crate::place::DirectoryArgument;

/// Number of names in one message of the thread that lists them.
const NAMES_PER_MESSAGE: usize = 1000;
/// Maximum number of messages that may wait for Python.
const MAX_WAITING_MESSAGES: usize = 2;

/// An open layout.
#[pyclass(frozen, module = "firstbyte", name = "Layout")]
pub(crate) struct PyLayout {
    layout: Arc<layout::Layout>,
    form: NameType,
}

#[pymethods]
impl PyLayout {
    #[staticmethod]
    fn open(root: &Bound<'_, PyAny>, durable: bool) -> PyResult<Self> {
        Self::with(root, durable, layout::Layout::open)
    }

    #[staticmethod]
    fn create(
        root: &Bound<'_, PyAny>,
        hash: &str,
        leaf: &str,
        shape: (Option<Bound<'_, PyAny>>, Option<Bound<'_, PyAny>>),
        files: &Bound<'_, PyAny>,
        durable: bool,
    ) -> PyResult<Self> {
        let refuse = |error: SchemeError| fail(root.py(), &error.into(), NameType::Text);
        let hash: DigitSource = hash.parse().map_err(refuse)?;
        let leaf: Leaf = leaf.parse().map_err(refuse)?;
        let levels = shape.0.map(|levels| number("levels", &levels)).transpose()?;
        let width = shape.1.map(|width| number("width", &width)).transpose()?;
        let files = number("files", files)?;
        let scheme = LayoutScheme::suggest(hash, files, levels, width, leaf).map_err(refuse)?;
        Self::with(root, durable, |root| layout::Layout::create(root, scheme))
    }

    /// Returns the shape of the directories: hash, levels, width, leaf.
    #[getter]
    fn scheme(&self) -> (String, u8, u8, String) {
        let scheme = self.layout.scheme();
        (scheme.hash().to_string(), scheme.levels(), scheme.width(), scheme.leaf().to_string())
    }

    fn path<'py>(&self, py: Python<'py>, name: Name) -> PyResult<Bound<'py, PyAny>> {
        let path = self.layout.path(&name.0).map_err(|error| self.fail(py, &error))?;
        self.form.decode(py, path.as_os_str().as_bytes())
    }

    fn find<'py>(&self, py: Python<'py>, name: Name) -> PyResult<Option<Bound<'py, PyAny>>> {
        let path = self.run(py, |layout| layout.find(&name.0))?;
        path.map(|path| self.form.decode(py, path.as_os_str().as_bytes())).transpose()
    }

    fn put(&self, py: Python<'_>, name: Name, content: &Bound<'_, PyBytes>) -> PyResult<()> {
        let content = content.as_bytes();
        self.run(py, |layout| layout.put(&name.0, content))
    }

    fn put_file(&self, py: Python<'_>, name: Name, source: Name) -> PyResult<()> {
        self.run(py, |layout| layout.put_file(&name.0, Path::new(std::ffi::OsStr::from_bytes(&source.0))))
    }

    fn put_content<'py>(&self, py: Python<'py>, content: &Bound<'_, PyBytes>) -> PyResult<Bound<'py, PyAny>> {
        let content = content.as_bytes();
        let name = self.run(py, |layout| layout.put_content(content))?;
        self.form.decode(py, &name)
    }

    fn get<'py>(&self, py: Python<'py>, name: Name) -> PyResult<Bound<'py, PyBytes>> {
        let content = self.run(py, |layout| layout.get(&name.0))?;
        Ok(PyBytes::new(py, &content))
    }

    /// Opens a file. Returns a descriptor, which the caller has to close.
    fn open_file(&self, py: Python<'_>, name: Name) -> PyResult<i32> {
        self.run(py, |layout| layout.open_file(&name.0)).map(IntoRawFd::into_raw_fd)
    }

    fn delete(&self, py: Python<'_>, name: Name) -> PyResult<bool> {
        self.run(py, |layout| layout.delete(&name.0))
    }

    fn count(&self, py: Python<'_>) -> PyResult<u64> {
        self.run(py, layout::Layout::count)
    }

    fn names(&self) -> PyResult<PyNames> {
        PyNames::start_listing(Arc::clone(&self.layout), self.form)
    }
}

impl PyLayout {
    fn with(
        root: &Bound<'_, PyAny>,
        durable: bool,
        make: impl Send + FnOnce(&Path) -> layout::Result<layout::Layout>,
    ) -> PyResult<Self> {
        let py = root.py();
        let place = DirectoryArgument::new(root, "Layout")?;
        let path =
            place.path().ok_or_else(|| PyTypeError::new_err("Layout: a root is a path, not a descriptor"))?;
        let layout = py.detach(|| make(path)).map_err(|error| fail(py, &error, place.form))?;
        let durability = if durable { LayoutDurability::Full } else { LayoutDurability::None };
        Ok(Self { layout: Arc::new(layout.with_durability(durability)), form: place.form })
    }

    /// Runs `work` without the interpreter's lock.
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl Send + FnOnce(&layout::Layout) -> layout::Result<T>,
    ) -> PyResult<T> {
        py.detach(|| work(&self.layout)).map_err(|error| self.fail(py, &error))
    }

    fn fail(&self, py: Python<'_>, error: &Error) -> PyErr {
        fail(py, error, self.form)
    }
}

/// A name or a path, passed as `str` or `bytes`.
struct Name(Vec<u8>);

impl<'py> FromPyObject<'_, 'py> for Name {
    type Error = PyErr;

    fn extract(given: pyo3::Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = given.cast::<PyString>() {
            return encode(&text).map(Self);
        }
        let bytes = given.cast::<PyBytes>().map_err(|_| {
            let kind = given.get_type().name().map_or_else(|_| String::new(), |name| name.to_string());
            PyTypeError::new_err(format!("a name should be str or bytes, not {kind}"))
        })?;
        Ok(Self(bytes.as_bytes().to_vec()))
    }
}

/// Makes the nearest Python exception: a ValueError for a wrong argument, otherwise an OSError with
/// code and file name, of the subclass for its code.
fn fail(py: Python<'_>, error: &Error, form: NameType) -> PyErr {
    let Some(path) = error.path().filter(|_| !matches!(error, Error::Content { .. })) else {
        // Options of the command line are arguments of the same names in Python, without the
        // dashes.
        return PyValueError::new_err(error.to_string().replace("--", ""));
    };
    let filename = match form.decode(py, path.as_os_str().as_bytes()) {
        Ok(filename) => filename,
        Err(error) => return error,
    };
    match error {
        Error::Io { source, .. } => os_error(source, filename),
        Error::NotFound { .. } | Error::NotEmpty { .. } => {
            os_error(&std::io::Error::from_raw_os_error(code(error)), filename)
        }
        // The operating system has no messages for these errors.
        _ => {
            let line = error.to_string();
            let text = line.strip_prefix(&format!("{}: ", shown(path))).unwrap_or(&line);
            let advice = error.advice().map_or_else(String::new, |advice| format!("; {advice}"));
            PyOSError::new_err((code(error), format!("{text}{advice}"), filename.unbind()))
        }
    }
}

/// Returns the nearest error code.
fn code(error: &Error) -> i32 {
    let code = match error {
        Error::NotFound { .. } | Error::Missing { .. } => Errno::NOENT,
        Error::NotEmpty { .. } => Errno::NOTEMPTY,
        Error::Taken { .. } | Error::NoFile { .. } => Errno::EXIST,
        Error::StillOpen { .. } => Errno::BUSY,
        Error::Busy { .. } | Error::Locked { .. } => Errno::AGAIN,
        // The layout has changed since it was opened.
        Error::Differs { .. } => Errno::STALE,
        Error::Newer { .. } => Errno::OPNOTSUPP,
        Error::Malformed { .. } => Errno::BADMSG,
        _ => Errno::IO,
    };
    code.raw_os_error()
}

/// The names in a layout, listed by a thread while Python works.
#[pyclass(frozen, module = "firstbyte", name = "Names")]
pub(crate) struct PyNames {
    state: Mutex<StartedListing>,
    form: NameType,
    /// The process that began the listing. A forked child inherits everything except the thread.
    process: u32,
}

struct StartedListing {
    chunks: Receiver<Vec<layout::Result<Vec<u8>>>>,
    chunk: std::vec::IntoIter<layout::Result<Vec<u8>>>,
}

impl PyNames {
    fn start_listing(layout: Arc<layout::Layout>, form: NameType) -> PyResult<Self> {
        let (give, chunks) = sync_channel(MAX_WAITING_MESSAGES);
        std::thread::Builder::new().name("firstbyte-names".into()).spawn(move || list(&layout, &give))?;
        let state = Mutex::new(StartedListing { chunks, chunk: Vec::new().into_iter() });
        Ok(Self { state, form, process: std::process::id() })
    }
}

/// Sends all names from the listing thread. Returns when all names are sent, or when the receiver
/// is dropped.
fn list(layout: &layout::Layout, chunks: &SyncSender<Vec<layout::Result<Vec<u8>>>>) {
    let mut names = layout.iter();
    loop {
        let chunk: Vec<_> = names.by_ref().take(NAMES_PER_MESSAGE).collect();
        if chunk.is_empty() || chunks.send(chunk).is_err() {
            return;
        }
    }
}

#[pymethods]
impl PyNames {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.process != std::process::id() {
            return Err(PyRuntimeError::new_err(
                "these names were begun to be listed before a fork: iterate anew",
            ));
        }
        let mut state = self.state.lock_py_attached(py);
        let StartedListing { chunks, chunk } = &mut *state;
        if chunk.as_slice().is_empty()
            && let Some(next) = py.detach(move || chunks.recv().ok())
        {
            *chunk = next.into_iter();
        }
        match chunk.next() {
            Some(Ok(name)) => self.form.decode(py, &name).map(Some),
            Some(Err(error)) => Err(fail(py, &error, self.form)),
            None => Ok(None),
        }
    }
}
