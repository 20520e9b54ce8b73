//! Evaluates the `Range` header for a file of known size.
//!
//! One range is answered with 206. Several ranges are answered with the whole file, as RFC 9110
//! section 14.2 allows: sendfile could not send a multipart response in one piece, and no client in
//! use asks for one. Malformed headers are ignored, as the same section demands.

use firstbyte_location::ByteRange;

/// The meaning of a `Range` header for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeAnswer {
    /// 200 with the whole file.
    Whole,
    /// 206 with this part.
    Part(ByteRange),
    /// 416: the range begins at or after the end, or is a suffix of 0 bytes.
    Unsatisfiable,
}

/// Parses the value of a `Range` header for a file of `size` bytes.
#[must_use]
pub fn parse_range(value: &str, size: u64) -> RangeAnswer {
    let Some((unit, spec)) = value.split_once('=') else { return RangeAnswer::Whole };
    if !unit.trim().eq_ignore_ascii_case("bytes") || spec.contains(',') {
        return RangeAnswer::Whole;
    }
    let Some((first, last)) = spec.trim().split_once('-') else { return RangeAnswer::Whole };
    match (position(first), position(last)) {
        (Position::At(first), Position::Missing) => clip_range(first, size, size),
        (Position::At(first), Position::At(last)) if first <= last => {
            clip_range(first, last.saturating_add(1), size)
        }
        // A suffix of any length except 0 is satisfiable, also of an empty file (RFC 9110, 14.1.2).
        (Position::Missing, Position::At(1..)) if size == 0 => RangeAnswer::Whole,
        (Position::Missing, Position::At(count)) if count > 0 => {
            clip_range(size.saturating_sub(count), size, size)
        }
        (Position::Missing, Position::At(_)) => RangeAnswer::Unsatisfiable,
        _ => RangeAnswer::Whole,
    }
}

fn clip_range(start: u64, end: u64, size: u64) -> RangeAnswer {
    if start >= size {
        RangeAnswer::Unsatisfiable
    } else {
        RangeAnswer::Part(ByteRange::new(start, end.min(size)))
    }
}

enum Position {
    Missing,
    At(u64),
    Malformed,
}

fn position(digits: &str) -> Position {
    if digits.is_empty() {
        return Position::Missing;
    }
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Position::Malformed;
    }
    // A number that exceeds u64 is past the end of every file.
    Position::At(digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_form_of_a_single_range_is_understood() {
        assert_eq!(parse_range("bytes=0-0", 10), RangeAnswer::Part(ByteRange::new(0, 1)));
        assert_eq!(parse_range("bytes=3-", 10), RangeAnswer::Part(ByteRange::new(3, 10)));
        assert_eq!(parse_range("bytes=-4", 10), RangeAnswer::Part(ByteRange::new(6, 10)));
        assert_eq!(parse_range("bytes=-40", 10), RangeAnswer::Part(ByteRange::new(0, 10)));
        assert_eq!(parse_range("bytes=5-99999999999999999999", 10), RangeAnswer::Part(ByteRange::new(5, 10)));
        assert_eq!(parse_range("bytes=10-", 10), RangeAnswer::Unsatisfiable);
        assert_eq!(parse_range("bytes=-0", 10), RangeAnswer::Unsatisfiable);
        assert_eq!(parse_range("bytes=0-0", 0), RangeAnswer::Unsatisfiable);
        assert_eq!(parse_range("bytes=-0", 0), RangeAnswer::Unsatisfiable);
        assert_eq!(parse_range("bytes=-4", 0), RangeAnswer::Whole);
    }

    #[test]
    fn malformed_and_several_ranges_mean_the_whole_file() {
        for value in [
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=a-b",
            "bytes=5-2",
            "lines=0-1",
            "bytes=0-1,4-5",
            "bytes=+1-2",
        ] {
            assert_eq!(parse_range(value, 10), RangeAnswer::Whole, "{value}");
        }
    }

    proptest! {
        #[test]
        fn no_value_panics_or_leaves_the_file(value in ".{0,40}", size in any::<u64>()) {
            if let RangeAnswer::Part(range) = parse_range(&value, size) {
                prop_assert!(range.end <= size && !range.is_empty());
            }
        }

        #[test]
        fn a_range_inside_is_served_as_asked(start in 0u64..1000, length in 1u64..1000, rest in 0u64..1000) {
            let value = format!("bytes={start}-{}", start + length - 1);
            let answer = parse_range(&value, start + length + rest);
            prop_assert_eq!(answer, RangeAnswer::Part(ByteRange::at(start, length)));
        }
    }
}
