//! Records which blocks of a version are being fetched, and by which fetch. Does no I/O.
//!
//! Each block has at most one owner: the fetch that brings it. A reader that needs the block waits
//! for that fetch, with two exceptions: the fetch would take long to reach the block, or the fetch
//! yields, as background fetches do while others read. In both cases the reader starts a new fetch
//! for the block alone. The new fetch becomes the owner, and the old fetch skips the block. A
//! background fetch stops yielding when a sequential reader comes near, and never yields if its job
//! fetches for an expected reader. Called by [`BlockTable`](super::BlockTable).

use std::collections::HashMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use firstbyte_pacing::FAR;

use crate::block::{BLOCK, SEGMENT, runs};
use crate::job_state::FetchPace;

/// The priority of a fetch. Fetches of an earlier variant start first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Priority {
    /// For a reader that waits for the blocks.
    Demand,
    /// For a reader that is expected to read the blocks soon.
    Ahead,
    /// For a hydration job.
    Background,
}

/// Identifies a fetch within the process.
pub(crate) type FetchId = u64;

/// Largest distance, in blocks, from the block that a fetch brings next, at which a reader always
/// waits for the fetch. For a block further ahead, the rate of the fetch decides: see
/// [`TrackedFetch::brings_soon`].
const JOIN_DISTANCE: u64 = SEGMENT / BLOCK;

/// The step that brings a reader an absent block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReaderAction {
    /// Wait for the given fetch.
    Join(FetchId),
    /// Wait for the given fetch, which must start now.
    Promote(FetchId),
    /// Start a new fetch.
    Fetch,
}

#[derive(Debug)]
struct TrackedFetch {
    priority: Priority,
    /// The time at which a thread started the fetch. `None` while the fetch is queued.
    started: Option<Instant>,
    /// True if the fetch brings only the bytes of one read, so that no other reader can wait for
    /// it.
    is_exact: bool,
    /// True if the fetch has a lease: among the processes that share the cache, only this one may
    /// fetch the blocks.
    has_lease: bool,
    pace: FetchPace,
    /// The block that the fetch brings next.
    next_block: u64,
    blocks: Range<u64>,
    /// Number of blocks that the fetch still owns.
    owned: u64,
}

impl TrackedFetch {
    /// Returns whether the fetch brings a block soon enough for a reader to wait for it. A block
    /// near the fetch's position is soon enough. So is a block that the fetch, at its rate so far,
    /// brings before a far server would answer a new request. The same rule is right for a near
    /// server, where a new request costs the server as much time: MinIO needs 2 ms of processor
    /// time for a request, in which it could send 4 MiB.
    fn brings_soon(&self, block: u64, now: Instant) -> bool {
        let left = block.saturating_sub(self.next_block);
        let arrived = self.next_block - self.blocks.start;
        let took = self.started.map(|started| now.saturating_duration_since(started)).filter(|_| arrived > 0);
        let in_time =
            |took: Duration| took.as_nanos() * u128::from(left) <= FAR.as_nanos() * u128::from(arrived);
        left <= JOIN_DISTANCE || took.is_some_and(in_time)
    }
}

/// The fetches of one version.
#[derive(Debug, Default)]
pub(crate) struct FetchesInFlight {
    owners: HashMap<u64, FetchId>,
    fetches: HashMap<FetchId, TrackedFetch>,
}

impl FetchesInFlight {
    /// Returns the runs of `blocks` that are neither present nor being fetched.
    pub(crate) fn unowned_runs(
        &self,
        blocks: Range<u64>,
        mut present: impl FnMut(u64) -> bool,
    ) -> Vec<Range<u64>> {
        runs(blocks.filter(|block| !self.owners.contains_key(block) && !present(*block)))
    }

