//! What the map says of one block, in one word that is read and changed atomically.
//!
//! ```text
//! bit 63 present | bit 62 referenced | bits 32..62 stamp | bits 0..32 CRC-32C of the block
//! ```
//! The stamp names the boot and the epoch in which the block was written or last verified. Where it is the current one
//! the block is taken at its word, else it is first checked against its CRC. A stamp has 30 bits: that an old one
//! equals the current by chance is as unlikely as that a wrong block has the right CRC.

use crc_fast::CrcAlgorithm;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The word where a block is not here: what a hole in the map reads as.
pub(super) const ABSENT: u64 = 0;
const PRESENT: u64 = 1 << 63;
/// Set by readers, cleared by eviction when it comes by.
pub(super) const REFERENCED: u64 = 1 << 62;
const STAMP_SHIFT: u32 = 32;
const STAMP_MASK: u32 = (1 << 30) - 1;

/// What blocks written in this boot and epoch carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp(u32);

impl Stamp {
    pub(super) fn new(boot: u64, epoch: u64) -> Self {
        let hash = xxh3_64_with_seed(&epoch.to_le_bytes(), boot);
        Self((hash >> 34) as u32 & STAMP_MASK)
    }

    /// As a number that is never 0.
    pub(super) fn as_number(self) -> u64 {
        u64::from(self.0) | 1 << STAMP_SHIFT
    }
}

/// One block's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry(pub(super) u64);

impl Entry {
    /// A block just written. It counts as referenced, so that eviction passes over it once: what was fetched ahead has
    /// not been read yet.
    pub(super) fn new(crc: u32, stamp: Stamp) -> Self {
        Self(PRESENT | REFERENCED | u64::from(stamp.0) << STAMP_SHIFT | u64::from(crc))
    }

    pub(super) fn is_present(self) -> bool {
        self.0 & PRESENT != 0
    }

    pub(super) fn is_referenced(self) -> bool {
        self.0 & REFERENCED != 0
    }

    pub(super) fn has(self, stamp: Stamp) -> bool {
        (self.0 >> STAMP_SHIFT) as u32 & STAMP_MASK == stamp.0
    }

    pub(super) fn crc(self) -> u32 {
        self.0 as u32
    }
}

/// CRC-32C of a block.
pub(super) fn crc(block: &[u8]) -> u32 {
    // The library gives every CRC in 64 bits.
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, block) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_word_tells_what_it_was_made_of(crc: u32, boot: u64, epoch: u64) {
            let stamp = Stamp::new(boot, epoch);
            let entry = Entry::new(crc, stamp);
            prop_assert!(entry.is_present() && entry.is_referenced() && entry.has(stamp));
            prop_assert_eq!(entry.crc(), crc);
            prop_assert!(!Entry(entry.0 & !REFERENCED).is_referenced());
            prop_assert!(Entry(entry.0 & !REFERENCED).has(stamp));
            prop_assert!(!Entry(ABSENT).is_present());
        }

        #[test]
        fn another_boot_or_epoch_has_another_stamp(boot: u64, epoch in 0_u64..1 << 40) {
            prop_assert_ne!(Stamp::new(boot, epoch), Stamp::new(boot, epoch + 1));
            prop_assert_ne!(Stamp::new(boot, epoch), Stamp::new(!boot, epoch));
        }
    }
}
