//! Reads and writes the rows of a manifest as Parquet. A row group contains rows of only one shard,
//! so a worker reads no other rows. [`ManifestWriter`] and [`Rows`] keep a bounded number of rows
//! in memory.
//!
//! The `parquet` crate is used without Arrow, as for listings.

use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, RowGroupMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::statistics::Statistics;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

/// One object of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ManifestRow {
    /// The location, as text for `Location::parse`.
    pub(super) location: String,
    pub(super) size: u64,
    /// The version, as text of the module [`version`](super::version).
    pub(super) version: String,
    /// The modification time in microseconds since 1970.
    pub(super) modified: Option<i64>,
    /// The index of the source in the manifest.
    pub(super) source: u32,
    pub(super) shard: u32,
}

/// Length of the rows in a row group, bytes: some 15,000 rows of usual length. Large groups are
/// read faster, but while a group is written, it is in memory several times.
const GROUP_BYTES: usize = 2 << 20;
/// Minimum length of the rows in a full row group, bytes. With smaller ones, the end of the file,
/// which describes the groups, would fill the memory.
const MIN_GROUP_BYTES: usize = 128 << 10;
/// Maximum length of the rows of all shards that wait for their groups to be full, bytes.
const MAX_WAITING_BYTES: usize = 8 << 20;
/// The key of the header in the metadata of the file.
const HEADER_KEY: &str = "firstbyte.manifest";
/// Index of the column `shard`, and the number of columns.
const SHARD_COLUMN: usize = 3;
const COLUMN_COUNT: usize = 6;

/// Writes a manifest.
pub(super) struct ManifestWriter {
    file: SerializedFileWriter<File>,
    /// The waiting rows of each shard, with their length in bytes.
    waiting: Vec<(Vec<ManifestRow>, usize)>,
    bytes: usize,
    /// Length of the rows in a group, bytes.
    group_bytes: usize,
}

impl ManifestWriter {
    /// Starts a file for rows of `shards` shards.
    pub(super) fn new(file: File, shards: u32) -> io::Result<Self> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            // The bounds of groups are enough to find a shard, and the bounds of pages would fill
            // the memory.
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            // All locations are different, so a dictionary would not help.
            .set_column_dictionary_enabled("location".into(), false)
            .build();
        let file = SerializedFileWriter::new(file, Arc::new(schema()?), Arc::new(properties));
        let waiting = (0..shards).map(|_| (Vec::new(), 0)).collect();
        Ok(Self { file: file.map_err(io_error)?, waiting, bytes: 0, group_bytes: GROUP_BYTES })
    }

    /// Writes smaller groups, for a file that `readers` readers read at the same time.
    pub(super) fn for_readers(self, readers: usize) -> Self {
        Self { group_bytes: (GROUP_BYTES / readers.max(1)).max(MIN_GROUP_BYTES), ..self }
    }

    /// Adds a row. Within a shard, rows stay in order.
    pub(super) fn add(&mut self, row: ManifestRow) -> io::Result<()> {
        let shard = row.shard as usize;
        let Some((rows, bytes)) = self.waiting.get_mut(shard) else {
            return Err(io::Error::other("a row of a shard that the manifest does not have"));
        };
        let taken = size_of::<ManifestRow>() + row.location.len() + row.version.len();
        rows.push(row);
        *bytes += taken;
        self.bytes += taken;
        if *bytes >= self.group_bytes {
            return self.write_group(shard);
        }
        if self.bytes >= MAX_WAITING_BYTES {
            let fullest = (0..self.waiting.len()).max_by_key(|shard| self.waiting[*shard].1);
            return self.write_group(fullest.unwrap_or(shard));
        }
        Ok(())
    }

    /// Writes the waiting rows and the end of the file, which contains `header`.
    pub(super) fn finish(mut self, header: String) -> io::Result<()> {
        for shard in 0..self.waiting.len() {
            self.write_group(shard)?;
        }
        self.file.append_key_value_metadata(KeyValue::new(HEADER_KEY.to_owned(), header));
        self.file.close().map(drop).map_err(io_error)
    }

    fn write_group(&mut self, shard: usize) -> io::Result<()> {
        let (mut rows, bytes) = std::mem::take(&mut self.waiting[shard]);
        if rows.is_empty() {
            return Ok(());
        }
        self.bytes -= bytes;
        let levels: Vec<i16> = rows.iter().map(|row| i16::from(row.modified.is_some())).collect();
        let text = |text: &mut String| ByteArray::from(std::mem::take(text).into_bytes());
        let written = (|| {
            let mut group = self.file.next_row_group()?;
            let mut write_text =
                |values: Vec<ByteArray>| write_column::<ByteArrayType>(&mut group, &values, None);
            write_text(rows.iter_mut().map(|row| text(&mut row.location)).collect())?;
            let sizes: Vec<i64> = rows.iter().map(|row| row.size.cast_signed()).collect();
            write_column::<Int64Type>(&mut group, &sizes, None)?;
            let versions: Vec<ByteArray> = rows.iter_mut().map(|row| text(&mut row.version)).collect();
            write_column::<ByteArrayType>(&mut group, &versions, None)?;
            let shards: Vec<i32> = rows.iter().map(|row| row.shard.cast_signed()).collect();
            write_column::<Int32Type>(&mut group, &shards, None)?;
            let modified: Vec<i64> = rows.iter().filter_map(|row| row.modified).collect();
            write_column::<Int64Type>(&mut group, &modified, Some(&levels))?;
            let sources: Vec<i32> = rows.iter().map(|row| row.source.cast_signed()).collect();
            write_column::<Int32Type>(&mut group, &sources, None)?;
            group.close().map(drop)
        })();
        written.map_err(io_error)
    }
}

