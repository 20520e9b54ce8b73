//! Where the parts of a multipart upload go, decided while they arrive in any order.
//!
//! When all parts but the last have one length, part `n` belongs at `(n - 1) * length` of the final file and is written
//! there at once: nothing is left to merge. The length is known when part 1 arrives (it is never the short one, or it is the
//! only one) or when two parts of one length have. A part that comes before, or does not fit, gets a file of its own and is
//! copied at the end.

/// Where a part goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Place {
    /// Into the final file, at this offset.
    At(u64),
    /// Into a file of its own.
    Apart,
}

impl Place {
    /// Where in its file the part begins.
    pub(crate) fn offset(self) -> u64 {
        match self {
            Self::At(offset) => offset,
            Self::Apart => 0,
        }
    }
}

/// What is known of the parts' common length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Placement {
    length: Option<u64>,
    seen: Option<u64>,
}

impl Placement {
    /// Decides for part `number` (from 1) of `length` bytes.
    pub(crate) fn place(&mut self, number: u64, length: u64) -> Place {
        if self.length.is_none() && (number == 1 || self.seen == Some(length)) {
            self.length = Some(length);
        }
        self.seen = Some(length);
        match self.length {
            Some(common) if length <= common => Place::At((number - 1) * common),
            _ => Place::Apart,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_one_length_and_a_short_last_one_go_into_place() {
        let mut placement = Placement::default();
        assert_eq!(placement.place(1, 8), Place::At(0));
        assert_eq!(placement.place(3, 5), Place::At(16));
        assert_eq!(placement.place(2, 8), Place::At(8));
    }

    #[test]
    fn parts_before_the_length_is_known_or_beyond_it_stay_apart() {
        let mut placement = Placement::default();
        assert_eq!(placement.place(4, 3), Place::Apart);
        assert_eq!(placement.place(2, 8), Place::Apart);
        assert_eq!(placement.place(3, 8), Place::At(16));
        assert_eq!(placement.place(5, 9), Place::Apart);
    }
}
