//! Starts the fetches of a version, and records the blocks they bring or the reason for their
//! failure. Called by reads, jobs and the fetching threads.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Instant;

use firstbyte_location::to_usize;

use super::{Fetch, FetchMode, Table, VersionState};
use crate::Error;
use crate::background::JobFile;
use crate::block::BLOCK;
use crate::block_store::CacheOutcome;
use crate::cache::Exempt;
use crate::inflight::{FetchId, InFlight, Priority};
use crate::pending_read::{Delivery, PendingRead};
use crate::read_ahead::Ahead;

impl VersionState {
    /// Adds fetches for the blocks of `run`, of at most `most` blocks each; one fetch of
    /// everything if the object comes whole. The caller submits them.
    pub(super) fn begin(
        self: &Arc<Self>,
        table: &mut Table,
        priority: Priority,
        run: Range<u64>,
        most: u64,
    ) -> Vec<Fetch> {
        let (priority, run, most) = match table.mode {
            FetchMode::Ranges => (priority, run, most),
            FetchMode::Whole => (Priority::Demand, 0..self.size().div_ceil(BLOCK), u64::MAX),
        };
        table.gone = table.gone.take().or_else(|| table.gone_after_first.clone());
        let mut fetches = Vec::new();
        let mut start = run.start;
        while start < run.end {
            let blocks = start..run.end.min(start.saturating_add(most.max(1)));
            start = blocks.end;
            let id = self.engine.next_id();
            let took_over = table.in_flight.begin(id, priority, blocks.clone());
            let version = Arc::clone(self);
            let fetch =
                Fetch { version, id, priority, blocks, only: None, took_over, handle: None, job: None };
            fetches.push(fetch);
        }
        fetches
    }

    /// Fetches absent blocks ahead of a reader, while its handle lives.
    pub(crate) fn fetch_ahead(self: &Arc<Self>, ahead: &Ahead, handle: &Weak<()>) {
        let blocks = ahead.range.start / BLOCK..ahead.range.end.div_ceil(BLOCK);
        let segment = ahead.segment / BLOCK;
        let mut fetches = Vec::new();
        {
            let mut table = self.lock();
            if table.gone.is_some() || table.mode == FetchMode::Whole {
                return;
            }
            for run in table.in_flight.free(blocks, self.blocks.has_in_order()) {
                fetches.extend(self.begin(&mut table, Priority::Ahead, run, segment));
            }
        }
        let with_handle = |fetch: Fetch| Fetch { handle: Some(handle.clone()), ..fetch };
        self.submit(fetches.into_iter().map(with_handle).collect(), ahead.reader);
    }

    /// Queues fetches, with their distance from the offset `reader`.
    pub(super) fn submit(self: &Arc<Self>, fetches: Vec<Fetch>, reader: u64) {
        let is_ahead = |fetch: &&Fetch| fetch.priority == Priority::Ahead;
        let ahead: Vec<FetchId> = fetches.iter().filter(is_ahead).map(|fetch| fetch.id).collect();
        let with_distance = |fetch: Fetch| {
            let distance = (fetch.blocks.start * BLOCK).saturating_sub(reader) >> 20;
            (fetch, distance)
        };
        self.engine.fetcher.submit(fetches.into_iter().map(with_distance).collect());
        // A reader that joined a fetch between the table and the queue could not promote it there.
        let is_joined = |id: &FetchId| self.lock().in_flight.is_promoted(*id);
        ahead.into_iter().filter(is_joined).for_each(|id| self.engine.fetcher.promote(id));
    }

    /// Starts a background fetch of the next uncached blocks from `from` that no other fetch
    /// brings, at most `most`. `None` if there are no such blocks before `end`.
    pub(crate) fn fetch_in_background(
        self: &Arc<Self>,
        from: u64,
        end: u64,
        most: u64,
        job: &Arc<JobFile>,
    ) -> Option<Range<u64>> {
        let fetch = {
            let mut table = self.lock();
            if table.gone.is_some() {
                return None;
            }
            let mut is_cached = self.blocks.is_cached_in_order();
            let first = (from..end).find(|block| !is_cached(*block) && !table.in_flight.is_owned(*block))?;
            let run = table.in_flight.free(first..end.min(first + most), is_cached).into_iter().next()?;
            self.begin(&mut table, Priority::Background, run, most).pop()?
        };
        let blocks = fetch.blocks.clone();
        job.submitted();
        self.engine.fetcher.submit(vec![(Fetch { job: Some(Arc::clone(job)), ..fetch }, 0)]);
        Some(blocks)
    }

    /// The server does not support ranges: fetches everything as one response instead.
    pub(crate) fn fetch_whole(self: &Arc<Self>) {
        let fetches = {
            let mut table = self.lock();
            if table.mode == FetchMode::Whole {
                return;
            }
            table.mode = FetchMode::Whole;
            self.begin(&mut table, Priority::Demand, 0..0, 0)
        };
        self.engine.fetcher.submit(fetches.into_iter().map(|fetch| (fetch, 0)).collect());
    }

    /// Whether it is fetched as one response.
    pub(crate) fn is_whole(&self) -> bool {
        self.lock().mode == FetchMode::Whole
    }

