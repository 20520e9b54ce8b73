//! Encodes the place of a record in one word, so that one atomic operation publishes or clears it.

/// Length of the pages in which file systems allocate and free disk space, bytes.
pub(super) const ALIGNMENT: u64 = 4096;

/// The place of a record. Bits 32..64 are the number of the pack, bits 8..32 the record's offset
/// and bits 0..8 the record's length. Offset and length are in units of [`ALIGNMENT`] bytes. No
/// record has length 0, so the word 0 is a slot without a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct RecordPlace(u64);

impl RecordPlace {
    pub(super) fn new(pack: u32, offset: u64, length: usize) -> Self {
        let (at, units) = (offset / ALIGNMENT, (length as u64).div_ceil(ALIGNMENT));
        debug_assert!(at < 1 << 24 && (1..1 << 8).contains(&units));
        Self(u64::from(pack) << 32 | at << 8 | units)
    }

    /// Decodes the word of a slot.
    pub(super) fn from_word(word: u64) -> Self {
        Self(word)
    }

    pub(super) fn word(self) -> u64 {
        self.0
    }

    /// Returns whether the slot has no record.
    pub(super) fn is_absent(self) -> bool {
        self.0 == 0
    }

    pub(in super::super) fn pack(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(in super::super) fn offset(self) -> u64 {
        (self.0 >> 8 & 0xFF_FFFF) * ALIGNMENT
    }

    /// Returns the bytes of disk that the record takes.
    pub(in super::super) fn bytes(self) -> u64 {
        (self.0 & 0xFF) * ALIGNMENT
    }
}
