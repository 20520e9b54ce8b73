//! Computes the offsets of an upload's parts in the final file, while parts arrive in any order.
//!
//! If all parts except the last have the same length, part `n` belongs at the offset `(n - 1) *
//! length`, its slot. Parts written into their slots need no merging. The page states the length
//! beforehand. For S3 the length is known when part 1 arrives (only the last part may be shorter),
//! or when two parts of the same length have arrived. A known length never changes, even after a
//! restart, so slots never overlap. A part that arrives before the length is known, or that does
//! not fit, has no slot.

/// Maximum length in bytes of a file with slots: below the limits of common file systems, above
/// S3's largest object.
const MAX_FILE_BYTES: u64 = 8 << 40;

/// The common length of the parts, if it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Placement {
    length: Option<u64>,
    /// Length of the part that `slot` was called for last.
    last_length: Option<u64>,
}

impl Placement {
    /// Creates a placement with this common length, or with an unknown one.
    pub(crate) fn of(length: Option<u64>) -> Self {
        Self { length, last_length: None }
    }

    /// Returns the length of a slot in bytes. `None` while it is unknown.
    pub(crate) fn length(&self) -> Option<u64> {
        self.length
    }

    /// Returns the offset of the slot for part `number` (from 1) of `length` bytes. `None` if it
    /// has no slot.
    pub(crate) fn slot(&mut self, number: u32, length: u64) -> Option<u64> {
        if self.length.is_none() && length > 0 && (number == 1 || self.last_length == Some(length)) {
            self.length = Some(length);
        }
        self.last_length = Some(length);
        let common = self.length.filter(|common| length <= *common)?;
        let offset = u64::from(number.checked_sub(1)?).checked_mul(common)?;
        (offset.checked_add(length)? <= MAX_FILE_BYTES).then_some(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_parts_and_a_shorter_last_part_have_slots() {
        let mut placement = Placement::default();
        assert_eq!(placement.slot(1, 8), Some(0));
        assert_eq!(placement.slot(3, 5), Some(16));
        assert_eq!(placement.slot(2, 8), Some(8));
    }

    #[test]
    fn parts_sent_before_the_length_is_known_or_longer_parts_have_no_slot() {
        let mut placement = Placement::default();
        assert_eq!(placement.slot(4, 3), None);
        assert_eq!(placement.slot(2, 8), None);
        assert_eq!(placement.slot(3, 8), Some(16));
        assert_eq!(placement.slot(5, 9), None);
        assert_eq!(Placement::of(Some(5 << 30)).slot(10_000, 5 << 30), None);
    }
}
