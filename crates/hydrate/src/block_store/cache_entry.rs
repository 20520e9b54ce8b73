//! Hides the two forms in which the cache stores a version: in files of its own, or as one record
//! in a pack.

use std::fs::File;
use std::ops::Range;

use firstbyte_location::{ByteRange, Checksum, Location, Version};
use firstbyte_store::{Error as StoreError, Sink};

use crate::cache::{
    Backing, Cache, CachedVersion, Exempt, FetchLease, FillOutcome, Packed, PackedLease, Pin, PinnedBlocks,
    VersionStatus, VersionVerification,
};
use crate::error::Error;

/// A version in the cache.
pub(crate) enum CacheEntry {
    /// A version in files of its own, which can hold any of its blocks.
    Sparse(CachedVersion),
    /// A version in one record of a pack, which holds all of the object.
    Packed(Box<Packed>),
}

/// The right to fetch blocks, which only one of the processes sharing the cache can have.
#[expect(dead_code, reason = "held until it is dropped")]
pub(crate) enum BlockLease {
    Sparse(FetchLease),
    Packed(PackedLease),
}

impl CacheEntry {
    /// Opens a version in the cache.
    pub(super) fn open(
        cache: &Cache,
        location: &Location,
        version: &Version,
        checksum: Option<Checksum>,
    ) -> Result<Self, Error> {
        let Some(packed) = cache.packed(location, version) else {
            return cache.version(location, version, checksum).map(Self::Sparse);
        };
        packed.touch();
        if let Some(checksum) = checksum {
            packed.set_checksum(checksum);
        }
        Ok(Self::Packed(Box::new(packed)))
    }

    pub(super) fn set_checksum(&self, checksum: Checksum) {
        match self {
            Self::Sparse(cached) => cached.set_checksum(checksum),
            Self::Packed(packed) => packed.set_checksum(checksum),
        }
    }

    /// Copies the contiguous bytes that are cached from `offset` on. Returns the number of bytes
    /// copied.
    pub(super) fn read_at(&self, buffer: &mut [u8], offset: u64) -> usize {
        match self {
            Self::Sparse(cached) => cached.read_at(buffer, offset),
            Self::Packed(packed) => packed.read_at(buffer, offset),
        }
    }

    /// Pins the blocks of `range`. `None` if the version is packed, or if blocks are absent.
    pub(super) fn pin_blocks(&self, range: ByteRange) -> Option<PinnedBlocks> {
        match self {
            Self::Sparse(cached) => cached.pin_blocks(range),
            Self::Packed(_) => None,
        }
    }

    pub(super) fn is_present(&self, block: u64) -> bool {
        match self {
            Self::Sparse(cached) => cached.is_present(block),
            Self::Packed(packed) => block == 0 && packed.is_present(),
        }
    }

    /// Returns the first present block at or after `from`.
    pub(super) fn next_present(&self, from: u64) -> Option<u64> {
        match self {
            Self::Sparse(cached) => cached.next_present(from),
            Self::Packed(packed) => (from == 0 && packed.is_present()).then_some(0),
        }
    }

    pub(super) fn has_all_blocks(&self) -> bool {
        match self {
            Self::Sparse(cached) => cached.has_all_blocks(),
            Self::Packed(packed) => packed.is_present(),
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        match self {
            Self::Sparse(cached) => cached.is_complete(),
            Self::Packed(packed) => packed.is_complete(),
        }
    }

    pub(super) fn verify_complete(&self) -> Result<VersionVerification, Error> {
        match self {
            Self::Sparse(cached) => cached.verify_complete(),
            Self::Packed(packed) => packed.verify_complete(),
        }
    }

    pub(super) fn fill(&self, block: u64, bytes: &[u8], exempt: Exempt) -> FillOutcome {
        match self {
            Self::Sparse(cached) => cached.fill(block, bytes, exempt),
            Self::Packed(packed) => packed.fill(bytes, exempt),
        }
    }

    /// Records an object without content. A version in files of its own needs no record, because
    /// its files show that it is cached.
    pub(super) fn fill_empty(&self, exempt: Exempt) {
        if let Self::Packed(packed) = self {
            packed.fill(&[], exempt);
        }
    }

    /// Fills a block by calling `transfer`, which writes into the cached file. `None` if no file
    /// can receive the block directly.
    pub(super) fn receive(
        &self,
        block: u64,
        buffer: &mut [u8],
        exempt: Exempt,
        transfer: impl FnOnce(&Sink, u64, &mut [u8]) -> Result<(), StoreError>,
    ) -> Option<Result<FillOutcome, StoreError>> {
        match self {
            Self::Sparse(cached) => cached.receive(block, buffer, exempt, transfer),
            Self::Packed(_) => None,
        }
    }

    pub(super) fn lease(&self, blocks: Range<u64>) -> Option<BlockLease> {
        match self {
            Self::Sparse(cached) => cached.lease(blocks).map(BlockLease::Sparse),
            Self::Packed(packed) => packed.lease().map(BlockLease::Packed),
        }
    }

    pub(super) fn touch(&self) {
        match self {
            Self::Sparse(cached) => cached.touch(),
            Self::Packed(packed) => packed.touch(),
        }
    }

    pub(crate) fn pin(&self, pin: Pin) {
        match self {
            Self::Sparse(cached) => cached.pin(pin),
            Self::Packed(packed) => packed.pin(pin),
        }
    }

    /// Returns the bytes of disk that the absent blocks among `blocks` need.
    pub(super) fn cost_of_missing(&self, blocks: &Range<u64>) -> u64 {
        match self {
            Self::Sparse(cached) => cached.cost_of_missing(blocks),
            Self::Packed(packed) => packed.cost_if_missing(),
        }
    }

    pub(super) fn unsynced_file(&self) -> Option<File> {
        match self {
            Self::Sparse(cached) => cached.unsynced_file(),
            Self::Packed(_) => None,
        }
    }

    pub(super) fn backing(&self) -> Option<Backing> {
        match self {
            Self::Sparse(cached) => cached.backing(),
            Self::Packed(_) => None,
        }
    }

    pub(crate) fn status(&self) -> Option<VersionStatus> {
        match self {
            Self::Sparse(cached) => cached.status(),
            Self::Packed(packed) => packed.status(),
        }
    }
}
