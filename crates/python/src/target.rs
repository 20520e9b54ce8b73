//! Borrows the memory of Python objects that reads fill: writable buffers of the caller, and new
//! `bytes`.

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;

/// A writable, contiguous buffer, which keeps its Python object alive.
pub(crate) struct BufferTarget(PyUntypedBuffer);

impl BufferTarget {
    /// Borrows the buffer of `object`.
    ///
    /// # Errors
    /// `BufferError` if the buffer is not writable or not contiguous; `TypeError` if the object has
    /// no buffer.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyUntypedBuffer::get(object)?;
        if buffer.readonly() || !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err("a buffer to read into is writable and in one piece"));
        }
        Ok(Self(buffer))
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len_bytes()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the first `length` bytes of the buffer, which must be at least that long.
    ///
    /// # Safety
    /// No other code may use these bytes while the result lives.
    #[expect(clippy::mut_from_ref, reason = "the memory is Python's, and the caller keeps it apart")]
    pub(crate) unsafe fn slice(&self, length: usize) -> &mut [u8] {
        if length == 0 {
            // An empty buffer may have a null address.
            return &mut [];
        }
        // SAFETY: the buffer is writable, contiguous, at least that long, and kept alive by `self`.
        unsafe { std::slice::from_raw_parts_mut(self.0.buf_ptr().cast::<u8>(), length) }
    }
}

/// Makes a `bytes` object of this length. Returns the object and its memory, which the caller fills
/// before Python sees the object.
///
/// # Errors
/// `MemoryError`.
///
/// # Safety
/// The memory must not be used after the object is dropped or passed on.
pub(crate) unsafe fn bytes_to_fill<'py, 'a>(
    py: Python<'py>,
    length: usize,
) -> PyResult<(Bound<'py, PyAny>, &'a mut [u8])> {
    let size = ffi::Py_ssize_t::try_from(length)?;
    // SAFETY: the call makes a new object of `size` bytes, or sets MemoryError.
    let bytes =
        unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyBytes_FromStringAndSize(std::ptr::null(), size))? };
    if length == 0 {
        // All empty `bytes` are one shared object, so its memory must not be written.
        return Ok((bytes, &mut []));
    }
    // SAFETY: the object is new, so no other code uses its memory until the caller passes the
    // object on. The memory is valid for `length` bytes, and is initialised here.
    let memory = unsafe {
        let start = ffi::PyBytes_AsString(bytes.as_ptr()).cast::<u8>();
        start.write_bytes(0, length);
        std::slice::from_raw_parts_mut(start, length)
    };
    Ok((bytes, memory))
}

/// Checks that no two of the buffers overlap.
///
/// # Errors
/// `ValueError` if two overlap.
pub(crate) fn check_apart(buffers: &[(u64, &mut [u8])]) -> PyResult<()> {
    let mut places: Vec<(usize, usize)> = buffers
        .iter()
        .filter(|(_, buffer)| !buffer.is_empty())
        .map(|(_, buffer)| (buffer.as_ptr() as usize, buffer.len()))
        .collect();
    places.sort_unstable();
    if places.windows(2).any(|pair| pair[0].0 + pair[0].1 > pair[1].0) {
        return Err(PyValueError::new_err("read_ranges: two of the buffers overlap"));
    }
    Ok(())
}
