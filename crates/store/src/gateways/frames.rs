//! Decodes the body of a gateway's response: blocks, each followed by a CRC-32C of 4 bytes,
//! big-endian. The gateway's cache computed that checksum when it received the block.
//!
//! The checksum of a block shows that the block is unchanged since a cache fetched it. The checksum
//! of the whole object, if its store has one, shows that the cache fetched the right bytes.

use std::sync::Arc;
use std::time::Instant;

use firstbyte_location::{Algorithm, ByteRange, Hasher, to_usize};
use firstbyte_pacing::SILENCE;

use super::member::Member;
use crate::error::{Error, Result};
use crate::wire::Incoming;

/// Header that requests a body with block checksums, and marks the response that has one.
pub(crate) const FRAMES: &str = "x-firstbyte-frames";

/// Length of a block, in bytes; the same as in the cache.
const BLOCK_BYTES: u64 = 128 << 10;

/// Length of a checksum, in bytes.
const CHECKSUM_BYTES: u64 = 4;

/// Returns true if a range consists of whole blocks of an object of `size` bytes.
pub(super) fn is_aligned(range: ByteRange, size: u64) -> bool {
    let ends = range.end.is_multiple_of(BLOCK_BYTES) || range.end >= size;
    range.start.is_multiple_of(BLOCK_BYTES) && range.start < range.end.min(size) && ends
}

/// Returns the length of a body that holds the bytes `range` and their checksums.
pub(crate) fn framed_len(range: ByteRange) -> u64 {
    range.len() + CHECKSUM_BYTES * range.len().div_ceil(BLOCK_BYTES)
}

/// Reads a body block by block, and verifies each block.
pub(crate) struct Frames {
    incoming: Box<Incoming>,
    place: String,
    /// The range of the bytes that have not arrived yet.
    range: ByteRange,
    /// The current block. Its first `returned` bytes have been returned.
    block: Vec<u8>,
    returned: usize,
    /// The time at which the last block was complete.
    last: Instant,
    /// The gateway that sends this body. Failures are reported to it.
    pub(crate) member: Option<Arc<Member>>,
}

impl Frames {
    pub(crate) fn new(place: String, range: ByteRange, incoming: Incoming) -> Self {
        let (incoming, last) = (Box::new(incoming), Instant::now());
        Self { incoming, place, range, block: Vec::new(), returned: 0, last, member: None }
    }

    /// Reads verified bytes into `buffer`. Returns 0 only at the end.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.returned == self.block.len() && !self.range.is_empty() {
            self.next_block().map_err(|error| self.record_error(error))?;
        }
        let rest = &self.block[self.returned..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.returned += count;
        Ok(count)
    }

    fn next_block(&mut self) -> Result<()> {
        let length = self.range.len().min(BLOCK_BYTES);
        self.block.resize(to_usize(length + CHECKSUM_BYTES), 0);
        let mut done = 0;
        while done < self.block.len() {
            match self.incoming.read(&mut self.block[done..])? {
                0 => return Err(self.truncated()),
                read => done += read,
            }
        }
        let sum = self.block.split_off(to_usize(length));
        if Hasher::of(Algorithm::Crc32c, &self.block).value != sum {
            return Err(Error::Protocol {
                location: self.place.clone(),
                detail: format!("the block at {} does not have its checksum", self.range.start),
                trace: None,
            });
        }
        (self.range, self.returned, self.last) = (self.range.skip(length), 0, Instant::now());
        if self.range.is_empty() && self.incoming.read(&mut [0])? != 0 {
            return Err(self.truncated());
        }
        Ok(())
    }

    /// Records the failure of the gateway that sends this body. The reader then requests the
    /// missing blocks from another gateway or from the origin.
    fn record_error(&mut self, error: Error) -> Error {
        (self.block, self.returned) = (Vec::new(), 0);
        match error {
            Error::Cancelled => {
                let is_silent = self.last.elapsed() >= SILENCE;
                self.member.iter().filter(|_| is_silent).for_each(|member| member.record_silence());
                Error::Cancelled
            }
            error => {
                self.member.iter().for_each(|member| member.record_failure(&error));
                self.truncated()
            }
        }
    }

    fn truncated(&self) -> Error {
        Error::Truncated { location: self.place.clone(), missing: self.range.len(), trace: None }
    }
}
