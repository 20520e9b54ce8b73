//! A download in chunks: fetches them, several neighbours by one request, records each in the journal, and verifies the
//! whole. Where the whole is found damaged, chunks are fetched again until two fetches of each agree.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use firstbyte_location::{ByteRange, Location, Version, shown};
use firstbyte_store::{
    Algorithm, Body, Checksum, Error as StoreError, Get, Hasher, LocalFile, Over, Sink, Stat,
};

use super::{Opened, at_file, copy_body};
use crate::flight::Distance;
use crate::journal::{Journal, Record};
use crate::patience::Wait;
use crate::pieces::{Done, Finish, Pieces};
use crate::plan::Plan;
use crate::verify::{self, Follower};
use crate::worker::{Attempt, Worker};
use crate::{Error, Result, Verified, single};

/// The piece that is no chunk: asking the source for the checksum its ranged answers do not carry.
pub(super) const ASK_CHECKSUM: u32 = u32::MAX;
/// Times a chunk is fetched until two fetches agree, once the whole is known to be damaged.
const AUDIT_FETCHES: u32 = 6;
/// Times the whole is audited before the source itself counts as damaged.
const AUDITS: u32 = 2;
/// Bytes one request fetches in neighbouring chunks at most, while there are plenty. A request costs a server about a
/// millisecond of its processor, which is felt where it is near, and it is billed; chunks stay small beside that, because a
/// killed run reads again what was unfinished. Far away more than 32 MiB gain nothing, and one connection may be slow.
const fn together(source: Distance) -> u64 {
    match source {
        Distance::Near => 128 << 20,
        Distance::Far => 32 << 20,
    }
}

/// A download in chunks.
pub(super) struct Download {
    pub(super) source: Location,
    pub(super) path: PathBuf,
    pub(super) over: Over,
    pub(super) stat: Stat,
    pub(super) plan: Plan,
    pub(super) partial: Mutex<Option<LocalFile>>,
    pub(super) sink: Arc<Sink>,
    pub(super) journal: Journal,
    /// For every chunk: whether it is there, and its CRC where one was computed.
    pub(super) chunks: Mutex<Vec<Chunk>>,
    /// What the whole must have, once known.
    pub(super) expected: OnceLock<Option<Checksum>>,
    pub(super) follower: OnceLock<Mutex<Option<Follower>>>,
    /// The answer the object was opened with, for the chunk it is of.
    pub(super) first: Mutex<Option<Opened>>,
    pub(super) audits: AtomicU32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Chunk {
    pub(super) done: bool,
    pub(super) checksum: Option<Checksum>,
}

/// The chunk a worker is receiving.
struct Arriving {
    index: u32,
    /// Up to here it is in the file.
    at: u64,
    end: u64,
    hasher: Option<Hasher>,
}

impl Download {
    /// Starts a follower where the whole is to be hashed in order.
    pub(super) fn follow(&self) -> Result<()> {
        let Some(Some(expected)) = self.expected.get() else { return Ok(()) };
        if !expected.algorithm.is_combinable() && self.follower.get().is_none() {
            let file = self.sink.file().try_clone().map_err(Error::io(shown(&self.path)))?;
            let follower = Follower::start(file, expected.algorithm)?;
            follower.advance(self.front());
            let _ = self.follower.set(Mutex::new(Some(follower)));
        }
        Ok(())
    }

    /// Where the gapless front of the file ends.
    fn front(&self) -> u64 {
        let chunks = self.chunks();
        let missing = chunks.iter().position(|chunk| !chunk.done).unwrap_or(chunks.len());
        self.plan.range(u32::try_from(missing).unwrap_or(u32::MAX)).start
    }

    fn chunks(&self) -> MutexGuard<'_, Vec<Chunk>> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What to compute over a chunk as it passes; nothing where nobody would use it, for then its bytes need not
    /// enter this process.
    fn algorithm(&self) -> Option<Algorithm> {
        let expected = self.expected.get()?.as_ref()?;
        expected.algorithm.is_combinable().then_some(expected.algorithm)
    }

