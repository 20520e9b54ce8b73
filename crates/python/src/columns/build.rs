//! Builds columns from batches of entries, in one pass over a batch for each column.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::NullBufferBuilder;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use firstbyte_listing::{BatchDirectory, BatchEntry, Depth, Detail, Error, InodeStat, Time, Visitor};
use firstbyte_location::EntryKind;

use crate::arrow::{self, ArrowBatch, ArrowColumn, ColumnValues};
use crate::name::NameType;

/// The values of the column `type`. [`word`] returns an index into them.
pub(super) const WORDS: &[&str] = &[
    EntryKind::File.word(),
    EntryKind::Directory.word(),
    EntryKind::Symlink.word(),
    EntryKind::Other.word(),
];

/// Bytes of names at which a batch ends, however few rows it has, because Arrow's offsets have 31
/// bits.
pub(super) const MAX_NAME_BYTES: usize = 1 << 30;

/// The attribute of an entry that a column holds.
#[derive(Clone, Copy)]
enum Fact {
    /// The directory's path and the entry's name.
    Name,
    Inode,
    Kind,
    Number(fn(&InodeStat) -> u64),
    Short(fn(&InodeStat) -> u32),
    Time(fn(&InodeStat) -> Time),
}

/// The columns of a listing.
#[derive(Clone)]
pub(super) struct ColumnSet {
    pub(super) fields: SchemaRef,
    facts: Arc<[Fact]>,
}

impl ColumnSet {
    pub(super) fn new(form: NameType, depth: Depth, detail: Detail) -> Self {
        let name = if depth == Depth::OneLevel { "name" } else { "path" };
        let mut columns = vec![(name, Fact::Name), ("inode", Fact::Inode), ("type", Fact::Kind)];
        if detail != Detail::Names {
            columns.push(("size", Fact::Number(|stat| stat.size)));
            columns.push(("mtime", Fact::Time(|stat| stat.modified)));
        }
        if detail == Detail::Full {
            columns.push(("atime", Fact::Time(|stat| stat.accessed)));
            columns.push(("ctime", Fact::Time(|stat| stat.changed)));
            columns.push(("mode", Fact::Short(|stat| stat.mode.into())));
            columns.push(("nlink", Fact::Short(|stat| stat.links)));
            columns.push(("uid", Fact::Short(|stat| stat.owner)));
            columns.push(("gid", Fact::Short(|stat| stat.group)));
            columns.push(("device", Fact::Number(|stat| stat.device)));
            columns.push(("blocks", Fact::Number(|stat| stat.blocks)));
        }
        let fields: Vec<_> = columns.iter().map(|&(name, fact)| field(name, fact, form)).collect();
        let facts = columns.into_iter().map(|(_, fact)| fact).collect();
        Self { fields: Arc::new(Schema::new(fields)), facts }
    }
}

fn field(name: &str, fact: Fact, form: NameType) -> Field {
    let kind = match (fact, form) {
        (Fact::Name, NameType::Text) => DataType::Utf8,
        (Fact::Name, NameType::Bytes) => DataType::Binary,
        (Fact::Inode | Fact::Number(_), _) => DataType::UInt64,
        (Fact::Kind, _) => arrow::word(),
        (Fact::Short(_), _) => DataType::UInt32,
        (Fact::Time(_), _) => arrow::time(),
    };
    // An attribute that needs a system call may be missing. The error of the call is reported
    // separately.
    let nullable = matches!(fact, Fact::Number(_) | Fact::Short(_) | Fact::Time(_));
    Field::new(name, kind, nullable)
}

/// Builds batches of columns.
pub(super) struct ColumnsBuilder {
    shape: ColumnSet,
    /// Number of rows in a full batch.
    most: usize,
    current: ArrowBatch,
    /// Full batches. A batch that is not valid is replaced by the reason.
    full: VecDeque<Result<RecordBatch, String>>,
    pub(super) errors: Vec<Error>,
}

impl ColumnsBuilder {
    pub(super) fn new(shape: ColumnSet, rows: NonZeroUsize) -> Self {
        let current = ArrowBatch::new(&shape.fields);
        Self { shape, most: rows.get(), current, full: VecDeque::new(), errors: Vec::new() }
    }

    /// Returns whether a batch is full.
    pub(super) fn is_ready(&self) -> bool {
        !self.full.is_empty()
    }

    /// Ends the batch being built, unless it has no rows. Its names are checked now, while they are
    /// in the processor's cache.
    pub(super) fn complete(&mut self) {
        if self.current.rows > 0 {
            // The next batch is probably as large as this one, so it gets the same capacity.
            let next = self.current.room_for();
            let batch = std::mem::replace(&mut self.current, next);
            self.full
                .push_back(check(&self.shape, &batch).and_then(|()| batch.finish(&self.shape.fields, WORDS)));
        }
    }

