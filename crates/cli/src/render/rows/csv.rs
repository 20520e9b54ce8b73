//! Renders rows as comma-separated values with a header (RFC 4180, except that lines end in a line
//! feed alone, as in other tools). Called by the printer.

use firstbyte_location::Escaped;

use super::text::{Fraction, NameEscaping, push_number, push_time};
use super::{ColumnType, Schema, Value, utf8_name};

/// Writes the line that names the columns.
pub(super) fn write_header(schema: Schema, out: &mut Vec<u8>) {
    for (at, column) in schema.iter().enumerate() {
        separate(at, out);
        out.extend_from_slice(column.name.as_bytes());
        if column.holds == ColumnType::Name {
            out.push(b',');
            out.extend_from_slice(column.name.as_bytes());
            out.extend_from_slice(b"_hex");
        }
    }
    out.push(b'\n');
}

/// Writes one row. An absent value becomes an empty field.
pub(super) fn row(row: &[Value<'_>], names: NameEscaping, out: &mut Vec<u8>) {
    for (at, value) in row.iter().enumerate() {
        separate(at, out);
        match *value {
            Value::Name(directory, name) => {
                let (text, hex) = utf8_name(directory, name);
                match names {
                    NameEscaping::Raw => write_field(&text, out),
                    NameEscaping::Escaped => {
                        write_field(&Escaped(&[directory, name].concat()).to_string(), out)
                    }
                }
                out.push(b',');
                out.extend_from_slice(hex.unwrap_or_default().as_bytes());
            }
            Value::Kind(kind) => out.extend_from_slice(kind.word().as_bytes()),
            Value::Number(Some(number)) => push_number(number, out),
            Value::Time(Some(time)) => push_time(time, Fraction::Kept, out),
            Value::Text(Some(text)) => match names {
                NameEscaping::Raw => write_field(text, out),
                NameEscaping::Escaped => write_field(&Escaped(text.as_bytes()).to_string(), out),
            },
            Value::Number(None) | Value::Time(None) | Value::Text(None) => {}
        }
    }
    out.push(b'\n');
}

fn separate(at: usize, out: &mut Vec<u8>) {
    if at > 0 {
        out.push(b',');
    }
}

/// Writes a text, with quotes if necessary. Texts that are empty or begin with a space are also
/// quoted, because some readers would drop an unquoted empty text or space.
fn write_field(text: &str, out: &mut Vec<u8>) {
    let special = |byte: u8| matches!(byte, b',' | b'"' | b'\n' | b'\r');
    if !text.is_empty() && !text.starts_with([' ', '#']) && !text.bytes().any(special) {
        return out.extend_from_slice(text.as_bytes());
    }
    out.push(b'"');
    for byte in text.bytes() {
        out.push(byte);
        if byte == b'"' {
            out.push(b'"');
        }
    }
    out.push(b'"');
}
