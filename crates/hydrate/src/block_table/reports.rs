//! Handles the reports of a fetch to the table: the fetch has started, has brought a block, has
//! succeeded, or has failed. A block goes to the reads that wait for it; an error ends those reads.
//!
//! The threads that fetch call these methods, and get the requests that result from a report.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use firstbyte_location::to_usize;
use firstbyte_store::Store;

use super::fetch::Requests;
use super::in_flight::{FetchId, FetchesInFlight};
use super::pending_read::PendingRead;
use super::{BlockTable, TableState};
use crate::block::BLOCK;
use crate::block_store::CacheOutcome;
use crate::cache::Exempt;
use crate::error::Error;

impl BlockTable {
    /// Records that a thread has started a fetch.
    pub(crate) fn record_start(&self, id: FetchId) {
        self.state.lock().in_flight.start(id, Instant::now());
    }

    /// Returns whether a fetch has demand priority now, from its start or because a reader waits
    /// for it.
    pub(crate) fn has_demand_priority(&self, id: FetchId) -> bool {
        self.state.lock().in_flight.has_demand_priority(id)
    }

    /// Returns whether a fetch pauses while readers fetch.
    pub(crate) fn yields(&self, id: FetchId) -> bool {
        self.state.lock().in_flight.yields(id)
    }

    /// Records that a fetch has a lease on its blocks.
    pub(crate) fn set_lease(&self, id: FetchId) {
        self.state.lock().in_flight.set_lease(id);
    }

    /// Returns the smallest range that contains all blocks that a fetch has yet to bring.
    pub(crate) fn remaining(&self, id: FetchId) -> Range<u64> {
        self.state.lock().in_flight.remaining(id)
    }

    /// Returns whether a fetch has yet to bring a block.
    pub(crate) fn is_owned_by(&self, id: FetchId, block: u64) -> bool {
        self.state.lock().in_flight.is_owned_by(block, id)
    }

    /// Returns whether a fetch has any block left to bring.
    pub(crate) fn is_needed(&self, id: FetchId) -> bool {
        self.state.lock().in_flight.is_needed(id)
    }

    /// Stores a fetched block, evicting versions that are not `exempt`. Returns whether the
    /// block is cached.
    pub(crate) fn store(&self, block: u64, bytes: &[u8], outcome: CacheOutcome, exempt: Exempt) -> bool {
        self.blocks.store(block, bytes, outcome, exempt, || !self.is_taken_by_long_read(block))
    }

    /// Delivers a block that a fetch has brought and stored.
    #[must_use]
    pub(crate) fn arrived(self: &Arc<Self>, id: FetchId, block: u64, bytes: &[u8]) -> Requests {
        self.deliver(block, block * BLOCK, bytes, |in_flight| {
            in_flight.arrived(id, block);
            true
        })
    }

    /// Delivers the bytes that a fetch has brought of a block, from object offset `start` on, if
    /// the fetch requested only the bytes of one read. Only that read gets the bytes. If another
    /// fetch has taken the block over, nothing is delivered here: the other fetch delivers the
    /// block to all reads that wait.
    #[must_use]
    pub(crate) fn arrived_in_part(
        self: &Arc<Self>,
        id: FetchId,
        block: u64,
        start: u64,
        bytes: &[u8],
    ) -> Requests {
        self.deliver(block, start, bytes, |in_flight| {
            let is_own = in_flight.is_owned_by(block, id);
            if is_own {
                in_flight.arrived(id, block);
            }
            is_own
        })
    }

    /// Delivers the blocks of a fetch that another process has cached. `buffer` is at least as long
    /// as the longest block. Returns `None` if no block was cached.
    pub(crate) fn deliver_cached(self: &Arc<Self>, id: FetchId, buffer: &mut [u8]) -> Option<Requests> {
        let mut is_cached = self.blocks.ascending_cache_test();
        let cached: Vec<u64> =
            self.state.lock().in_flight.owned(id).filter(|block| is_cached(*block)).collect();
        let mut requests = None;
        for block in &cached {
            let requests = requests.get_or_insert_with(Requests::default);
            let bytes = self.blocks.bytes(&(*block..block + 1));
            let buffer = &mut buffer[..to_usize(bytes.len())];
            if self.blocks.read_at(buffer, bytes.start) == buffer.len() {
                requests.add(self.deliver(*block, bytes.start, buffer, |in_flight| {
                    in_flight.present(id, *block);
                    true
                }));
            }
        }
        requests
    }

    /// Calls `update` on the table. If `update` returns true, delivers the bytes of a block from
    /// object offset `start` on to the reads that wait for the block.
    fn deliver(
        self: &Arc<Self>,
        block: u64,
        start: u64,
        bytes: &[u8],
        update: impl FnOnce(&mut FetchesInFlight) -> bool,
    ) -> Requests {
        let mut requests = Requests::default();
        let waiting = {
            let mut state = self.state.lock();
            if !update(&mut state.in_flight) {
                return requests;
            }
            state.waiting.remove(&block).unwrap_or_default()
        };
        for ready in waiting.iter().filter_map(|pending| pending.deliver(block, start, bytes)) {
            requests.add(self.read_out(ready));
        }
        requests
    }

