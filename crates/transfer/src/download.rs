//! Anything to a local file.
//!
//! The first request is the open: a ranged read of the first chunk tells length and version and brings bytes, all in
//! one round trip. If that was everything, the file is complete; else the other chunks are handed out while the first
//! is still arriving. A source without a version to pin moves as one stream and does not resume.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use firstbyte_location::{ByteRange, Location, Strength, Version};
use firstbyte_store::{
    Algorithm, Body, Cancel, Checksum, Error as StoreError, Get, Hasher, LocalFile, Sink, Stat,
};

use crate::journal::{Header, Journal, Record};
use crate::patience::Wait;
use crate::plan::{OPENING, Plan};
use crate::resume::Found;
use crate::run::{Begun, Done, Finish, Pieces};
use crate::verify::{self, Follower};
use crate::worker::{Attempt, Worker};
use crate::{Error, Job, Result, Verified, resume, single};

/// The piece that is no chunk: asking the source for the checksum its ranged answers do not carry.
const ASK_CHECKSUM: u32 = u32::MAX;
/// Times a chunk is fetched until two fetches agree, once the whole is known to be damaged.
const AUDIT_FETCHES: u32 = 6;
/// Times the whole is audited before the source itself counts as damaged.
const AUDITS: u32 = 2;

/// An open answer and the handle that ends it.
pub(crate) type Opened = (Body, Cancel);

/// A download in chunks.
struct Download {
    source: Location,
    path: PathBuf,
    stat: Stat,
    plan: Plan,
    partial: Mutex<Option<LocalFile>>,
    sink: Arc<Sink>,
    journal: Journal,
    /// For every chunk: whether it is there, and its CRC where one was computed.
    chunks: Mutex<Vec<Chunk>>,
    /// What the whole must have, once known.
    expected: OnceLock<Option<Checksum>>,
    follower: OnceLock<Mutex<Option<Follower>>>,
    /// The answer the object was opened with, for the chunk it is of.
    first: Mutex<Option<Opened>>,
    audits: AtomicU32,
}

#[derive(Clone, Debug, Default)]
struct Chunk {
    done: bool,
    checksum: Option<Checksum>,
}

/// Begins a download.
pub(crate) fn begin(worker: &mut Worker<'_>, job: &Job, path: &Path) -> Result<Begun> {
    let source = &job.source;
    let known = job.entry.as_ref().and_then(|entry| entry.size);
    let found = resume::find(source, path)?;
    let pinned = match (&found, &job.entry) {
        (Some(found), _) => Some(found.header.version()),
        (None, Some(entry)) if entry.etag.is_some() || entry.size.is_some() => {
            Some(Version { size: entry.size, etag: entry.etag.clone(), ..Version::default() })
        }
        _ => None,
    };
    let range = match &found {
        Some(found) => Some(found.first_missing()),
        // A known small object is asked for whole: only then do stores send the checksum along.
        None => known.is_none_or(|size| size > OPENING).then(|| ByteRange::new(0, OPENING)),
    };
    let get = Get { range, version: pinned, cancel: Cancel::new(), checksum: true };
    let opened = match open(worker, source, &get) {
        Err(Error::Store(StoreError::Changed { .. })) if found.is_some() => {
            tracing::info!(%source, "changed since it was begun: starting over");
            if let Some(found) = found {
                found.discard(path)?;
            }
            return begin(worker, job, path);
        }
        Err(Error::Store(StoreError::RangeIgnored { .. })) => return single::stream(worker, job, path),
        other => other?,
    };
    let stat = opened.0.stat().clone();
    let size = match stat.size() {
        Some(size)
            if stat.version.strength() > Strength::None || size <= range.map_or(size, |range| range.end) =>
        {
            size
        }
        _ => return single::stream(worker, job, path),
    };
    if job.entry.is_none() {
        worker.run.observer.expected(0, size);
    }
    if let Some(found) = found {
        return split(worker, source, path, stat, Some(found), opened);
    }
    if opened.0.range() == ByteRange::new(0, size) {
        return single::whole(worker, job, path, opened);
    }
    split(worker, source, path, stat, None, opened)
}

