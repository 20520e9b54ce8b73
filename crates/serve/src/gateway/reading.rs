//! Reads a range of a cached object piece by piece while it is sent.
//!
//! Cached blocks are sent from the cached file. For an absent block the reading waits for its
//! fetch, which all clients share. The following blocks are fetched ahead, but never beyond the
//! range. Waiting readings, and bytes that are in memory only, take shares of a budget, which
//! bounds the memory for any number of clients.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use firstbyte_hydrate::{BLOCK, File, Handle};
use firstbyte_location::{ByteRange, to_usize};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::metrics::GatewayCounters;
use crate::http::response::{BodyPiece, BodyPieces};

/// Bytes that are looked up in the cache at once.
const LOOKUP_BYTES: u64 = 1 << 20;

/// Bytes requested ahead of a client's position: more than are in flight on a link of 1 Gbit/s with
/// a round-trip time of 100 ms. They are stored in the cache and take no memory.
const READ_AHEAD_BYTES: u64 = 32 << 20;

/// The memory budgets of one gateway for readings, in blocks.
pub(super) struct Budgets {
    /// The budget for readings that wait for a block, which may arrive as bytes in memory.
    waiting: Arc<Semaphore>,
    /// The budget for small objects, which are copied out of the cache.
    small: Arc<Semaphore>,
}

impl Budgets {
    /// Splits `memory` bytes equally between the two budgets.
    pub(super) fn new(memory: u64) -> Self {
        let blocks = to_usize(memory / 2 / BLOCK).max(1);
        Self { waiting: Arc::new(Semaphore::new(blocks)), small: Arc::new(Semaphore::new(blocks)) }
    }

    /// Waits until the budget has memory for one block, and reserves it.
    pub(super) async fn share(&self) -> io::Result<OwnedSemaphorePermit> {
        Arc::clone(&self.waiting).acquire_owned().await.map_err(io::Error::other)
    }
}

/// The form of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockFrames {
    /// The plain bytes of the range.
    None,
    /// Whole blocks, each followed by its CRC-32C, for other caches.
    Blocks,
}

/// Length of a checksum in bytes.
const CHECKSUM_BYTES: u64 = 4;

/// A range that is being sent.
pub(super) struct RangeReading {
    file: File,
    range: ByteRange,
    /// The offset up to which bytes were sent.
    at: u64,
    /// The offset up to which bytes were requested ahead of `at`.
    requested_end: u64,
    /// Requests the blocks ahead. Their fetches may be dropped when this handle is dropped.
    interest: Handle,
    first: Option<BodyPiece>,
    frames: BlockFrames,
    /// The checksum to send next.
    checksum: Option<u32>,
    shared: ReadingContext,
}

/// State that all readings of a gateway share, and a callback of one reading.
pub(super) struct ReadingContext {
    pub(super) budgets: Arc<Budgets>,
    pub(super) counters: Arc<GatewayCounters>,
    /// Called if the object has changed at the origin.
    pub(super) changed: Box<dyn Fn() + Send + Sync>,
}

impl RangeReading {
    /// Begins to read `range`, which is not empty, and waits for its first piece.
    ///
    /// # Errors
    /// The first piece cannot be read.
    pub(super) async fn begin(
        file: File,
        range: ByteRange,
        frames: BlockFrames,
        shared: ReadingContext,
    ) -> firstbyte_hydrate::Result<Self> {
        let interest = file.handle();
        let (at, requested_end) = (range.start, range.start);
        let (first, checksum) = (None, None);
        let mut reading = Self { file, range, at, requested_end, interest, first, frames, checksum, shared };
        reading.first = Some(reading.piece().await?);
        Ok(reading)
    }

    /// Returns the piece at `at`, which is before the end.
    async fn piece(&mut self) -> firstbyte_hydrate::Result<BodyPiece> {
        if let Some(piece) = self.cached_piece() {
            self.shared.counters.cached_bytes.fetch_add(self.length_of(&piece), Relaxed);
            return Ok(piece);
        }
        if let Some(piece) = self.packed_piece().await {
            self.shared.counters.cached_bytes.fetch_add(self.length_of(&piece), Relaxed);
            return Ok(piece);
        }
        self.request_ahead();
        let piece = self.wait().await.inspect_err(|error| {
            if let firstbyte_hydrate::Error::Changed { .. } = error {
                (self.shared.changed)();
            }
        })?;
        self.shared.counters.awaited_bytes.fetch_add(self.length_of(&piece), Relaxed);
        Ok(piece)
    }

    /// Returns the bytes at `at` that are in the cached file. With [`BlockFrames::Blocks`] they are
    /// the block. Otherwise they are the whole rest of a complete object, the next
    /// [`LOOKUP_BYTES`], or the rest of the block. `None` if they are absent.
    fn cached_piece(&self) -> Option<BodyPiece> {
        if self.frames == BlockFrames::Blocks {
            return pin(&self.file, ByteRange::new(self.at, block_end(self.at).min(self.range.end)));
        }
        if let Some(backing) = self.file.backing() {
            return Some(BodyPiece::File(Arc::new(backing), ByteRange::new(self.at, self.range.end)));
        }
        let to = |end: u64| ByteRange::new(self.at, end.min(self.range.end));
        [to(self.at + LOOKUP_BYTES), to(block_end(self.at))]
            .into_iter()
            .find_map(|range| pin(&self.file, range))
    }

