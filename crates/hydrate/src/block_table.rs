//! Tracks the blocks of one version: which are present, which a fetch brings, and which reads wait
//! for them.
//!
//! All files open on a version share its table, so a block is fetched once for all readers. The
//! table itself starts no fetch. A reader asks the table for blocks and gets the [`Requests`] to
//! submit to the fetch queue; a fetch reports its results to the table. A block is first stored and
//! then removed from the fetches in flight. A reader first looks at the fetches in flight and then
//! at the stored blocks, under the lock. So no reader requests a block that has just arrived.

mod fetch;
mod in_flight;
#[cfg(test)]
mod model;
mod open_tables;
mod part;
mod pending_read;
mod reports;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use firstbyte_location::{Location, Strength, Version, to_usize};
use firstbyte_pacing::ReadSizes;
use rustix_futex_sync::Mutex;

pub(crate) use fetch::{AheadRange, Fetch, Requests};
pub(crate) use in_flight::{FetchId, Priority};
pub(crate) use open_tables::OpenTables;
pub(crate) use part::{Groups, ObjectPart};
pub use pending_read::ReadCallback;
pub(crate) use pending_read::{Delivery, PendingRead, Receiver};

use crate::block::{BLOCK, runs_over};
use crate::block_store::BlockStore;
use crate::error::Error;
use crate::job_state::JobFile;
use in_flight::{FetchesInFlight, ReaderAction};
use pending_read::ReadyRead;

pub(crate) struct BlockTable {
    pub(crate) location: Location,
    pub(crate) version: Version,
    pub(crate) blocks: BlockStore,
    /// The largest end offset of all reads so far.
    reach: AtomicU64,
    state: Mutex<TableState>,
    /// All tables of this process, including this one.
    tables: Arc<OpenTables>,
}

/// How the object is fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FetchMode {
    /// By ranges, in parallel.
    #[default]
    Ranges,
    /// One response from the first byte, because the server does not support ranges, or reports no
    /// version by which two responses could be recognized as the same content.
    Whole,
}

/// How the range of a read is rounded for its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// Whole blocks, which are kept for other reads.
    Blocks,
    /// Only the bytes of the read, provided that one request is enough and no other read waits for
    /// the same blocks.
    Bytes,
}

/// The reader for which blocks are requested.
pub(crate) struct BlockReader<'a> {
    /// Offset of the read. Fetches near this offset start first.
    pub(crate) at: u64,
    /// If present, the fetches are read-ahead: they run after those for which a read waits, and are
    /// dropped from the queue when the owner of the interest is dropped.
    pub(crate) interest: Option<&'a Weak<()>>,
    pub(crate) rounding: Rounding,
    /// The sizes of this reader's requests.
    pub(crate) sizes: ReadSizes,
}

#[derive(Default)]
struct TableState {
    in_flight: FetchesInFlight,
    waiting: HashMap<u64, Vec<Arc<PendingRead>>>,
    mode: FetchMode,
    /// The reason why no further fetch can succeed, for example that the object has changed.
    final_error: Option<Error>,
    /// The error that `final_error` gets when the first fetch begins. Set only if the content has
    /// no version: a second response could then have other content.
    error_after_first: Option<Error>,
}

impl BlockTable {
    fn new(tables: Arc<OpenTables>, location: Location, version: Version, blocks: BlockStore) -> Self {
        let identified = version.strength() != Strength::None;
        let state = TableState {
            mode: if identified { FetchMode::Ranges } else { FetchMode::Whole },
            error_after_first: (!identified).then(|| Error::Unversioned { location: location.to_string() }),
            ..TableState::default()
        };
        Self { location, version, blocks, reach: AtomicU64::new(0), state: Mutex::new(state), tables }
    }

    pub(crate) fn size(&self) -> u64 {
        self.version.size.unwrap_or(0)
    }

    /// Records the end offset of a read.
    pub(crate) fn extend_reach(&self, end: u64) {
        self.reach.fetch_max(end, Ordering::Relaxed);
    }

    /// Returns whether the object is fetched as one response.
    pub(crate) fn is_whole(&self) -> bool {
        self.state.lock().mode == FetchMode::Whole
    }

    /// Returns whether the object can be fetched only once, so a failed response cannot be
    /// repeated.
    pub(crate) fn is_fetched_once(&self) -> bool {
        self.state.lock().error_after_first.is_some()
    }

    /// Returns whether a response with the whole object has to pause at `block`, because its
    /// readers are far behind. A pause is needed only if the blocks are kept in memory, where they
    /// would displace blocks that readers still need.
    pub(crate) fn is_far_ahead(&self, block: u64) -> bool {
        let reach = self.reach.load(Ordering::Relaxed);
        !self.blocks.is_caching() && block * BLOCK > reach + self.blocks.max_window()
    }