/// Makes the first request, and learns how long a head takes.
pub(crate) fn open(worker: &mut Worker<'_>, source: &Location, get: &Get) -> Result<Opened> {
    worker.request(Wait::Head, None, |attempt, _| {
        let get = Get { cancel: attempt.cancel.clone(), ..get.clone() };
        let body = attempt.run.store.get(source, &get)?;
        attempt.head_arrived(body.range().len());
        Ok((body, get.cancel))
    })
}

/// Hands an object out in chunks.
fn split(
    worker: &mut Worker<'_>,
    source: &Location,
    path: &Path,
    stat: Stat,
    found: Option<Found>,
    opened: Opened,
) -> Result<Begun> {
    let size = stat.size().unwrap_or_default();
    let plan = Plan::download(size);
    let mut chunks = vec![Chunk::default(); plan.count() as usize];
    let (partial, journal) = match found {
        Some(found) => {
            for record in found.records {
                if let Some(chunk) = chunks.get_mut(record.index as usize) {
                    *chunk = Chunk { done: true, checksum: record.checksum };
                }
            }
            (found.partial, found.journal)
        }
        None => {
            let partial = resume::open_partial(path)?;
            let header = Header::new(&source.to_string(), &stat.version, size, plan.chunk());
            let place = Journal::path_for(path);
            let journal = Journal::create(place.clone(), &header).map_err(Error::io(place.display()))?;
            (partial, journal)
        }
    };
    let sink = Arc::clone(partial.sink());
    // Room is not reserved, but the length is set: a limit on it shows before the first byte moves.
    sink.file().set_len(size).map_err(Error::io(path.display()))?;
    let there: u64 =
        (0..).zip(&chunks).filter(|(_, chunk)| chunk.done).map(|(index, _)| plan.range(index).len()).sum();
    worker.run.resumed(there);
    let own = (0..plan.count()).find(|index| plan.range(*index).start == opened.0.range().start);
    let own = own.filter(|index| !chunks[*index as usize].done);
    let mut pending: VecDeque<u32> =
        (0..plan.count()).filter(|index| !chunks[*index as usize].done && Some(*index) != own).collect();
    let expected = OnceLock::new();
    let known = worker.run.settings.checksum.clone().or_else(|| stat.checksum.clone());
    if known.is_some() || !matches!(source, Location::S3(_)) {
        // Cannot be set already: it has just been made.
        let _ = expected.set(known);
    } else {
        pending.push_front(ASK_CHECKSUM);
    }
    let download = Download {
        source: source.clone(),
        path: path.to_owned(),
        stat,
        plan,
        partial: Mutex::new(Some(partial)),
        sink,
        journal,
        chunks: Mutex::new(chunks),
        expected,
        follower: OnceLock::new(),
        first: Mutex::new(own.map(|_| opened)),
        audits: AtomicU32::new(0),
    };
    download.follow()?;
    Ok(Begun::Split { object: Arc::new(download), pending, own })
}

