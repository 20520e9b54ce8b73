//! Formats file names and messages. [`Escaped`] is for terminals: unambiguous and without control
//! characters. [`shown`] keeps UTF-8 as it is, so it can be copied. [`one_line`] escapes control
//! characters in a message. The last two leave out secrets in URLs.

use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::os::unix::ffi::OsStrExt;

use crate::secret::{redacted, redacted_operand};

/// Returns true for control characters, and for characters that change the direction of writing.
/// Such a character, as `U+202E`, can make one name look like another.
#[must_use]
pub fn controls(symbol: char) -> bool {
    symbol.is_control()
        || matches!(symbol, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A name for a terminal. Control characters ([`controls`]) and bytes that are not UTF-8 are
/// written in the form `\x1b`. Backslashes are doubled, so no two names look the same.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for symbol in chunk.valid().chars() {
                match symbol {
                    '\\' => f.write_str("\\\\")?,
                    symbol if controls(symbol) => hex(symbol.encode_utf8(&mut [0; 4]).as_bytes(), f)?,
                    symbol => f.write_char(symbol)?,
                }
            }
            hex(chunk.invalid(), f)?;
        }
        Ok(())
    }
}

fn hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))
}

/// Formats a path or an operand for a message. UTF-8 is printed unchanged, except for secrets in
/// URLs, so it can be copied into a command. Other bytes are [`Escaped`].
#[must_use]
pub fn shown(path: &(impl AsRef<OsStr> + ?Sized)) -> Shown<'_> {
    Shown(path.as_ref())
}

/// The result of [`shown`].
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a>(&'a OsStr);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.to_str() {
            Some(text) => f.write_str(&redacted_operand(text)),
            None => Escaped(self.0.as_bytes()).fmt(f),
        }
    }
}

/// Formats a message as one line without secrets. Escapes control characters, which may come from
/// servers and file names.
#[must_use]
pub fn one_line(message: &str) -> String {
    let mut line = String::new();
    for symbol in redacted(message.trim()).chars() {
        if controls(symbol) {
            line.push_str(&Escaped(symbol.encode_utf8(&mut [0; 4]).as_bytes()).to_string());
        } else {
            line.push(symbol);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_names_look_alike_and_none_contains_control_characters() {
        let names = ["ü\x1b[2J", "ü\\x1b[2J", "\u{9b}", "\\xc2\\x9b", "\u{202e}", "\x7f", "\\", "\\\\", "\n"];
        let escaped: HashSet<String> =
            names.iter().map(|name| Escaped(name.as_bytes()).to_string()).collect();
        assert_eq!(escaped.len(), names.len());
        assert!(!escaped.iter().any(|name| name.contains(controls)), "{escaped:?}");
        assert_eq!(Escaped(b"\xff\\.").to_string(), "\\xff\\\\.");
    }

    #[test]
    fn a_utf8_path_is_shown_unchanged_and_any_other_is_escaped() {
        assert_eq!(shown("/ü/a\\b\n").to_string(), "/ü/a\\b\n");
        assert_eq!(shown(OsStr::from_bytes(b"/\xfe/a\\b\n")).to_string(), "/\\xfe/a\\\\b\\x0a");
    }
}
