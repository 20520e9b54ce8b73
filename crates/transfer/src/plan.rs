//! Divides an object into chunks. Pure: a plan follows from the length alone, so a later run
//! computes the same chunks.
//!
//! Bytes go from the socket straight to their place in a file, so the size of a chunk costs no
//! memory. Three other things determine it: a round trip must be short compared with the body, a
//! killed run fetches one chunk per worker again, and all workers should finish together.

use std::ops::Range;

use firstbyte_location::ByteRange;
use firstbyte_pacing::LONGEST_REQUEST;

/// Bytes of the first request, which is sent before the length is known, and the length of a chunk.
/// Objects up to this length come in one request. For larger ones a request has several chunks: at
/// 40 MB/s, the rate of one S3 connection, 8 MiB take 0.2 s after a round trip of 0.03 s. Of each
/// request, a killed run loses the unfinished chunk and the content of the socket's buffer.
pub(crate) const CHUNK_SIZE: u64 = 2 << 20;
/// The number of chunks of a download from which on they get longer, so that journals stay short.
const MOST_CHUNKS: u64 = 32_768;
/// The least length of an upload's parts; each part is one request.
const UPLOAD_PART_SIZE: u64 = 8 << 20;
/// The length from which on an object is large: its bytes take the time, not its requests. A
/// request costs a near server as much as sending some 4 MiB (MinIO), a quarter of this. Objects up
/// to this length are uploaded in one request.
pub(crate) const LARGE_OBJECT: u64 = 2 * UPLOAD_PART_SIZE;
/// S3's limit on the parts of an upload.
pub(crate) const MOST_PARTS: u64 = 10_000;
/// S3's least length of a part that is not the last.
pub(crate) const LEAST_PART: u64 = 5 << 20;

/// The longest part that S3 takes.
const LONGEST_PART: u64 = 5 << 30;
/// The number of a stream's parts that have the least length: together they hold 10 GiB.
const SMALL_PARTS: u32 = 2_000;
/// The number of a stream's parts of each greater length.
const PARTS_OF_A_LENGTH: u32 = 200;

/// Returns the length of part `number` (from 1) of a stream of unknown length, or `None` beyond
/// S3's last part. Parts grow, so that together they hold 31 TiB. No growth reaches the 48.8 TiB of
/// S3's largest object, all of whose parts have the greatest length
/// (<https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html>, 2026-11-27).
pub(crate) fn stream_part_size(number: u32) -> Option<u64> {
    if u64::from(number) > MOST_PARTS {
        return None;
    }
    let behind = number.saturating_sub(SMALL_PARTS);
    Some((LEAST_PART << behind.div_ceil(PARTS_OF_A_LENGTH)).min(LONGEST_PART))
}

/// The chunks of an object of one length: all equally long, except the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkPlan {
    size: u64,
    chunk: u64,
}

impl ChunkPlan {
    /// Plans chunks for reading `size` bytes in parallel. Their length bounds what a killed run
    /// reads again.
    #[must_use]
    pub fn download(size: u64) -> Self {
        let chunk = (size / MOST_CHUNKS).next_multiple_of(CHUNK_SIZE).clamp(CHUNK_SIZE, LONGEST_REQUEST);
        Self { size, chunk }
    }

    /// Plans parts for writing `size` bytes as a multipart upload.
    #[must_use]
    pub fn upload(size: u64) -> Self {
        Self {
            size,
            chunk: size.div_ceil(MOST_PARTS).next_multiple_of(UPLOAD_PART_SIZE).max(UPLOAD_PART_SIZE),
        }
    }

    /// Plans parts of `chunk` bytes each, except the last.
    #[must_use]
    pub fn with_chunk_size(size: u64, chunk: u64) -> Self {
        Self { size, chunk: chunk.max(1) }
    }

    /// Length of the object.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Length of a chunk that is not the last.
    #[must_use]
    pub fn chunk(&self) -> u64 {
        self.chunk
    }

    /// The number of chunks; an empty object has none.
    #[must_use]
    pub fn count(&self) -> u32 {
        u32::try_from(self.size.div_ceil(self.chunk)).unwrap_or(u32::MAX)
    }

    /// The indexes of all chunks.
    #[must_use]
    pub fn pieces(&self) -> Range<u32> {
        0..self.count()
    }

    /// The bytes of chunk `index`; empty past the last.
    #[must_use]
    pub fn range(&self, index: u32) -> ByteRange {
        let start = self.size.min(u64::from(index) * self.chunk);
        ByteRange::at(start, self.chunk.min(self.size - start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_parts_of_a_stream_grow_within_the_limits_of_s3() {
        let parts: Vec<u64> = (1..).map_while(stream_part_size).collect();
        assert_eq!(parts.len() as u64, MOST_PARTS);
        assert!(parts.iter().sum::<u64>() > 31 << 40);
        assert!(parts.iter().all(|part| (LEAST_PART..=LONGEST_PART).contains(part)));
        assert!(parts.windows(2).all(|two| two[0] <= two[1]) && parts[1_999] == LEAST_PART);
    }

    proptest! {
        #[test]
        fn chunks_cover_every_byte_once_and_in_order(size in 0_u64..(1 << 44), upload: bool) {
            // A large size only with few chunks: each is visited.
            let size = if upload { size } else { size % (1 << 36) };
            let plan = if upload { ChunkPlan::upload(size) } else { ChunkPlan::download(size) };
            let mut at = 0;
            for index in plan.pieces() {
                let range = plan.range(index);
                prop_assert_eq!(range.start, at);
                prop_assert!(!range.is_empty() && range.len() <= plan.chunk());
                at = range.end;
            }
            prop_assert_eq!(at, size);
            prop_assert!(plan.range(plan.count()).is_empty());
        }

        #[test]
        fn parts_are_as_s3_wants_them(size in 1_u64..(5 << 40)) {
            let plan = ChunkPlan::upload(size);
            prop_assert!(u64::from(plan.count()) <= MOST_PARTS);
            prop_assert!(plan.count() == 1 || plan.range(0).len() >= 5 << 20);
            prop_assert!(plan.count() < 3 || plan.range(0).len() == plan.range(plan.count() - 2).len());
        }
    }

    #[test]
    fn what_a_killed_run_reads_again_stays_bounded() {
        assert_eq!(ChunkPlan::download(64 << 30).chunk(), 2 << 20);
        assert_eq!(ChunkPlan::download(5 << 40).chunk(), 32 << 20);
    }
}
