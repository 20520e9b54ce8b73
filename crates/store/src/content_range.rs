//! Reads `Content-Range` and the length of a partial response, for every backend.
//!
//! A 416 says nothing about the content. RFC 9110, 15.5.17 only recommends `Content-Range: bytes
//! */SIZE`, and some servers send 416 if only the *end* of the range is beyond the object
//! (<https://github.com/eprints/eprints/issues/17>, <https://github.com/denoland/std/issues/3354>,
//! <https://github.com/static-web-server/static-web-server/issues/306>, as of 28 November 2026). So
//! if a range from byte 0 is refused, or its response is unusable, the object is requested without
//! a range. Only the response to that request shows whether the object is empty.

use firstbyte_location::ByteRange;

use crate::query::Get;
use crate::wire::{Incoming, ResponseHead};

/// A `Content-Range` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentRange {
    /// The bytes of the body, and the size of the whole object if it is stated.
    Part(ByteRange, Option<u64>),
    /// The size of an object that lacks the requested range, in a 416.
    Unsatisfied(u64),
}

impl ContentRange {
    /// Parses `bytes FIRST-LAST/SIZE`, `bytes FIRST-LAST/*` or `bytes */SIZE`. The unit is in any
    /// letter case (RFC 9110, 14.1). It may be missing or be followed by `=`, as some servers write
    /// it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let unit = text.get(..5).filter(|unit| unit.eq_ignore_ascii_case("bytes"));
        let rest = text[unit.map_or(0, str::len)..].trim_start();
        let (span, size) = rest.strip_prefix('=').unwrap_or(rest).split_once('/')?;
        let size = match size.trim() {
            "*" => None,
            size => Some(number(size)?),
        };
        if span.trim() == "*" {
            return size.map(Self::Unsatisfied);
        }
        let (first, last) = span.split_once('-')?;
        let (first, last) = (number(first.trim())?, number(last.trim())?);
        let end = last.checked_add(1)?;
        let is_possible = first < end && size.is_none_or(|size| end <= size);
        is_possible.then_some(Self::Part(ByteRange::new(first, end), size))
    }

    /// Returns the size of the object that a 416 states.
    pub(crate) fn unsatisfied_size(head: &ResponseHead) -> Option<u64> {
        match Self::parse(head.get("content-range")?)? {
            Self::Unsatisfied(size) => Some(size),
            Self::Part(..) => None,
        }
    }

    /// Returns the bytes of a 206 and the size of the object.
    ///
    /// # Errors
    /// The reason why the response cannot be used.
    pub(crate) fn of_part(head: &ResponseHead) -> Result<(ByteRange, Option<u64>), String> {
        let Some(text) = head.get("content-range") else {
            return Err("a partial response without Content-Range".to_owned());
        };
        match Self::parse(text) {
            Some(Self::Part(range, size)) => Ok((range, size)),
            _ => Err(format!("Content-Range {text}")),
        }
    }
}

fn number(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// The bytes that a successful response has.
pub(crate) struct AnsweredRange {
    /// The bytes to use: at most the requested ones, unless the response has the whole object.
    pub(crate) range: ByteRange,
    /// The bytes of the body.
    pub(crate) sent: ByteRange,
    /// The size of the object.
    pub(crate) size: Option<u64>,
}

impl AnsweredRange {
    /// Returns the bytes of a response to `get`. `wire_length` is the length of the body of a
    /// range.
    ///
    /// # Errors
    /// The reason why the partial response cannot be used.
    pub(crate) fn of(
        get: &Get,
        head: &ResponseHead,
        incoming: &Incoming,
        wire_length: impl Fn(ByteRange) -> u64,
    ) -> Result<Self, String> {
        if head.status != 206 {
            // If the response does not state the size, the size that HEAD or a listing stated is
            // used.
            let known = get.version.as_ref().and_then(|version| version.size);
            let size = incoming.length().or(known);
            let whole = ByteRange::new(0, size.unwrap_or(u64::MAX));
            return Ok(Self { range: whole, sent: whole, size });
        }
        let (sent, size) = ContentRange::of_part(head)?;
        if incoming.length().is_some_and(|length| length != wire_length(sent)) {
            let text = head.get("content-range").unwrap_or_default();
            return Err(format!("Content-Range {text} with a body of another length"));
        }
        let Some(asked) = get.range else {
            return match size == Some(sent.len()) {
                true => Ok(Self { range: sent, sent, size }),
                false => Err("a partial response to a request without a range".to_owned()),
            };
        };
        let asked = ByteRange::new(asked.start, asked.end.max(asked.start + 1));
        // A response may have only the beginning of the range (RFC 9110, 15.3.7); `Store::get` then
        // requests the rest. If a response has more bytes than the range, only the requested ones
        // are used.
        let is_cut = sent.end > asked.end;
        if sent.start != asked.start || (is_cut && incoming.length().is_none()) {
            return Err(format!("bytes {sent} where {asked} was asked"));
        }
        Ok(Self { range: ByteRange::new(sent.start, sent.end.min(asked.end)), sent, size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_content_range_parses_in_every_spelling_that_other_clients_accept() {
        let part = |start, end, size| Some(ContentRange::Part(ByteRange::new(start, end), size));
        for text in
            ["bytes 0-9/10", "Bytes 0-9/10", "BYTES=0-9/10", "bytes=0-9/10", "bytes  0-9/10", "0-9/10"]
        {
            assert_eq!(ContentRange::parse(text), part(0, 10, Some(10)), "{text}");
        }
        assert_eq!(ContentRange::parse("bytes 0-0/1"), part(0, 1, Some(1)));
        assert_eq!(ContentRange::parse("bytes 5-9/*"), part(5, 10, None));
        assert_eq!(ContentRange::parse("bytes */9"), Some(ContentRange::Unsatisfied(9)));
        for text in [
            "bytes 5-4/9",
            "bytes 0-9/9",
            "bytes */*",
            "bytes 0-Z/1200",
            "none",
            "",
            "lines 0-9/10",
            "bytes 0-+9/10",
            "bytes 0-18446744073709551615/*",
            "bytes a-b/c",
        ] {
            assert_eq!(ContentRange::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC*") {
            let _ = ContentRange::parse(&text);
        }
    }
}
