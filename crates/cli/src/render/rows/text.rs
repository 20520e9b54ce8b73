//! Renders rows as lines of text: first the columns that have a width, then the name. Called by the
//! printer.

use std::io::{IsTerminal, Write as _};

use firstbyte::size::human;
use firstbyte_listing::Time;
use firstbyte_location::{EntryKind, Escaped};

use super::{ColumnType, Schema, Value};

/// Escaping of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameEscaping {
    /// The bytes of the name, unchanged.
    Raw,
    /// [`Escaped`], so that a name cannot send control sequences to a terminal.
    Escaped,
}

impl NameEscaping {
    /// Chooses the escaping for `out`: names are escaped only on a terminal.
    pub fn on(out: &impl IsTerminal) -> Self {
        if out.is_terminal() { Self::Escaped } else { Self::Raw }
    }
}

/// Format of sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SizeFormat {
    /// The exact number of bytes.
    #[default]
    Exact,
    /// Three digits and a unit, for people.
    Human,
}

/// Number of seconds in a day.
const SECONDS_PER_DAY: i64 = 86_400;

/// Writes one row, then `end`.
pub(super) fn row(
    schema: Schema,
    row: &[Value<'_>],
    (names, sizes): (NameEscaping, SizeFormat),
    end: u8,
    out: &mut Vec<u8>,
) {
    let mut name: (&[u8], &[u8]) = (b"", b"");
    for (column, value) in schema.iter().zip(row) {
        if let Value::Name(directory, last) = value {
            name = (directory, last);
        } else if let Some(width) = column.width {
            let from = out.len();
            match (value, sizes) {
                (Value::Number(Some(size)), SizeFormat::Human) if column.holds == ColumnType::Size => {
                    out.extend_from_slice(human(*size).as_bytes());
                }
                _ => write_cell(value, out),
            }
            let written = out.len() - from;
            out.splice(from..from, std::iter::repeat_n(b' ', width.saturating_sub(written)));
            out.push(b' ');
        }
    }
    push_name(name.0, name.1, names, out);
    out.push(end);
}

/// Writes a name.
#[inline]
pub fn push_name(directory: &[u8], name: &[u8], names: NameEscaping, out: &mut Vec<u8>) {
    match names {
        NameEscaping::Raw => {
            out.extend_from_slice(directory);
            out.extend_from_slice(name);
        }
        NameEscaping::Escaped => [directory, name].into_iter().for_each(|part| push_escaped(part, out)),
    }
}

fn push_escaped(name: &[u8], out: &mut Vec<u8>) {
    // Writing to memory cannot fail.
    let _ = write!(out, "{}", Escaped(name));
}

fn write_cell(value: &Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Kind(kind) => out.push(letter(*kind)),
        Value::Number(Some(number)) => push_number(*number, out),
        Value::Time(Some(time)) => push_time(*time, Fraction::Omitted, out),
        Value::Text(Some(text)) => push_escaped(text.as_bytes(), out),
        Value::Number(None) | Value::Time(None) | Value::Text(None) | Value::Name(..) => out.push(b'-'),
    }
}

/// Returns the letter of a kind in `firstbyte ls -l`: that of `find -printf %y`, or `o` for other
/// kinds.
fn letter(kind: EntryKind) -> u8 {
    match kind {
        EntryKind::File => b'f',
        EntryKind::Directory => b'd',
        EntryKind::Symlink => b'l',
        EntryKind::Other => b'o',
    }
}

/// Writes a number in decimal. With a million rows, writing numbers takes most of the time, and
/// `write!` would take four times as long.
pub(super) fn push_number(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return out.extend_from_slice(&digits[at..]);
        }
    }
}

/// Form of fractions of a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fraction {
    /// All nine digits are written, unless all are zero.
    Kept,
    /// Fractions are not written.
    Omitted,
}

/// Writes a time as RFC 3339, in UTC.
pub(super) fn push_time(time: Time, fraction: Fraction, out: &mut Vec<u8>) {
    let (days, second) = (time.seconds.div_euclid(SECONDS_PER_DAY), time.seconds.rem_euclid(SECONDS_PER_DAY));
    let (year, month, day) = date(days);
    if (0..=9999).contains(&year) {
        push_padded(year.unsigned_abs(), 4, out);
    } else {
        // Writing to memory cannot fail.
        let _ = write!(out, "{year:+05}");
    }
    for (mark, part) in
        [(b'-', month), (b'-', day), (b'T', second / 3600), (b':', second / 60 % 60), (b':', second % 60)]
    {
        out.push(mark);
        push_padded(part.unsigned_abs(), 2, out);
    }
    if fraction == Fraction::Kept && time.nanoseconds > 0 {
        out.push(b'.');
        push_padded(time.nanoseconds.into(), 9, out);
    }
    out.push(b'Z');
}

fn push_padded(number: u64, width: u32, out: &mut Vec<u8>) {
    for place in (0..width).rev() {
        out.push(b'0' + (number / 10_u64.pow(place) % 10) as u8);
    }
}

/// Converts days since 1970-01-01 to year, month and day in the Gregorian calendar, with Howard
/// Hinnant's `civil_from_days` (<https://howardhinnant.github.io/date_algorithms.html>). The
/// algorithm's years begin in March, so that a leap day is the last day of a year. A period of 400
/// years, an era, always has 146,097 days.
fn date(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;
    use time::format_description::well_known::Rfc3339;

    use super::*;

    fn shown(time: Time, fraction: Fraction) -> String {
        let mut out = Vec::new();
        push_time(time, fraction, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn times_are_written_as_another_implementation_writes_them() {
        let step = 7_777_777;
        for seconds in (-62_135_596_800..253_402_300_799_i64).step_by(step * 100) {
            let expected = OffsetDateTime::from_unix_timestamp(seconds).unwrap().format(&Rfc3339).unwrap();
            assert_eq!(shown(Time { seconds, nanoseconds: 0 }, Fraction::Kept), expected);
        }
        let time = Time { seconds: -1, nanoseconds: 50 };
        assert_eq!(shown(time, Fraction::Kept), "1969-12-31T23:59:59.000000050Z");
        assert_eq!(shown(time, Fraction::Omitted), "1969-12-31T23:59:59Z");
        assert_eq!(
            shown(Time { seconds: 253_402_300_800, nanoseconds: 0 }, Fraction::Omitted),
            "+10000-01-01T00:00:00Z"
        );
    }

    #[test]
    fn numbers_are_written_in_decimal() {
        for number in [0, 9, 10, 12_345, u64::MAX] {
            let mut out = Vec::new();
            push_number(number, &mut out);
            assert_eq!(out, number.to_string().as_bytes());
        }
    }

    #[test]
    fn a_name_cannot_control_the_terminal() {
        let mut out = Vec::new();
        push_name(b"d\n/", "ü\x1b[2J\u{9b}\\x1b".as_bytes(), NameEscaping::Escaped, &mut out);
        push_name(b"", b"\xff.", NameEscaping::Escaped, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "d\\x0a/ü\\x1b[2J\\xc2\\x9b\\\\x1b\\xff.");
        let mut raw = Vec::new();
        push_name(b"d\n/", b"\xff\x1b", NameEscaping::Raw, &mut raw);
        assert_eq!(raw, b"d\n/\xff\x1b");
    }
}
