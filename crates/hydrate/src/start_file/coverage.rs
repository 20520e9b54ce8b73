//! Records which parts of an object have been read so far.

use std::collections::BTreeMap;

use firstbyte_location::ByteRange;

/// Ranges that neither touch nor overlap, as a map from their starts to their ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Coverage(BTreeMap<u64, u64>);

impl Coverage {
    /// Adds a range. Returns those parts of it that were not covered before, in order.
    pub(super) fn add(&mut self, range: ByteRange) -> Vec<ByteRange> {
        let (mut fresh, mut at) = (Vec::new(), range.start);
        let (mut start, mut end) = (range.start, range.end);
        let touching: Vec<(u64, u64)> = self
            .0
            .range(..=range.end)
            .rev()
            .map_while(|(from, to)| (*to >= range.start).then_some((*from, *to)))
            .collect();
        for (from, to) in touching.into_iter().rev() {
            if from > at {
                fresh.push(ByteRange::new(at, from));
            }
            at = at.max(to);
            (start, end) = (start.min(from), end.max(to));
            self.0.remove(&from);
        }
        if at < range.end {
            fresh.push(ByteRange::new(at, range.end));
        }
        if start < end {
            self.0.insert(start, end);
        }
        fresh
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_byte_is_fresh_once(ranges in proptest::collection::vec((0_u64..60, 0_u64..20), 0..40)) {
            let (mut coverage, mut seen) = (Coverage::default(), [false; 80]);
            for (start, length) in ranges {
                let mut fresh = vec![];
                for range in coverage.add(ByteRange::new(start, start + length)) {
                    prop_assert!(!range.is_empty());
                    fresh.extend(range.start..range.end);
                }
                let expected: Vec<u64> = (start..start + length).filter(|at| !seen[*at as usize]).collect();
                prop_assert_eq!(&fresh, &expected);
                fresh.into_iter().for_each(|at| seen[at as usize] = true);
            }
        }
    }
}
