//! Half-open byte ranges. HTTP's inclusive ranges are translated at the wire, nowhere else.

use std::fmt;

/// The bytes from `start` up to, not including, `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ByteRange {
    /// Offset of the first byte.
    pub start: u64,
    /// Offset just past the last byte; never below `start`.
    pub end: u64,
}

impl ByteRange {
    /// The range from `start` up to `end`; empty where `end` lies below `start`.
    #[must_use]
    pub fn new(start: u64, end: u64) -> Self {
        Self { start, end: end.max(start) }
    }

    /// The `len` bytes from `start` on.
    #[must_use]
    pub fn at(start: u64, len: u64) -> Self {
        Self { start, end: start.saturating_add(len) }
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(self) -> u64 {
        self.end - self.start
    }

    /// Whether no byte lies in it.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.end == self.start
    }

    /// The part of it that lies in `other` too.
    #[must_use]
    pub fn intersect(self, other: Self) -> Self {
        let start = self.start.max(other.start);
        Self::new(start, self.end.min(other.end).max(start))
    }

    /// What is left after its first `count` bytes (all of them, at most).
    #[must_use]
    pub fn skip(self, count: u64) -> Self {
        Self::new(self.start.saturating_add(count).min(self.end), self.end)
    }
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
    fn disjoint_ranges_intersect_in_nothing() {
        assert!(ByteRange::new(0, 5).intersect(ByteRange::new(7, 9)).is_empty());
        assert_eq!(ByteRange::new(0, 8).intersect(ByteRange::new(5, 20)), ByteRange::new(5, 8));
    }
}