    /// Returns the runs of `blocks` for which a sequential reader, which reaches them soon, needs
    /// new fetches. Running background fetches keep their blocks and no longer pause for readers.
    /// Queued background fetches, and those with a limited rate, lose these blocks to the new
    /// fetches.
    pub(crate) fn claim_ahead(
        &mut self,
        blocks: Range<u64>,
        mut present: impl FnMut(u64) -> bool,
    ) -> Vec<Range<u64>> {
        let (owners, fetches) = (&self.owners, &mut self.fetches);
        let mut is_free = |block: &u64| match owners.get(block).and_then(|id| fetches.get_mut(id)) {
            None => true,
            Some(fetch) if fetch.priority != Priority::Background => false,
            Some(fetch) if fetch.started.is_none() || fetch.pace == FetchPace::Limited => true,
            Some(fetch) => {
                fetch.pace = FetchPace::Steady;
                false
            }
        };
        runs(blocks.filter(|block| is_free(block) && !present(*block)))
    }

    /// Adds a fetch, which takes over blocks owned by other fetches. Returns whether one of those
    /// fetches has a lease on its blocks.
    pub(crate) fn begin(&mut self, id: FetchId, priority: Priority, blocks: Range<u64>) -> bool {
        let mut took_over = false;
        for block in blocks.clone() {
            if let Some(old) = self.owners.insert(block, id)
                && let Some(fetch) = self.fetches.get_mut(&old)
            {
                fetch.owned -= 1;
                took_over |= fetch.has_lease;
            }
        }
        let owned = blocks.end - blocks.start;
        let next_block = blocks.start;
        let fetch = TrackedFetch {
            priority,
            started: None,
            is_exact: false,
            has_lease: false,
            pace: if priority == Priority::Background { FetchPace::Yielding } else { FetchPace::Steady },
            next_block,
            blocks,
            owned,
        };
        self.fetches.insert(id, fetch);
        took_over
    }

    /// Returns what a reader of `block` has to do. `joined` is a fetch for which the reader already
    /// waits.
    pub(crate) fn reader_action(&self, block: u64, joined: Option<FetchId>, now: Instant) -> ReaderAction {
        let Some((id, fetch)) = self.owners.get(&block).and_then(|id| Some((*id, self.fetches.get(id)?)))
        else {
            return ReaderAction::Fetch;
        };
        match fetch.priority {
            _ if fetch.is_exact => ReaderAction::Fetch,
            _ if joined == Some(id) => ReaderAction::Join(id),
            Priority::Demand => ReaderAction::Join(id),
            _ if fetch.pace != FetchPace::Steady || !fetch.brings_soon(block, now) => ReaderAction::Fetch,
            _ if fetch.started.is_some() => ReaderAction::Join(id),
            _ => ReaderAction::Promote(id),
        }
    }

    /// Raises a queued fetch to demand priority.
    pub(crate) fn promote(&mut self, id: FetchId) {
        if let Some(fetch) = self.fetches.get_mut(&id) {
            fetch.priority = Priority::Demand;
        }
    }

    /// Returns whether a fetch has demand priority now, from its start or by promotion.
    pub(crate) fn has_demand_priority(&self, id: FetchId) -> bool {
        self.fetches.get(&id).is_some_and(|fetch| fetch.priority == Priority::Demand)
    }

    /// Sets the pace of a background fetch.
    pub(crate) fn set_pace(&mut self, id: FetchId, pace: FetchPace) {
        if let Some(fetch) = self.fetches.get_mut(&id) {
            fetch.pace = pace;
        }
    }

    /// Returns whether the fetch pauses while readers fetch.
    pub(crate) fn yields(&self, id: FetchId) -> bool {
        self.fetches.get(&id).is_some_and(|fetch| fetch.pace != FetchPace::Steady)
    }

    /// Records that a thread has started the fetch.
    pub(crate) fn start(&mut self, id: FetchId, now: Instant) {
        if let Some(fetch) = self.fetches.get_mut(&id) {
            fetch.started = Some(now);
        }
    }

    /// Records that the fetch brings only the bytes of the read that began the fetch. A later
    /// reader of the same blocks starts a new fetch for them.
    pub(crate) fn set_exact(&mut self, id: FetchId) {
        if let Some(fetch) = self.fetches.get_mut(&id) {
            fetch.is_exact = true;
        }
    }

    /// Records that the fetch has a lease on its blocks.
    pub(crate) fn set_lease(&mut self, id: FetchId) {
        if let Some(fetch) = self.fetches.get_mut(&id) {
            fetch.has_lease = true;
        }
    }

