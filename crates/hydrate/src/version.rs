//! The state of one version: cached blocks, in-flight fetches, waiting reads.
//!
//! All files open on a version share its state, so a block is fetched once for all readers. A block
//! is stored first and removed from the table of fetches afterwards; a reader looks in the opposite
//! order, under the table's lock. So no reader requests a block that has just arrived.

mod engine;
mod fetcher;
mod fetches;
#[cfg(test)]
mod model;
mod reading;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use firstbyte_location::{ByteRange, Location, Strength, Version, to_usize};

pub(crate) use engine::Engine;
pub use engine::Observer;
pub(crate) use fetcher::{Fetch, Fetcher};

use crate::Error;
use crate::block::{BLOCK, runs_over};
use crate::block_store::BlockStore;
use crate::inflight::{InFlight, Priority, Want};
use crate::pending_read::{Delivery, Done, PendingRead, Ready, Receiver};

pub(crate) struct VersionState {
    pub(crate) engine: Arc<Engine>,
    pub(crate) location: Location,
    pub(crate) version: Version,
    pub(crate) blocks: BlockStore,
    /// The end of the furthest read.
    reach: AtomicU64,
    table: Mutex<Table>,
}

/// The way in which the object is fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FetchMode {
    /// By ranges, in parallel.
    #[default]
    Ranges,
    /// As one response from its first byte: the server does not support ranges, or reports nothing
    /// by which two responses could be known to have the same content.
    Whole,
}

/// The bytes that a read requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// Those of whole blocks, which are kept for other reads.
    Blocks,
    /// Only those of the read, where it needs no more than one request and no other read waits for
    /// its blocks.
    Bytes,
}

#[derive(Default)]
struct Table {
    in_flight: InFlight,
    waiting: HashMap<u64, Vec<Arc<PendingRead>>>,
    mode: FetchMode,
    /// The reason for which no further fetch can succeed, for example because the object changed.
    gone: Option<Error>,
    /// If the content has no version: the value of `gone` once the first fetch has begun, because a
    /// second response could have other content.
    gone_after_first: Option<Error>,
}

impl VersionState {
    fn new(engine: Arc<Engine>, location: Location, version: Version) -> Self {
        let blocks = engine.block_store(&location, &version);
        let identified = version.strength() != Strength::None;
        let table = Table {
            mode: if identified { FetchMode::Ranges } else { FetchMode::Whole },
            gone_after_first: (!identified).then(|| Error::Unversioned { location: location.to_string() }),
            ..Table::default()
        };
        Self { engine, location, version, blocks, reach: AtomicU64::new(0), table: Mutex::new(table) }
    }

    pub(crate) fn size(&self) -> u64 {
        self.version.size.unwrap_or(0)
    }

    /// Records the end of a read.
    pub(crate) fn extend_reach(&self, end: u64) {
        self.reach.fetch_max(end, Ordering::Relaxed);
    }

    /// The widest read-ahead window of one reader, in bytes.
    pub(crate) fn most_window(&self) -> u64 {
        self.engine.most_window(self.delivery())
    }

    /// The source of the bytes of a waiting read. Uncached blocks may have been dropped when the
    /// last one arrives, so they are copied.
    fn delivery(&self) -> Delivery {
        if self.blocks.is_caching() { Delivery::FromCache } else { Delivery::Copied }
    }

    /// Calls `done` with the bytes of `range`, at once or when they have arrived.
    pub(crate) fn read_then(self: &Arc<Self>, range: ByteRange, done: Done) {
        let deadline = Instant::now() + self.engine.settings.deadline;
        self.answer(deadline, Receiver::Callback(range, self.delivery(), done), range.start);
    }

    /// Answers a callback's read when its blocks have arrived, or at the deadline.
    fn answer(self: &Arc<Self>, deadline: Instant, receiver: Receiver, reader: u64) {
        let pending = self.pending(deadline, receiver);
        self.demand(&pending, reader, None, Rounding::Blocks);
        if pending.is_open() {
            self.engine.fetcher.watch_deadline(&pending);
        }
    }

