//! One version of one object in this process: what is here of it, what is on its way, who waits.
//!
//! All handles on it share this, so a block is fetched once however many read it. A block is kept first and taken off the
//! table of those on their way afterwards, and who looks for it looks in the other order under the table's lock: so
//! nobody asks for a block that has just come.

mod bring;
mod send;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use firstbyte_location::{ByteRange, Location, Strength, Version};

use crate::here::{Here, blocks_of};
use crate::hydrator::Shared;
use crate::inflight::{Class, InFlight, Want, runs};
use crate::pending::{Hold, Outcome, Pending, Reader};
use crate::streams::Ahead;
use crate::{BLOCK, Done, Error, Result};

/// The longest request for one reader who waits; a longer read is several at once.
const DEMAND: u64 = (2 << 20) / BLOCK;
/// What a read that waits asks for at once: enough to keep a link busy, little enough to be held in memory.
pub(crate) const STEP: u64 = 8 << 20;

pub(crate) struct Node {
    pub(crate) shared: Arc<Shared>,
    pub(crate) location: Location,
    pub(crate) version: Version,
    pub(crate) here: Here,
    /// The furthest byte anybody has asked for.
    reach: AtomicU64,
    table: Mutex<Table>,
}

/// How the object is fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Way {
    /// By the blocks wanted, in parallel.
    #[default]
    Ranges,
    /// As one stream from its first byte: the server serves no ranges, or tells nothing by which two answers could be
    /// known to be of the same content.
    Whole,
}

#[derive(Default)]
struct Table {
    flights: InFlight,
    waiters: HashMap<u64, Vec<Arc<Pending>>>,
    way: Way,
    /// The version is gone from the store: what is neither here nor on its way will never be.
    gone: Option<Error>,
    /// What becomes of it when its stream has begun: nothing pins it, so a second one could be of other content.
    once: Option<Error>,
}

impl Node {
    pub(crate) fn new(shared: Arc<Shared>, location: Location, version: Version) -> Self {
        let here = shared.here(&location, &version);
        let pinned = version.strength() != Strength::None;
        let table = Table {
            way: if pinned { Way::Ranges } else { Way::Whole },
            once: (!pinned).then(|| Error::Unpinned { location: location.to_string() }),
            ..Table::default()
        };
        Self { shared, location, version, here, reach: AtomicU64::new(0), table: Mutex::new(table) }
    }

    pub(crate) fn size(&self) -> u64 {
        self.version.size.unwrap_or(0)
    }

    /// Reads on, waiting for what is not here: the bytes of `range` into a buffer of that length. `asked` is called whenever
    /// what is waited for has been asked for: what comes after it must not go out before. `go_on` is asked once every
    /// `tick` of the wait, and ends it as cancelled.
    pub(crate) fn read(
        self: &Arc<Self>,
        buffer: &mut [u8],
        range: ByteRange,
        asked: &mut dyn FnMut(),
        tick: Duration,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let deadline = Instant::now() + self.shared.settings.deadline;
        let (mut done, mut expected) = (0, None);
        while done < buffer.len() {
            let at = range.start + done as u64;
            let read = self.here.read_at(&mut buffer[done..], at);
            done += read;
            if read > 0 {
                continue;
            }
            // What came a moment ago and is gone already has been evicted for something else: it is held the next time.
            let hold = if expected == Some(at) { Hold::Copied } else { self.here.hold() };
            let missing = ByteRange::new(at, range.end.min(at.saturating_add(STEP)));
            let pending = self.demand(missing, hold, deadline, Reader::Thread);
            asked();
            match pending.wait(tick, go_on) {
                Some(Outcome::Here) => expected = Some(at),
                Some(Outcome::Bytes(bytes)) => {
                    buffer[done..done + bytes.len()].copy_from_slice(&bytes);
                    done += bytes.len();
                }
                Some(Outcome::Failed(error)) => return Err(error),
                None if Instant::now() < deadline => return Err(firstbyte_store::Error::Cancelled.into()),
                None => return Err(Error::deadline(&self.location, self.shared.settings.deadline)),
            }
        }
        Ok(())
    }

