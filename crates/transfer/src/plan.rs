//! Divides an object into chunks. A plan depends only on the length, so a later run computes the
//! same chunks.
//!
//! Bytes go from the socket directly to their place in a file, so the length of a chunk does not
//! affect memory. Three other considerations determine the length: a round trip must be short
//! compared with the body, a run after a kill fetches one chunk per worker again, and all workers
//! should finish together.

use std::ops::Range;

use firstbyte_location::ByteRange;
use firstbyte_pacing::LONGEST_REQUEST;

/// Length in bytes of a chunk, and of the first request, which is sent before the object's length
/// is known. An object up to this length needs only one request. For larger objects, several chunks
/// share a request: four chunks (8 MiB) take 0.2 s at 40 MB/s, the rate of one S3 connection, after
/// a round trip of 0.03 s. A killed run loses the incomplete chunk of each request, and the bytes
/// in the socket's buffer.
pub(crate) const CHUNK_SIZE: u64 = 2 << 20;
/// Number of chunks of a download from which on chunks become longer, so that journals stay short.
const CHUNKS_BEFORE_GROWTH: u64 = 32_768;
/// Minimum length of a part of an upload, bytes. Each part is one request.
const UPLOAD_PART_SIZE: u64 = 8 << 20;
/// Length of an object in bytes at which sending its bytes takes longer than the requests. A
/// request costs a near server (MinIO) as much as sending some 4 MiB, which is a quarter of this
/// length. An object up to this length is uploaded in one request.
pub(crate) const LARGE_OBJECT: u64 = 2 * UPLOAD_PART_SIZE;
/// Maximum number of parts of an upload in S3.
pub(crate) const MAX_PARTS: u64 = 10_000;
/// Minimum length of a part in S3, bytes. The last part may be shorter.
pub(crate) const MIN_PART_SIZE: u64 = 5 << 20;

/// Maximum length in bytes of a part that is kept in memory until it has been sent. A longer part
/// is kept in a temporary file. Streams have such parts from 12 GiB on, and copies between two
/// services from 98 GiB on.
pub(crate) const MAX_PART_IN_MEMORY: u64 = 2 * MIN_PART_SIZE;

/// Maximum length of a part in S3, bytes.
const MAX_PART_SIZE: u64 = 5 << 30;
/// Number of the first parts of a stream, all of the minimum length. Together they have 9.8 GiB.
const SMALL_PARTS: u32 = 2_000;
/// Number of consecutive parts of a stream that have the same length, after the first
/// [`SMALL_PARTS`]. Then the length doubles, up to the maximum.
const PARTS_PER_LENGTH: u32 = 200;

/// Returns the length in bytes of part `number` (from 1) of a stream of unknown length, or `None`
/// after the last part that S3 allows. Later parts are longer, so all parts together can have 31
/// TiB. That is less than S3's largest object, of 48.8 TiB, in which every part has the maximum
/// length (<https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html>, 2026-11-27).
pub(crate) fn stream_part_size(number: u32) -> Option<u64> {
    if u64::from(number) > MAX_PARTS {
        return None;
    }
    let behind = number.saturating_sub(SMALL_PARTS);
    Some((MIN_PART_SIZE << behind.div_ceil(PARTS_PER_LENGTH)).min(MAX_PART_SIZE))
}

/// The chunks of an object. All have the same length, except the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkPlan {
    size: u64,
    chunk: u64,
}

impl ChunkPlan {
    /// Plans chunks for reading `size` bytes in parallel. The length of a chunk limits how much is
    /// read again after a kill.
    #[must_use]
    pub fn download(size: u64) -> Self {
        let chunk =
            (size / CHUNKS_BEFORE_GROWTH).next_multiple_of(CHUNK_SIZE).clamp(CHUNK_SIZE, LONGEST_REQUEST);
        Self { size, chunk }
    }

    /// Plans parts for writing `size` bytes as a multipart upload.
    #[must_use]
    pub fn upload(size: u64) -> Self {
        Self {
            size,
            chunk: size.div_ceil(MAX_PARTS).next_multiple_of(UPLOAD_PART_SIZE).max(UPLOAD_PART_SIZE),
        }
    }

    /// Plans parts of `chunk` bytes each, except the last.
    #[must_use]
    pub fn with_chunk_size(size: u64, chunk: u64) -> Self {
        Self { size, chunk: chunk.max(1) }
    }

    /// Returns the length of the object, bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the length of each chunk but the last, bytes.
    #[must_use]
    pub fn chunk_size(&self) -> u64 {
        self.chunk
    }

    /// Returns the number of chunks. An empty object has none.
    #[must_use]
    pub fn count(&self) -> u32 {
        u32::try_from(self.size.div_ceil(self.chunk)).unwrap_or(u32::MAX)
    }

    /// Returns the indexes of all chunks.
    #[must_use]
    pub fn chunk_indexes(&self) -> Range<u32> {
        0..self.count()
    }

    /// Returns the byte range of chunk `index`. It is empty for an index after the last chunk.
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
        assert_eq!(parts.len() as u64, MAX_PARTS);
        assert!(parts.iter().sum::<u64>() > 31 << 40);
        assert!(parts.iter().all(|part| (MIN_PART_SIZE..=MAX_PART_SIZE).contains(part)));
        assert!(parts.windows(2).all(|two| two[0] <= two[1]) && parts[1_999] == MIN_PART_SIZE);
    }

    proptest! {
        #[test]
        fn chunks_cover_every_byte_once_and_in_order(size in 0_u64..(1 << 44), upload: bool) {
            // Downloads are tested only up to 64 GiB: larger ones have too many chunks to visit
            // each.
            let size = if upload { size } else { size % (1 << 36) };
            let plan = if upload { ChunkPlan::upload(size) } else { ChunkPlan::download(size) };
            let mut at = 0;
            for index in plan.chunk_indexes() {
                let range = plan.range(index);
                prop_assert_eq!(range.start, at);
                prop_assert!(!range.is_empty() && range.len() <= plan.chunk_size());
                at = range.end;
            }
            prop_assert_eq!(at, size);
            prop_assert!(plan.range(plan.count()).is_empty());
        }

        #[test]
        fn parts_are_as_s3_wants_them(size in 1_u64..(5 << 40)) {
            let plan = ChunkPlan::upload(size);
            prop_assert!(u64::from(plan.count()) <= MAX_PARTS);
            prop_assert!(plan.count() == 1 || plan.range(0).len() >= 5 << 20);
            prop_assert!(plan.count() < 3 || plan.range(0).len() == plan.range(plan.count() - 2).len());
        }
    }

    #[test]
    fn what_a_killed_run_reads_again_stays_bounded() {
        assert_eq!(ChunkPlan::download(64 << 30).chunk_size(), 2 << 20);
        assert_eq!(ChunkPlan::download(5 << 40).chunk_size(), 32 << 20);
    }
}