    /// A read that waits for nothing yet.
    fn pending(&self, deadline: Instant, receiver: Receiver) -> Arc<PendingRead> {
        Arc::new(PendingRead::new(self.location.clone(), deadline, receiver))
    }

    /// Starts or joins fetches for the absent blocks of a read. With an `interest`, other readers
    /// have priority: the fetches that it starts are ahead of a reader at the offset `reader`, and
    /// not wanted once the interest has no owner. A caller that has lent memory to the read has to
    /// abandon it if this panics, because fetches know it by then.
    fn demand(
        self: &Arc<Self>,
        pending: &Arc<PendingRead>,
        reader: u64,
        interest: Option<&Weak<()>>,
        rounding: Rounding,
    ) {
        let priority = if interest.is_some() { Priority::Ahead } else { Priority::Demand };
        let sizes = self.engine.fetcher.read_sizes();
        let mut promoted = Vec::new();
        let mut fetches = Vec::new();
        let now = Instant::now();
        let failed = {
            let mut table = self.lock();
            let mut missing = pending.blocks();
            missing.retain(|block| !pending.accept_present(&self.blocks, *block));
            pending.expect(missing.len());
            let lost = |block: &u64| !table.in_flight.is_owned(*block);
            let failed = table.gone.clone().filter(|_| missing.iter().any(lost));
            if failed.is_none() {
                let (mut wanted, mut joined) = (Vec::new(), None);
                for block in &missing {
                    match table.in_flight.want(*block, joined, now) {
                        Want::Join(id) => joined = Some(id),
                        Want::Promote(id) => {
                            table.in_flight.promote(id);
                            promoted.push(id);
                            joined = Some(id);
                        }
                        Want::Fetch => wanted.push(*block),
                    }
                    table.waiting.entry(*block).or_default().push(Arc::clone(pending));
                }
                if table.mode == FetchMode::Whole {
                    wanted.truncate(1);
                }
                let is_free = |block| !table.in_flight.is_owned(block) && !self.blocks.has(block);
                for run in runs_over(wanted, sizes.gap / BLOCK, is_free) {
                    // Readers may wait for a block of another fetch, and need other bytes of it.
                    let is_alone = !run.clone().any(|block| table.in_flight.is_owned(block));
                    let begun = self.begin(&mut table, priority, run, sizes.request / BLOCK).into_iter();
                    // A whole response continues without the interest of one reader.
                    let interest = interest.filter(|_| table.mode == FetchMode::Ranges);
                    let mut exact = |fetch: &Fetch| {
                        let is_exact = is_alone && rounding == Rounding::Bytes;
                        (is_exact && table.mode == FetchMode::Ranges).then(|| {
                            table.in_flight.set_exact(fetch.id);
                            pending.bytes_within(&fetch.blocks)
                        })
                    };
                    fetches.extend(begun.map(|fetch| {
                        let only = exact(&fetch);
                        Fetch { handle: interest.cloned(), only, ..fetch }
                    }));
                }
            }
            if missing.is_empty() {
                drop(table);
                if let Some(ready) = pending.complete() {
                    self.read_out(ready);
                }
                return;
            }
            failed
        };
        if let Some(error) = failed {
            pending.fail(&error);
        }
        promoted.into_iter().for_each(|id| self.engine.fetcher.promote(id));
        self.submit(fetches, reader);
    }

    /// Reads cached blocks for a callback. If some were evicted meanwhile, fetches them again and
    /// copies them.
    fn read_out(self: &Arc<Self>, ready: Ready) {
        let Ready { range, deadline, done } = ready;
        let mut buffer = vec![0; to_usize(range.len())];
        if self.blocks.read_at(&mut buffer, range.start) == buffer.len() {
            done(Ok(&buffer));
            return;
        }
        self.answer(deadline, Receiver::Callback(range, Delivery::Copied, done), range.start);
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for VersionState {
    fn drop(&mut self) {
        self.engine.close(&self.location);
    }
}
