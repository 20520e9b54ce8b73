//! Downloads an object in chunks: fetches several neighbouring chunks with one request, records
//! each chunk in the journal, and verifies the whole object. If the checksum of the whole object is
//! wrong, all chunks are fetched again. If the chunks have checksums that can be combined, each
//! chunk is then fetched until two fetches of it have the same checksum.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use firstbyte_location::{ByteRange, Location, Version, shown};
use firstbyte_pacing::Wait;
use firstbyte_store::{
    Algorithm, Body, Checksum, Error as StoreError, Get, Hasher, LocalFile, ReplaceKind, Sink, Stat, Store,
};
use rustix_futex_sync::Mutex;

use crate::error::{Error, Result};
use crate::journal::{ChunkRecord, Journal};
use crate::pieces::{FinishOutcome, ObjectPieces, Piece};
use crate::plan::ChunkPlan;
use crate::report::{CompletedObject, Verified};
use crate::request::{OpenedBody, Requester, TransferAttempt};
use crate::verify::{self, Follower, MAX_FETCHES};

/// Number of times that all chunks are fetched again. If the checksum is still wrong then, the
/// source itself is considered damaged.
const MAX_AUDITS: u32 = 2;

/// A download in chunks.
pub(super) struct ChunkedDownload {
    pub(super) source: Location,
    pub(super) path: PathBuf,
    pub(super) over: ReplaceKind,
    pub(super) stat: Stat,
    pub(super) plan: ChunkPlan,
    /// True if a later run can resume the download.
    pub(super) is_resumable: bool,
    pub(super) partial: Mutex<Option<LocalFile>>,
    pub(super) sink: Arc<Sink>,
    pub(super) journal: Journal,
    pub(super) chunks: Mutex<Vec<DownloadedChunk>>,
    /// The checksum of the whole object, or `None` if the source has none. Not set until the source
    /// was asked for it.
    pub(super) expected: OnceLock<Option<Checksum>>,
    pub(super) follower: OnceLock<Mutex<Option<Follower>>>,
    pub(super) audits: AtomicU32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct DownloadedChunk {
    pub(super) is_done: bool,
    /// The CRC of the chunk's bytes, if it was computed.
    pub(super) checksum: Option<Checksum>,
}

/// A chunk that a worker is receiving.
struct ArrivingChunk {
    index: u32,
    /// The offset of the next byte, in the object.
    offset: u64,
    end: u64,
    hasher: Option<Hasher>,
}

impl ChunkedDownload {
    /// Starts a thread that hashes the file in order (a `Follower`), if the expected checksum
    /// cannot be combined from the checksums of chunks.
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

    /// Returns the offset up to which the file has no missing chunks.
    fn front(&self) -> u64 {
        let chunks = self.chunks.lock();
        let missing = self.plan.chunk_indexes().find(|index| !chunks[*index as usize].is_done);
        self.plan.range(missing.unwrap_or(self.plan.count())).start
    }

    /// Returns the algorithm with which chunks are hashed as they arrive. Returns `None` if the
    /// checksum would not be used; the bytes then need not pass through this process.
    fn algorithm(&self) -> Option<Algorithm> {
        let expected = self.expected.get()?.as_ref()?;
        expected.algorithm.is_combinable().then_some(expected.algorithm)
    }

    fn request_checksum(&self, requester: &mut Requester<'_>) -> Result<()> {
        let stat = requester.stat(&self.source, self.stat.version.version_id.as_deref())?;
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
            trace: None,
        }
    }