    fn ask_checksum(&self, worker: &mut Worker<'_>) -> Result<()> {
        let stat = worker.request(Wait::Head, None, |attempt, _| {
            let stat = attempt.run.store.stat(&self.source)?;
            attempt.head_arrived(0);
            Ok(stat)
        })?;
        if !self.stat.version.agrees_with(&stat.version) {
            return Err(self.changed(&stat.version).into());
        }
        let _ = self.expected.set(stat.checksum);
        self.follow()
    }

    fn changed(&self, found: &Version) -> StoreError {
        StoreError::Changed {
            location: self.source.to_string(),
            expected: Box::new(self.stat.version.clone()),
            found: Box::new(found.clone()),
        }
    }

    /// Fetches neighbouring chunks into their places by one request, each recorded as soon as it is complete; after an
    /// error only what is missing is asked for again.
    fn fetch(&self, worker: &mut Worker<'_>, pieces: Range<u32>) -> Result<()> {
        let mut chunk = self.arriving(pieces.start);
        let end = self.plan.range(pieces.end - 1).end;
        let held = |opened: &mut Opened| opened.0.range().start == chunk.at;
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take_if(held);
        let (mut body, cancel) = first.unzip();
        let wait = body.as_ref().map_or(Wait::Head, |body| Wait::body(body.range().len()));
        worker.request(wait, cancel, |attempt, scratch| {
            while chunk.index < pieces.end {
                let mut body = match body.take() {
                    Some(body) => body,
                    None => self.ask(attempt, ByteRange::new(chunk.at, end))?,
                };
                let before = chunk.at;
                while chunk.index < pieces.end && self.receive(attempt, &mut body, &mut chunk, scratch)? {
                    let next = self.arriving(chunk.index + 1);
                    let done = std::mem::replace(&mut chunk, next);
                    self.record(done.index, done.hasher.map(Hasher::finish))?;
                }
                if chunk.at == before {
                    let missing = end - before;
                    return Err(StoreError::Truncated { location: self.source.to_string(), missing }.into());
                }
            }
            Ok(())
        })
    }

    fn arriving(&self, index: u32) -> Arriving {
        let ByteRange { start, end } = self.plan.range(index);
        Arriving { index, at: start, end, hasher: self.algorithm().map(Hasher::new) }
    }

    /// Moves what a body has of a chunk into its place. Returns whether the chunk is complete.
    fn receive(
        &self,
        attempt: &mut Attempt<'_>,
        body: &mut Body,
        chunk: &mut Arriving,
        scratch: &mut [u8],
    ) -> Result<bool> {
        copy_body(attempt, body, &self.sink, &mut chunk.at, chunk.end, scratch, chunk.hasher.as_mut())
            .map_err(|error| at_file(&self.path, &self.source, error))?;
        Ok(chunk.at == chunk.end)
    }

    fn ask(&self, attempt: &Attempt<'_>, range: ByteRange) -> Result<Body> {
        let version = Some(self.stat.version.clone());
        let get = Get { range: Some(range), version, ..attempt.get() };
        let body = attempt.run.store.get(&self.source, &get)?;
        attempt.head_arrived(body.range().len());
        Ok(body)
    }

    fn record(&self, index: u32, checksum: Option<Checksum>) -> Result<()> {
        let record = Record { index, checksum };
        self.journal.append(&record).map_err(Error::io(shown(&self.journal.path())))?;
        self.chunks()[index as usize] = Chunk { done: true, checksum: record.checksum };
        if let Some(follower) = self.follower.get()
            && let Some(follower) = follower.lock().unwrap_or_else(PoisonError::into_inner).as_ref()
        {
            follower.advance(self.front());
        }
        Ok(())
    }

