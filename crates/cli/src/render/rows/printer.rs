//! Writes pages of rows to standard output, rendered and sorted as requested. Each verb that lists
//! has one [`Printer`], and its threads fill [`RowPage`]s.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};

use clap::ValueEnum;
use rustix_futex_sync::Mutex;

use super::counter::Counter;
use super::parquet::ParquetTable;
use super::sort::{Sort, SortDirection, Sorter};
use super::text::{self, NameEscaping, SizeFormat};
use super::{RowsError, Schema, Value, Written, csv, ndjson, record};
use crate::render::error::{Error, Result};

/// Format in which rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RowFormat {
    /// One line of text per row; `ls` adds details to the names with -l
    Text,
    /// One JSON object per line
    Ndjson,
    /// Comma-separated values with a header
    Csv,
    /// Apache Parquet
    Parquet,
}

/// Settings for writing a verb's rows.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// The columns.
    pub schema: Schema,
    /// Format of the rows.
    pub format: RowFormat,
    /// Byte that ends a line of text.
    pub end: u8,
    /// Format of sizes in text.
    pub sizes: SizeFormat,
    /// Order of the rows; `None` prints rows in the order in which they arrive.
    pub sort: Option<(Sort, SortDirection)>,
    /// Bytes of memory that sorting may use.
    pub memory: usize,
}

/// Number of bytes at which a page is written. Larger writes are not faster, and smaller ones cost
/// more system calls.
const FULL_PAGE_BYTES: usize = 64 << 10;
/// Requested capacity of an output pipe, bytes. With a larger pipe, writer and reader switch less
/// often. The kernel may refuse the request.
const PIPE_BYTES: usize = 1 << 20;

/// Writes pages of rows to standard output.
pub struct Printer<'a> {
    style: Style,
    names: NameEscaping,
    counter: &'a Counter,
    sink: Mutex<Sink>,
}

struct Sink {
    output: RowOutput,
    /// The error after which nothing more can be written.
    broken: Option<RowsError>,
}

enum RowOutput {
    Lines(File),
    Sorted(Sorter, File),
    Columns(Box<ParquetTable>),
}

impl RowOutput {
    fn begin(style: Style, mut out: File) -> io::Result<Self> {
        if style.format == RowFormat::Csv {
            let mut header = Vec::new();
            csv::write_header(style.schema, &mut header);
            out.write_all(&header)?;
        }
        Ok(match (style.sort, style.format) {
            (Some((sort, direction)), _) => {
                Self::Sorted(Sorter::new(style.schema, sort, direction, style.memory), out)
            }
            (None, RowFormat::Parquet) => Self::Columns(Box::new(ParquetTable::new(style.schema, out)?)),
            (None, _) => Self::Lines(out),
        })
    }
}

/// Rows of one thread that are not written yet.
pub struct RowPage<'p, 'a> {
    printer: &'p Printer<'a>,
    buffer: Vec<u8>,
    rows: u64,
    bytes: u64,
}

impl<'a> Printer<'a> {
    /// Makes a printer that writes to `out`.
    pub fn new(style: Style, out: File, counter: &'a Counter) -> Result<Self> {
        // The larger pipe is optional, so a refusal is ignored.
        let _ = rustix::pipe::fcntl_setpipe_size(&out, PIPE_BYTES);
        let names = NameEscaping::on(&out);
        if style.format == RowFormat::Parquet && out.is_terminal() {
            return Err(
                Error::usage("Parquet is no text for a terminal").advise("send it to a file: > rows.parquet")
            );
        }
        let output = RowOutput::begin(style, out).map_err(RowsError::Output)?;
        Ok(Self { style, names, counter, sink: Mutex::new(Sink { output, broken: None }) })
    }

    /// Makes a page to push rows onto.
    pub fn page(&self) -> RowPage<'_, 'a> {
        RowPage { printer: self, buffer: Vec::new(), rows: 0, bytes: 0 }
    }

    /// Returns whether rows are unescaped names that each end in one byte. Such rows have a faster
    /// path.
    pub fn prints_bare_names(&self) -> bool {
        self.prints_only_names() && self.names == NameEscaping::Raw && self.style.sort.is_none()
    }

    /// Returns whether a row shows only the name of an entry.
    pub fn prints_only_names(&self) -> bool {
        let bare = self.style.schema.iter().all(|column| column.width.is_none());
        bare && self.style.format == RowFormat::Text
    }