    /// Fetches neighbouring chunks with one request, and records each chunk as soon as it is
    /// complete. After an error, only the missing bytes are requested again. `opened` is the
    /// response for the first chunk, if it is already open.
    fn fetch(
        &self,
        requester: &mut Requester<'_>,
        pieces: Range<u32>,
        opened: Option<OpenedBody>,
    ) -> Result<()> {
        let mut chunk = self.arriving(pieces.start);
        let end = self.plan.range(pieces.end - 1).end;
        let (mut body, cancel) = opened.unzip();
        let wait = body.as_ref().map_or(Wait::Head, |body| Wait::body(body.range().len()));
        requester.request(wait, cancel, |attempt, buffer| {
            while chunk.index < pieces.end {
                let is_requested = body.is_none();
                let mut body = match body.take() {
                    Some(body) => body,
                    None => self.request_range(attempt, ByteRange::new(chunk.offset, end))?,
                };
                let (before, head) = (chunk.offset, Instant::now());
                while chunk.index < pieces.end && self.receive(attempt, &mut body, &mut chunk, buffer)? {
                    let next = self.arriving(chunk.index + 1);
                    let done = std::mem::replace(&mut chunk, next);
                    self.record(done.index, done.hasher.map(Hasher::finish))?;
                }
                // The rate is measured only with a new request. The bytes of a response that was
                // already open may have waited in the socket.
                if is_requested && attempt.context.throttles.reading.is_unlimited() {
                    attempt.context.tracker.learn_rate(chunk.offset - before, head.elapsed());
                }
                if chunk.offset == before {
                    let missing = end - before;
                    return Err(StoreError::Truncated {
                        location: self.source.to_string(),
                        missing,
                        trace: None,
                    }
                    .into());
                }
            }
            Ok(())
        })
    }

    fn arriving(&self, index: u32) -> ArrivingChunk {
        let ByteRange { start, end } = self.plan.range(index);
        ArrivingChunk { index, offset: start, end, hasher: self.algorithm().map(Hasher::new) }
    }

    /// Writes a body's bytes to the chunk's range in the file. Returns whether the chunk is
    /// complete.
    fn receive(
        &self,
        attempt: &mut TransferAttempt<'_, '_>,
        body: &mut Body,
        chunk: &mut ArrivingChunk,
        buffer: &mut [u8],
    ) -> Result<bool> {
        attempt
            .copy_body(body, &self.sink, &mut chunk.offset, chunk.end, buffer, chunk.hasher.as_mut())
            .map_err(|error| error.at_file(&self.path, &self.source))?;
        Ok(chunk.offset == chunk.end)
    }

    fn request_range(&self, attempt: &mut TransferAttempt<'_, '_>, range: ByteRange) -> Result<Body> {
        let version = Some(self.stat.version.clone());
        let get = Get { range: Some(range), version, ..attempt.get() };
        attempt.open(&self.source, &get)
    }

    fn record(&self, index: u32, checksum: Option<Checksum>) -> Result<()> {
        let record = ChunkRecord { index, checksum };
        self.journal.append(&record).map_err(Error::io(shown(&self.journal.path())))?;
        self.chunks.lock()[index as usize] = DownloadedChunk { is_done: true, checksum: record.checksum };
        if let Some(follower) = self.follower.get()
            && let Some(follower) = follower.lock().as_ref()
        {
            follower.advance(self.front());
        }
        Ok(())
    }

    /// Fetches a chunk again until two fetches agree, but at most [`MAX_FETCHES`] times. Each fetch
    /// is damaged in another way, if at all. So bytes that arrive twice are the bytes of the
    /// source.
    fn audit(&self, requester: &mut Requester<'_>, index: u32) -> Result<()> {
        let checksum = || self.chunks.lock()[index as usize].checksum.clone();
        let mut seen = vec![checksum()];
        for _ in 0..MAX_FETCHES {
            self.fetch(requester, index..index + 1, None)?;
            requester.context.count_reread(self.plan.range(index).len());
            let again = checksum();
            if seen.contains(&again) {
                break;
            }
            seen.push(again);
        }
        Ok(())
    }