/// Writes the next column of a group.
fn write_column<T: DataType>(
    group: &mut parquet::file::writer::SerializedRowGroupWriter<'_, File>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}

fn schema() -> io::Result<Type> {
    let field = |name: &str, physical, repetition, logical| {
        let field = Type::primitive_type_builder(name, physical).with_repetition(repetition);
        field.with_logical_type(logical).build().map(Arc::new)
    };
    let micros = Some(LogicalType::timestamp(true, TimeUnit::MICROS));
    let text = || Some(LogicalType::String);
    let (needed, optional) = (Repetition::REQUIRED, Repetition::OPTIONAL);
    let fields = [
        field("location", Physical::BYTE_ARRAY, needed, text()),
        field("size", Physical::INT64, needed, Some(LogicalType::integer(64, false))),
        field("version", Physical::BYTE_ARRAY, needed, text()),
        field("shard", Physical::INT32, needed, Some(LogicalType::integer(32, false))),
        field("modified", Physical::INT64, optional, micros),
        field("source", Physical::INT32, needed, Some(LogicalType::integer(32, false))),
    ];
    let fields: Result<Vec<_>, _> = fields.into_iter().collect();
    fields
        .and_then(|fields| Type::group_type_builder("objects").with_fields(fields).build())
        .map_err(io_error)
}

/// A manifest that is open for reading.
pub(super) struct ManifestReader {
    file: SerializedFileReader<File>,
}

impl ManifestReader {
    /// Opens a Parquet file.
    pub(super) fn new(file: File) -> io::Result<Self> {
        Ok(Self { file: decode(|| SerializedFileReader::new(file))? })
    }

    /// Returns the header. `None` if the file is not a manifest.
    pub(super) fn header(&self) -> Option<&str> {
        let values = self.file.metadata().file_metadata().key_value_metadata()?;
        values.iter().find(|value| value.key == HEADER_KEY)?.value.as_deref()
    }

    /// Checks that the columns and the number of rows of each shard are as the writer of a manifest
    /// has left them. Reads no rows, unless another program has mixed the shards.
    ///
    /// # Errors
    /// `InvalidData` with the difference.
    pub(super) fn check(&self, objects: impl ExactSizeIterator<Item = u64>) -> io::Result<()> {
        let differs = |what: String| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        let columns = self.file.metadata().file_metadata().schema_descr().columns();
        for (place, field) in schema()?.get_fields().iter().enumerate() {
            let same = columns.get(place).is_some_and(|column| {
                (column.name(), column.physical_type()) == (field.name(), field.get_physical_type())
            });
            if !same {
                return differs(format!("column {place} is not the column `{}`", field.name()));
            }
        }
        let mut counts = vec![0; objects.len()];
        for group in 0..self.file.num_row_groups() {
            for (shard, rows) in self.shards_of(group)? {
                match usize::try_from(shard).ok().and_then(|shard| counts.get_mut(shard)) {
                    Some(count) => *count += rows,
                    None => return differs(format!("a row is of shard {shard}")),
                }
            }
        }
        for (shard, (found, planned)) in counts.into_iter().zip(objects).enumerate() {
            if found != planned {
                return differs(format!("shard {shard} has {found} objects instead of {planned}"));
            }
        }
        Ok(())
    }

    /// Returns the shards of a group, each with a number of rows.
    fn shards_of(&self, group: usize) -> io::Result<Vec<(i32, u64)>> {
        let metadata = self.file.metadata().row_group(group);
        for column in metadata.columns() {
            if !matches!(column.compression(), Compression::UNCOMPRESSED | Compression::SNAPPY) {
                let what = format!("it is compressed by {}", column.compression());
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
        }
        let rows = metadata.num_rows().cast_unsigned();
        if let Some((least, most)) = shard_bounds(metadata)
            && least == most
        {
            return Ok(vec![(least, rows)]);
        }
        let shards = decode(|| needed::<Int32Type>(self.file.get_row_group(group)?.as_ref(), SHARD_COLUMN))?;
        Ok(shards.into_iter().map(|shard| (shard, 1)).collect())
    }

    /// Reads the rows of the wanted shards, in the order of the file.
    pub(super) fn rows(self, wanted: impl Fn(u32) -> bool + Send + 'static) -> Rows {
        Rows { reader: self, wanted: Box::new(wanted), next: 0, rows: Vec::new().into_iter() }
    }
}

/// Iterates over rows. Reads one group at a time.
pub(super) struct Rows {
    reader: ManifestReader,
    wanted: Box<dyn Fn(u32) -> bool + Send>,
    next: usize,
    rows: std::vec::IntoIter<ManifestRow>,
}

impl Iterator for Rows {
    type Item = io::Result<ManifestRow>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(row) = self.rows.next() {
                return Some(Ok(row));
            }
            let file = &self.reader.file;
            if self.next >= file.num_row_groups() {
                return None;
            }
            let index = self.next;
            self.next += 1;
            // A group has rows of one shard, unless another program has mixed them.
            if let Some((least, most)) = shard_bounds(file.metadata().row_group(index))
                && least == most
                && !(self.wanted)(least.cast_unsigned())
            {
                continue;
            }
            match decode(|| read_group(file.get_row_group(index)?.as_ref())) {
                Ok(mut rows) => {
                    rows.retain(|row| (self.wanted)(row.shard));
                    self.rows = rows.into_iter();
                }
                Err(error) => {
                    self.next = usize::MAX;
                    return Some(Err(error));
                }
            }
        }
    }
}

