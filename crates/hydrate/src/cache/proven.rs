//! What this process has written and read back since it opened a version: it need not be read once more when the last
//! block has come.
//!
//! A block is read back right after it was written, while it is in the processor's cache, by the thread that fetched it. Left to
//! the end, reading 1 GiB again costs twice the processor time and everybody waits for it. Neighbours are one run with one
//! checksum, so memory follows the number of fetches, not that of blocks.
//!
//! Good as long as the map's generation stands: any block taken away, by whichever process, and all is read again.

use std::collections::BTreeMap;
use std::ops::Range;

use firstbyte_location::Checksum;

/// Runs remembered: more than there are fetches at once, so that hydration forgets none. What random readers fetched besides
/// is read again.
const MOST: usize = 1024;

/// Blocks known to be what was fetched.
#[derive(Debug, Default)]
pub(super) struct Proven {
    generation: u64,
    /// By their first block.
    runs: BTreeMap<u64, Run>,
}

/// Neighbouring blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) blocks: Range<u64>,
    pub(super) bytes: u64,
    /// Over all of them, where one was computed.
    pub(super) checksum: Option<Checksum>,
}

impl Run {
    /// Both as one, if they are neighbours and know as much.
    fn join(&self, next: &Self) -> Option<Self> {
        let adjoin = self.blocks.end == next.blocks.start;
        let checksum = match (&self.checksum, &next.checksum) {
            _ if !adjoin => return None,
            (None, None) => None,
            (Some(checksum), Some(next_checksum)) => Some(checksum.combine(next_checksum, next.bytes)?),
            _ => return None,
        };
        Some(Self { blocks: self.blocks.start..next.blocks.end, bytes: self.bytes + next.bytes, checksum })
    }
}

impl Proven {
    /// Takes note of blocks that were written and read back since `generation` was looked at.
    pub(super) fn add(&mut self, generation: u64, mut run: Run) {
        if generation < self.generation {
            return;
        }
        if generation > self.generation {
            *self = Self { generation, runs: BTreeMap::new() };
        }
        let before = self.runs.range(..run.blocks.start).next_back();
        if let Some((start, joined)) = before.and_then(|(start, before)| Some((*start, before.join(&run)?))) {
            self.runs.remove(&start);
            run = joined;
        }
        if let Some(joined) = self.runs.get(&run.blocks.end).and_then(|next| run.join(next)) {
            self.runs.remove(&run.blocks.end);
            run = joined;
        }
        if self.runs.len() < MOST {
            self.runs.insert(run.blocks.start, run);
        }
    }

    /// What is still good in this generation, in order.
    pub(super) fn runs(&self, generation: u64) -> Vec<Run> {
        let good = self.generation == generation;
        self.runs.values().filter(|_| good).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use firstbyte_location::{Algorithm, Hasher};
    use proptest::prelude::*;

    use super::*;

    /// Two bytes a block, its number.
    fn bytes(blocks: Range<u16>) -> Vec<u8> {
        blocks.flat_map(u16::to_be_bytes).collect()
    }

    fn run(blocks: Range<u16>, algorithm: Option<Algorithm>) -> Run {
        let bytes = bytes(blocks.clone());
        let checksum = algorithm.map(|algorithm| Hasher::of(algorithm, &bytes));
        Run { blocks: blocks.start.into()..blocks.end.into(), bytes: bytes.len() as u64, checksum }
    }

    #[test]
    fn what_was_taken_away_since_is_not_known_any_more() {
        let mut proven = Proven::default();
        proven.add(3, run(0..1, None));
        proven.add(3, run(1..2, None));
        assert_eq!(proven.runs(3), [run(0..2, None)]);
        assert_eq!(proven.runs(4), []);
        proven.add(4, run(2..3, None));
        proven.add(3, run(3..4, None));
        assert_eq!(proven.runs(4), [run(2..3, None)]);
    }

    #[test]
    fn blocks_without_a_checksum_and_with_one_stay_apart() {
        let mut proven = Proven::default();
        let crc = Some(Algorithm::Crc64Nvme);
        [run(0..1, None), run(1..2, crc), run(2..3, crc)].into_iter().for_each(|run| proven.add(0, run));
        assert_eq!(proven.runs(0), [run(0..1, None), run(1..3, crc)]);
    }

    #[test]
    fn memory_stays_bounded() {
        let mut proven = Proven::default();
        (0..u16::try_from(MOST).unwrap() + 50)
            .for_each(|index| proven.add(0, run(2 * index..2 * index + 1, None)));
        assert_eq!(proven.runs(0).len(), MOST);
    }

    proptest! {
        #[test]
        fn in_any_order_they_become_one_with_the_checksum_of_all(order in Just((0..60_u16).collect::<Vec<_>>()).prop_shuffle()) {
            let crc = Some(Algorithm::Crc64Nvme);
            let mut proven = Proven::default();
            order.into_iter().for_each(|block| proven.add(0, run(block..block + 1, crc)));
            prop_assert_eq!(proven.runs(0), [run(0..60, crc)]);
        }
    }
}
