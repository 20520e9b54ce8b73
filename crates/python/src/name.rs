//! Converts file names: a name is returned as `str` if the path was passed as `str`, and as `bytes`
//! if the path was passed as `bytes`.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// The Python type of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameType {
    /// Names are `str`. Bytes that are not valid in the file system's encoding become surrogates
    /// (PEP 383).
    Text,
    /// Names are `bytes`.
    Bytes,
}

impl NameType {
    /// Converts a name or a path to a Python object.
    #[inline]
    pub(crate) fn decode<'py>(self, py: Python<'py>, name: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Bytes => Ok(PyBytes::new(py, name).into_any()),
            // All encodings of Linux contain ASCII unchanged, so such a string needs no codec.
            Self::Text => match std::str::from_utf8(name) {
                Ok(text) if text.is_ascii() => Ok(PyString::new(py, text).into_any()),
                _ => decode_text(py, name),
            },
        }
    }
}

#[cold]
fn decode_text<'py>(py: Python<'py>, name: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: pointer and length belong to one slice; the result is a new reference, or null with
    // an exception set.
    unsafe {
        let text = ffi::PyUnicode_DecodeFSDefaultAndSize(name.as_ptr().cast(), name.len() as ffi::Py_ssize_t);
        Bound::from_owned_ptr_or_err(py, text)
    }
}

/// Encodes a `str` in the file system's encoding.
pub(crate) fn encode(text: &Bound<'_, PyString>) -> PyResult<Vec<u8>> {
    // An ASCII string needs no codec, as in `decode`.
    if let Ok(text) = text.to_str()
        && text.is_ascii()
    {
        return Ok(text.as_bytes().to_vec());
    }
    // SAFETY: the argument is a string; the result is a new `bytes`, or null with an exception set.
    let bytes =
        unsafe { Bound::from_owned_ptr_or_err(text.py(), ffi::PyUnicode_EncodeFSDefault(text.as_ptr()))? };
    Ok(bytes.cast::<PyBytes>()?.as_bytes().to_vec())
}
