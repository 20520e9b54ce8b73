//! Sorts rows in bounded memory. Rows that do not fit into memory are sorted in runs. The runs are
//! written to an unnamed temporary file and merged at the end. Called by the printer and by `sums`.
//!
//! All runs of one sort are in one file. When there are [`MAX_RUNS`] runs, they are merged into
//! one, so that the read buffers of a merge always fit into memory.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use clap::ValueEnum;
use firstbyte::environment;
use firstbyte_location::to_usize;

use super::record::{LENGTH_FIELD_BYTES, records, values};
use super::{RowsError, Schema, Value, Written};

/// Property by which rows are sorted. Rows with equal properties are sorted by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// By the bytes of the whole name, ascending
    Name,
    /// Largest first
    Size,
    /// Newest first
    Mtime,
}

/// Direction of a sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortDirection {
    /// The direction in which [`Sort`] is documented.
    Usual,
    /// The reverse of the documented direction.
    Reversed,
}

/// Maximum number of runs that are merged together. Each run gets an equal share of the memory as
/// its read buffer: 128 KiB if the memory is 8 MiB.
const MAX_RUNS: usize = 64;

/// The order of rows: their columns, the sort key and the direction.
#[derive(Clone, Copy, Debug)]
struct Order {
    schema: Schema,
    sort: Sort,
    direction: SortDirection,
}

/// Position of a record in memory, with the first part of its sort key, which decides most
/// comparisons.
#[derive(Clone, Copy, Debug)]
struct Item {
    rank: u64,
    start: u32,
}

/// Sorts rows that are encoded as records.
#[derive(Debug)]
pub(super) struct Sorter {
    order: Order,
    room: usize,
    records: Vec<u8>,
    items: Vec<Item>,
    spilled: Option<SpilledRuns>,
}

/// Sorted runs, stored one after another in one file.
#[derive(Debug)]
struct SpilledRuns {
    file: File,
    /// End offset of each run.
    ends: Vec<u64>,
}

impl Order {
    fn key<'a>(&self, record: &'a [u8]) -> Key<'a> {
        let (mut name, mut number, mut time): (&[u8], _, _) = (b"", None, None);
        for value in values(self.schema, record) {
            match value {
                Value::Name(_, bytes) => name = bytes,
                Value::Number(value) => number = number.or(value),
                Value::Time(value) => time = time.or(value),
                Value::Kind(_) | Value::Text(_) => {}
            }
        }
        let rank = match self.sort {
            Sort::Name => {
                let mut first = [0; 8];
                let length = name.len().min(8);
                first[..length].copy_from_slice(&name[..length]);
                u64::from_be_bytes(first)
            }
            Sort::Size => u64::MAX - number.unwrap_or(0),
            Sort::Mtime => {
                u64::MAX - time.map_or(0, |time| time.seconds.cast_unsigned().wrapping_add(1 << 63))
            }
        };
        let nanoseconds_rank = if self.sort == Sort::Mtime {
            time.map_or(u32::MAX, |time| u32::MAX - time.nanoseconds)
        } else {
            0
        };
        Key {
            rank: if self.direction == SortDirection::Usual { rank } else { !rank },
            nanoseconds_rank,
            name,
        }
    }

    fn compare(&self, left: (u64, &[u8]), right: (u64, &[u8])) -> Ordering {
        left.0.cmp(&right.0).then_with(|| {
            let (left, right) = (self.key(left.1), self.key(right.1));
            let order = (left.nanoseconds_rank, left.name).cmp(&(right.nanoseconds_rank, right.name));
            if self.direction == SortDirection::Usual { order } else { order.reverse() }
        })
    }
}

/// Sort key of a record, most significant part first.
struct Key<'a> {
    rank: u64,
    /// Rank by the nanoseconds of the modification time; 0 if rows are sorted by something else.
    nanoseconds_rank: u32,
    name: &'a [u8],
}

impl Sorter {
    /// Makes a sorter that holds about `room` bytes in memory.
    pub(super) fn new(schema: Schema, sort: Sort, direction: SortDirection, room: usize) -> Self {
        let order = Order { schema, sort, direction };
        // Positions in memory are stored in 32 bits.
        Self { order, room: room.min(1 << 30), records: Vec::new(), items: Vec::new(), spilled: None }
    }

    /// Adds the records of a page.
    pub(super) fn add(&mut self, page: &[u8]) -> Written {
        for record in records(page) {
            self.items.push(Item { rank: self.order.key(record).rank, start: self.records.len() as u32 });
            self.records.extend_from_slice(&(record.len() as u32).to_ne_bytes());
            self.records.extend_from_slice(record);
            if self.records.len() + self.items.len() * size_of::<Item>() >= self.room {
                self.spill().map_err(RowsError::Sorting)?;
            }
        }
        Ok(())
    }

