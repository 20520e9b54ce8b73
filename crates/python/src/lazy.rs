//! Defines `PyLazyFile`, an object opened for reading. The file object that `open` returns uses it.
//!
//! Every read has an offset and waits without the interpreter's lock, so threads can share a file.
//! In a forked child, the first read opens the file again, in the same version.

use std::sync::Arc;

use firstbyte_location::{ByteRange, FileIdentity, Location, Version, to_usize};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use rustix_futex_sync::Mutex;

use crate::arguments::{LocationArgument, in_any_directory};
use crate::client::{ClientRoute, PyClient};
use crate::error::failure;
use crate::fork::ProcessOwned;
use crate::target::{BufferTarget, bytes_to_fill, check_apart};
use crate::wait::{self, abandonable};

/// An object that is open, in one version.
#[pyclass(frozen, module = "firstbyte._native", name = "LazyFile")]
pub(crate) struct PyLazyFile {
    route: Arc<ClientRoute>,
    /// The location as it was given, for messages.
    location: Location,
    /// The location in any working directory.
    place: Location,
    version: Version,
    /// `None` once the file is closed. Locked only with the interpreter's lock held: see
    /// [`crate::fork`].
    file: Mutex<Option<ProcessOwned<Arc<firstbyte::LazyFile>>>>,
}

/// Opens the current version at `location`. If there is a start file `replay`, begins to fetch the
/// ranges that it lists.
#[pyfunction]
#[pyo3(signature = (client, location, replay=None))]
pub(crate) fn open(
    py: Python<'_>,
    client: &PyClient,
    location: LocationArgument,
    replay: Option<LocationArgument>,
) -> PyResult<PyLazyFile> {
    let LocationArgument(location) = location;
    let engine = client.route.engine(py, &location)?;
    let place = in_any_directory(&location);
    let at = place.clone();
    let open = move || match replay {
        Some(LocationArgument(replay)) => engine.open_replayed(&at, &replay),
        None => engine.open_location(&at),
    };
    let opened = match location.as_local() {
        Some(_) => py.detach(open),
        None => abandonable(py, move |_| open())?,
    };
    let file = opened.map_err(|error| failure(py, &error, Some(&location)))?;
    Ok(PyLazyFile {
        route: Arc::clone(&client.route),
        location,
        place,
        version: file.version().clone(),
        file: Mutex::new(Some(ProcessOwned::new(Arc::new(file)))),
    })
}

/// A version in types that Python can pickle: size, `ETag`, version id, date, and a local file's
/// identity as strings.
type Identity = (Option<u64>, Option<String>, Option<String>, Option<String>, Option<[String; 4]>);

/// Opens a version that another file object identified, without a request.
#[pyfunction]
pub(crate) fn open_version(
    py: Python<'_>,
    client: &PyClient,
    location: LocationArgument,
    identity: Identity,
) -> PyResult<PyLazyFile> {
    let LocationArgument(location) = location;
    let (size, etag, version_id, last_modified, file) = identity;
    let file = file.as_ref().and_then(FileIdentity::from_words);
    let version = Version { size, etag, version_id, last_modified, file };
    let engine = client.route.engine(py, &location)?;
    let place = in_any_directory(&location);
    let opened = engine.open_version(&place, version.clone());
    let file = Mutex::new(Some(ProcessOwned::new(Arc::new(opened))));
    Ok(PyLazyFile { route: Arc::clone(&client.route), location, place, version, file })
}

#[pymethods]
impl PyLazyFile {
    /// Returns the version in the form that `open_version` takes.
    #[getter]
    fn identity(&self) -> Identity {
        let Version { size, etag, version_id, last_modified, file } = self.version.clone();
        (size, etag, version_id, last_modified, file.map(FileIdentity::to_words))
    }

