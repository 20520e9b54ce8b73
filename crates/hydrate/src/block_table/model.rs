//! Model-checks the table of fetches: tries every order, up to a number of steps, in which reads
//! begin or are abandoned, and fetches start, bring blocks, fail, are given up, or receive the
//! whole object.
//!
//! The table changes only under one lock, so a step is all that a thread does between two
//! acquisitions of the lock. Each order runs from the beginning on a real table. The table's
//! requests are not queued; a fetch starts only by a step. After the last step, the remaining
//! fetches are brought to their end. Then no read may be open, no block may have an owner, no read
//! may wait in the table, and the memory of an abandoned read must be unchanged.

use std::sync::Arc;
use std::time::{Duration, Instant};

use firstbyte_location::{ByteRange, Location, Version, to_usize};
use firstbyte_pacing::ReadSizes;

use super::{
    AheadRange, BlockReader, BlockTable, Delivery, Fetch, FetchId, ObjectPart, OpenTables, PendingRead,
    Receiver, Requests, Rounding,
};
use crate::block::BLOCK;
use crate::block_store::{BlockStore, CacheOutcome, MemoryBlocks};
use crate::cache::Exempt;
use crate::error::{Error, Result};

/// Number of blocks of the object. The last block is short.
const BLOCKS: u64 = 3;
const SIZE: u64 = (BLOCKS - 1) * BLOCK + 100;
/// Number of steps of an order, before the remaining fetches are brought to their end.
const STEPS: usize = 5;
/// The byte that all blocks consist of.
const CONTENT: u8 = 7;

/// A step that one thread makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// A thread reads all blocks into memory of its own.
    ReadAll,
    /// A callback gets the last block.
    ReadLast,
    /// A random reader reads bytes that span two blocks.
    ReadBytes,
    /// Blocks are fetched ahead of a reader.
    FetchAhead,
    /// The caller of a reading thread gives up, and takes its memory back.
    Abandon,
    /// The server ignores the range of a request and sends the whole object.
    ComeWhole,
    /// A thread starts the fetch with this index.
    Start(usize),
    /// A fetch brings its next block.
    Bring(usize),
    /// A fetch brings a block that another fetch has taken over since.
    BringTaken(usize),
    /// A fetch fails.
    Fail(usize),
    /// A fetch is cut off, and no read waits for it any more.
    GiveUp(usize),
}

/// State shared by all runs. Each run opens a version of its own.
struct World {
    tables: Arc<OpenTables>,
    memory: Arc<MemoryBlocks>,
    runs: u64,
}

impl World {
    fn new(memory: u64) -> Self {
        Self { tables: Arc::default(), memory: Arc::new(MemoryBlocks::new(memory)), runs: 0 }
    }

    fn open(&mut self) -> Arc<BlockTable> {
        self.runs += 1;
        let etag = Some(format!("\"{}\"", self.runs));
        let version = Version { size: Some(SIZE), etag, ..Version::default() };
        let blocks = |id, _: &Version| BlockStore::new(id, SIZE, None, Arc::clone(&self.memory));
        self.tables.open(&Location::parse("s3://bucket/key".as_ref()).unwrap(), version, blocks)
    }
}

/// The buffer of an abandoned read, and a copy of the buffer made when the read was abandoned.
type LentBuffer = (Box<[u8]>, Box<[u8]>);

/// One order of steps, as it is run.
struct Run {
    table: Arc<BlockTable>,
    /// The fetches by index; `None` once a fetch has ended.
    fetches: Vec<Option<Fetch>>,
    handle: Arc<()>,
    reads: Vec<Arc<PendingRead>>,
    done: Vec<Step>,
    /// Open reads, and the memory lent to them. The memory is boxed, so that it does not move.
    memory: Vec<(Arc<PendingRead>, Box<[u8]>)>,
    abandoned: Vec<LentBuffer>,
}