/// Calls the decoder of the `parquet` crate, which panics at some damaged pages (`fuzz/known`).
///
/// # Errors
/// The decoder's own error, or `InvalidData` after a panic.
fn decode<T>(work: impl FnOnce() -> Result<T, ParquetError>) -> io::Result<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(decoded) => decoded.map_err(io_error),
        Err(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "a page is damaged")),
    }
}

/// Returns the least and the greatest shard of a group's rows, if the file states them.
fn shard_bounds(group: &RowGroupMetaData) -> Option<(i32, i32)> {
    match group.columns().get(SHARD_COLUMN)?.statistics()? {
        Statistics::Int32(bounds) => Some((*bounds.min_opt()?, *bounds.max_opt()?)),
        _ => None,
    }
}

fn read_group(group: &dyn RowGroupReader) -> Result<Vec<ManifestRow>, ParquetError> {
    if group.num_columns() < COLUMN_COUNT {
        return Err(ParquetError::General("columns are missing".into()));
    }
    let locations = needed::<ByteArrayType>(group, 0)?;
    let sizes = needed::<Int64Type>(group, 1)?;
    let versions = needed::<ByteArrayType>(group, 2)?;
    let shards = needed::<Int32Type>(group, SHARD_COLUMN)?;
    let (modified, levels) = values::<Int64Type>(group, 4)?;
    let sources = needed::<Int32Type>(group, 5)?;
    let mut modified = modified.into_iter();
    let mut modified = levels.into_iter().map(|level| if level > 0 { modified.next() } else { None });
    let numbers = sizes.into_iter().zip(shards).zip(sources);
    let texts = locations.into_iter().zip(versions);
    texts
        .zip(numbers)
        .map(|((location, version), ((size, shard), source))| {
            Ok(ManifestRow {
                location: location.as_utf8()?.to_owned(),
                size: size.cast_unsigned(),
                version: version.as_utf8()?.to_owned(),
                modified: modified.next().flatten(),
                source: source.cast_unsigned(),
                shard: shard.cast_unsigned(),
            })
        })
        .collect()
}

/// Reads a column in which every row has a value.
fn needed<T: DataType>(group: &dyn RowGroupReader, index: usize) -> Result<Vec<T::T>, ParquetError> {
    let (values, _) = values::<T>(group, index)?;
    match usize::try_from(group.metadata().num_rows()) == Ok(values.len()) {
        true => Ok(values),
        // Other columns have a value for each row, so the values after the missing one would be
        // taken for those of other rows.
        false => Err(ParquetError::General(format!("a value is missing in column {index}"))),
    }
}

/// Reads the values of a column. For an optional column, also returns which rows have a value.
fn values<T: DataType>(
    group: &dyn RowGroupReader,
    index: usize,
) -> Result<(Vec<T::T>, Vec<i16>), ParquetError> {
    let physical = group.metadata().column(index).column_type();
    if physical != T::get_physical_type() {
        return Err(ParquetError::General(format!("column {index} has the type {physical}")));
    }
    let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
    let mut reader = get_typed_column_reader::<T>(group.get_column_reader(index)?);
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    let mut read = 0;
    while read < rows {
        let (records, ..) = reader.read_records(rows - read, Some(&mut levels), None, &mut values)?;
        if records == 0 {
            return Err(ParquetError::General("a column is short".into()));
        }
        read += records;
    }
    Ok((values, levels))
}

