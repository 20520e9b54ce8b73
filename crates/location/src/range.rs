//! Defines half-open byte ranges. The ranges of HTTP are inclusive; only the HTTP client and server
//! convert between the two.

use std::fmt;

/// The bytes from `start` up to, but not including, `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ByteRange {
    /// Offset of the first byte.
    pub start: u64,
    /// Offset after the last byte. Never less than `start`.
    pub end: u64,
}

impl ByteRange {
    /// Returns the range from `start` to `end`. Empty if `end` is less than `start`.
    #[must_use]
    pub fn new(start: u64, end: u64) -> Self {
        Self { start, end: end.max(start) }
    }

    /// Returns the range of `len` bytes from `start`.
    #[must_use]
    pub fn at(start: u64, len: u64) -> Self {
        Self { start, end: start.saturating_add(len) }
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn len(self) -> u64 {
        self.end - self.start
    }

    /// Returns true if the range has no bytes.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.end == self.start
    }

    /// Returns the bytes that are in both ranges.
    #[must_use]
    pub fn intersect(self, other: Self) -> Self {
        let start = self.start.max(other.start);
        Self::new(start, self.end.min(other.end).max(start))
    }

    /// Returns the range without its first `count` bytes. Empty if the range has no more bytes.
    #[must_use]
    pub fn skip(self, count: u64) -> Self {
        Self::new(self.start.saturating_add(count).min(self.end), self.end)
    }
}

/// Converts a length to `usize`. No value is lost, because every supported target has 64-bit
/// addresses.
#[must_use]
pub const fn to_usize(length: u64) -> usize {
    const { assert!(usize::BITS == u64::BITS) };
    length as usize
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipping_past_the_end_leaves_an_empty_range_at_the_end() {
        assert_eq!(ByteRange::new(10, 20).skip(4), ByteRange::new(14, 20));
        assert_eq!(ByteRange::new(10, 20).skip(99), ByteRange::new(20, 20));
    }

    #[test]
    fn disjoint_ranges_have_an_empty_intersection() {
        assert!(ByteRange::new(0, 5).intersect(ByteRange::new(7, 9)).is_empty());
        assert_eq!(ByteRange::new(0, 8).intersect(ByteRange::new(5, 20)), ByteRange::new(5, 8));
    }
}
