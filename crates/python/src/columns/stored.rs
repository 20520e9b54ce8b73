//! Builds columns from the entries of a store's listing.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use firstbyte_location::Entry;

use super::build::{MAX_NAME_BYTES, WORDS, word};
use crate::arrow::{self, ArrowBatch, ArrowColumn, ColumnValues};
use crate::objects::shown_name;

/// Returns the columns of a store's listing. They are the same for all stores.
pub(super) fn fields(recursive: bool) -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new(if recursive { "path" } else { "name" }, DataType::Utf8, false),
        Field::new("type", arrow::word(), false),
        Field::new("size", DataType::UInt64, true),
        Field::new("mtime", arrow::time(), true),
        Field::new("etag", DataType::Utf8, true),
    ]))
}

/// Builds one batch of columns after another.
pub(super) struct StoredColumnsBuilder {
    fields: SchemaRef,
    /// Number of rows in a full batch.
    most: usize,
    current: ArrowBatch,
    /// The first name that is not UTF-8.
    refused: Option<String>,
}

impl StoredColumnsBuilder {
    pub(super) fn new(fields: SchemaRef, rows: NonZeroUsize) -> Self {
        let current = ArrowBatch::new(&fields);
        Self { fields, most: rows.get(), current, refused: None }
    }

    pub(super) fn is_full(&self) -> bool {
        let ColumnValues::Bytes { bytes, .. } = &self.current.columns[0].values else { return false };
        self.current.rows >= self.most || bytes.len() >= MAX_NAME_BYTES
    }

    /// Adds an entry.
    pub(super) fn push(&mut self, entry: &Entry) {
        let name = shown_name(entry);
        if name.is_empty() {
            return;
        }
        if std::str::from_utf8(name).is_err() && self.refused.is_none() {
            self.refused = Some(format!("{}: a name that is not UTF-8", name.escape_ascii()));
        }
        let [names, kinds, sizes, times, etags] = &mut self.current.columns[..] else { return };
        add_bytes(names, Some(name));
        if let ColumnValues::Word(values) = &mut kinds.values {
            values.push(word(entry.kind));
        }
        if let ColumnValues::U64(values) = &mut sizes.values {
            values.push(entry.size.unwrap_or_default());
            sizes.validity.append(entry.size.is_some());
        }
        if let ColumnValues::Time(values) = &mut times.values {
            values.push(entry.modified.map(nanoseconds).unwrap_or_default());
            times.validity.append(entry.modified.is_some());
        }
        add_bytes(etags, entry.etag.as_deref().map(str::as_bytes));
        self.current.rows += 1;
    }

    /// Takes the rows that were added since the last batch. `None` if no rows were added.
    pub(super) fn take(&mut self) -> Option<Result<RecordBatch, String>> {
        let batch = std::mem::replace(&mut self.current, ArrowBatch::new(&self.fields));
        match self.refused.take() {
            Some(line) => Some(Err(line)),
            None => (batch.rows > 0).then(|| batch.finish(&self.fields, WORDS)),
        }
    }
}

fn add_bytes(column: &mut ArrowColumn, value: Option<&[u8]>) {
    if let ColumnValues::Bytes { offsets, bytes } = &mut column.values {
        bytes.extend_from_slice(value.unwrap_or_default());
        offsets.push(i32::try_from(bytes.len()).expect("a batch ends long before its offsets do"));
        column.validity.append(value.is_some());
    }
}

/// Converts a time to nanoseconds since 1970. Arrow's times reach from 1677 to 2262; earlier and
/// later times become the first or last of them.
fn nanoseconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanos| -nanos),
    }
}