    /// Records that fetch `id` has brought a block, in order.
    pub(crate) fn arrived(&mut self, id: FetchId, block: u64) {
        if let Some(fetch) = self.fetches.get_mut(&id) {
            fetch.next_block = block + 1;
        }
        self.present(id, block);
    }

    /// Records that a block of fetch `id` is present: this process or another one has cached it.
    pub(crate) fn present(&mut self, id: FetchId, block: u64) {
        if self.owners.get(&block) == Some(&id)
            && let Some(fetch) = self.fetches.get_mut(&id)
        {
            self.owners.remove(&block);
            fetch.owned -= 1;
        }
    }

    /// Returns the smallest range that contains all blocks that a fetch still owns.
    pub(crate) fn remaining(&self, id: FetchId) -> Range<u64> {
        let mut owned = self.owned(id);
        let Some(first) = owned.next() else { return 0..0 };
        first..owned.last().unwrap_or(first) + 1
    }

    /// Returns the blocks that a fetch still owns.
    pub(crate) fn owned(&self, id: FetchId) -> impl Iterator<Item = u64> + '_ {
        let blocks = self.fetches.get(&id).map_or(0..0, |fetch| fetch.blocks.clone());
        blocks.filter(move |block| self.owners.get(block) == Some(&id))
    }

    /// Returns whether fetch `id` owns a block.
    pub(crate) fn is_owned_by(&self, block: u64, id: FetchId) -> bool {
        self.owners.get(&block) == Some(&id)
    }

    /// Returns whether a block is being fetched.
    pub(crate) fn is_owned(&self, block: u64) -> bool {
        self.owners.contains_key(&block)
    }

    /// Returns whether a fetch still owns blocks.
    pub(crate) fn is_needed(&self, id: FetchId) -> bool {
        self.fetches.get(&id).is_some_and(|fetch| fetch.owned > 0)
    }

    /// Removes a fetch. Returns the blocks that the fetch still owned.
    pub(crate) fn end(&mut self, id: FetchId) -> Vec<u64> {
        let left: Vec<u64> = self.owned(id).collect();
        self.fetches.remove(&id);
        for block in &left {
            self.owners.remove(block);
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn a_reader_waits_for_a_near_block_and_fetches_one_that_is_far_or_in_the_background() {
        let (mut table, now) = (FetchesInFlight::default(), Instant::now());
        table.begin(1, Priority::Ahead, 0..64);
        assert_eq!(table.reader_action(0, None, now), ReaderAction::Promote(1));
        table.start(1, now);
        assert_eq!(table.reader_action(JOIN_DISTANCE, None, now), ReaderAction::Join(1));
        assert_eq!(table.reader_action(JOIN_DISTANCE + 1, None, now), ReaderAction::Fetch);
        table.begin(2, Priority::Background, 100..110);
        assert_eq!(table.reader_action(100, None, now), ReaderAction::Fetch);
        assert_eq!(table.reader_action(200, None, now), ReaderAction::Fetch);
        assert_eq!(
            table.reader_action(JOIN_DISTANCE + 1, Some(1), now),
            ReaderAction::Join(1),
            "the reader waits for an earlier block of it"
        );
    }

    #[test]
    fn a_reader_in_order_takes_what_waits_in_the_background_and_hastens_what_has_started() {
        let (mut table, now) = (FetchesInFlight::default(), Instant::now());
        for id in 1..=3 {
            table.begin(id, Priority::Background, id * 10..id * 10 + 10);
        }
        table.start(1, now);
        assert_eq!(
            table.claim_ahead(0..35, |block| block == 5),
            [0..5, 6..10, 20..35],
            "2 and 3 have not started"
        );
        assert!(!table.yields(1) && table.yields(2) && table.yields(3));
        assert_eq!(table.reader_action(10, None, now), ReaderAction::Join(1));
        assert_eq!(table.reader_action(25, None, now), ReaderAction::Fetch);
        table.set_pace(3, FetchPace::Steady);
        assert_eq!(table.reader_action(30, None, now), ReaderAction::Promote(3));
        table.set_pace(1, FetchPace::Limited);
        let taken: Vec<u64> = table.claim_ahead(10..12, |_| false).into_iter().flatten().collect();
        assert_eq!(taken, [10, 11], "no reader waits for a limited rate");
        assert_eq!(table.reader_action(10, None, now), ReaderAction::Fetch);
    }

    #[test]
    fn a_reader_waits_for_a_block_that_arrives_soon_at_any_distance() {
        let (mut table, began) = (FetchesInFlight::default(), Instant::now());
        table.begin(1, Priority::Ahead, 0..200);
        table.start(1, began);
        (0..10).for_each(|block| table.arrived(1, block));
        // At one block per millisecond, the reader waits for any of the next 10 blocks, which is
        // more than `JOIN_DISTANCE`.
        let now = began + Duration::from_millis(10);
        assert_eq!(table.reader_action(20, None, now), ReaderAction::Join(1));
        assert_eq!(table.reader_action(21, None, now), ReaderAction::Fetch);
        assert_eq!(table.reader_action(20, None, now + FAR), ReaderAction::Fetch, "the rate has dropped");
    }

    #[test]
    fn a_fetch_ends_before_blocks_that_another_took_over() {
        let mut table = FetchesInFlight::default();
        table.begin(1, Priority::Background, 0..8);
        table.begin(2, Priority::Demand, 6..8);
        assert_eq!(table.remaining(1), 0..6);
        (0..6).for_each(|block| table.arrived(1, block));
        assert!(!table.is_needed(1));
        assert!(table.remaining(1).is_empty());
        assert_eq!(table.remaining(2), 6..8);
    }

    #[test]
    fn no_other_reader_waits_for_a_fetch_of_one_reads_bytes() {
        let mut table = FetchesInFlight::default();
        table.begin(1, Priority::Demand, 0..2);
        table.set_exact(1);
        assert_eq!(table.reader_action(0, None, Instant::now()), ReaderAction::Fetch);
        table.begin(2, Priority::Demand, 0..1);
        assert!(!table.is_owned_by(0, 1) && table.is_owned_by(1, 1));
    }

    proptest! {
        /// Compares the table with a model that maps each block to its owner.
        #[test]
        fn every_block_has_one_owner(steps in proptest::collection::vec((0..4_u8, 0..40_u64, 1..10_u64), 1..200)) {
            let mut table = FetchesInFlight::default();
            let mut model: BTreeMap<u64, FetchId> = BTreeMap::new();
            let mut next: BTreeMap<FetchId, u64> = BTreeMap::new();
            for (id, (step, at, len)) in (1_u64..).zip(steps) {
                match step {
                    0 => {
                        table.begin(id, Priority::Ahead, at..at + len);
                        model.extend((at..at + len).map(|block| (block, id)));
                        next.insert(id, at);
                    }
                    1 => {
                        let free: BTreeSet<u64> = table.unowned_runs(at..at + len, |block| block % 7 == 0).into_iter().flatten().collect();
                        let expected = (at..at + len).filter(|b| b % 7 != 0 && !model.contains_key(b)).collect();
                        prop_assert_eq!(free, expected);
                    }
                    2 => {
                        let Some(fetch) = next.keys().copied().nth(usize::try_from(at).unwrap() % next.len().max(1)) else { continue };
                        let rest = table.remaining(fetch);
                        let own: Vec<u64> = model.iter().filter(|(_, id)| **id == fetch).map(|(block, _)| *block).collect();
                        prop_assert_eq!(rest.is_empty(), own.is_empty());
                        let Some(first) = own.first() else { continue };
                        prop_assert_eq!(rest, *first..own.last().unwrap() + 1);
                        // The block arrives in order, or another process has brought it.
                        let came = if len % 2 == 0 { first } else { own.last().unwrap() };
                        if len % 2 == 0 { table.arrived(fetch, *came) } else { table.present(fetch, *came) }
                        model.remove(came);
                    }
                    _ => {
                        let Some(fetch) = next.keys().copied().nth(usize::try_from(at).unwrap() % next.len().max(1)) else { continue };
                        next.remove(&fetch);
                        let own: Vec<u64> = model.iter().filter(|(_, id)| **id == fetch).map(|(block, _)| *block).collect();
                        prop_assert_eq!(table.end(fetch), own);
                        model.retain(|_, id| *id != fetch);
                    }
                }
                prop_assert_eq!(table.owners.len(), model.len());
            }
        }
    }
}
