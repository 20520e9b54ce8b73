//! Builds columns in Arrow's layout, and exports them through Arrow's C interface to libraries such
//! as pyarrow, polars and duckdb. This crate depends on none of these libraries.
//!
//! The vectors of an [`ArrowBatch`] become the buffers of its arrays, without a copy.

use std::sync::Arc;

use arrow_array::ffi::FFI_ArrowArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    Array, ArrayRef, BinaryArray, DictionaryArray, Int8Array, RecordBatch, RecordBatchIterator, StringArray,
    StructArray, TimestampNanosecondArray, UInt32Array, UInt64Array,
};
use arrow_buffer::{NullBufferBuilder, OffsetBuffer};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef, TimeUnit};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// Returns the type of columns with times: nanoseconds since 1970 in UTC.
pub(crate) fn time() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
}

/// Returns the type of a column with few different strings: 8-bit indices into a list of strings.
pub(crate) fn word() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8))
}

/// The values of one column.
#[derive(Debug)]
pub(crate) enum ColumnValues {
    /// Strings, one after another. `offsets` has the start of each string, and the end of the last.
    Bytes {
        offsets: Vec<i32>,
        bytes: Vec<u8>,
    },
    U64(Vec<u64>),
    U32(Vec<u32>),
    Time(Vec<i64>),
    Word(Vec<i8>),
}

impl ColumnValues {
    /// Makes an empty column of the type `kind`.
    fn new(kind: &DataType) -> Self {
        match kind {
            DataType::UInt64 => Self::U64(Vec::new()),
            DataType::UInt32 => Self::U32(Vec::new()),
            DataType::Timestamp(..) => Self::Time(Vec::new()),
            DataType::Dictionary(..) => Self::Word(Vec::new()),
            _ => Self::Bytes { offsets: vec![0], bytes: Vec::new() },
        }
    }

    /// Makes an empty column of the same type, with capacity for the same number of values.
    fn room_for(&self) -> Self {
        match self {
            Self::Bytes { offsets, bytes } => {
                let mut room = Vec::with_capacity(offsets.len());
                room.push(0);
                Self::Bytes { offsets: room, bytes: Vec::with_capacity(bytes.len()) }
            }
            Self::U64(values) => Self::U64(Vec::with_capacity(values.len())),
            Self::U32(values) => Self::U32(Vec::with_capacity(values.len())),
            Self::Time(values) => Self::Time(Vec::with_capacity(values.len())),
            Self::Word(values) => Self::Word(Vec::with_capacity(values.len())),
        }
    }
}

/// A column of a batch.
#[derive(Debug)]
pub(crate) struct ArrowColumn {
    pub(crate) values: ColumnValues,
    /// Marks the rows that have a value. Empty if all rows have one.
    pub(crate) validity: NullBufferBuilder,
}

impl ArrowColumn {
    fn new(values: ColumnValues) -> Self {
        Self { values, validity: NullBufferBuilder::new(0) }
    }

    fn into_array(mut self, kind: &DataType, words: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        let nulls = self.validity.finish();
        Ok(match self.values {
            ColumnValues::Bytes { offsets, bytes } => {
                let offsets = OffsetBuffer::new(offsets.into());
                match kind {
                    DataType::Utf8 => Arc::new(StringArray::try_new(offsets, bytes.into(), nulls)?),
                    _ => Arc::new(BinaryArray::try_new(offsets, bytes.into(), nulls)?),
                }
            }
            ColumnValues::U64(values) => Arc::new(UInt64Array::try_new(values.into(), nulls)?),
            ColumnValues::U32(values) => Arc::new(UInt32Array::try_new(values.into(), nulls)?),
            ColumnValues::Time(values) => {
                Arc::new(TimestampNanosecondArray::try_new(values.into(), nulls)?.with_timezone("UTC"))
            }
            ColumnValues::Word(values) => {
                let numbers = Int8Array::try_new(values.into(), nulls)?;
                Arc::new(DictionaryArray::try_new(numbers, Arc::clone(words))?)
            }
        })
    }
}

/// A batch that is being built, column by column.
#[derive(Debug)]
pub(crate) struct ArrowBatch {
    pub(crate) rows: usize,
    pub(crate) columns: Vec<ArrowColumn>,
}

impl ArrowBatch {
    pub(crate) fn new(schema: &Schema) -> Self {
        let columns =
            schema.fields().iter().map(|field| ArrowColumn::new(ColumnValues::new(field.data_type())));
        Self { rows: 0, columns: columns.collect() }
    }

    /// Makes an empty batch with the same columns and with capacity for the same number of rows.
    pub(crate) fn room_for(&self) -> Self {
        Self {
            rows: 0,
            columns: self.columns.iter().map(|column| ArrowColumn::new(column.values.room_for())).collect(),
        }
    }

    /// Converts the rows to an Arrow batch. `words` are the strings for columns of type [`word`].
    pub(crate) fn finish(self, schema: &SchemaRef, words: &[&str]) -> Result<RecordBatch, String> {
        let words: ArrayRef = Arc::new(StringArray::from_iter_values(words));
        let columns = self.columns.into_iter().zip(schema.fields());
        let arrays = columns.map(|(column, field)| column.into_array(field.data_type(), &words));
        let arrays = arrays.collect::<Result<_, _>>();
        arrays
            .and_then(|arrays| RecordBatch::try_new(Arc::clone(schema), arrays))
            .map_err(|error| error.to_string())
    }
}

/// Exports the type of batches with these columns, for `__arrow_c_schema__`.
pub(crate) fn schema_capsule<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowSchema::try_from(schema).map_err(arrow_error)?, c"arrow_schema")
}

/// Exports the type and the data of one batch, for `__arrow_c_array__`.
pub(crate) fn array_capsules<'py>(
    py: Python<'py>,
    batch: &RecordBatch,
) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
    let data = StructArray::from(batch.clone()).into_data();
    let array = PyCapsule::new_with_value(py, FFI_ArrowArray::new(&data), c"arrow_array")?;
    Ok((schema_capsule(py, batch.schema_ref())?, array))
}

/// Exports a source of batches, for `__arrow_c_stream__`.
pub(crate) fn stream_capsule<'py>(
    py: Python<'py>,
    schema: SchemaRef,
    batches: impl Iterator<Item = Result<RecordBatch, String>> + Send + 'static,
) -> PyResult<Bound<'py, PyCapsule>> {
    let batches = batches.map(|batch| batch.map_err(|line| ArrowError::ExternalError(line.into())));
    let reader = RecordBatchIterator::new(batches, schema);
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), c"arrow_array_stream")
}

fn arrow_error(error: ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
