//! Rows of a listing, written in the requested format.
//!
//! A verb declares its columns and pushes rows onto [`RowPage`]s, one page per thread. The
//! [`Printer`] writes full pages. Text, NDJSON and CSV rows are rendered by the threads that push
//! them. Rows for Parquet, and rows to be sorted, are collected under one lock. Names are bytes.
//! Text prints the bytes as they are. The other formats are UTF-8, and add the bytes in hex if a
//! name is not UTF-8. Text and CSV escape control characters on a terminal; NDJSON always does.

mod counter;
mod csv;
mod ndjson;
mod parquet;
mod printer;
mod record;
mod sort;
mod sums;
mod text;

use std::borrow::Cow;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use firstbyte::environment;
use firstbyte_listing::Time;
use firstbyte_location::{EntryKind, shown};

use crate::render::error::Error;

pub use counter::Counter;
pub use printer::{Printer, RowFormat, RowPage, Style};
pub use sort::{Sort, SortDirection};
pub use sums::NameSums;
pub use text::{NameEscaping, SizeFormat, push_name};

/// A value of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A path in two parts, directory and name, which are written without anything between them.
    Name(&'a [u8], &'a [u8]),
    /// The kind of an entry.
    Kind(EntryKind),
    /// A count, or a size in bytes.
    Number(Option<u64>),
    /// A time.
    Time(Option<Time>),
    /// A short text.
    Text(Option<&'a str>),
}

/// A column of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowColumn {
    /// Name of the column, in formats that have names.
    pub name: &'static str,
    /// The type of its values.
    pub holds: ColumnType,
    /// Width in text, in columns; values are aligned to the right. `None` if text omits the column.
    /// A name comes last and is not padded.
    pub width: Option<usize>,
}

/// Type of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// [`Value::Name`].
    Name,
    /// [`Value::Kind`].
    Kind,
    /// [`Value::Number`].
    Number,
    /// [`Value::Number`], a size in bytes.
    Size,
    /// [`Value::Time`].
    Time,
    /// [`Value::Text`].
    Text,
}

/// Columns of a verb, the name first.
pub type Schema = &'static [RowColumn];

/// The reason why no more rows can be written.
#[derive(Debug)]
enum RowsError {
    /// Standard output accepts no more bytes.
    Output(io::Error),
    /// The temporary file for sorting cannot be written or read.
    Sorting(io::Error),
}

/// The result of writing rows.
type Written = Result<(), RowsError>;

impl From<RowsError> for Error {
    fn from(broken: RowsError) -> Self {
        match broken {
            RowsError::Output(error) => Self::io("standard output", &error),
            RowsError::Sorting(error) => {
                let directory = environment::temporary_directory(&environment::variable);
                Self::io(format!("sorting in {}", shown(&directory)), &error)
                    .advise("set TMPDIR to a directory with room, or give more --memory")
            }
        }
    }
}

/// Converts a time of the standard library; `None` if it is out of range.
pub fn time_of(time: SystemTime) -> Option<Time> {
    let (seconds, nanoseconds) = match time.duration_since(UNIX_EPOCH) {
        Ok(since) => (i64::try_from(since.as_secs()).ok()?, since.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            let whole = -i64::try_from(before.as_secs()).ok()?;
            match before.subsec_nanos() {
                0 => (whole, 0),
                nanoseconds => (whole - 1, 1_000_000_000 - nanoseconds),
            }
        }
    };
    Some(Time { seconds, nanoseconds })
}

/// Formats a time as RFC 3339, for any year; `None` if it is out of range.
pub fn rfc3339(time: SystemTime) -> Option<String> {
    let mut out = Vec::new();
    text::push_time(time_of(time)?, text::Fraction::Kept, &mut out);
    String::from_utf8(out).ok()
}

/// Converts a name for a format in UTF-8. Returns the text, and the bytes in hex if the name is not
/// UTF-8.
pub fn utf8_name<'a>(directory: &'a [u8], name: &'a [u8]) -> (Cow<'a, str>, Option<String>) {
    let bytes =
        if directory.is_empty() { Cow::Borrowed(name) } else { Cow::Owned([directory, name].concat()) };
    match bytes {
        Cow::Borrowed(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => (Cow::Borrowed(text), None),
            Err(_) => (String::from_utf8_lossy(bytes), Some(hex::encode(bytes))),
        },
        Cow::Owned(bytes) => match String::from_utf8(bytes) {
            Ok(text) => (Cow::Owned(text), None),
            Err(error) => {
                let bytes = error.as_bytes();
                (Cow::Owned(String::from_utf8_lossy(bytes).into_owned()), Some(hex::encode(bytes)))
            }
        },
    }
}
