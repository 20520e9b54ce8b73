//! Encodes text for HTTP headers: non-ASCII text becomes an encoded word of RFC 2047, as in S3.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

pub(crate) fn encode(text: &str) -> String {
    let plain =
        text.bytes().all(|b| (0x20..0x7f).contains(&b)) && !text.starts_with("=?") && text.trim() == text;
    if plain { text.to_owned() } else { format!("=?UTF-8?B?{}?=", STANDARD.encode(text)) }
}

/// Decodes the result of [`encode`]. Text in other encodings is returned unchanged.
pub(crate) fn decode(value: &str) -> String {
    let decoded = || {
        let inner = value.strip_prefix("=?")?.strip_suffix("?=")?;
        let (charset, rest) = inner.split_once('?')?;
        let (encoding, text) = rest.split_once('?')?;
        if !charset.eq_ignore_ascii_case("utf-8") || !encoding.eq_ignore_ascii_case("b") {
            return None;
        }
        String::from_utf8(STANDARD.decode(text).ok()?).ok()
    };
    decoded().unwrap_or_else(|| value.to_owned())
}

/// The fault of a text that has control characters.
pub(crate) const CONTROL: &str = "has a line break or another control character";

/// Checks that a text can be the value of a header.
///
/// # Errors
/// The fault, as the predicate of a sentence about the header.
pub fn header_value(text: &str) -> std::result::Result<(), &'static str> {
    if text.contains(char::is_control) {
        Err(CONTROL)
    } else if !text.is_ascii() {
        Err("has characters that are not ASCII")
    } else if text.trim().is_empty() {
        Err("is empty")
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_survives_encoding_and_the_header_is_printable_ascii(text in ".*") {
            let sent = encode(&text);
            prop_assert!(sent.bytes().all(|b| (0x20..0x7f).contains(&b)));
            prop_assert_eq!(decode(&sent), text);
        }
    }
}
