//! Defines the part of a receipt about a shard: which objects of the shard are done, and which have
//! changed.
//!
//! Objects are numbered by their position in the shard. So the receipt is small: a shard without
//! failures is a single range, however many objects it has.

use serde::{Deserialize, Serialize};

/// A worker's report about its shard.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct ShardReceipt {
    /// The id of the manifest.
    pub manifest: String,
    /// The index of the shard, from 0.
    pub index: u32,
    /// The number of shards.
    pub count: u32,
    /// Number of objects in the shard.
    pub objects: u64,
    /// The complete objects, including those found unchanged, as ranges of positions such as
    /// `0-41,43`.
    pub done: String,
    /// The first objects whose version was not the one in the manifest.
    pub changed: Vec<Changed>,
    /// The version of firstbyte that the worker has used.
    pub firstbyte: String,
}

/// An object whose version was not the one in the manifest.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// The location of the object.
    pub location: String,
    /// The version in the manifest.
    pub expected: String,
    /// The version that was found.
    pub found: String,
}

/// A set of objects of a shard, one bit each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoneObjects {
    words: Vec<u64>,
    objects: u64,
}

impl DoneObjects {
    /// Creates an empty set for a shard of `objects` objects.
    #[must_use]
    pub fn none(objects: u64) -> Self {
        Self { words: vec![0; firstbyte_location::to_usize(objects.div_ceil(64))], objects }
    }

    /// Adds the object at the position `place`. Returns true if it belongs to the shard and was not
    /// in the set.
    pub fn insert(&mut self, place: u64) -> bool {
        if place >= self.objects {
            return false;
        }
        let (word, bit) = (&mut self.words[(place / 64) as usize], 1 << (place % 64));
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// Returns true if the object at the position `place` is in the set.
    #[must_use]
    pub fn contains(&self, place: u64) -> bool {
        self.words.get((place / 64) as usize).is_some_and(|word| word & (1 << (place % 64)) != 0)
    }

    /// Returns the number of objects in the set.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Returns true if the set contains all objects of the shard.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.count() == self.objects
    }

    /// Adds the objects of another set for the same shard.
    pub fn add(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
    }

    /// Formats the set as ranges.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut ranges: Vec<String> = Vec::new();
        let mut place = 0;
        while place < self.objects {
            if !self.contains(place) {
                place += 1;
                continue;
            }
            let first = place;
            while self.contains(place) {
                place += 1;
            }
            let last = place - 1;
            ranges.push(if first == last { format!("{first}") } else { format!("{first}-{last}") });
        }
        ranges.join(",")
    }

    /// Parses the ranges of a shard of `objects` objects. Returns `None` if the text is not a list
    /// of such ranges.
    #[must_use]
    pub fn parse(text: &str, objects: u64) -> Option<Self> {
        let mut done = Self::none(objects);
        for range in text.split(',').filter(|_| !text.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
            if first > last || last >= objects {
                return None;
            }
            (first..=last).for_each(|place| {
                done.insert(place);
            });
        }
        Some(done)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_survive_being_text(
            objects in 0_u64..300, places in proptest::collection::vec(any::<u64>(), 0..200),
        ) {
            let mut done = DoneObjects::none(objects);
            for place in places.iter().filter(|_| objects > 0) {
                done.insert(place % objects);
            }
            prop_assert_eq!(DoneObjects::parse(&done.to_text(), objects), Some(done));
        }
    }

    #[test]
    fn a_whole_shard_is_one_range_and_nonsense_is_refused() {
        let mut done = DoneObjects::none(130);
        (0..130).for_each(|place| assert!(done.insert(place)));
        assert!(!done.insert(3) && !done.insert(130));
        assert!(done.is_complete());
        assert_eq!(done.to_text(), "0-129");
        assert_eq!(DoneObjects::none(0).to_text(), "");
        for wrong in ["5-3", "0-130", "x", "1,,2", "-"] {
            assert_eq!(DoneObjects::parse(wrong, 130), None, "{wrong}");
        }
    }
}