    /// Returns the checksum of the whole file as it is now.
    fn whole_checksum(&self, expected: &Checksum) -> Result<Checksum> {
        if !expected.algorithm.is_combinable() {
            let follower = self.follower.get().and_then(|follower| follower.lock().take());
            return match follower {
                Some(follower) => follower.finish(self.plan.size()),
                None => verify::of_range(
                    self.sink.file(),
                    ByteRange::new(0, self.plan.size()),
                    expected.algorithm,
                ),
            };
        }
        let mut chunks: Vec<_> = self.chunks.lock().iter().map(|chunk| chunk.checksum.clone()).collect();
        for (index, chunk) in (0..).zip(&mut chunks) {
            // The chunk has no checksum of this kind: it was fetched before the algorithm was
            // known, or by a run that did not compute its checksum.
            if chunk.as_ref().is_none_or(|checksum| checksum.algorithm != expected.algorithm) {
                *chunk =
                    Some(verify::of_range(self.sink.file(), self.plan.range(index), expected.algorithm)?);
                self.chunks.lock()[index as usize].checksum = chunk.clone();
            }
        }
        let whole = verify::combine(&self.plan, expected.algorithm, &chunks);
        whole.ok_or_else(|| Error::invalid(&self.source, "its chunks' checksums do not combine"))
    }
}

impl ObjectPieces for ChunkedDownload {
    fn move_piece(&self, requester: &mut Requester<'_>, piece: Piece) -> Result<()> {
        match piece {
            Piece::Checksum => self.request_checksum(requester),
            Piece::FirstBody(index, opened) => self.fetch(requester, index..index + 1, Some(*opened)),
            Piece::Chunks(mut chunks)
                if self.algorithm().is_some() && self.audits.load(Ordering::Relaxed) > 0 =>
            {
                chunks.try_for_each(|index| self.audit(requester, index))
            }
            Piece::Chunks(chunks) => self.fetch(requester, chunks, None),
        }
    }

    fn most_together(&self, longest: u64) -> u32 {
        u32::try_from(longest / self.plan.chunk_size()).unwrap_or(u32::MAX).max(1)
    }

    fn finish(&self, requester: &mut Requester<'_>) -> Result<FinishOutcome> {
        let mut verified = Verified::Length;
        if let Some(Some(expected)) = self.expected.get() {
            let found = self.whole_checksum(expected)?;
            if let Err(error) = expected.verify(&found, &self.source) {
                if self.audits.fetch_add(1, Ordering::Relaxed) < MAX_AUDITS {
                    return Ok(FinishOutcome::Again(self.plan.chunk_indexes().collect()));
                }
                return Err(error.into());
            }
            verified = Verified::Full;
        }
        let partial = self.partial.lock().take();
        if let Some(partial) = partial {
            let context = requester.context;
            context.commit(partial, self.over, &self.path, &self.stat, context.settings.durability)?;
        }
        self.journal.remove().map_err(Error::io(shown(&self.journal.path())))?;
        let version = Some(self.stat.version.clone());
        Ok(FinishOutcome::Done(CompletedObject { bytes: self.plan.size(), verified, version, source: None }))
    }

    fn resumable_bytes(&self) -> u64 {
        if !self.is_resumable {
            return 0;
        }
        let chunks = self.chunks.lock();
        self.plan
            .chunk_indexes()
            .filter(|index| chunks[*index as usize].is_done)
            .map(|index| self.plan.range(index).len())
            .sum()
    }

    fn abandon(&self, _store: &Store, error: &Error) {
        // The bytes that have arrived stay on disk for the next run, unless they can never be used.
        let is_useless = matches!(
            error,
            Error::Store(
                StoreError::Changed { .. } | StoreError::Checksum { .. } | StoreError::FalseLength { .. }
            )
        ) || matches!(error, Error::Store(error) if error.is_fixed_name());
        if is_useless || !self.is_resumable {
            let partial = self.partial.lock().take();
            let discarded = partial.map(LocalFile::discard);
            let removed = self.journal.remove();
            tracing::debug!(?discarded, ?removed, "removed the partial file and its journal");
        }
    }
}