    /// Whether it can be fetched only once, so that a failed response cannot be repeated.
    pub(crate) fn is_fetched_once(&self) -> bool {
        self.lock().gone_after_first.is_some()
    }

    /// Whether a whole response is so far ahead of the readers that blocks they need would be
    /// dropped, because only memory holds them.
    pub(crate) fn is_far_ahead(&self, block: u64) -> bool {
        let reach = self.reach.load(Ordering::Relaxed);
        !self.blocks.is_caching() && block * BLOCK > reach + self.engine.most_window(Delivery::Copied)
    }

    /// The reason for which no further fetch can succeed.
    pub(crate) fn gone(&self) -> Option<Error> {
        self.lock().gone.clone()
    }

    /// Whether a block is being fetched.
    pub(crate) fn is_in_flight(&self, block: u64) -> bool {
        self.lock().in_flight.is_owned(block)
    }

    /// A thread has started a fetch.
    pub(crate) fn started(&self, id: FetchId) {
        self.lock().in_flight.start(id, Instant::now());
    }

    /// A fetch has the right to fetch its blocks.
    pub(crate) fn set_lease(&self, id: FetchId) {
        self.lock().in_flight.set_lease(id);
    }

    /// The range of blocks that a fetch has still to bring.
    pub(crate) fn remaining(&self, id: FetchId) -> Range<u64> {
        self.lock().in_flight.remaining(id)
    }

    /// Whether a fetch has still to bring a block.
    pub(crate) fn is_owned_by(&self, id: FetchId, block: u64) -> bool {
        self.lock().in_flight.is_owned_by(block, id)
    }

    /// Whether a fetch has anything left to bring.
    pub(crate) fn is_needed(&self, id: FetchId) -> bool {
        self.lock().in_flight.is_needed(id)
    }

    /// Stores a fetched block, evicting what `exempt` allows. Returns whether it is cached.
    pub(crate) fn store(&self, block: u64, bytes: &[u8], outcome: CacheOutcome, exempt: Exempt) -> bool {
        let cached = self.blocks.store(block, bytes, outcome, exempt, || !self.is_taken(block));
        if !cached {
            self.engine.counters.uncached.fetch_add(1, Ordering::Relaxed);
        }
        cached
    }

    /// A fetch has brought and stored a block.
    pub(crate) fn arrived(self: &Arc<Self>, id: FetchId, block: u64, bytes: &[u8], priority: Priority) {
        self.engine.counters.received(priority, bytes.len());
        self.deliver(block, block * BLOCK, bytes, |in_flight| {
            in_flight.arrived(id, block);
            true
        });
    }

    /// A fetch of a read's bytes has brought those of a block, from offset `start` on. They are for
    /// that read alone: if another fetch has taken the block over, it delivers to both readers.
    pub(crate) fn arrived_in_part(self: &Arc<Self>, id: FetchId, block: u64, start: u64, bytes: &[u8]) {
        self.engine.counters.received(Priority::Demand, bytes.len());
        self.deliver(block, start, bytes, |in_flight| {
            let is_own = in_flight.is_owned_by(block, id);
            if is_own {
                in_flight.arrived(id, block);
            }
            is_own
        });
    }

    /// Delivers those blocks of a fetch that another process has cached. `buffer` has the size of
    /// its longest block. Returns whether there were any.
    pub(crate) fn deliver_cached(self: &Arc<Self>, id: FetchId, buffer: &mut [u8]) -> bool {
        let mut is_cached = self.blocks.is_cached_in_order();
        let cached: Vec<u64> = self.lock().in_flight.owned(id).filter(|block| is_cached(*block)).collect();
        for block in &cached {
            let bytes = self.blocks.bytes(&(*block..block + 1));
            let buffer = &mut buffer[..to_usize(bytes.len())];
            if self.blocks.read_at(buffer, bytes.start) == buffer.len() {
                self.deliver(*block, bytes.start, buffer, |in_flight| {
                    in_flight.present(id, *block);
                    true
                });
            }
        }
        !cached.is_empty()
    }

    /// Updates the table, and then delivers the bytes of a block from offset `start` on to the
    /// reads that wait for it, unless `update` returns false.
    fn deliver(
        self: &Arc<Self>,
        block: u64,
        start: u64,
        bytes: &[u8],
        update: impl FnOnce(&mut InFlight) -> bool,
    ) {
        let waiting = {
            let mut table = self.lock();
            if !update(&mut table.in_flight) {
                return;
            }
            table.waiting.remove(&block).unwrap_or_default()
        };
        for pending in waiting {
            if let Some(ready) = pending.deliver(block, start, bytes) {
                self.read_out(ready);
            }
        }
    }

    /// Ends a fetch that failed, and the reads that wait for it.
    pub(crate) fn failed(&self, id: FetchId, error: &Error) {
        let waiting = {
            let mut table = self.lock();
            if let Error::Changed { .. } = error {
                table.gone.get_or_insert_with(|| error.clone());
            }
            table.end(id)
        };
        waiting.iter().for_each(|pending| pending.fail(error));
    }