    /// Writes the rows that are still waiting to be sorted, or for their row group to be full.
    ///
    /// # Errors
    /// Standard output accepts no more bytes. A closed pipe is not an error: its reader has seen
    /// enough.
    pub fn finish(self) -> Result<()> {
        let sink = self.sink.into_inner();
        let (style, names) = (self.style, self.names);
        let ended = match (sink.broken, sink.output) {
            (Some(error), _) => Err(error),
            (None, RowOutput::Lines(_)) => Ok(()),
            (None, RowOutput::Columns(table)) => table.finish().map_err(RowsError::Output),
            (None, RowOutput::Sorted(sorter, out)) if style.format == RowFormat::Parquet => {
                write_table(style, sorter, out)
            }
            (None, RowOutput::Sorted(sorter, mut out)) => write_sorted(style, names, sorter, &mut out),
        };
        match ended {
            Err(RowsError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            ended => Ok(ended?),
        }
    }
}

fn write_table(style: Style, sorter: Sorter, out: File) -> Written {
    let mut table = ParquetTable::new(style.schema, out).map_err(RowsError::Output)?;
    sorter.finish(|record| table.add(record))?;
    table.finish().map_err(RowsError::Output)
}

fn write_sorted(style: Style, names: NameEscaping, sorter: Sorter, out: &mut File) -> Written {
    let mut buffer = Vec::with_capacity(2 * FULL_PAGE_BYTES);
    sorter.finish(|record| {
        let values: Vec<Value<'_>> = record::values(style.schema, record).collect();
        render(style, names, &values, &mut buffer);
        if buffer.len() < FULL_PAGE_BYTES {
            return Ok(());
        }
        out.write_all(&buffer)?;
        buffer.clear();
        Ok(())
    })?;
    out.write_all(&buffer).map_err(RowsError::Output)
}

fn render(style: Style, names: NameEscaping, row: &[Value<'_>], out: &mut Vec<u8>) {
    match style.format {
        RowFormat::Text => text::row(style.schema, row, (names, style.sizes), style.end, out),
        RowFormat::Ndjson => ndjson::row(style.schema, row, out),
        RowFormat::Csv => csv::row(row, names, out),
        RowFormat::Parquet => record::push(row, out),
    }
}

impl RowPage<'_, '_> {
    /// Adds a row. [`flush`](Self::flush) adds `bytes` to the total of the [`Counter`].
    pub fn push(&mut self, row: &[Value<'_>], bytes: u64) {
        self.rows += 1;
        self.bytes += bytes;
        let style = self.printer.style;
        if style.sort.is_some() {
            record::push(row, &mut self.buffer);
        } else {
            render(style, self.printer.names, row, &mut self.buffer);
        }
    }

    /// Adds names of one directory. Allowed only if [`Printer::prints_bare_names`] returns true.
    pub fn push_names<'n>(&mut self, directory: &[u8], names: impl ExactSizeIterator<Item = &'n [u8]>) {
        let end = self.printer.style.end;
        self.rows += names.len() as u64;
        for name in names {
            text::push_name(directory, name, NameEscaping::Raw, &mut self.buffer);
            self.buffer.push(end);
        }
    }

    /// Returns whether the page is large enough to be written.
    pub fn is_full(&self) -> bool {
        self.buffer.len() >= FULL_PAGE_BYTES
    }

    /// Writes the page's rows. Returns false if no more rows can be written, because the pipe is
    /// closed or the disk is full.
    pub fn flush(&mut self) -> bool {
        let rows = (std::mem::take(&mut self.rows), std::mem::take(&mut self.bytes));
        let mut sink = self.printer.sink.lock();
        if sink.broken.is_none() {
            let done = match &mut sink.output {
                RowOutput::Lines(out) => out.write_all(&self.buffer).map_err(RowsError::Output),
                RowOutput::Sorted(sorter, _) => sorter.add(&self.buffer),
                RowOutput::Columns(table) => {
                    let mut records = record::records(&self.buffer);
                    records.try_for_each(|record| table.add(record)).map_err(RowsError::Output)
                }
            };
            sink.broken = done.err();
        }
        let goes_on = sink.broken.is_none();
        drop(sink);
        self.printer.counter.add(rows.0, rows.1);
        self.buffer.clear();
        goes_on
    }
}