    /// Returns whether a long read gets a block that has arrived. A long reader does not come back
    /// to the block. So the block is not kept in memory, where it would displace blocks that short
    /// reads come back to.
    fn is_taken_by_long_read(&self, block: u64) -> bool {
        let bytes = self.blocks.bytes(&(block..block + 1));
        let state = self.state.lock();
        state.waiting.get(&block).into_iter().flatten().any(|pending| pending.has_long_part_with(bytes))
    }

    /// Ends a fetch that failed, and the reads that wait for the fetch.
    pub(crate) fn fail_fetch(&self, id: FetchId, error: &Error) {
        let waiting = {
            let mut state = self.state.lock();
            if let Error::Changed { .. } = error {
                state.final_error.get_or_insert_with(|| error.clone());
            }
            state.end(id)
        };
        waiting.iter().for_each(|pending| pending.fail(error));
    }

    /// Ends a fetch, unless a read still waits for it and the deadline of that read has not passed.
    /// Returns whether the fetch was ended. If there is an `error`, the waiting reads fail with it.
    pub(crate) fn give_up(&self, id: FetchId, error: Option<&Error>) -> bool {
        let waiting = {
            let mut state = self.state.lock();
            if state.latest_deadline(id).is_some_and(|deadline| deadline > Instant::now()) {
                return false;
            }
            state.end(id)
        };
        if let Some(error) = error {
            waiting.iter().for_each(|pending| pending.fail(error));
        }
        true
    }

    /// Returns the latest deadline of the reads that wait for a fetch.
    pub(crate) fn latest_deadline(&self, id: FetchId) -> Option<Instant> {
        self.state.lock().latest_deadline(id)
    }

    /// Verifies the whole version if all blocks have arrived. If the store has a checksum, the
    /// content must match it.
    pub(crate) fn verify_if_complete(&self, store: &Store) {
        if self.blocks.begin_verification() {
            self.learn_checksum(store);
            self.blocks.verify(&self.location);
        }
    }

    /// Requests the checksum of the whole object, unless an earlier response contained it. Blocks
    /// that arrive later are hashed as they arrive; earlier blocks are read back.
    pub(crate) fn learn_checksum(&self, store: &Store) {
        if !self.blocks.knows_checksum()
            && let Ok(stat) = store.stat(&self.location)
            && stat.version.agrees_with(&self.version)
        {
            self.blocks.set_checksum(stat.checksum);
        }
    }
}

impl TableState {
    /// Ends a fetch. Returns the reads that wait for blocks that the fetch did not bring.
    fn end(&mut self, id: FetchId) -> Vec<Arc<PendingRead>> {
        let left = self.in_flight.end(id);
        left.iter().filter_map(|block| self.waiting.remove(block)).flatten().collect()
    }

    fn latest_deadline(&self, id: FetchId) -> Option<Instant> {
        let waiting = |block: u64| self.waiting.get(&block).into_iter().flatten();
        let open = self.in_flight.owned(id).flat_map(waiting).filter(|pending| pending.is_open());
        open.map(|pending| pending.deadline()).max()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use firstbyte_location::{ByteRange, Location, Version};
    use firstbyte_pacing::ReadSizes;

    use super::*;
    use crate::block_store::{BlockStore, MemoryBlocks};
    use crate::block_table::{AheadRange, BlockReader, Delivery, OpenTables, Receiver, Rounding};

    #[test]
    fn a_reader_promotes_a_fetch_ahead_also_if_it_is_not_queued_yet() {
        let location = Location::parse("s3://bucket/key".as_ref()).unwrap();
        let version = Version { size: Some(8 * BLOCK), etag: Some("\"1\"".into()), ..Version::default() };
        let blocks = |id, _: &Version| BlockStore::new(id, 8 * BLOCK, None, Arc::new(MemoryBlocks::new(0)));
        let table = Arc::new(OpenTables::default()).open(&location, version, blocks);
        let handle = Arc::new(());
        let ahead = AheadRange { range: 0..8 * BLOCK, segment: 8 * BLOCK, reader: 0 };
        let queued = table.request_ahead(&ahead, &Arc::downgrade(&handle)).fetches;
        assert!(!table.has_demand_priority(queued[0].id));
        let receiver = Receiver::Callback(ByteRange::new(0, 1), Delivery::Copied, Box::new(|_| {}));
        let pending = table.new_pending_read(Instant::now() + Duration::from_secs(60), receiver);
        let sizes = ReadSizes::of(None, None);
        let reader = BlockReader { at: 0, interest: None, rounding: Rounding::Blocks, sizes };
        let requests = table.request(&pending, &reader);
        assert_eq!((requests.fetches.len(), requests.promoted), (0, vec![queued[0].id]));
        assert!(table.has_demand_priority(queued[0].id), "the queue asks once it has the fetch");
    }
}