impl Run {
    fn new(world: &mut World) -> Self {
        let (table, handle) = (world.open(), Arc::default());
        let (fetches, reads, done) = (Vec::new(), Vec::new(), Vec::new());
        let (memory, abandoned) = (Vec::new(), Vec::new());
        Self { table, fetches, handle, reads, done, memory, abandoned }
    }

    /// Returns the steps that are possible now. A step that begins a read or a fetch happens only
    /// once.
    fn possible_steps(&self) -> Vec<Step> {
        let once = [Step::ReadAll, Step::ReadLast, Step::ReadBytes, Step::FetchAhead, Step::ComeWhole];
        let mut steps: Vec<Step> = once.into_iter().filter(|step| !self.done.contains(step)).collect();
        if self.memory.iter().any(|(read, _)| read.is_open()) {
            steps.push(Step::Abandon);
        }
        for (place, fetch) in self.fetches.iter().enumerate() {
            if let Some(fetch) = fetch {
                steps.extend([Step::Start(place), Step::Bring(place), Step::Fail(place)]);
                steps.push(Step::GiveUp(place));
                steps.extend(self.first_taken_over(fetch).map(|_| Step::BringTaken(place)));
            }
        }
        steps.retain(|step| !matches!(step, Step::Start(_)) || !self.done.contains(step));
        steps
    }

    fn take(&mut self, step: Step) {
        self.done.push(step);
        match step {
            Step::ReadAll => self.lend(ByteRange::new(0, SIZE), Rounding::Blocks),
            Step::ReadBytes => self.lend(ByteRange::new(BLOCK / 2, BLOCK + 9), Rounding::Bytes),
            Step::ReadLast => {
                let range = ByteRange::new(SIZE - 50, SIZE);
                let right = |result: Result<&[u8]>| {
                    assert!(result.is_err() || result.is_ok_and(|bytes| bytes.iter().all(|b| *b == CONTENT)));
                };
                self.read(Receiver::Callback(range, Delivery::Copied, Box::new(right)), Rounding::Blocks);
            }
            Step::FetchAhead => {
                let ahead = AheadRange { range: 0..SIZE, segment: 2 * BLOCK, reader: 0 };
                self.record_requests(self.table.request_ahead(&ahead, &Arc::downgrade(&self.handle)));
            }
            Step::ComeWhole => self.record_requests(self.table.request_whole()),
            Step::Abandon => {
                for (read, memory) in std::mem::take(&mut self.memory) {
                    read.abandon();
                    self.abandoned.push((memory.clone(), memory));
                }
            }
            Step::Start(place) => {
                let id = self.fetch_id(place);
                self.table.record_start(id);
                self.table.set_lease(id);
            }
            Step::Bring(place) => self.bring(place),
            Step::BringTaken(place) => {
                let block = self.fetches[place].as_ref().and_then(|fetch| self.first_taken_over(fetch));
                self.bring_block(place, block.unwrap());
            }
            Step::Fail(place) => {
                let error = Error::deadline(&self.table.location, Duration::ZERO);
                self.table.fail_fetch(self.fetch_id(place), &error);
                self.fetches[place] = None;
            }
            Step::GiveUp(place) => {
                let error = Error::deadline(&self.table.location, Duration::ZERO);
                let open = |run: &Self| run.reads.iter().filter(|read| read.is_open()).count();
                let before = open(self);
                if self.table.give_up(self.fetch_id(place), Some(&error)) {
                    self.fetches[place] = None;
                }
                assert_eq!(before, open(self), "a read that still waits was given up: {:?}", self.done);
            }
        }
    }

    /// Records the requests, which are not queued.
    fn record_requests(&mut self, requests: Requests) {
        self.fetches.extend(requests.fetches.into_iter().map(Some));
    }

    fn fetch_id(&self, place: usize) -> FetchId {
        self.fetches[place].as_ref().unwrap().id
    }

