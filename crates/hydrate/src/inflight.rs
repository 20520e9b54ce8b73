//! Which blocks of a file are on their way, and by which fetch. Pure.
//!
//! Each block is on its way at most once: whoever needs it joins. Two exceptions make a fetch lose a block to a new one
//! that is for that block alone: the fetch would take long to get there, or it is background work, which pauses when
//! others read. The old fetch then passes over the block.

use std::collections::HashMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use crate::BLOCK;

/// Who a fetch is for. Each class waits for those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// A reader who waits.
    Demand,
    /// A reader who is expected to come.
    Ahead,
    /// Hydration.
    Background,
}

/// Names a fetch within the process.
pub(crate) type Id = u64;

/// A fetch that is so far from a block that a reader's own request would bring it sooner: at 40 MB/s, what one
/// connection gives, 1 MiB takes as long as a round trip of 26 ms.
const FAR: u64 = (1 << 20) / BLOCK;
/// A fetch that brings a block within this, at the pace it has had so far, is waited for however far it is: a request more costs a
/// server beside us as much (MinIO 2 ms of processor time, in which it sends 4 MiB), and everybody else that time.
const SOON: Duration = Duration::from_millis(10);

/// What a reader does about a block that is not here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// Wait: this fetch brings it soon.
    Join(Id),
    /// Wait, and let this fetch begin now.
    Promote(Id),
    /// Fetch it.
    Fetch,
}

#[derive(Debug)]
struct Entry {
    class: Class,
    /// When a thread took it up.
    started: Option<Instant>,
    /// It has the right to fetch, among the processes that share the cache.
    has_turn: bool,
    /// The block that arrives next.
    next: u64,
    blocks: Range<u64>,
    /// Blocks that are still its own.
    owned: u64,
}

impl Entry {
    /// Whether a block is worth waiting for.
    fn brings_soon(&self, block: u64, now: Instant) -> bool {
        let left = block.saturating_sub(self.next);
        let come = self.next - self.blocks.start;
        let took = self.started.map(|started| now.saturating_duration_since(started)).filter(|_| come > 0);
        let in_time =
            |took: Duration| took.as_nanos() * u128::from(left) <= SOON.as_nanos() * u128::from(come);
        left <= FAR || took.is_some_and(in_time)
    }
}

/// The fetches of one file.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    owners: HashMap<u64, Id>,
    fetches: HashMap<Id, Entry>,
}

impl InFlight {
    /// The parts of `blocks` that are neither `here` nor on their way.
    pub(crate) fn free(&self, blocks: Range<u64>, mut here: impl FnMut(u64) -> bool) -> Vec<Range<u64>> {
        runs(blocks.filter(|block| !self.owners.contains_key(block) && !here(*block)))
    }

    /// Begins a fetch. Blocks that were another's are its own from now on; returns whether there were such of one that has
    /// the right to fetch them.
    pub(crate) fn begin(&mut self, id: Id, class: Class, blocks: Range<u64>) -> bool {
        let mut took_over = false;
        for block in blocks.clone() {
            if let Some(old) = self.owners.insert(block, id)
                && let Some(entry) = self.fetches.get_mut(&old)
            {
                entry.owned -= 1;
                took_over |= entry.has_turn;
            }
        }
        let owned = blocks.end - blocks.start;
        self.fetches
            .insert(id, Entry { class, started: None, has_turn: false, next: blocks.start, blocks, owned });
        took_over
    }

    /// What a reader of `block` does now, who waits for another block of fetch `joined` anyway.
    pub(crate) fn want(&self, block: u64, joined: Option<Id>, now: Instant) -> Want {
        let Some((id, entry)) = self.owners.get(&block).and_then(|id| Some((*id, self.fetches.get(id)?)))
        else {
            return Want::Fetch;
        };
        match entry.class {
            _ if joined == Some(id) => Want::Join(id),
            Class::Demand => Want::Join(id),
            Class::Background => Want::Fetch,
            Class::Ahead if !entry.brings_soon(block, now) => Want::Fetch,
            Class::Ahead if entry.started.is_some() => Want::Join(id),
            Class::Ahead => Want::Promote(id),
        }
    }

    /// A queued fetch is a reader's now.
    pub(crate) fn promote(&mut self, id: Id) {
        if let Some(entry) = self.fetches.get_mut(&id) {
            entry.class = Class::Demand;
        }
    }

    /// A thread has taken up the fetch.
    pub(crate) fn start(&mut self, id: Id, now: Instant) {
        if let Some(entry) = self.fetches.get_mut(&id) {
            entry.started = Some(now);
        }
    }

    /// The fetch has the right to fetch its blocks now.
    pub(crate) fn has_turn(&mut self, id: Id) {
        if let Some(entry) = self.fetches.get_mut(&id) {
            entry.has_turn = true;
        }
    }

    /// A block has come by fetch `id`, in order.
    pub(crate) fn arrived(&mut self, id: Id, block: u64) {
        if let Some(entry) = self.fetches.get_mut(&id) {
            entry.next = block + 1;
        }
        self.here(id, block);
    }

    /// A block of fetch `id` is here, whoever brought it.
    pub(crate) fn here(&mut self, id: Id, block: u64) {
        if self.owners.get(&block) == Some(&id)
            && let Some(entry) = self.fetches.get_mut(&id)
        {
            self.owners.remove(&block);
            entry.owned -= 1;
        }
    }