    /// Ends a fetch, unless a read whose deadline has not passed waits for it. Returns whether it
    /// was ended. The other reads that wait fail with `error`.
    pub(crate) fn give_up(&self, id: FetchId, error: Option<&Error>) -> bool {
        let waiting = {
            let mut table = self.lock();
            if table.latest_deadline(id).is_some_and(|deadline| deadline > Instant::now()) {
                return false;
            }
            table.end(id)
        };
        if let Some(error) = error {
            waiting.iter().for_each(|pending| pending.fail(error));
        }
        true
    }

    /// The latest deadline of the reads that wait for a fetch.
    pub(crate) fn latest_deadline(&self, id: FetchId) -> Option<Instant> {
        self.lock().latest_deadline(id)
    }

    /// Verifies the whole version if all blocks have arrived, against the store's checksum if it
    /// has one.
    pub(crate) fn verify_if_complete(&self) {
        if self.blocks.begin_verification() {
            self.learn_checksum();
            self.blocks.verify(&self.location);
        }
    }

    /// Requests the checksum of the whole object, unless an earlier response carried it. Blocks
    /// that arrive later are hashed as they arrive, earlier ones are read again.
    pub(crate) fn learn_checksum(&self) {
        if !self.blocks.knows_checksum()
            && let Ok(stat) = self.engine.store.stat(&self.location)
            && stat.version.agrees_with(&self.version)
        {
            self.blocks.set_checksum(stat.checksum);
        }
    }
}

impl Table {
    /// Ends a fetch. Returns the reads that wait for blocks it did not bring.
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
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::{Mutex, OnceLock};
    use std::time::Duration;

    use firstbyte_location::{ByteRange, Location, Version};
    use firstbyte_store::Store;

    use super::*;
    use crate::Settings;
    use crate::part::Part;
    use crate::pending_read::Receiver;
    use crate::version::fetcher::TestQueue;
    use crate::version::{Engine, Rounding};

    /// Queues where a reader wants the first block just before a fetch ahead is queued.
    #[derive(Default)]
    struct Queues {
        version: OnceLock<Arc<VersionState>>,
        ahead: Mutex<Vec<FetchId>>,
        demand: Mutex<Vec<FetchId>>,
        panics: bool,
    }

    impl Queues {
        /// A version of eight blocks, whose fetches come to these queues.
        fn open(self) -> (Arc<Self>, Arc<VersionState>) {
            let queues = Arc::new(self);
            let store = Store::new(firstbyte_store::Options::default()).unwrap();
            let fetcher = Box::new(Arc::clone(&queues));
            let engine = Arc::new(Engine::new(store, Settings::default(), fetcher, None, 64 << 20));
            let version = Version { size: Some(8 * BLOCK), etag: Some("\"1\"".into()), ..Version::default() };
            let location = Location::parse("s3://bucket/key".as_ref()).unwrap();
            let version = engine.open_version(&location, version);
            assert!(queues.version.set(Arc::clone(&version)).is_ok());
            (queues, version)
        }
    }

    impl TestQueue for Queues {
        fn submit(&self, fetches: Vec<(Fetch, u64)>) {
            assert!(!self.panics, "the panic of the test");
            let version = self.version.get().unwrap();
            for (fetch, _) in fetches {
                let deadline = Instant::now() + Duration::from_secs(60);
                let receiver = Receiver::Callback(ByteRange::new(0, 1), Delivery::Copied, Box::new(|_| {}));
                let pending = version.pending(deadline, receiver);
                version.demand(&pending, 0, None, Rounding::Blocks);
                self.ahead.lock().unwrap().push(fetch.id);
            }
        }

        fn promote(&self, id: FetchId) {
            let mut ahead = self.ahead.lock().unwrap();
            if let Some(at) = ahead.iter().position(|queued| *queued == id) {
                ahead.remove(at);
                self.demand.lock().unwrap().push(id);
            }
        }
    }

    #[test]
    fn a_fetch_ahead_that_a_reader_waits_for_is_promoted_also_if_it_was_not_queued_yet() {
        let (queues, version) = Queues::default().open();
        let handle = Arc::new(());
        let ahead = Ahead { range: 0..8 * BLOCK, segment: 8 * BLOCK, reader: 0 };
        version.fetch_ahead(&ahead, &Arc::downgrade(&handle));
        assert_eq!((queues.ahead.lock().unwrap().len(), queues.demand.lock().unwrap().len()), (0, 1));
    }

    #[test]
    fn memory_that_is_lent_to_a_read_that_panics_is_not_written_to() {
        let (_queues, version) = Queues { panics: true, ..Queues::default() }.open();
        let mut memory = [0; 10];
        // SAFETY: `memory` outlives the part, and is read after its read has ended.
        let part = unsafe { Part::new(0, &mut memory) };
        let read = catch_unwind(AssertUnwindSafe(|| {
            version.read(vec![part], Rounding::Blocks, &mut || {}, Duration::MAX, &mut || true)
        }));
        assert!(read.is_err());
        version.arrived(0, 0, &vec![7; to_usize(BLOCK)], Priority::Demand);
        assert_eq!(memory, [0; 10]);
    }
}
