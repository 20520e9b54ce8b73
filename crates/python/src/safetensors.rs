//! Implements `safetensors_header`, which reads the description of the tensors in the header of a
//! safetensors file.
//!
//! The syntax is the one that the format's own library accepts (`HashMetadata` and `TensorInfo` in
//! safetensors/src/tensor.rs): the same JSON parser and the same fields. `_safetensors.py` checks
//! the numbers against the file.

use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct Header {
    /// Strings from the file's author. Their types are checked, but they are not used.
    #[serde(rename = "__metadata__")]
    _metadata: Option<HashMap<String, String>>,
    #[serde(flatten)]
    tensors: HashMap<String, Facts>,
}

/// The description of one tensor.
#[derive(Deserialize)]
struct Facts {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// Name, type, shape, first byte and end byte of a tensor.
type Row = (String, String, Vec<u64>, u64, u64);

/// Parses a header. Returns the tensors in no particular order.
#[pyfunction]
pub(crate) fn safetensors_header(py: Python<'_>, text: &[u8]) -> PyResult<Vec<Row>> {
    let parsed = py.detach(|| serde_json::from_slice::<Header>(text));
    let header = parsed.map_err(|error| PyValueError::new_err(error.to_string()))?;
    let row = |(name, Facts { dtype, shape, data_offsets: (begin, end) })| (name, dtype, shape, begin, end);
    Ok(header.tensors.into_iter().map(row).collect())
}
