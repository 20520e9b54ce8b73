//! Writes rows as an Apache Parquet file, one row group at a time. Called by the printer.
//!
//! The format stores values by column, so the rows of a group stay in memory until the group is
//! full. The number of rows per group is fixed, which bounds memory. The `parquet` crate writes the
//! file, without its Arrow features.

use std::fs::File;
use std::io;
use std::sync::Arc;

use ::parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical};
use ::parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::Type;
use firstbyte_listing::Time;

use super::record::values;
use super::{ColumnType, RowColumn, Schema, Value, utf8_name};

/// Number of rows per row group, about 4 MiB. Readers prefer larger groups, but accept this size.
const GROUP_ROWS: usize = 32 << 10;

/// A Parquet file that is being written.
pub(super) struct ParquetTable {
    schema: Schema,
    writer: SerializedFileWriter<File>,
    columns: Vec<Cells>,
    rows: usize,
}

/// Values of one column that wait until the group is full. The definition levels, one per row, say
/// which rows have a value.
enum Cells {
    Text(Vec<ByteArray>, Vec<i16>),
    Number(Vec<i64>, Vec<i16>),
}

impl ParquetTable {
    /// Begins a file with the columns of `schema`.
    pub(super) fn new(schema: Schema, out: File) -> io::Result<Self> {
        let begun = fields(schema).and_then(|fields| {
            let root = Type::group_type_builder("rows").with_fields(fields).build()?;
            let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
            SerializedFileWriter::new(out, Arc::new(root), Arc::new(properties))
        });
        let writer = begun.map_err(io_error)?;
        let columns = schema.iter().flat_map(Cells::of).collect();
        Ok(Self { schema, writer, columns, rows: 0 })
    }

    /// Adds one row, which is encoded as a record.
    pub(super) fn add(&mut self, record: &[u8]) -> io::Result<()> {
        let mut columns = self.columns.iter_mut();
        let mut put = |cell: Cell<'_>| {
            if let Some(column) = columns.next() {
                column.push(cell);
            }
        };
        for value in values(self.schema, record) {
            match value {
                Value::Name(directory, name) => {
                    let (text, hex) = utf8_name(directory, name);
                    put(Cell::Text(Some(&text)));
                    put(Cell::Text(hex.as_deref()));
                }
                Value::Kind(kind) => put(Cell::Text(Some(kind.word()))),
                Value::Number(number) => put(Cell::Number(number.map(u64::cast_signed))),
                Value::Time(time) => put(Cell::Number(time.map(microseconds))),
                Value::Text(text) => put(Cell::Text(text)),
            }
        }
        self.rows += 1;
        if self.rows == GROUP_ROWS { self.write_group() } else { Ok(()) }
    }

    /// Writes the waiting rows and the end of the file.
    pub(super) fn finish(mut self) -> io::Result<()> {
        if self.rows > 0 {
            self.write_group()?;
        }
        self.writer.close().map(drop).map_err(io_error)
    }

    fn write_group(&mut self) -> io::Result<()> {
        let mut group = self.writer.next_row_group().map_err(io_error)?;
        for cells in &mut self.columns {
            let Some(mut column) = group.next_column().map_err(io_error)? else { break };
            match cells {
                Cells::Text(values, levels) => {
                    column
                        .typed::<ByteArrayType>()
                        .write_batch(values, Some(levels), None)
                        .map_err(io_error)?;
                    values.clear();
                    levels.clear();
                }
                Cells::Number(values, levels) => {
                    column.typed::<Int64Type>().write_batch(values, Some(levels), None).map_err(io_error)?;
                    values.clear();
                    levels.clear();
                }
            }
            column.close().map_err(io_error)?;
        }
        self.rows = 0;
        group.close().map(drop).map_err(io_error)
    }
}

/// A value for a cell of the file.
enum Cell<'a> {
    Text(Option<&'a str>),
    Number(Option<i64>),
}

impl Cells {
    /// Makes the cells of a column. A name has two: its text and its bytes in hex.
    fn of(column: &RowColumn) -> Vec<Self> {
        let text = || Self::Text(Vec::new(), Vec::new());
        match column.holds {
            ColumnType::Name => vec![text(), text()],
            ColumnType::Kind | ColumnType::Text => vec![text()],
            ColumnType::Number | ColumnType::Size | ColumnType::Time => {
                vec![Self::Number(Vec::new(), Vec::new())]
            }
        }
    }

    fn push(&mut self, cell: Cell<'_>) {
        match (self, cell) {
            (Self::Text(values, levels), Cell::Text(text)) => {
                levels.push(i16::from(text.is_some()));
                values.extend(text.map(|text| ByteArray::from(text.as_bytes().to_vec())));
            }
            (Self::Number(values, levels), Cell::Number(number)) => {
                levels.push(i16::from(number.is_some()));
                values.extend(number);
            }
            (Self::Text(_, levels), _) | (Self::Number(_, levels), _) => levels.push(0),
        }
    }
}

/// Returns the file's columns. All are declared optional, so that one code path can write all of
/// them.
fn fields(schema: Schema) -> std::result::Result<Vec<Arc<Type>>, ParquetError> {
    let mut fields = Vec::new();
    let mut field = |name: &str, physical, logical| {
        let builder = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
        fields.push(Arc::new(builder.with_logical_type(Some(logical)).build()?));
        Ok::<(), ParquetError>(())
    };
    for column in schema {
        match column.holds {
            ColumnType::Name => {
                field(column.name, Physical::BYTE_ARRAY, LogicalType::String)?;
                field(&format!("{}_hex", column.name), Physical::BYTE_ARRAY, LogicalType::String)?;
            }
            ColumnType::Kind | ColumnType::Text => {
                field(column.name, Physical::BYTE_ARRAY, LogicalType::String)?
            }
            ColumnType::Number | ColumnType::Size => {
                field(column.name, Physical::INT64, LogicalType::integer(64, false))?;
            }
            // Times are in microseconds, because some readers do not support nanoseconds.
            ColumnType::Time => {
                let logical = LogicalType::timestamp(true, TimeUnit::MICROS);
                field(column.name, Physical::INT64, logical)?;
            }
        }
    }
    Ok(fields)
}

fn microseconds(time: Time) -> i64 {
    time.seconds.saturating_mul(1_000_000).saturating_add(i64::from(time.nanoseconds / 1_000))
}

/// Extracts the operating system's error, if the error has one.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(source) => io::Error::other(source),
        },
        other => io::Error::other(other),
    }
}
