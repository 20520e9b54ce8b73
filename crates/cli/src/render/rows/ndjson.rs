//! Renders rows as JSON objects, one per line. Called by the printer.

use super::text::{Fraction, push_number, push_time};
use super::{Schema, Value, utf8_name};
use crate::render::json;

/// Writes one row. An absent value is omitted.
pub(super) fn row(schema: Schema, row: &[Value<'_>], out: &mut Vec<u8>) {
    let mut mark = b'{';
    let mut key = |name: &str, out: &mut Vec<u8>| {
        out.push(std::mem::replace(&mut mark, b','));
        json::push(name, out);
        out.push(b':');
    };
    for (column, value) in schema.iter().zip(row) {
        match *value {
            Value::Name(directory, name) => {
                let (text, hex) = utf8_name(directory, name);
                key(column.name, out);
                json::push(&text, out);
                if let Some(hex) = hex {
                    key(&format!("{}_hex", column.name), out);
                    json::push(&hex, out);
                }
            }
            Value::Kind(kind) => {
                key(column.name, out);
                json::push(kind.word(), out);
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
                json::push(text, out);
            }
            Value::Number(None) | Value::Time(None) | Value::Text(None) => {}
        }
    }
    out.extend_from_slice(b"}\n");
}