/// Converts an error. If the operating system's error is inside, returns that.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(source) => io::Error::other(source),
        },
        other => io::Error::new(io::ErrorKind::InvalidData, other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shard_reads_its_rows_in_order_and_nothing_is_lost() {
        const SHARDS: u32 = 300;
        // More rows than may wait at the same time.
        let rows = (MAX_WAITING_BYTES / size_of::<ManifestRow>()) as u32 + 5_000;
        let file = tempfile::tempfile().unwrap();
        let mut writer = ManifestWriter::new(file.try_clone().unwrap(), SHARDS).unwrap();
        let row = |number: u32| ManifestRow {
            location: format!("s3://b/{number}"),
            size: u64::from(number) << 33,
            version: if number.is_multiple_of(3) { String::new() } else { format!("etag:{number}") },
            modified: (!number.is_multiple_of(5)).then_some(-i64::from(number)),
            source: number % 2,
            // Every other row belongs to the first shard.
            shard: if number.is_multiple_of(2) { 0 } else { number % SHARDS },
        };
        for number in 0..rows {
            writer.add(row(number)).unwrap();
            assert!(writer.bytes < MAX_WAITING_BYTES);
        }
        writer.finish("header".into()).unwrap();
        let reader = || ManifestReader::new(file.try_clone().unwrap()).unwrap();
        assert_eq!(reader().header(), Some("header"));
        let mut found = 0;
        for shard in [0, 1, 2, 299] {
            let read: Vec<ManifestRow> =
                reader().rows(move |other| other == shard).map(Result::unwrap).collect();
            let expected = (0..rows).map(row).filter(|row| row.shard == shard);
            assert!(read.iter().cloned().eq(expected), "shard {shard}");
            found += read.len();
        }
        assert!(found > rows as usize / 2);
        assert_eq!(reader().rows(|_| true).map(Result::unwrap).count(), rows as usize);
    }

    #[test]
    fn a_damaged_page_at_which_the_decoder_panics_is_an_error() {
        let known = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/known");
        let mut tried = 0;
        for path in std::fs::read_dir(known).unwrap().map(|entry| entry.unwrap().path()) {
            if path.file_name().unwrap().as_encoded_bytes().starts_with(b"manifests-") {
                let rows =
                    ManifestReader::new(File::open(&path).unwrap()).map(|reader| reader.rows(|_| true));
                assert!(rows.and_then(Iterator::collect::<io::Result<Vec<_>>>).is_err(), "{path:?}");
                tried += 1;
            }
        }
        assert_eq!(tried, 2);
    }

    #[test]
    fn a_row_of_no_shard_is_refused_and_a_table_of_another_kind_has_no_header() {
        let file = tempfile::tempfile().unwrap();
        let row = ManifestRow {
            location: String::new(),
            size: 0,
            version: String::new(),
            modified: None,
            source: 0,
            shard: 1,
        };
        assert!(ManifestWriter::new(file.try_clone().unwrap(), 1).unwrap().add(row).is_err());
        let text = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut &text, b"not a table, however long it may be").unwrap();
        assert_eq!(
            ManifestReader::new(text).err().map(|error| error.kind()),
            Some(io::ErrorKind::InvalidData)
        );
    }

    #[test]
    fn a_missing_value_is_an_error_because_it_would_shift_the_others() {
        let field = Type::primitive_type_builder("shard", Physical::INT32)
            .with_repetition(Repetition::OPTIONAL)
            .build()
            .map(Arc::new)
            .unwrap();
        let schema = Type::group_type_builder("objects").with_fields(vec![field]).build().unwrap();
        let file = tempfile::tempfile().unwrap();
        let (own, properties) = (file.try_clone().unwrap(), WriterProperties::builder().build());
        let mut writer = SerializedFileWriter::new(own, Arc::new(schema), Arc::new(properties)).unwrap();
        let mut group = writer.next_row_group().unwrap();
        write_column::<Int32Type>(&mut group, &[4, 5], Some(&[1, 0, 1])).unwrap();
        group.close().unwrap();
        writer.close().unwrap();
        let reader = ManifestReader::new(file).unwrap();
        let group = reader.file.get_row_group(0).unwrap();
        assert_eq!(values::<Int32Type>(group.as_ref(), 0).unwrap().0, [4, 5]);
        let error = needed::<Int32Type>(group.as_ref(), 0).unwrap_err().to_string();
        assert!(error.contains("a value is missing in column 0"), "{error}");
        let error = reader.check(std::iter::once(3)).unwrap_err().to_string();
        assert!(error.contains("column 0 is not the column `location`"), "{error}");
    }
}
