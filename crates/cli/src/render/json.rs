//! JSON that is safe to print on a terminal. Control characters are written as escapes such as
//! `\u009b`, so a program that parses the JSON gets the same text. JSON itself requires escapes
//! only below U+0020.

use std::io;

use firstbyte::receipt::SCHEMA;
use firstbyte_location::controls;
use serde::Serialize;
use serde_json::ser::Formatter;
use serde_json::{Value, json};

/// Formats the JSON object that a verb prints when it ends. Adds the fields that every such object
/// has: `schema`, `verb` and `failed`. Fields of these names in `fields` take precedence.
pub fn summary(verb: &str, fields: &impl Serialize) -> String {
    let mut summary = json!({ "schema": SCHEMA, "verb": verb, "failed": [] });
    if let (Value::Object(all), Value::Object(own)) = (&mut summary, json!(fields)) {
        all.extend(own);
    }
    line(&summary)
}

/// Formats a value on one line.
pub fn line(value: &(impl Serialize + ?Sized)) -> String {
    let mut out = Vec::new();
    push(value, &mut out);
    // JSON is valid UTF-8.
    String::from_utf8(out).unwrap_or_default()
}

/// Appends a value to `out`.
pub fn push(value: &(impl Serialize + ?Sized), out: &mut Vec<u8>) {
    // Writing to memory cannot fail, and the keys are field names, which serde_json accepts.
    let _ = value.serialize(&mut serde_json::Serializer::with_formatter(out, EscapingFormatter));
}

struct EscapingFormatter;

impl Formatter for EscapingFormatter {
    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        // Nearly all texts are plain ASCII, and this check examines several bytes at a time.
        if fragment.is_ascii() && !fragment.contains('\x7f') {
            return out.write_all(fragment.as_bytes());
        }
        let mut written = 0;
        for (at, symbol) in fragment.char_indices().filter(|(_, symbol)| controls(*symbol)) {
            // All control characters are below U+10000, so four hexadecimal digits are enough.
            write!(out, "{}\\u{:04x}", &fragment[written..at], u32::from(symbol))?;
            written = at + symbol.len_utf8();
        }
        out.write_all(&fragment.as_bytes()[written..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_parse_back_to_the_same_text() {
        for text in ["plain ü😀", "\x1b[2J\n", "a\u{9b}b\x7f", "\u{202e}gpj.exe", "\"\\\u{2066}", ""] {
            let json = line(text);
            assert!(!json.contains(controls), "{json:?}");
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }
        assert_eq!(line("ü\u{9b}"), "\"ü\\u009b\"");
    }
}