    /// Returns the reason why no further fetch can succeed.
    pub(crate) fn final_error(&self) -> Option<Error> {
        self.state.lock().final_error.clone()
    }

    /// Forgets the reason why no further fetch could succeed, because the version is opened again.
    fn forget_final_error(&self) {
        self.state.lock().final_error = None;
    }

    /// Returns whether a block is being fetched.
    pub(crate) fn is_in_flight(&self, block: u64) -> bool {
        self.state.lock().in_flight.is_owned(block)
    }

    /// Creates a read that does not wait for any block yet.
    pub(crate) fn new_pending_read(&self, deadline: Instant, receiver: Receiver) -> Arc<PendingRead> {
        Arc::new(PendingRead::new(self.location.clone(), deadline, receiver))
    }

    /// Copies the present blocks to a read, and lets it wait for the others: joins fetches that
    /// bring those blocks soon, and begins fetches for the rest. From this call on, fetches may
    /// write to memory that the caller has lent to the read. So if a later step of the caller
    /// fails, the caller must abandon the read.
    #[must_use]
    pub(crate) fn request(
        self: &Arc<Self>,
        pending: &Arc<PendingRead>,
        reader: &BlockReader<'_>,
    ) -> Requests {
        let mut requests = Requests::default();
        let mut state = self.state.lock();
        let mut missing = pending.blocks();
        missing.retain(|block| !pending.accept_present(&self.blocks, *block));
        pending.expect(missing.len());
        if missing.is_empty() {
            drop(state);
            return pending.complete().map_or(requests, |ready| self.read_out(ready));
        }
        let lost = |block: &u64| !state.in_flight.is_owned(*block);
        if let Some(error) = state.final_error.clone().filter(|_| missing.iter().any(lost)) {
            drop(state);
            pending.fail(&error);
            return requests;
        }
        let wanted = state.join(pending, &missing, &mut requests.promoted);
        let is_free = |block| !state.in_flight.is_owned(block) && !self.blocks.has(block);
        for run in runs_over(wanted, reader.sizes.gap / BLOCK, is_free) {
            requests.fetches.extend(self.begin_fetches_for_read(&mut state, pending, reader, run));
        }
        drop(state);
        if pending.is_callback() {
            requests.watched.push(Arc::clone(pending));
        }
        requests
    }

    /// Begins fetches for one run of blocks that a read needs.
    fn begin_fetches_for_read(
        self: &Arc<Self>,
        state: &mut TableState,
        pending: &PendingRead,
        reader: &BlockReader<'_>,
        run: Range<u64>,
    ) -> Vec<Fetch> {
        let priority = if reader.interest.is_some() { Priority::Ahead } else { Priority::Demand };
        // If another fetch owns a block of the run, other readers wait for that block and may need
        // bytes of it that this read does not need. So all of its bytes are fetched.
        let is_alone = !run.clone().any(|block| state.in_flight.is_owned(block));
        let mut fetches = self.begin(state, priority, run, reader.sizes.request / BLOCK);
        // A whole response serves all readers, so it continues even if this one loses interest.
        if state.mode == FetchMode::Ranges {
            for fetch in &mut fetches {
                fetch.place(reader.at, reader.interest);
                if is_alone && reader.rounding == Rounding::Bytes {
                    state.in_flight.set_exact(fetch.id);
                    fetch.only_bytes = Some(pending.bytes_within(&fetch.blocks));
                }
            }
        }
        fetches
    }

    /// Begins fetches for the absent blocks ahead of a reader. The fetches are wanted as long as
    /// the reader's handle lives. Background fetches that are already bringing such blocks stop
    /// pausing for readers.
    #[must_use]
    pub(crate) fn request_ahead(self: &Arc<Self>, ahead: &AheadRange, handle: &Weak<()>) -> Requests {
        let blocks = ahead.range.start / BLOCK..ahead.range.end.div_ceil(BLOCK);
        let mut requests = Requests::default();
        let mut state = self.state.lock();
        if state.final_error.is_some() || state.mode == FetchMode::Whole {
            return requests;
        }
        for run in state.in_flight.claim_ahead(blocks, self.blocks.ascending_presence_test()) {
            requests.fetches.extend(self.begin(&mut state, Priority::Ahead, run, ahead.segment / BLOCK));
        }
        requests.fetches.iter_mut().for_each(|fetch| fetch.place(ahead.reader, Some(handle)));
        requests
    }

