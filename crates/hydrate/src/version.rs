//! The state of one version: cached blocks, in-flight fetches, waiting reads.
//!
//! All files open on a version share its state, so a block is fetched once for all readers. A block
//! is stored first and removed from the table of fetches afterwards; a reader looks in the opposite
//! order, under the table's lock. So no reader requests a block that has just arrived.

mod engine;
mod fetcher;
mod fetches;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use firstbyte_location::{ByteRange, Location, Strength, Version, to_usize};

pub(crate) use engine::Engine;
pub use engine::Observer;
pub(crate) use fetcher::{Fetch, Fetcher};

use crate::block::{BLOCK, blocks_of, runs};
use crate::block_store::BlockStore;
use crate::inflight::{InFlight, Priority, Want};
use crate::limits::REQUEST;
use crate::pending_read::{Delivery, Done, Outcome, PendingRead, Receiver};
use crate::read_ahead::Ahead;
use crate::{Error, Result};

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

    /// Reads `range` into `buffer`, waiting for absent blocks. Calls `requested` after each
    /// request for blocks, so that requests of lower priority can follow. Calls `go_on` every
    /// `tick` of the wait, and fails as cancelled if it returns false.
    pub(crate) fn read(
        self: &Arc<Self>,
        buffer: &mut [u8],
        range: ByteRange,
        requested: &mut dyn FnMut(),
        tick: Duration,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let deadline = Instant::now() + self.engine.settings.deadline;
        let (mut done, mut expected) = (0, None);
        while done < buffer.len() {
            let at = range.start + done as u64;
            let read = self.blocks.read_at(&mut buffer[done..], at);
            done += read;
            if read > 0 {
                continue;
            }
            // A block that was cached a moment ago and is absent was evicted: copy it this time.
            let delivery = if expected == Some(at) { Delivery::Copied } else { self.delivery() };
            let missing = ByteRange::new(at, range.end.min(at.saturating_add(self.step())));
            let pending = self.demand(missing, delivery, deadline, Receiver::Thread);
            requested();
            match pending.wait(tick, go_on) {
                Some(Outcome::Cached) => expected = Some(at),
                Some(Outcome::Bytes(bytes)) => {
                    buffer[done..done + bytes.len()].copy_from_slice(&bytes);
                    done += bytes.len();
                }
                Some(Outcome::Failed(error)) => return Err(error),
                None if Instant::now() < deadline => return Err(firstbyte_store::Error::Cancelled.into()),
                None => return Err(Error::deadline(&self.location, self.engine.settings.deadline)),
            }
        }
        Ok(())
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

    /// Bytes that a waiting read requests at once: enough to fill a link, and held in memory.
    fn step(&self) -> u64 {
        self.engine.most_window(Delivery::Copied)
    }

    /// Requests the parts of a long read after its first step, so that all are fetched in
    /// parallel.
    pub(crate) fn request_rest(self: &Arc<Self>, range: ByteRange, handle: &Weak<()>) {
        let rest = range.skip(self.step());
        if !rest.is_empty() && self.delivery() == Delivery::FromCache {
            let ahead = Ahead { range: rest.start..rest.end, segment: REQUEST, reader: range.start };
            self.fetch_ahead(&ahead, handle);
        }
    }

    /// Calls `done` with the bytes of `range`, at once or when they have arrived.
    pub(crate) fn read_then(self: &Arc<Self>, range: ByteRange, done: Done) {
        let deadline = Instant::now() + self.engine.settings.deadline;
        let pending = self.demand(range, self.delivery(), deadline, Receiver::Callback(done));
        if pending.is_open() {
            self.engine.fetcher.watch_deadline(&pending);
        }
    }

    /// Starts or joins fetches for the absent blocks of `range`.
    fn demand(
        self: &Arc<Self>,
        range: ByteRange,
        delivery: Delivery,
        deadline: Instant,
        receiver: Receiver,
    ) -> Arc<PendingRead> {
        let pending = Arc::new(PendingRead::new(self.location.clone(), range, delivery, deadline, receiver));
        let mut promoted = Vec::new();
        let mut fetches = Vec::new();
        let now = Instant::now();
        let failed = {
            let mut table = self.lock();
            let missing: Vec<u64> =
                blocks_of(range).filter(|block| !pending.accept_present(&self.blocks, *block)).collect();
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
                    table.waiting.entry(*block).or_default().push(Arc::clone(&pending));
                }
                if table.mode == FetchMode::Whole {
                    wanted.truncate(1);
                }
                for run in runs(wanted.into_iter()) {
                    fetches.extend(self.begin(&mut table, Priority::Demand, run, REQUEST / BLOCK));
                }
            }
            if missing.is_empty() {
                drop(table);
                if let Some(done) = pending.complete() {
                    self.read_out(&pending, done);
                }
                return pending;
            }
            failed
        };
        if let Some(error) = failed {
            pending.fail(&error);
        }
        promoted.into_iter().for_each(|id| self.engine.fetcher.promote(id));
        self.engine.fetcher.submit(fetches.into_iter().map(|fetch| (fetch, 0)).collect());
        pending
    }

    /// Reads cached blocks for a callback. If some were evicted meanwhile, fetches them again and
    /// copies them.
    fn read_out(self: &Arc<Self>, pending: &PendingRead, done: Done) {
        let range = pending.range;
        let mut buffer = vec![0; to_usize(range.len())];
        if self.blocks.read_at(&mut buffer, range.start) == buffer.len() {
            done(Ok(&buffer));
            return;
        }
        let again = self.demand(range, Delivery::Copied, pending.deadline, Receiver::Callback(done));
        if again.is_open() {
            self.engine.fetcher.watch_deadline(&again);
        }
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
