//! Describes the parts of a caller's buffers that other threads fill, and groups the parts of a
//! read into requests.
//!
//! A caller lends its buffers for one read and waits. The parts are written only under the lock of
//! the [`PendingRead`](super::PendingRead) that owns them, and the caller does not return before
//! every such read has ended. Used by [`BlockTable`](super::BlockTable) and by blocking reads.

use std::iter::Peekable;

use firstbyte_location::{ByteRange, to_usize};
use firstbyte_pacing::ReadSizes;

use crate::block::BLOCK;

/// A contiguous part of an object, and the memory for its bytes.
#[derive(Debug)]
pub(crate) struct ObjectPart {
    pub(crate) range: ByteRange,
    start: *mut u8,
}

// SAFETY: only this part uses the memory while the part exists; see `ObjectPart::new`.
unsafe impl Send for ObjectPart {}

impl ObjectPart {
    /// Creates the part that starts at `offset` in the object and fills `buffer`.
    ///
    /// # Safety
    /// While the part exists, `buffer` must stay where it is, and nothing else may use it.
    pub(crate) unsafe fn new(offset: u64, buffer: &mut [u8]) -> Self {
        Self { range: ByteRange::at(offset, buffer.len() as u64), start: buffer.as_mut_ptr() }
    }

    /// Returns the bytes that `range` and this part have in common: their offset, and the memory
    /// for them.
    pub(crate) fn overlap(&mut self, range: ByteRange) -> (u64, &mut [u8]) {
        let common = self.range.intersect(range);
        if common.is_empty() {
            return (range.start, &mut []);
        }
        let skipped = to_usize(common.start - self.range.start);
        // SAFETY: `common` is within the part, whose memory is valid by the contract of `new`.
        let memory =
            unsafe { std::slice::from_raw_parts_mut(self.start.add(skipped), to_usize(common.len())) };
        (common.start, memory)
    }

    /// Returns the memory of the whole part.
    pub(crate) fn all(&mut self) -> &mut [u8] {
        self.overlap(self.range).1
    }

    /// Splits the part at `offset`, which must be within the part.
    fn split(self, offset: u64) -> (Self, Self) {
        let (first, second) =
            (ByteRange::new(self.range.start, offset), ByteRange::new(offset, self.range.end));
        // SAFETY: `offset` is within the part.
        let start = unsafe { self.start.add(to_usize(first.len())) };
        (Self { range: first, start: self.start }, Self { range: second, start })
    }
}

/// The parts of a read in groups. If no block of a group is present, one request fetches the group.
pub(crate) struct Groups {
    parts: Peekable<std::vec::IntoIter<ObjectPart>>,
    /// The ends of parts that were cut off behind the previous group, in any order.
    rest: Vec<ObjectPart>,
}

impl Groups {
    pub(crate) fn new(mut parts: Vec<ObjectPart>) -> Self {
        parts.retain(|part| !part.range.is_empty());
        parts.sort_by_key(|part| part.range.start);
        Self { parts: parts.into_iter().peekable(), rest: Vec::new() }
    }

    /// Returns the next parts, in order of their starts. They span at most `sizes.request` bytes of
    /// the object, with no gap of more than `sizes.gap` bytes between them.
    pub(crate) fn next(&mut self, sizes: ReadSizes) -> Option<Vec<ObjectPart>> {
        let carried = std::mem::take(&mut self.rest);
        let begin = carried.first().or(self.parts.peek())?.range.start / BLOCK * BLOCK;
        let limit = begin.saturating_add((sizes.request / BLOCK).max(1) * BLOCK);
        let mut end = begin + BLOCK;
        let mut group = Vec::new();
        let mut carried = carried.into_iter();
        loop {
            let near = |part: &ObjectPart| part.range.start < limit && part.range.start <= end + sizes.gap;
            let Some(part) = carried.next().or_else(|| self.parts.next_if(near)) else { break };
            let part = if part.range.end > limit {
                let (first, second) = part.split(limit);
                self.rest.push(second);
                first
            } else {
                part
            };
            end = end.max(part.range.end.next_multiple_of(BLOCK));
            group.push(part);
        }
        Some(group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZES: ReadSizes = ReadSizes { request: 8 * BLOCK, gap: 2 * BLOCK };

    fn groups(ranges: &[(u64, u64)]) -> Vec<Vec<(u64, u64)>> {
        let mut memory: Vec<Vec<u8>> = ranges.iter().map(|(_, len)| vec![0; to_usize(*len)]).collect();
        let part = |((at, _), buffer): (&(u64, u64), &mut Vec<u8>)| {
            // SAFETY: `memory` outlives the parts, which nothing writes to.
            unsafe { ObjectPart::new(*at, buffer) }
        };
        let mut groups = Groups::new(ranges.iter().zip(&mut memory).map(part).collect());
        let mut found = Vec::new();
        while let Some(group) = groups.next(SIZES) {
            found.push(group.iter().map(|part| (part.range.start, part.range.len())).collect());
        }
        found
    }

    #[test]
    fn neighbours_share_a_request_and_distant_ranges_do_not() {
        assert_eq!(groups(&[(10, 5), (BLOCK + 10, 5), (3 * BLOCK + 10, 5)]).len(), 1);
        assert_eq!(groups(&[(10, 5), (3 * BLOCK + 10, 5)]).len(), 2, "a gap of more than two blocks");
        assert_eq!(groups(&[(5, 0), (7, 0)]), [[(0, 0); 0]; 0]);
    }

    #[test]
    fn a_long_range_is_cut_between_blocks() {
        let cut = groups(&[(BLOCK - 5, 10 * BLOCK)]);
        assert_eq!(cut, [vec![(BLOCK - 5, 7 * BLOCK + 5)], vec![(8 * BLOCK, 3 * BLOCK - 5)]]);
    }

    proptest! {
        /// For each requested range, every byte of it is in exactly one group.
        #[test]
        fn nothing_is_lost_or_doubled(ranges in proptest::collection::vec((0..60 * BLOCK, 0..9 * BLOCK), 0..20)) {
            let bytes = |ranges: &mut dyn Iterator<Item = (u64, u64)>| {
                let mut counts = vec![0_u32; 70 * 64];
                for (at, len) in ranges {
                    for unit in at.div_ceil(BLOCK / 64)..(at + len).div_ceil(BLOCK / 64) {
                        counts[to_usize(unit)] += 1;
                    }
                }
                counts
            };
            let cut = groups(&ranges);
            prop_assert_eq!(bytes(&mut ranges.iter().copied()), bytes(&mut cut.iter().flatten().copied()));
            for group in cut {
                let first = group.iter().map(|(at, _)| at / BLOCK).min().unwrap();
                let last = group.iter().map(|(at, len)| (at + len).div_ceil(BLOCK)).max().unwrap();
                prop_assert!(last - first <= 8);
            }
        }
    }
}