    /// Takes the oldest full batch, or the reason why that batch is not valid.
    pub(super) fn take(&mut self) -> Option<Result<RecordBatch, String>> {
        self.full.pop_front()
    }

    /// Ends the batch being built. Returns all batches and all errors.
    pub(super) fn finish(mut self) -> Result<(Vec<RecordBatch>, Vec<Error>), String> {
        self.complete();
        let batches = std::iter::from_fn(|| self.take()).collect::<Result<_, _>>()?;
        Ok((batches, self.errors))
    }

    /// Adds `rows` entries of a directory, from index `from` on.
    fn add(&mut self, directory: BatchDirectory<'_>, from: usize, rows: usize) {
        self.current.rows += rows;
        for (column, fact) in self.current.columns.iter_mut().zip(self.shape.facts.iter()) {
            fill(column, *fact, directory.path(), directory.entries().skip(from).take(rows));
        }
    }

    fn is_full(&self) -> bool {
        let ColumnValues::Bytes { bytes, .. } = &self.current.columns[0].values else { return false };
        self.current.rows >= self.most || bytes.len() >= MAX_NAME_BYTES
    }
}

impl Visitor for ColumnsBuilder {
    fn visit(&mut self, batch: &mut firstbyte_listing::Batch) -> ControlFlow<()> {
        for directory in batch.directories() {
            let (mut from, entries) = (0, directory.entries().len());
            while from < entries {
                let rows = (self.most - self.current.rows).min(entries - from);
                self.add(directory, from, rows);
                from += rows;
                if self.is_full() {
                    self.complete();
                }
            }
        }
        self.errors.append(&mut batch.take_errors());
        ControlFlow::Continue(())
    }
}

/// Adds the entries' values to one column.
fn fill<'a>(
    column: &mut ArrowColumn,
    fact: Fact,
    directory: &[u8],
    entries: impl Iterator<Item = BatchEntry<'a>>,
) {
    let validity = &mut column.validity;
    match (&mut column.values, fact) {
        (ColumnValues::Bytes { offsets, bytes }, Fact::Name) => {
            for entry in entries {
                bytes.extend_from_slice(directory);
                bytes.extend_from_slice(entry.name());
                offsets.push(i32::try_from(bytes.len()).expect("a batch ends long before its offsets do"));
            }
        }
        (ColumnValues::U64(values), Fact::Inode) => values.extend(entries.map(|entry| entry.inode())),
        (ColumnValues::Word(values), Fact::Kind) => values.extend(entries.map(|entry| word(entry.kind()))),
        (ColumnValues::U64(values), Fact::Number(value)) => stats(values, validity, entries, value),
        (ColumnValues::U32(values), Fact::Short(value)) => stats(values, validity, entries, value),
        (ColumnValues::Time(values), Fact::Time(value)) => {
            stats(values, validity, entries, |stat| nanoseconds(value(stat)));
        }
        (values, _) => unreachable!("a column's type follows from its fact: {values:?}"),
    }
}

/// Adds an attribute of the entries, or marks it as missing.
fn stats<'a, T: Default>(
    values: &mut Vec<T>,
    validity: &mut NullBufferBuilder,
    entries: impl Iterator<Item = BatchEntry<'a>>,
    value: impl Fn(&InodeStat) -> T,
) {
    for entry in entries {
        validity.append(entry.stat().is_some());
        values.push(entry.stat().map(&value).unwrap_or_default());
    }
}

/// Returns the index of a kind in [`WORDS`].
pub(super) fn word(kind: EntryKind) -> i8 {
    match kind {
        EntryKind::File => 0,
        EntryKind::Directory => 1,
        EntryKind::Symlink => 2,
        EntryKind::Other => 3,
    }
}

/// Converts a time to nanoseconds since 1970. Arrow's times reach from 1677 to 2262; earlier and
/// later times become the first or last of them.
fn nanoseconds(time: Time) -> i64 {
    time.seconds.saturating_mul(1_000_000_000).saturating_add(time.nanoseconds.into())
}

/// Checks that all names are UTF-8 if the column holds strings.
fn check(shape: &ColumnSet, batch: &ArrowBatch) -> Result<(), String> {
    let ColumnValues::Bytes { offsets, bytes } = &batch.columns[0].values else { return Ok(()) };
    if *shape.fields.field(0).data_type() == DataType::Binary || bytes.is_ascii() {
        return Ok(());
    }
    for ends in offsets.windows(2) {
        let name = &bytes[ends[0] as usize..ends[1] as usize];
        if std::str::from_utf8(name).is_err() {
            let shown = name.escape_ascii();
            return Err(format!(
                "{shown}: a name that is not UTF-8: give the path as bytes to get names as bytes"
            ));
        }
    }
    Ok(())
}