    /// Fetches a chunk again until two fetches of it agree: damage on the way differs from time to time.
    fn audit(&self, worker: &mut Worker<'_>, index: u32) -> Result<()> {
        let checksum = || self.chunks()[index as usize].checksum.clone();
        let mut seen = vec![checksum()];
        for _ in 0..AUDIT_FETCHES {
            self.fetch(worker, index..index + 1)?;
            worker.run.reread(self.plan.range(index).len());
            let again = checksum();
            if seen.contains(&again) {
                break;
            }
            seen.push(again);
        }
        Ok(())
    }

    /// The checksum of the whole file as it now is.
    fn found(&self, expected: &Checksum) -> Result<Checksum> {
        if !expected.algorithm.is_combinable() {
            let follower = self
                .follower
                .get()
                .and_then(|follower| follower.lock().unwrap_or_else(PoisonError::into_inner).take());
            return match follower {
                Some(follower) => follower.finish(self.plan.size()),
                None => verify::of_range(
                    self.sink.file(),
                    ByteRange::new(0, self.plan.size()),
                    expected.algorithm,
                ),
            };
        }
        let mut chunks: Vec<_> = self.chunks().iter().map(|chunk| chunk.checksum.clone()).collect();
        for (index, chunk) in (0..).zip(&mut chunks) {
            // Moved before the algorithm was known, or by a run that did not compute it.
            if chunk.as_ref().is_none_or(|checksum| checksum.algorithm != expected.algorithm) {
                *chunk =
                    Some(verify::of_range(self.sink.file(), self.plan.range(index), expected.algorithm)?);
                self.chunks()[index as usize].checksum = chunk.clone();
            }
        }
        let whole = verify::combine(&self.plan, expected.algorithm, &chunks);
        whole.ok_or_else(|| Error::invalid(&self.source, "its chunks' checksums do not combine"))
    }

    fn all_chunks(&self) -> VecDeque<u32> {
        (0..self.plan.count()).collect()
    }
}

impl Pieces for Download {
    fn move_pieces(&self, worker: &mut Worker<'_>, mut pieces: Range<u32>) -> Result<()> {
        if pieces.start == ASK_CHECKSUM {
            return self.ask_checksum(worker);
        }
        if self.algorithm().is_some() && self.audits.load(Ordering::Relaxed) > 0 {
            return pieces.try_for_each(|index| self.audit(worker, index));
        }
        self.fetch(worker, pieces)
    }

    fn most_together(&self, source: Distance) -> u32 {
        u32::try_from(together(source) / self.plan.chunk()).unwrap_or(u32::MAX)
    }

    fn finish(&self, worker: &mut Worker<'_>) -> Result<Finish> {
        let mut verified = Verified::Length;
        if let Some(Some(expected)) = self.expected.get() {
            let found = self.found(expected)?;
            if let Err(error) = expected.verify(&found, &self.source) {
                if self.audits.fetch_add(1, Ordering::Relaxed) < AUDITS {
                    return Ok(Finish::Again(self.all_chunks()));
                }
                return Err(error.into());
            }
            verified = Verified::Full;
        }
        let partial = self.partial.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(partial) = partial {
            let metadata = single::metadata(&self.stat);
            worker.run.commit(partial, self.over, &self.path, &metadata, worker.run.settings.durability)?;
        }
        self.journal.remove().map_err(Error::io(shown(&self.journal.path())))?;
        Ok(Finish::Done(Done { bytes: self.plan.size(), verified, version: Some(self.stat.version.clone()) }))
    }

    fn abandon(&self, _store: &firstbyte_store::Store, error: &Error) {
        // What arrived stays for the next run, unless it can never be used.
        if let Error::Store(StoreError::Changed { .. } | StoreError::Checksum { .. }) = error {
            let partial = self.partial.lock().unwrap_or_else(PoisonError::into_inner).take();
            let discarded = partial.map(LocalFile::discard);
            let removed = self.journal.remove();
            tracing::debug!(?discarded, ?removed, "left nothing behind");
        }
    }
}
