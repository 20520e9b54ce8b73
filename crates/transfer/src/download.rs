//! Anything to a local file.
//!
//! The first request is the open: a ranged read of the first chunk tells length and version and brings bytes, all in
//! one round trip. If that was everything, the file is complete; else the other chunks are handed out while the first
//! is still arriving. A source without a version to pin moves as one stream and does not resume.

mod chunks;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, OnceLock};

use firstbyte_location::{ByteRange, Location, Strength, Version, shown};
use firstbyte_store::{Body, Cancel, Error as StoreError, Get, Hasher, Sink, Stat};

use crate::journal::{Header, Journal};
use crate::patience::Wait;
use crate::pieces::Begun;
use crate::plan::{OPENING, Plan};
use crate::resume::Found;
use crate::worker::{Attempt, Worker};
use crate::{Error, Job, Result, resume, single};

use chunks::{ASK_CHECKSUM, Chunk, Download};

/// An open answer and the handle that ends it.
pub(crate) type Opened = (Body, Cancel);

/// Begins a download.
pub(crate) fn begin(worker: &mut Worker<'_>, job: &Job, path: &Path) -> Result<Begun> {
    let source = &job.source;
    let known = job.entry.as_ref().and_then(|entry| entry.size);
    let found = resume::find(worker.run, job, path)?;
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
    let get = Get { range, version: pinned, checksum: true, ..Get::default() };
    let opened = match open(worker, source, &get) {
        Err(Error::Store(StoreError::Changed { .. })) if found.is_some() => {
            tracing::info!(%source, "changed since it was begun: starting over");
            if let Some(found) = found {
                found.discard()?;
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
        return split(worker, job, path, stat, Some(found), opened);
    }
    if opened.0.range() == ByteRange::new(0, size) {
        return single::whole(worker, job, path, opened);
    }
    split(worker, job, path, stat, None, opened)
}

/// Makes the first request, and learns how long a head takes.
pub(crate) fn open(worker: &mut Worker<'_>, source: &Location, get: &Get) -> Result<Opened> {
    worker.request(Wait::Head, None, |attempt, _| {
        let get =
            Get { range: get.range, version: get.version.clone(), checksum: get.checksum, ..attempt.get() };
        let body = attempt.run.store.get(source, &get)?;
        attempt.head_arrived(body.range().len());
        Ok((body, get.cancel))
    })
}

/// Hands an object out in chunks.
fn split(
    worker: &mut Worker<'_>,
    job: &Job,
    path: &Path,
    stat: Stat,
    found: Option<Found>,
    opened: Opened,
) -> Result<Begun> {
    let source = &job.source;
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
            let partial = resume::open_partial(worker.run, job, path)?;
            let header = Header::new(&source.to_string(), &stat.version, size, plan.chunk());
            let place = Journal::path_for(path);
            let journal = Journal::create(partial.directory(), place.clone(), &header)
                .map_err(Error::io(shown(&place)))?;
            (partial, journal)
        }
    };
    let sink = Arc::clone(partial.sink());
    // Room is not reserved, but the length is set: a limit on it shows before the first byte moves.
    sink.file().set_len(size).map_err(Error::io(shown(path)))?;
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
        over: job.over,
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
            StoreError::Io { location: shown(path).to_string(), source: cause }.into()
        }
        other => other,
    }
}
