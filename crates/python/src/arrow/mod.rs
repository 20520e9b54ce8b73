//! Exports columns to libraries that read Arrow: pyarrow, polars, duckdb and others. None of them
//! is a dependency.

mod abi;
mod batch;
mod export;
mod stream;

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyCapsule;

pub(crate) use batch::{ArrowBatch, ArrowColumn, ColumnValues, Field, Type, Validity};
pub(crate) use stream::BatchIterator;

/// Makes the result of `__arrow_c_schema__`: the type of batches with these columns.
pub(crate) fn schema_capsule<'py>(py: Python<'py>, fields: &[Field]) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, export::schema(fields), c"arrow_schema")
}

/// Makes the result of `__arrow_c_array__`: the type and the data of one batch.
pub(crate) fn array_capsules<'py>(
    py: Python<'py>,
    batch: &Arc<ArrowBatch>,
    fields: &[Field],
) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
    let array = PyCapsule::new_with_value(py, export::array(batch, fields), c"arrow_array")?;
    Ok((schema_capsule(py, fields)?, array))
}

/// Makes the result of `__arrow_c_stream__`: a source of batches.
pub(crate) fn stream_capsule(
    py: Python<'_>,
    fields: Arc<[Field]>,
    batches: BatchIterator,
) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, stream::stream(fields, batches), c"arrow_array_stream")
}