impl Download {
    /// Starts a follower where the whole is to be hashed in order.
    fn follow(&self) -> Result<()> {
        let Some(Some(expected)) = self.expected.get() else { return Ok(()) };
        if !expected.algorithm.is_combinable() && self.follower.get().is_none() {
            let file = self.sink.file().try_clone().map_err(Error::io(self.path.display()))?;
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

    /// Fetches one chunk into its place; only what is missing is asked for again after an error.
    fn fetch(
        &self,
        worker: &mut Worker<'_>,
        index: u32,
        algorithm: Option<Algorithm>,
    ) -> Result<Option<Checksum>> {
        let range = self.plan.range(index);
        let held = |opened: &mut Opened| opened.0.range().start == range.start;
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take_if(held);
        let (mut body, cancel) = first.unzip();
        let wait = body.as_ref().map_or(Wait::Head, |body| Wait::body(body.range().len()));
        let mut hasher = algorithm.map(Hasher::new);
        let mut at = range.start;
        worker.request(wait, cancel, |attempt, scratch| {
            while at < range.end {
                let mut body = match body.take() {
                    Some(body) => body,
                    None => self.ask(attempt, ByteRange::new(at, range.end))?,
                };
                let before = at;
                copy_body(attempt, &mut body, &self.sink, &mut at, range.end, scratch, hasher.as_mut())
                    .map_err(|error| at_file(&self.path, &self.source, error))?;
                if at == before {
                    let missing = range.end - at;
                    return Err(StoreError::Truncated { location: self.source.to_string(), missing }.into());
                }
            }
            Ok(())
        })?;
        Ok(hasher.map(Hasher::finish))
    }

    fn ask(&self, attempt: &Attempt<'_>, range: ByteRange) -> Result<Body> {
        let version = Some(self.stat.version.clone());
        let get = Get { range: Some(range), version, cancel: attempt.cancel.clone(), checksum: false };
        let body = attempt.run.store.get(&self.source, &get)?;
        attempt.head_arrived(body.range().len());
        Ok(body)
    }

    fn record(&self, index: u32, checksum: Option<Checksum>) -> Result<()> {
        let record = Record { index, checksum };
        self.journal.append(&record).map_err(Error::io(self.journal.path().display()))?;
        self.chunks()[index as usize] = Chunk { done: true, checksum: record.checksum };
        if let Some(follower) = self.follower.get()
            && let Some(follower) = follower.lock().unwrap_or_else(PoisonError::into_inner).as_ref()
        {
            follower.advance(self.front());
        }
        Ok(())
    }

    /// Fetches a chunk again until two fetches of it agree: damage on the way differs from time to time.
    fn audit(&self, worker: &mut Worker<'_>, index: u32, algorithm: Algorithm) -> Result<()> {
        let mut seen: Vec<Option<Checksum>> = vec![self.chunks()[index as usize].checksum.clone()];
        for _ in 0..AUDIT_FETCHES {
            let again = self.fetch(worker, index, Some(algorithm))?;
            worker.run.reread(self.plan.range(index).len());
            if seen.contains(&again) {
                return self.record(index, again);
            }
            seen.push(again);
        }
        self.record(index, seen.pop().flatten())
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

/// Moves a body into `sink`, from `at` up to `end`; `at` says how far it came, whatever happens.
pub(crate) fn copy_body(
    attempt: &mut Attempt<'_>,
    body: &mut Body,
    sink: &Sink,
    at: &mut u64,
    end: u64,
    scratch: &mut [u8],
    hasher: Option<&mut Hasher>,
) -> Result<()> {
    let start = *at;
    let mut progress = |bytes| {
        *at += bytes;
        attempt.moved(bytes);
    };
    match hasher {
        Some(hasher) => {
            let mut observe = |bytes: &[u8]| hasher.update(bytes);
            body.write_to(sink, start, end - start, scratch, Some(&mut observe), &mut progress)?;
        }
        None => drop(body.write_to(sink, start, end - start, scratch, None, &mut progress)?),
    }
    Ok(())
}

/// Names the destination in an error of the local file system that was met on the way to it.
pub(crate) fn at_file(path: &Path, source: &Location, error: Error) -> Error {
    match error {
        Error::Store(StoreError::Io { source: cause, .. }) if !matches!(source, Location::Local(_)) => {
            StoreError::Io { location: path.display().to_string(), source: cause }.into()
        }
        other => other,
    }
}

impl Pieces for Download {
    fn move_piece(&self, worker: &mut Worker<'_>, index: u32) -> Result<()> {
        if index == ASK_CHECKSUM {
            return self.ask_checksum(worker);
        }
        let algorithm = self.algorithm();
        match algorithm {
            Some(algorithm) if self.audits.load(Ordering::Relaxed) > 0 => {
                self.audit(worker, index, algorithm)
            }
            _ => {
                let checksum = self.fetch(worker, index, algorithm)?;
                self.record(index, checksum)
            }
        }
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
            let settings = worker.run.settings;
            partial.commit(&single::metadata(&self.stat), settings.durability)?;
        }
        self.journal.remove().map_err(Error::io(self.journal.path().display()))?;
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