    /// The blocks a fetch still has to bring, with those in between that it need not; empty when there is nothing left.
    pub(crate) fn rest(&self, id: Id) -> Range<u64> {
        let mut own = self.own(id);
        let Some(first) = own.next() else { return 0..0 };
        first..own.last().unwrap_or(first) + 1
    }

    /// The blocks a fetch still has to bring.
    pub(crate) fn own(&self, id: Id) -> impl Iterator<Item = u64> + '_ {
        let blocks = self.fetches.get(&id).map_or(0..0, |entry| entry.blocks.clone());
        blocks.filter(move |block| self.owners.get(block) == Some(&id))
    }

    /// Whether a block is on its way by this fetch.
    pub(crate) fn is_owned_by(&self, block: u64, id: Id) -> bool {
        self.owners.get(&block) == Some(&id)
    }

    /// Whether a block is on its way.
    pub(crate) fn is_owned(&self, block: u64) -> bool {
        self.owners.contains_key(&block)
    }

    /// Whether a fetch has anything left to bring.
    pub(crate) fn is_needed(&self, id: Id) -> bool {
        self.fetches.get(&id).is_some_and(|entry| entry.owned > 0)
    }

    /// Ends a fetch; returns the blocks it did not bring.
    pub(crate) fn end(&mut self, id: Id) -> Vec<u64> {
        let left: Vec<u64> = self.own(id).collect();
        self.fetches.remove(&id);
        for block in &left {
            self.owners.remove(block);
        }
        left
    }
}

/// Ascending blocks, as runs without a gap.
pub(crate) fn runs(blocks: impl Iterator<Item = u64>) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for block in blocks {
        match runs.last_mut() {
            Some(run) if run.end == block => run.end += 1,
            _ => runs.push(block..block + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn a_reader_waits_for_what_is_near_and_fetches_what_is_far_or_background() {
        let (mut table, now) = (InFlight::default(), Instant::now());
        table.begin(1, Class::Ahead, 0..64);
        assert_eq!(table.want(0, None, now), Want::Promote(1));
        table.start(1, now);
        assert_eq!(table.want(FAR, None, now), Want::Join(1));
        assert_eq!(table.want(FAR + 1, None, now), Want::Fetch);
        table.begin(2, Class::Background, 100..110);
        assert_eq!(table.want(100, None, now), Want::Fetch);
        assert_eq!(table.want(200, None, now), Want::Fetch);
        assert_eq!(
            table.want(FAR + 1, Some(1), now),
            Want::Join(1),
            "its reader waits for what comes before"
        );
    }

    #[test]
    fn a_reader_waits_for_what_comes_soon_however_far_it_is() {
        let (mut table, began) = (InFlight::default(), Instant::now());
        table.begin(1, Class::Ahead, 0..200);
        table.start(1, began);
        (0..10).for_each(|block| table.arrived(1, block));
        // A block a millisecond: those of the next 10 are waited for. FAR is less.
        let now = began + Duration::from_millis(10);
        assert_eq!(table.want(20, None, now), Want::Join(1));
        assert_eq!(table.want(21, None, now), Want::Fetch);
        assert_eq!(table.want(20, None, now + SOON), Want::Fetch, "it has become slower");
    }

    #[test]
    fn a_fetch_that_lost_its_last_blocks_ends_before_them() {
        let mut table = InFlight::default();
        table.begin(1, Class::Background, 0..8);
        table.begin(2, Class::Demand, 6..8);
        assert_eq!(table.rest(1), 0..6);
        (0..6).for_each(|block| table.arrived(1, block));
        assert!(!table.is_needed(1));
        assert!(table.rest(1).is_empty());
        assert_eq!(table.rest(2), 6..8);
    }

    proptest! {
        /// Against a model: block to owner, and what each fetch has still to bring.
        #[test]
        fn every_block_has_one_owner(steps in proptest::collection::vec((0..4_u8, 0..40_u64, 1..10_u64), 1..200)) {
            let mut table = InFlight::default();
            let mut model: BTreeMap<u64, Id> = BTreeMap::new();
            let mut next: BTreeMap<Id, u64> = BTreeMap::new();
            for (id, (step, at, len)) in (1_u64..).zip(steps) {
                match step {
                    0 => {
                        table.begin(id, Class::Ahead, at..at + len);
                        model.extend((at..at + len).map(|block| (block, id)));
                        next.insert(id, at);
                    }
                    1 => {
                        let free: BTreeSet<u64> = table.free(at..at + len, |block| block % 7 == 0).into_iter().flatten().collect();
                        let expected = (at..at + len).filter(|b| b % 7 != 0 && !model.contains_key(b)).collect();
                        prop_assert_eq!(free, expected);
                    }
                    2 => {
                        let Some(fetch) = next.keys().copied().nth(usize::try_from(at).unwrap() % next.len().max(1)) else { continue };
                        let rest = table.rest(fetch);
                        let own: Vec<u64> = model.iter().filter(|(_, id)| **id == fetch).map(|(block, _)| *block).collect();
                        prop_assert_eq!(rest.is_empty(), own.is_empty());
                        let Some(first) = own.first() else { continue };
                        prop_assert_eq!(rest, *first..own.last().unwrap() + 1);
                        // In order, or by another way.
                        let came = if len % 2 == 0 { first } else { own.last().unwrap() };
                        if len % 2 == 0 { table.arrived(fetch, *came) } else { table.here(fetch, *came) }
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