    /// Somebody reads up to `end`.
    pub(crate) fn reaches(&self, end: u64) {
        self.reach.fetch_max(end, Ordering::Relaxed);
    }

    /// How far ahead of one reader to fetch.
    pub(crate) fn most_window(&self) -> u64 {
        self.shared.most_window(self.here.hold())
    }

    /// Asks for the parts of a long read that come after the first step, so that they are on their way together.
    pub(crate) fn read_ahead(self: &Arc<Self>, range: ByteRange, handle: &Weak<()>) {
        let rest = range.skip(STEP);
        if !rest.is_empty() && self.here.hold() == Hold::Kept {
            let ahead = Ahead { range: rest.start..rest.end, segment: DEMAND * BLOCK, reader: range.start };
            self.ahead(&ahead, handle);
        }
    }

    /// Calls `done` with the bytes of `range`, now or when they have come.
    pub(crate) fn read_then(self: &Arc<Self>, range: ByteRange, done: Done) {
        let deadline = Instant::now() + self.shared.settings.deadline;
        let pending = self.demand(range, self.here.hold(), deadline, Reader::Call(done));
        if pending.is_open() {
            self.shared.crew.expire(&pending);
        }
    }

    /// Sees to it that the missing blocks of `range` come, and that the reader is told.
    fn demand(
        self: &Arc<Self>,
        range: ByteRange,
        hold: Hold,
        deadline: Instant,
        reader: Reader,
    ) -> Arc<Pending> {
        let pending = Arc::new(Pending::new(self.location.clone(), range, hold, deadline, reader));
        let mut promoted = Vec::new();
        let mut fetches = Vec::new();
        let now = Instant::now();
        let failed = {
            let mut table = self.lock();
            let missing: Vec<u64> =
                blocks_of(range).filter(|block| !pending.takes(&self.here, *block)).collect();
            pending.expect(missing.len());
            let lost = |block: &u64| !table.flights.is_owned(*block);
            let failed = table.gone.clone().filter(|_| missing.iter().any(lost));
            if failed.is_none() {
                let (mut wanted, mut joined) = (Vec::new(), None);
                for block in &missing {
                    match table.flights.want(*block, joined, now) {
                        Want::Join(id) => joined = Some(id),
                        Want::Promote(id) => {
                            table.flights.promote(id);
                            promoted.push(id);
                            joined = Some(id);
                        }
                        Want::Fetch => wanted.push(*block),
                    }
                    table.waiters.entry(*block).or_default().push(Arc::clone(&pending));
                }
                if table.way == Way::Whole {
                    wanted.truncate(1);
                }
                for run in runs(wanted.into_iter()) {
                    fetches.extend(self.begin(&mut table, Class::Demand, run, DEMAND));
                }
            }
            if missing.is_empty() {
                drop(table);
                self.complete(&pending);
                return pending;
            }
            failed
        };
        if let Some(error) = failed {
            pending.fail(&error);
        }
        promoted.into_iter().for_each(|id| self.shared.crew.promote(id));
        self.shared.crew.submit(fetches.into_iter().map(|fetch| (fetch, 0)).collect());
        pending
    }

    fn complete(self: &Arc<Self>, pending: &Pending) {
        if let Some(done) = pending.complete() {
            self.read_out(pending, done);
        }
    }

    /// Reads what has all come, for a callback. Where some of it was evicted meanwhile it is fetched again, and held.
    fn read_out(self: &Arc<Self>, pending: &Pending, done: Done) {
        let range = pending.range;
        let mut buffer = vec![0; usize::try_from(range.len()).unwrap_or(0)];
        if self.here.read_at(&mut buffer, range.start) == buffer.len() {
            done(Ok(&buffer));
            return;
        }
        let again = self.demand(range, Hold::Copied, pending.deadline, Reader::Call(done));
        if again.is_open() {
            self.shared.crew.expire(&again);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.shared.forget(&self.location);
    }
}
