//! Defines the block, the unit in which content is fetched and cached, and converts between blocks
//! and byte ranges.

use std::ops::Range;

use firstbyte_location::ByteRange;
use firstbyte_pacing::ROUND_TRIP_BYTES;

/// Length of a block, bytes. The kernel's default read-ahead has the same length, so a page fault
/// costs one request. A random read at 40 MB/s waits only 3 ms for a block.
pub const BLOCK: u64 = 128 << 10;
/// Length of a segment, bytes: the amount that one connection transfers in a round trip. A segment
/// is the smallest request ahead of a reader, and the largest distance by which reads may arrive
/// out of order. A block that is more than a segment ahead of a running fetch usually arrives
/// sooner by a separate request.
pub(crate) const SEGMENT: u64 = ROUND_TRIP_BYTES;

/// Returns the byte range of a block. The range of the last block extends past the end of the file.
pub(crate) fn block_range(block: u64) -> ByteRange {
    ByteRange::at(block * BLOCK, BLOCK)
}

/// Returns the blocks that contain the bytes of `range`.
pub(crate) fn blocks_of(range: ByteRange) -> Range<u64> {
    range.start / BLOCK..range.end.div_ceil(BLOCK)
}

/// Joins ascending blocks into runs, like [`runs`], and also joins two runs if at most `gap` blocks
/// are between them and all of those may be fetched.
pub(crate) fn runs_over(blocks: Vec<u64>, gap: u64, mut is_free: impl FnMut(u64) -> bool) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for run in runs(blocks.into_iter()) {
        match joined.last_mut() {
            Some(last) if run.start - last.end <= gap && (last.end..run.start).all(&mut is_free) => {
                last.end = run.end;
            }
            _ => joined.push(run),
        }
    }
    joined
}

/// Joins ascending blocks into contiguous runs.
pub(crate) fn runs(blocks: impl Iterator<Item = u64>) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for block in blocks {
        match runs.last_mut() {
            Some(run) if run.end == block => run.end += 1,
            _ => runs.push(block..block + 1),
        }
    }
    runs
}
