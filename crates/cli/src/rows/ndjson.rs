//! Rows as JSON objects, one a line.

use super::text::{Fraction, push_number, push_time};
use super::{Schema, Value, utf8_name};

/// Writes one row. A value that is not there is left out.
pub(super) fn row(schema: Schema, row: &[Value<'_>], out: &mut Vec<u8>) {
    let mut mark = b'{';
    let mut key = |name: &str, out: &mut Vec<u8>| {
        out.push(std::mem::replace(&mut mark, b','));
        string(name, out);
        out.push(b':');
    };
    for (column, value) in schema.iter().zip(row) {
        match *value {
            Value::Name(directory, name) => {
                let (text, hex) = utf8_name(directory, name);
                key(column.name, out);
                string(&text, out);
                if let Some(hex) = hex {
                    key(&format!("{}_hex", column.name), out);
                    string(&hex, out);
                }
            }
            Value::Kind(kind) => {
                key(column.name, out);
                string(kind.word(), out);
            }
            Value::Number(Some(number)) => {
                key(column.name, out);
                push_number(number, out);
            }
            Value::Time(Some(time)) => {
                key(column.name, out);
                out.push(b'"');
                push_time(time, Fraction::Kept, out);
                out.push(b'"');
            }
            Value::Text(Some(text)) => {
                key(column.name, out);
                string(text, out);
            }
            Value::Number(None) | Value::Time(None) | Value::Text(None) => {}
        }
    }
    out.extend_from_slice(b"}\n");
}

fn string(text: &str, out: &mut Vec<u8>) {
    // Writing to memory cannot fail, and neither can a string.
    let _ = serde_json::to_writer(out, text);
}
