//! Escapes text for HTML and URLs. File names reach a page or a listing only through these
//! functions, so that a name cannot become markup.

use std::borrow::Cow;
use std::fmt::Write;

/// Replaces each `{{name}}` by its value in a single pass, so that `{{` inside a value has no
/// effect.
pub(crate) fn fill(template: &str, value: impl Fn(&str) -> Cow<'static, str>) -> String {
    let mut out = String::with_capacity(template.len() * 2);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        out.push_str(before);
        let (name, after) = after.split_once("}}").unwrap_or((after, ""));
        out.push_str(&value(name));
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Escapes `text` for element content and quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    quick_xml::escape::escape(text).into_owned()
}

/// Formats a file's name for display, without escaping it for HTML. Bytes that are not UTF-8 become
/// `\xNN`. Characters that break the line, or that make two names look alike, are replaced by their
/// code point.
pub(crate) fn visible(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                '\u{61c}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{2069}'
                | '\u{feff}' => {
                    let _ = write!(out, "{}", c.escape_unicode());
                }
                c if c.is_control() => {
                    let _ = write!(out, "{}", c.escape_unicode());
                }
                c => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// Percent-encodes `bytes`, except `/` and RFC 3986's unreserved characters. The result is safe in
/// URLs and attributes.
pub(crate) fn url_path(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(byte.into())
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

/// Formats a size for display, with two or three digits.
pub(crate) fn human_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 999.5 {
        value /= 1024.0;
        unit += 1;
    }
    if value < 9.95 { format!("{value:.1} {}", UNITS[unit]) } else { format!("{value:.0} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_inside_values_are_not_filled() {
        let text = fill("<{{a}}{{b}}>", |name| if name == "a" { "{{b}}".into() } else { "x".into() });
        assert_eq!(text, "<{{b}}x>");
    }

    #[test]
    fn names_cannot_become_markup_urls_or_other_names() {
        assert_eq!(escape("<a href='x\" & y>"), "&lt;a href=&apos;x&quot; &amp; y&gt;");
        assert_eq!(url_path(b"javascript:a\xff/ b?#"), "javascript%3Aa%FF/%20b%3F%23");
        assert_eq!(visible(b"a\nb\xff\xe2\x80\xaecod.exe"), "a\\nb\\xff\\u{202e}cod.exe");
    }

    #[test]
    fn sizes_have_two_or_three_digits() {
        for (bytes, text) in
            [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (10_240, "10 KiB"), (1 << 30, "1.0 GiB")]
        {
            assert_eq!(human_size(bytes), text);
        }
        assert_eq!(human_size(u64::MAX), "16 EiB");
    }
}
