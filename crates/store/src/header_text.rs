//! Encodes text for HTTP headers. A text becomes an encoded word of RFC 2047, as in S3, if it has
//! characters other than printable ASCII, begins with `=?`, or begins or ends with a blank.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

pub(crate) fn encode(text: &str) -> String {
    let plain =
        text.bytes().all(|b| (0x20..0x7f).contains(&b)) && !text.starts_with("=?") && text.trim() == text;
    if plain { text.to_owned() } else { format!("=?UTF-8?B?{}?=", STANDARD.encode(text)) }
}

/// Decodes a value that consists of encoded words in UTF-8, such as the results of [`encode`] and
/// of S3. Any other value is returned unchanged.
pub(crate) fn decode(value: &str) -> String {
    // A blank between two encoded words is not part of the text (RFC 2047, 6.2).
    let words = value.split_ascii_whitespace().map(decoded_word).collect::<Option<Vec<_>>>();
    let text =
        words.filter(|words| !words.is_empty()).and_then(|words| String::from_utf8(words.concat()).ok());
    text.unwrap_or_else(|| value.to_owned())
}

/// Returns the bytes of an encoded word in UTF-8.
fn decoded_word(word: &str) -> Option<Vec<u8>> {
    let inner = word.strip_prefix("=?")?.strip_suffix("?=")?;
    let (charset, rest) = inner.split_once('?')?;
    let (encoding, text) = rest.split_once('?')?;
    match encoding {
        _ if !charset.eq_ignore_ascii_case("utf-8") => None,
        "B" | "b" => STANDARD.decode(text).ok(),
        "Q" | "q" => quoted_bytes(text),
        _ => None,
    }
}

/// Decodes the encoding `Q`, in which `_` is a blank and `=C3` is a byte (RFC 2047, 4.2).
fn quoted_bytes(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'_' => b' ',
            b'=' => {
                let digits = [rest.next()?, rest.next()?];
                let mut decoded = [0];
                hex::decode_to_slice(digits, &mut decoded).ok()?;
                decoded[0]
            }
            other => other,
        });
    }
    Some(bytes)
}

/// The fault of a text that has control characters.
pub(crate) const CONTROL: &str = "has a line break or another control character";

/// Checks that a text can be the value of a header.
///
/// # Errors
/// The fault, as the predicate of a sentence about the header.
pub fn check_header_value(text: &str) -> std::result::Result<(), &'static str> {
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

    #[test]
    fn encoded_words_of_other_writers_are_decoded() {
        for (value, text) in [
            ("=?UTF-8?Q?caf=C3=A9?=", "caf\u{e9}"),
            ("=?utf-8?q?a_b=5F?=", "a b_"),
            ("=?UTF-8?B?Y2Fm?= =?UTF-8?Q?=C3=A9?=", "caf\u{e9}"),
            ("=?UTF-8?Q?bad=C3?=", "=?UTF-8?Q?bad=C3?="),
            ("=?UTF-8?Q?bad=?=", "=?UTF-8?Q?bad=?="),
            ("=?ISO-8859-1?Q?=E9?=", "=?ISO-8859-1?Q?=E9?="),
            ("plain  text", "plain  text"),
            ("", ""),
        ] {
            assert_eq!(decode(value), text, "{value}");
        }
    }

    proptest! {
        #[test]
        fn any_text_survives_encoding_and_the_header_is_printable_ascii(text in ".*") {
            let sent = encode(&text);
            prop_assert!(sent.bytes().all(|b| (0x20..0x7f).contains(&b)));
            prop_assert_eq!(decode(&sent), text);
        }
    }
}