    /// Passes every record to `each`, in order.
    pub(super) fn finish(mut self, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> Written {
        if self.spilled.is_some() {
            self.spill().map_err(RowsError::Sorting)?;
        }
        match self.spilled {
            Some(spilled) => spilled.merge(self.order, self.room, &mut each),
            None => {
                self.sort();
                let mut items = self.items.iter();
                items
                    .try_for_each(|item| each(record_at(&self.records, item.start)))
                    .map_err(RowsError::Output)
            }
        }
    }

    fn sort(&mut self) {
        let (records, order) = (&self.records, self.order);
        self.items.sort_unstable_by(|left, right| {
            order.compare(
                (left.rank, record_at(records, left.start)),
                (right.rank, record_at(records, right.start)),
            )
        });
    }

    /// Sorts the records in memory, and appends them to the file as another run.
    fn spill(&mut self) -> io::Result<()> {
        self.sort();
        let spilled = match &mut self.spilled {
            Some(spilled) => spilled,
            none => none.insert(SpilledRuns { file: temporary()?, ends: Vec::new() }),
        };
        let mut out = BufWriter::new(&spilled.file);
        let mut end = spilled.ends.last().copied().unwrap_or(0);
        for item in &self.items {
            let start = item.start as usize;
            let record =
                &self.records[start..start + LENGTH_FIELD_BYTES + record_at(&self.records, item.start).len()];
            out.write_all(record)?;
            end += record.len() as u64;
        }
        out.flush()?;
        drop(out);
        spilled.ends.push(end);
        self.records.clear();
        self.items.clear();
        if spilled.ends.len() == MAX_RUNS {
            *spilled = spilled.merge_into_one(self.order, self.room)?;
        }
        Ok(())
    }
}

/// Returns the record whose length field is at offset `start`.
fn record_at(bytes: &[u8], start: u32) -> &[u8] {
    records(&bytes[start as usize..]).next().unwrap_or_default()
}

impl SpilledRuns {
    /// Merges all runs into one.
    fn merge_into_one(&self, order: Order, room: usize) -> io::Result<Self> {
        let file = temporary()?;
        let (mut out, mut end) = (BufWriter::new(&file), 0);
        let merged = self.merge(order, room, &mut |record| {
            end += (LENGTH_FIELD_BYTES + record.len()) as u64;
            out.write_all(&(record.len() as u32).to_ne_bytes())?;
            out.write_all(record)
        });
        // Merged records are written to a temporary file too, so an error in writing them is an
        // error of sorting.
        merged.map_err(|(RowsError::Output(error) | RowsError::Sorting(error))| error)?;
        out.flush()?;
        drop(out);
        Ok(Self { file, ends: vec![end] })
    }

    fn merge(&self, order: Order, room: usize, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> Written {
        let read_bytes = (room / self.ends.len().max(1)).max(LENGTH_FIELD_BYTES);
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let mut heads = BinaryHeap::new();
        for (start, end) in starts.zip(&self.ends) {
            let (buffer, record) = (Vec::new(), 0..0);
            let mut run =
                Run { order, file: &self.file, next: start, end: *end, read_bytes, buffer, record, rank: 0 };
            if run.advance().map_err(RowsError::Sorting)? {
                heads.push(run);
            }
        }
        while let Some(mut least) = heads.peek_mut() {
            each(least.record()).map_err(RowsError::Output)?;
            if !least.advance().map_err(RowsError::Sorting)? {
                PeekMut::pop(least);
            }
        }
        Ok(())
    }
}

/// A run that is being read during a merge. Runs compare in reverse order, because the heap returns
/// the greatest element first.
struct Run<'a> {
    order: Order,
    file: &'a File,
    /// Offset of the next read in the file.
    next: u64,
    /// Offset at which the run ends.
    end: u64,
    /// Number of bytes per read, an equal share of the memory.
    read_bytes: usize,
    buffer: Vec<u8>,
    /// Position of the current record in `buffer`.
    record: Range<usize>,
    rank: u64,
}

impl Run<'_> {
    fn record(&self) -> &[u8] {
        &self.buffer[self.record.clone()]
    }

    /// Advances to the next record. Returns false at the end.
    fn advance(&mut self) -> io::Result<bool> {
        if !self.fill(LENGTH_FIELD_BYTES)? {
            return Ok(false);
        }
        let head = self.buffer[self.record.end..].first_chunk::<LENGTH_FIELD_BYTES>();
        let length = head.map_or(0, |head| u32::from_ne_bytes(*head) as usize);
        if !self.fill(LENGTH_FIELD_BYTES + length)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let start = self.record.end + LENGTH_FIELD_BYTES;
        self.record = start..start + length;
        self.rank = self.order.key(self.record()).rank;
        Ok(true)
    }

    /// Reads until the buffer holds at least `bytes` bytes after the current record. Returns false
    /// if the run ends before that.
    fn fill(&mut self, bytes: usize) -> io::Result<bool> {
        let have = self.buffer.len() - self.record.end;
        if have >= bytes {
            return Ok(true);
        }
        let left = to_usize(self.end - self.next);
        if have + left < bytes {
            return Ok(false);
        }
        // The consumed part is removed only before a read, so that the rest of the buffer moves
        // once per read.
        self.buffer.drain(..self.record.end);
        self.record = 0..0;
        let more = self.read_bytes.max(bytes - have).min(left);
        self.buffer.resize(have + more, 0);
        self.file.read_exact_at(&mut self.buffer[have..], self.next)?;
        self.next += more as u64;
        Ok(true)
    }
}

impl Ord for Run<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order.compare((other.rank, other.record()), (self.rank, self.record()))
    }
}

impl PartialOrd for Run<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Run<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Run<'_> {}

/// Opens an unnamed temporary file, which disappears when it is closed.
fn temporary() -> io::Result<File> {
    tempfile::tempfile_in(environment::temporary_directory(&environment::variable))
}

#[cfg(test)]
mod tests;