    /// Reads `length` bytes from `offset` on; fewer only at the end of the object.
    fn read_at<'py>(&self, py: Python<'py>, offset: u64, length: usize) -> PyResult<Bound<'py, PyBytes>> {
        let file = self.file(py)?;
        let left = to_usize(file.size().saturating_sub(offset));
        PyBytes::new_with(py, length.min(left), |buffer| {
            let read =
                wait::read_interruptibly(py, |tick, go_on| file.read_at_while(buffer, offset, tick, go_on))?;
            read.map(drop).map_err(|error| failure(py, &error, Some(&self.location)))
        })
    }

    /// Fills `buffer` from `offset` on and returns the number of bytes. `expected` is the number of
    /// bytes from `offset` on that the caller will read in this call and the next ones.
    #[pyo3(signature = (offset, buffer, expected = 0))]
    fn read_into(
        &self,
        py: Python<'_>,
        offset: u64,
        buffer: &Bound<'_, PyAny>,
        expected: usize,
    ) -> PyResult<usize> {
        let file = self.file(py)?;
        let buffer = BufferTarget::of(buffer)?;
        if buffer.is_empty() {
            return Ok(0);
        }
        // SAFETY: the caller keeps other code from using the buffer during the read, as for every
        // `readinto`.
        let slice = unsafe { buffer.slice(buffer.len()) };
        let read = wait::read_interruptibly(py, |tick, go_on| {
            file.read_expecting(slice, offset, expected, tick, go_on)
        })?;
        read.map_err(|error| failure(py, &error, Some(&self.location)))
    }

    /// Reads many ranges, each an offset and a length. Ranges are cut at the end of the object.
    fn read_ranges<'py>(&self, py: Python<'py>, ranges: Vec<(i64, i64)>) -> PyResult<Bound<'py, PyList>> {
        let file = self.file(py)?;
        let mut contents: Vec<Bound<'py, PyAny>> = Vec::with_capacity(ranges.len());
        let mut wanted: Vec<(u64, &mut [u8])> = Vec::with_capacity(ranges.len());
        for (offset, length) in from_start(&ranges)? {
            let length = to_usize(length.min(file.size().saturating_sub(offset)));
            // SAFETY: `contents` keeps the object alive until the memory has been filled.
            let (content, memory) = unsafe { bytes_to_fill(py, length)? };
            contents.push(content);
            wanted.push((offset, memory));
        }
        self.fill_ranges(py, &file, &mut wanted)?;
        PyList::new(py, contents)
    }

    /// Fills one buffer for each range. Returns the number of bytes in each buffer.
    fn read_ranges_into(
        &self,
        py: Python<'_>,
        ranges: Vec<(i64, i64)>,
        into: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<Vec<usize>> {
        let file = self.file(py)?;
        if ranges.len() != into.len() {
            let line =
                format!("read_ranges: {} ranges need as many buffers, not {}", ranges.len(), into.len());
            return Err(PyValueError::new_err(line));
        }
        let buffers: Vec<BufferTarget> = into.iter().map(BufferTarget::of).collect::<PyResult<_>>()?;
        let mut wanted: Vec<(u64, &mut [u8])> = Vec::with_capacity(ranges.len());
        for ((offset, length), buffer) in from_start(&ranges)?.zip(&buffers) {
            let length = to_usize(length);
            if length > buffer.len() {
                let line = format!("read_ranges: a range of {length} bytes, and {} to hold it", buffer.len());
                return Err(PyValueError::new_err(line));
            }
            // SAFETY: the caller keeps other code from using the buffers during the read.
            // `check_apart` makes sure that the buffers do not overlap before any is used.
            wanted.push((offset, unsafe { buffer.slice(length) }));
        }
        check_apart(&wanted)?;
        self.fill_ranges(py, &file, &mut wanted)
    }

    /// Begins to fetch ranges, without waiting for them.
    fn prefetch(&self, py: Python<'_>, ranges: Vec<(i64, i64)>) -> PyResult<()> {
        let file = self.file(py)?;
        let ranges: Vec<ByteRange> =
            from_start(&ranges)?.map(|(offset, length)| ByteRange::at(offset, length)).collect();
        py.detach(|| file.prefetch(&ranges));
        Ok(())
    }

    /// Closes the file. Later reads raise an error.
    fn close(&self, py: Python<'_>) {
        let file = self.file.lock().take();
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

    /// Location of the object.
    #[getter]
    fn location(&self) -> String {
        self.location.to_string()
    }
}

impl PyLazyFile {
    fn fill_ranges(
        &self,
        py: Python<'_>,
        file: &firstbyte::LazyFile,
        wanted: &mut [(u64, &mut [u8])],
    ) -> PyResult<Vec<usize>> {
        let read = wait::read_interruptibly(py, |tick, go_on| file.read_ranges_while(wanted, tick, go_on))?;
        read.map_err(|error| failure(py, &error, Some(&self.location)))
    }

    /// Returns the open file. A forked child opens it again.
    fn file(&self, py: Python<'_>) -> PyResult<Arc<firstbyte::LazyFile>> {
        match self.file.lock().as_ref().map(ProcessOwned::get) {
            Some(Some(file)) => return Ok(Arc::clone(file)),
            Some(None) => {}
            None => return Err(PyValueError::new_err("I/O operation on closed file")),
        }
        let engine = self.route.engine(py, &self.location)?;
        let file = Arc::new(engine.open_version(&self.place, self.version.clone()));
        *self.file.lock() = Some(ProcessOwned::new(Arc::clone(&file)));
        Ok(file)
    }
}

/// Checks that all offsets and lengths are non-negative, since ranges are counted from the start of
/// the object.
fn from_start(ranges: &[(i64, i64)]) -> PyResult<impl Iterator<Item = (u64, u64)> + '_> {
    if let Some((offset, length)) = ranges.iter().find(|(offset, length)| *offset < 0 || *length < 0) {
        let line = format!("offsets and lengths are counted from 0: ({offset}, {length})");
        return Err(PyValueError::new_err(line));
    }
    Ok(ranges.iter().map(|(offset, length)| (offset.unsigned_abs(), length.unsigned_abs())))
}
