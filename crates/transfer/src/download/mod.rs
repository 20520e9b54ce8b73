//! Downloads any source to a local file.
//!
//! The first request opens the source: a ranged read of the first chunk returns the length, the
//! version and the first bytes in one round trip. If the chunk was the whole object, the file is
//! complete. Otherwise the other chunks are assigned to workers while the first chunk is still
//! arriving. A source without a version to pin moves as one stream, which cannot be resumed.

mod chunks;
mod resume;
mod single;

use std::path::Path;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, OnceLock};

use firstbyte_location::{ByteRange, Location, Strength, shown};
use firstbyte_store::{Error as StoreError, Get, LocalFile, PartialPermissions, Stat, StatedLength};
use rustix_futex_sync::Mutex;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::job::CopyJob;
use crate::journal::{Journal, JournalHeader, JournalSource};
use crate::pieces::{PendingPieces, Piece, StartOutcome};
use crate::plan::{CHUNK_SIZE, ChunkPlan};
use crate::request::{OpenedBody, Requester};

use chunks::{ChunkedDownload, DownloadedChunk};
use resume::Resumable;

/// Downloads a source as one stream to its end, because the length that the source states is false.
pub(crate) fn to_end(requester: &mut Requester<'_>, job: &CopyJob, path: &Path) -> Result<StartOutcome> {
    single::stream(requester, job, path, StatedLength::Ignored)
}

pub(crate) fn start(requester: &mut Requester<'_>, job: &CopyJob, path: &Path) -> Result<StartOutcome> {
    let source = &job.source;
    let found = resume::find(requester.context, job, path)?;
    let mut pinned = found.as_ref().map(|found| found.header.version()).or_else(|| job.listed_version());
    // Without a version id, the job asks for the newest version. In that case the request contains
    // only the `ETag`. If the newest version has another one, the server refuses the request.
    if let Some(version) = pinned.as_mut().filter(|it| job.version_id().is_none() && it.if_match().is_some())
    {
        version.version_id = None;
    }
    let range = match &found {
        Some(found) => Some(found.first_missing()),
        // A small object is requested as a whole, because stores send the checksum only then.
        None => job.listed_size().is_none_or(|size| size > CHUNK_SIZE).then(|| ByteRange::new(0, CHUNK_SIZE)),
    };
    let get = Get { range, version: pinned, checksum: true, ..Get::default() };
    let opened = match requester.open(source, &get) {
        Err(Error::Store(StoreError::Changed { .. })) if found.is_some() => {
            tracing::info!(%source, "changed since its download started: starting over");
            if let Some(found) = found {
                found.discard()?;
            }
            return start(requester, job, path);
        }
        // A server that does not serve this range may serve the whole object.
        Err(Error::Store(StoreError::RangeIgnored { .. } | StoreError::Protocol { .. }))
            if range.is_some() =>
        {
            return single::stream(requester, job, path, StatedLength::Checked);
        }
        Err(Error::Store(StoreError::Changed { found, .. })) if job.is_listed_with_another_tag(&found) => {
            tracing::debug!(%source, %found, "the listing has another ETag than the object");
            requester.open(source, &Get { version: Some(*found), ..get })?
        }
        other => other?,
    };
    let stat = opened.0.stat().clone();
    let size = match stat.size() {
        Some(size)
            if stat.version.strength() > Strength::None || size <= range.map_or(size, |range| range.end) =>
        {
            size
        }
        _ => return single::stream(requester, job, path, StatedLength::Checked),
    };
    if job.entry.is_none() {
        requester.context.observer.expected(0, size);
    }
    if found.is_none() && opened.0.range() == ByteRange::new(0, size) {
        return single::complete_opened(requester, job, path, opened);
    }
    split(requester, job, path, stat, found, opened)
}

/// Splits an object into chunks for all workers. This worker moves the chunk whose response is
/// open.
fn split(
    requester: &mut Requester<'_>,
    job: &CopyJob,
    path: &Path,
    stat: Stat,
    found: Option<Resumable>,
    opened: OpenedBody,
) -> Result<StartOutcome> {
    let source = &job.source;
    let size = stat.size().unwrap_or_default();
    let plan = ChunkPlan::download(size);
    let (chunks, partial, journal) = open_files(requester.context, job, path, &stat, &plan, found)?;
    let sink = Arc::clone(partial.sink());
    // Setting the length reserves no disk space. If the length exceeds a limit, this call fails
    // before the first byte is moved.
    if let Err(error) = sink.file().set_len(size)
        && !firstbyte_store::is_refused(&error)
    {
        // The file and the journal are removed. No later run could continue them, because the file
        // has the wrong length.
        let (discarded, removed) = (partial.discard(), journal.remove());
        tracing::debug!(?discarded, ?removed, "removed the partial file and its journal");
        return Err(Error::io(shown(path))(error));
    }
    let resumed: u64 =
        (0..).zip(&chunks).filter(|(_, chunk)| chunk.is_done).map(|(index, _)| plan.range(index).len()).sum();
    requester.context.count_resumed(resumed);
    let own = plan.chunk_indexes().find(|index| plan.range(*index).start == opened.0.range().start);
    let own = own.filter(|index| !chunks[*index as usize].is_done);
    let mut pending: PendingPieces = plan
        .chunk_indexes()
        .filter(|index| !chunks[*index as usize].is_done && Some(*index) != own)
        .collect();
    let expected = OnceLock::new();
    let known = requester.context.settings.checksum.clone().or_else(|| stat.checksum.clone());
    if known.is_some() || !matches!(source, Location::Object(_)) {
        // `expected` is a new value, so setting it cannot fail.
        let _ = expected.set(known);
    } else {
        pending.has_checksum = true;
    }
    let download = ChunkedDownload {
        source: source.clone(),
        path: path.to_owned(),
        over: job.over,
        stat,
        plan,
        is_resumable: partial.is_resumable(),
        partial: Mutex::new(Some(partial)),
        sink,
        journal,
        chunks: Mutex::new(chunks),
        expected,
        follower: OnceLock::new(),
        audits: AtomicU32::new(0),
    };
    download.follow()?;
    let first = own.map(|index| Piece::FirstBody(index, Box::new(opened)));
    Ok(StartOutcome::Split { object: Arc::new(download), pending, first })
}

/// Opens the files that a download writes: the ones that were found, or new ones. Returns the files
/// and the state of all chunks.
fn open_files(
    context: &Context<'_>,
    job: &CopyJob,
    path: &Path,
    stat: &Stat,
    plan: &ChunkPlan,
    found: Option<Resumable>,
) -> Result<(Vec<DownloadedChunk>, LocalFile, Journal)> {
    let mut chunks = vec![DownloadedChunk::default(); plan.count() as usize];
    match found {
        Some(found) => {
            for record in found.records {
                if let Some(chunk) = chunks.get_mut(record.index as usize) {
                    *chunk = DownloadedChunk { is_done: true, checksum: record.checksum };
                }
            }
            Ok((chunks, found.partial, found.journal))
        }
        None => {
            let partial = context.open_partial(job, path, PartialPermissions::of(&stat.metadata))?;
            let (source, service) = (job.source.to_string(), context.store.service_of(&job.source));
            let origin = JournalSource { source: &source, service: &service };
            let header = JournalHeader::new(origin, &stat.version, plan.size(), plan.chunk_size());
            let place = Journal::path_for(&partial.journaled_path());
            let journal = Journal::create(partial.directory(), place.clone(), &header)
                .map_err(Error::io(shown(&place)))?;
            Ok((chunks, partial, journal))
        }
    }
}
