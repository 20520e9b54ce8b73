//! Compares entity tags by one rule, wherever a tag comes from.
//!
//! A header has a tag in quotes, sometimes after `W/`. A listing has the tag with or without
//! quotes, and some stores write a digest in capitals in only one of the two. A tag is kept as it
//! was written, because a condition (`If-Match`) must repeat the tag of the header exactly. Stores
//! and caches call this module, and [`Version`](crate::Version) compares by it.

use std::borrow::Cow;

/// Returns a tag as a header writes it: in quotes, without surrounding blanks. `None` if the tag
/// has no value ([`stated`]).
#[must_use]
pub fn quoted(text: &str) -> Option<String> {
    let text = text.trim();
    let (weak, tag) = split_tag(text);
    match text.ends_with('"') {
        _ if stated(text).is_none() => None,
        true => Some(text.to_owned()),
        false => Some(format!("{}\"{tag}\"", if weak { "W/" } else { "" })),
    }
}

/// Returns a tag or version id as it is written, or `None` for one without a value (`""`, `W/""`,
/// blanks, `-`, or a word such as `null` or `undefined`). Some servers send such a tag with every
/// object (<https://github.com/OpenListTeam/OpenList/issues/2773>,
/// <https://github.com/seaweedfs/seaweedfs/issues/3987>, as of 28 November 2026), so it identifies
/// no version.
#[must_use]
pub fn stated(text: &str) -> Option<&str> {
    let value = split_tag(text).1.trim();
    let is_word = ["null", "nil", "none", "undefined"].iter().any(|word| value.eq_ignore_ascii_case(word));
    (value.bytes().any(|byte| byte.is_ascii_alphanumeric()) && !is_word).then_some(text)
}

/// True if a tag is weak: equal weak tags do not mean equal bytes.
#[must_use]
pub fn is_weak(text: &str) -> bool {
    split_tag(text).0
}

/// Returns true if two tags have the same value, by the weak comparison of RFC 9110, 8.8.3.2. The
/// letter case of an MD5 digest does not count.
#[must_use]
pub fn is_same(one: &str, other: &str) -> bool {
    one == other || value(one) == value(other)
}

/// Returns the value of a tag in one canonical spelling. An MD5 digest is in lower case, also in
/// the tag of a multipart upload (`HEX-COUNT`).
#[must_use]
pub fn value(text: &str) -> Cow<'_, str> {
    let tag = split_tag(text).1;
    if is_digest(tag) { Cow::Owned(tag.to_ascii_lowercase()) } else { Cow::Borrowed(tag) }
}

/// Returns whether a tag is weak, and the tag without its quotes.
fn split_tag(text: &str) -> (bool, &str) {
    let text = text.trim();
    let weak = text.strip_prefix("W/").or_else(|| text.strip_prefix("w/"));
    let tag = weak.unwrap_or(text);
    (weak.is_some(), tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).unwrap_or(tag))
}

fn is_digest(tag: &str) -> bool {
    let (digest, count) = tag.split_once('-').unwrap_or((tag, "1"));
    digest.len() == 32
        && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
        && !count.is_empty()
        && count.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "900150983cd24fb0d6963f7d28e17f72";

    #[test]
    fn a_tag_is_the_same_with_and_without_quotes_and_a_digest_in_capitals() {
        let capitals = DIGEST.to_uppercase();
        for other in [
            DIGEST.to_owned(),
            format!("\"{DIGEST}\""),
            format!(" \"{DIGEST}\" "),
            format!("\"{capitals}\""),
            capitals.clone(),
            format!("W/\"{DIGEST}\""),
        ] {
            assert!(is_same(&format!("\"{DIGEST}\""), &other), "{other}");
        }
        assert!(is_same(&format!("{capitals}-12"), &format!("\"{DIGEST}-12\"")));
        assert!(!is_same(&format!("{DIGEST}-1"), &format!("{DIGEST}-2")) && !is_same(DIGEST, "\"x\""));
    }

    #[test]
    fn other_tags_keep_their_letter_case() {
        assert!(!is_same("\"abc\"", "\"ABC\"") && !is_same("\"0x8D4B\"", "\"0x8d4b\""));
        assert_eq!(value("W/\"aB\""), "aB");
    }

    #[test]
    fn a_tag_of_a_listing_gets_the_quotes_of_a_header() {
        let cases = [
            ("abc", Some("\"abc\"")),
            ("\"abc\"", Some("\"abc\"")),
            ("W/abc", Some("W/\"abc\"")),
            ("W/\"abc\"", Some("W/\"abc\"")),
            (" ", None),
            ("\"\"", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(quoted(text).as_deref(), wanted, "{text}");
        }
        assert!(is_weak("w/\"a\"") && !is_weak("\"W/a\""));
    }

    #[test]
    fn a_tag_without_a_value_is_no_tag() {
        for text in ["", " ", "\"\"", " \"\" ", "W/\"\"", "W/", "\" \"", "\"-\"", "null", "\"undefined\""] {
            assert_eq!((stated(text), quoted(text)), (None, None), "{text:?}");
        }
        assert_eq!(stated("abc"), Some("abc"));
    }
}