    /// Begins a read of `range` into new memory.
    fn lend(&mut self, range: ByteRange, rounding: Rounding) {
        let mut memory = vec![0; to_usize(range.len())].into_boxed_slice();
        // SAFETY: the memory is boxed, and is kept until the run is dropped or the read is
        // abandoned.
        let part = unsafe { ObjectPart::new(range.start, &mut memory) };
        let read = self.read(Receiver::Thread(vec![part]), rounding);
        self.memory.push((read, memory));
    }

    fn read(&mut self, receiver: Receiver, rounding: Rounding) -> Arc<PendingRead> {
        let read = self.table.new_pending_read(Instant::now() + Duration::from_secs(600), receiver);
        let reader = BlockReader { at: 0, interest: None, rounding, sizes: ReadSizes::of(None, None) };
        self.record_requests(self.table.request(&read, &reader));
        self.reads.push(Arc::clone(&read));
        read
    }

    /// Lets the next block of a fetch arrive, as the module `fetch` receives it. Ends the fetch if
    /// it owns no other block.
    fn bring(&mut self, place: usize) {
        let fetch = self.fetches[place].as_ref().unwrap();
        let (id, blocks) = (fetch.id, self.table.remaining(fetch.id));
        if blocks.is_empty() {
            assert!(self.table.give_up(id, None), "a read waits for a fetch with nothing to bring");
            self.fetches[place] = None;
            return;
        }
        self.bring_block(place, blocks.start);
    }

    /// Returns the first block of a fetch that another fetch has taken over.
    fn first_taken_over(&self, fetch: &Fetch) -> Option<u64> {
        let is_taken =
            |block: &u64| self.table.is_in_flight(*block) && !self.table.is_owned_by(fetch.id, *block);
        fetch.blocks.clone().find(is_taken)
    }

    fn bring_block(&mut self, place: usize, block: u64) {
        let fetch = self.fetches[place].as_ref().unwrap();
        let id = fetch.id;
        let bytes = fetch.requested(&(block..block + 1));
        let content = vec![CONTENT; to_usize(bytes.len())];
        if bytes.len() < self.table.blocks.bytes(&(block..block + 1)).len() {
            self.record_requests(self.table.arrived_in_part(id, block, bytes.start, &content));
        } else {
            self.table.store(block, &content, CacheOutcome::NotTried, Exempt::Pinned);
            self.record_requests(self.table.arrived(id, block, &content));
        }
    }

    /// Brings the remaining fetches to their end, and checks the final state.
    fn finish(mut self) {
        while let Some(place) = self.fetches.iter().position(Option::is_some) {
            self.take(Step::Bring(place));
        }
        let order = &self.done;
        assert!(self.reads.iter().all(|read| !read.is_open()), "a read waits for ever: {order:?}");
        let state = self.table.state.lock();
        assert!((0..BLOCKS).all(|block| !state.in_flight.is_owned(block)), "a claimed block: {order:?}");
        assert!(state.waiting.is_empty(), "a forgotten read: {order:?}");
        for (before, after) in &self.abandoned {
            assert!(before == after, "memory taken back was written: {order:?}");
        }
    }
}

/// Runs every order that begins with `order`.
fn explore(order: &mut Vec<Step>, world: &mut World) {
    let mut run = Run::new(world);
    order.iter().for_each(|step| run.take(*step));
    let possible = run.possible_steps();
    run.finish();
    if order.len() == STEPS {
        return;
    }
    for step in possible {
        order.push(step);
        explore(order, world);
        order.pop();
    }
}

#[test]
fn in_every_order_each_read_ends_and_no_block_stays_claimed() {
    // Runs with memory that keeps the arriving blocks, and with memory that keeps none.
    for memory in [64 << 20, 0] {
        let mut world = World::new(memory);
        explore(&mut Vec::new(), &mut world);
        assert!(world.runs > 10_000, "{} orders", world.runs);
    }
}