    /// Begins a background fetch of the first blocks at or after `from` that are neither cached nor
    /// being fetched, at most `most` adjacent blocks. Returns `None` if there is no such block
    /// before `end`.
    pub(crate) fn request_in_background(
        self: &Arc<Self>,
        from: u64,
        end: u64,
        most: u64,
        job: &Arc<JobFile>,
    ) -> Option<Fetch> {
        let mut state = self.state.lock();
        if state.final_error.is_some() {
            return None;
        }
        let mut is_cached = self.blocks.ascending_cache_test();
        let first = (from..end).find(|block| !is_cached(*block) && !state.in_flight.is_owned(*block))?;
        let run = state.in_flight.unowned_runs(first..end.min(first + most), is_cached).into_iter().next()?;
        let fetch = self.begin(&mut state, Priority::Background, run, most).pop()?;
        state.in_flight.set_pace(fetch.id, job.pace());
        job.count_submission();
        Some(Fetch { job: Some(Arc::clone(job)), ..fetch })
    }

    /// Begins one fetch of the whole object as a single response, because the server does not
    /// support ranges.
    #[must_use]
    pub(crate) fn request_whole(self: &Arc<Self>) -> Requests {
        let mut state = self.state.lock();
        if state.mode == FetchMode::Whole {
            return Requests::default();
        }
        state.mode = FetchMode::Whole;
        Requests { fetches: self.begin(&mut state, Priority::Demand, 0..0, 0), ..Requests::default() }
    }

    /// Promotes the queued fetches for which `pending` waits to demand priority.
    #[must_use]
    pub(crate) fn promote_fetches_of(&self, pending: &PendingRead) -> Requests {
        let (mut requests, now) = (Requests::default(), Instant::now());
        let mut state = self.state.lock();
        for block in pending.blocks() {
            if let ReaderAction::Promote(id) = state.in_flight.reader_action(block, None, now) {
                state.in_flight.promote(id);
                requests.promoted.push(id);
            }
        }
        requests
    }

    /// Begins fetches for the blocks of `run`, each of at most `most` blocks. If the object is
    /// fetched as one response, begins a single fetch of all blocks.
    fn begin(
        self: &Arc<Self>,
        state: &mut TableState,
        priority: Priority,
        run: Range<u64>,
        most: u64,
    ) -> Vec<Fetch> {
        let (priority, run, most) = match state.mode {
            FetchMode::Ranges => (priority, run, most),
            FetchMode::Whole => (Priority::Demand, 0..self.size().div_ceil(BLOCK), u64::MAX),
        };
        state.final_error = state.final_error.take().or_else(|| state.error_after_first.clone());
        let mut fetches = Vec::new();
        let mut start = run.start;
        while start < run.end {
            let blocks = start..run.end.min(start.saturating_add(most.max(1)));
            start = blocks.end;
            let id = self.tables.next_id();
            let took_over = state.in_flight.begin(id, priority, blocks.clone());
            fetches.push(Fetch::new(Arc::clone(self), id, priority, blocks, took_over));
        }
        fetches
    }

    /// Reads cached blocks and passes them to the callback of a read. If some blocks were evicted
    /// since they arrived, requests them again and copies them as they arrive.
    fn read_out(self: &Arc<Self>, ready: ReadyRead) -> Requests {
        let ReadyRead { range, deadline, done } = ready;
        let mut buffer = vec![0; to_usize(range.len())];
        if self.blocks.read_at(&mut buffer, range.start) == buffer.len() {
            done(Ok(&buffer));
            return Requests::default();
        }
        let pending = self.new_pending_read(deadline, Receiver::Callback(range, Delivery::Copied, done));
        // Blocks are rarely evicted this early, so the request uses the sizes for an unmeasured
        // server.
        let sizes = ReadSizes::of(None, None);
        self.request(
            &pending,
            &BlockReader { at: range.start, interest: None, rounding: Rounding::Blocks, sizes },
        )
    }
}

impl TableState {
    /// Lets a read wait for the `missing` blocks. Returns the blocks that no fetch brings soon.
    /// Adds to `promoted` the queued fetches that must start now.
    fn join(&mut self, pending: &Arc<PendingRead>, missing: &[u64], promoted: &mut Vec<FetchId>) -> Vec<u64> {
        let (mut wanted, mut joined, now) = (Vec::new(), None, Instant::now());
        for block in missing {
            match self.in_flight.reader_action(*block, joined, now) {
                ReaderAction::Join(id) => joined = Some(id),
                ReaderAction::Promote(id) => {
                    self.in_flight.promote(id);
                    promoted.push(id);
                    joined = Some(id);
                }
                ReaderAction::Fetch => wanted.push(*block),
            }
            self.waiting.entry(*block).or_default().push(Arc::clone(pending));
        }
        if self.mode == FetchMode::Whole {
            wanted.truncate(1);
        }
        wanted
    }
}

impl Drop for BlockTable {
    fn drop(&mut self) {
        self.tables.close(&self.location);
    }
}
