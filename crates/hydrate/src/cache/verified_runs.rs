//! Records which blocks this process has written and read back since it opened a version. These
//! blocks need not be read again when the whole version is verified.
//!
//! The thread that fetches a block reads it back right after writing it, while it is in the
//! processor's cache. Reading it again at the end would take twice as much processor time, and
//! every reader of the whole file would wait for that. Adjacent blocks form one run with one
//! checksum, so the memory needed depends on the number of fetches. The runs are valid for one
//! generation of the map, which means as long as no process has removed a block.

use std::collections::BTreeMap;
use std::ops::Range;

use firstbyte_location::Checksum;

/// Maximum number of runs, which is more than the number of concurrent fetches. Blocks beyond the
/// limit are read again.
const MAX_RUNS: usize = 1024;

/// The runs of blocks that were verified in one generation.
#[derive(Debug, Default)]
pub(super) struct VerifiedRuns {
    generation: u64,
    /// The runs, by the first block of each.
    runs: BTreeMap<u64, VerifiedRun>,
}

/// A run of adjacent blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VerifiedRun {
    pub(super) blocks: Range<u64>,
    pub(super) bytes: u64,
    /// The checksum over all blocks of the run, if it was computed.
    pub(super) checksum: Option<Checksum>,
}

impl VerifiedRun {
    /// Joins two runs. Returns `None` unless they are adjacent, and either both or none has a
    /// checksum.
    fn join(&self, next: &Self) -> Option<Self> {
        let adjacent = self.blocks.end == next.blocks.start;
        let checksum = match (&self.checksum, &next.checksum) {
            _ if !adjacent => return None,
            (None, None) => None,
            (Some(checksum), Some(next_checksum)) => Some(checksum.combine(next_checksum, next.bytes)?),
            _ => return None,
        };
        Some(Self { blocks: self.blocks.start..next.blocks.end, bytes: self.bytes + next.bytes, checksum })
    }
}

impl VerifiedRuns {
    /// Adds blocks that were written and read back in `generation`.
    pub(super) fn add(&mut self, generation: u64, mut run: VerifiedRun) {
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
        if self.runs.len() < MAX_RUNS {
            self.runs.insert(run.blocks.start, run);
        }
    }

    /// Returns the runs that are valid in this generation, in order.
    pub(super) fn runs(&self, generation: u64) -> Vec<VerifiedRun> {
        let valid = self.generation == generation;
        self.runs.values().filter(|_| valid).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use firstbyte_location::{Algorithm, Hasher};
    use proptest::prelude::*;

    use super::*;

    /// Returns the content of blocks. Each block consists of its index, in two bytes.
    fn bytes(blocks: Range<u16>) -> Vec<u8> {
        blocks.flat_map(u16::to_be_bytes).collect()
    }

    fn run(blocks: Range<u16>, algorithm: Option<Algorithm>) -> VerifiedRun {
        let bytes = bytes(blocks.clone());
        let checksum = algorithm.map(|algorithm| Hasher::of(algorithm, &bytes));
        VerifiedRun { blocks: blocks.start.into()..blocks.end.into(), bytes: bytes.len() as u64, checksum }
    }

    #[test]
    fn runs_of_an_older_generation_are_dropped() {
        let mut verified = VerifiedRuns::default();
        verified.add(3, run(0..1, None));
        verified.add(3, run(1..2, None));
        assert_eq!(verified.runs(3), [run(0..2, None)]);
        assert_eq!(verified.runs(4), []);
        verified.add(4, run(2..3, None));
        verified.add(3, run(3..4, None));
        assert_eq!(verified.runs(4), [run(2..3, None)]);
    }

    #[test]
    fn blocks_without_a_checksum_and_with_one_stay_apart() {
        let mut verified = VerifiedRuns::default();
        let crc = Some(Algorithm::Crc64Nvme);
        [run(0..1, None), run(1..2, crc), run(2..3, crc)].into_iter().for_each(|run| verified.add(0, run));
        assert_eq!(verified.runs(0), [run(0..1, None), run(1..3, crc)]);
    }

    #[test]
    fn memory_stays_bounded() {
        let mut verified = VerifiedRuns::default();
        (0..u16::try_from(MAX_RUNS).unwrap() + 50)
            .for_each(|index| verified.add(0, run(2 * index..2 * index + 1, None)));
        assert_eq!(verified.runs(0).len(), MAX_RUNS);
    }

    proptest! {
        #[test]
        fn blocks_added_in_any_order_join_into_one_run_with_the_checksum_of_all(order in Just((0..60_u16).collect::<Vec<_>>()).prop_shuffle()) {
            let crc = Some(Algorithm::Crc64Nvme);
            let mut verified = VerifiedRuns::default();
            order.into_iter().for_each(|block| verified.add(0, run(block..block + 1, crc)));
            prop_assert_eq!(verified.runs(0), [run(0..60, crc)]);
        }
    }
}