    /// Returns the rest of the range if the cache has the whole object and the object is at most
    /// one block long. The cache packs such objects into shared files, so the bytes are copied.
    async fn packed_piece(&self) -> Option<BodyPiece> {
        if self.file.size() > BLOCK || !self.file.is_complete() {
            return None;
        }
        let share = Arc::clone(&self.shared.budgets.small).acquire_owned().await.ok()?;
        let range = to_usize(self.at)..to_usize(self.range.end);
        let bytes = self.file.with_packed(|content| content.get(range).map(Bytes::copy_from_slice))??;
        Some(BodyPiece::Bytes(bytes, Some(share)))
    }

    /// Requests the following bytes, so that one request brings many blocks.
    fn request_ahead(&mut self) {
        let end = self.range.end.min(self.at + READ_AHEAD_BYTES);
        let is_due =
            self.requested_end < self.range.end && self.requested_end < self.at + READ_AHEAD_BYTES / 2;
        if is_due {
            self.interest.prefetch(&[ByteRange::new(self.requested_end.max(self.at), end)]);
            self.requested_end = end;
        }
    }

    /// Waits for the block at `at`. Returns its bytes from `at` on.
    async fn wait(&self) -> firstbyte_hydrate::Result<BodyPiece> {
        let range = ByteRange::new(self.at, block_end(self.at).min(self.range.end));
        let closed = || firstbyte_hydrate::Error::from(firstbyte_store::Error::Cancelled);
        let share = self.shared.budgets.share().await.map_err(|_| closed())?;
        let waiting = self.shared.counters.begin_wait();
        let (sender, receiver) = oneshot::channel();
        let file = self.file.clone();
        let arrived = move |result: firstbyte_hydrate::Result<&[u8]>| {
            // The block is in the cached file by now, unless the cache had no room. If the client
            // has left, the piece is dropped.
            let piece = result.map(|bytes| {
                pin(&file, range)
                    .unwrap_or_else(|| BodyPiece::Bytes(Bytes::copy_from_slice(bytes), Some(share)))
            });
            let _ = sender.send(piece);
        };
        // Each read uses a new handle: a handle that sees all reads would read ahead beyond the
        // range.
        self.file.handle().read_then(range.start, to_usize(range.len()), Box::new(arrived));
        let piece = receiver.await.map_err(|_| closed())?;
        drop(waiting);
        piece
    }

    /// Returns the CRC-32C of the block at `at`, from the cache or computed from bytes that just
    /// arrived.
    fn checksum_of(&self, piece: &BodyPiece) -> io::Result<u32> {
        match piece {
            BodyPiece::File(..) => self
                .file
                .block_checksum(self.at / BLOCK)
                .ok_or_else(|| io::Error::other("a block left the cache while it was sent")),
            BodyPiece::Bytes(bytes, _) => Ok(crc32c(bytes)),
        }
    }

    fn length_of(&self, piece: &BodyPiece) -> u64 {
        match piece {
            BodyPiece::File(_, range) => range.len(),
            BodyPiece::Bytes(bytes, _) => bytes.len() as u64,
        }
    }
}

#[async_trait::async_trait]
impl BodyPieces for RangeReading {
    fn length(&self) -> u64 {
        match self.frames {
            BlockFrames::None => self.range.len(),
            BlockFrames::Blocks => self.range.len() + CHECKSUM_BYTES * self.range.len().div_ceil(BLOCK),
        }
    }

    async fn next(&mut self) -> io::Result<Option<BodyPiece>> {
        if let Some(checksum) = self.checksum.take() {
            return Ok(Some(BodyPiece::Bytes(Bytes::copy_from_slice(&checksum.to_be_bytes()), None)));
        }
        if self.at >= self.range.end {
            return Ok(None);
        }
        let piece = match self.first.take() {
            Some(piece) => piece,
            None => self.piece().await.map_err(io::Error::other)?,
        };
        if self.frames == BlockFrames::Blocks {
            self.checksum = Some(self.checksum_of(&piece)?);
        }
        self.at += self.length_of(&piece);
        // The next blocks arrive while this piece is sent.
        if self.at < self.range.end
            && !matches!(&piece, BodyPiece::File(_, range) if range.len() > LOOKUP_BYTES)
        {
            self.request_ahead();
        }
        Ok(Some(piece))
    }
}

fn crc32c(bytes: &[u8]) -> u32 {
    // A CRC-32C has 32 bits, so the cast loses none.
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// Returns the cached file if it contains all of `range`.
fn pin(file: &File, range: ByteRange) -> Option<BodyPiece> {
    let (blocks, range) = file.handle().pin_blocks(range.start, to_usize(range.len()))?;
    Some(BodyPiece::File(Arc::new(blocks), range))
}

/// Returns the end of the block that contains the byte at `offset`.
fn block_end(offset: u64) -> u64 {
    (offset / BLOCK + 1) * BLOCK
}
