//! Defines the interface between the scheduler and an object that moves in pieces. Downloads,
//! uploads and relays implement it.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use firstbyte_store::Store;

use crate::error::{Error, Result};
use crate::report::CompletedObject;
use crate::request::{OpenedBody, Requester};

/// An object that moves in pieces. All workers that move its pieces share it.
pub(crate) trait ObjectPieces: Send + Sync {
    /// Moves a piece until the piece is complete or has failed.
    fn move_piece(&self, requester: &mut Requester<'_>, piece: Piece) -> Result<()>;
    /// Returns how many neighbouring pieces one request of at most `longest` bytes can move.
    fn most_together(&self, _longest: u64) -> u32 {
        1
    }
    /// Returns the length of a piece in bytes, if pieces are parts of an upload. If the request for
    /// a part is cut off, the whole part has to be sent again.
    fn part_length(&self) -> Option<u64> {
        None
    }
    /// Verifies the object and puts it in its place. Called after every piece has been moved.
    fn finish(&self, requester: &mut Requester<'_>) -> Result<FinishOutcome>;
    /// Returns the number of bytes from which a later run can resume.
    fn resumable_bytes(&self) -> u64 {
        0
    }
    /// Ends the transfer of an object that cannot be completed, because a piece has failed for good
    /// or the run has ended. Called instead of `finish`.
    fn abandon(&self, store: &Store, error: &Error);
}

/// A piece of an object that one worker moves.
pub(crate) enum Piece {
    /// The chunk of the request that opened the object. Its response is already open.
    FirstBody(u32, Box<OpenedBody>),
    /// Neighbouring chunks of a download, or parts of an upload.
    Chunks(Range<u32>),
    /// A request for the checksum of the whole object, which responses to ranges do not contain.
    Checksum,
}

impl Piece {
    /// Returns the parts of an upload, which has no other kinds of pieces.
    pub(crate) fn parts(self) -> Range<u32> {
        match self {
            Self::Chunks(parts) => parts,
            Self::FirstBody(..) | Self::Checksum => 0..0,
        }
    }
}

/// The pieces of an object that no worker has claimed.
#[derive(Default)]
pub(crate) struct PendingPieces {
    /// True if the checksum of the whole object has to be requested. That piece is claimed first.
    pub(crate) has_checksum: bool,
    /// Indexes of chunks or parts.
    pub(crate) chunks: VecDeque<u32>,
}

impl PendingPieces {
    /// Returns the number of pieces.
    pub(crate) fn len(&self) -> usize {
        self.chunks.len() + usize::from(self.has_checksum)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Claims the next piece: the checksum, or at most `most` neighbouring chunks.
    pub(crate) fn claim(&mut self, most: u32) -> Option<Piece> {
        if std::mem::take(&mut self.has_checksum) {
            return Some(Piece::Checksum);
        }
        let start = self.chunks.pop_front()?;
        let mut end = start + 1;
        while end - start < most && self.chunks.front() == Some(&end) {
            self.chunks.pop_front();
            end += 1;
        }
        Some(Piece::Chunks(start..end))
    }
}

impl FromIterator<u32> for PendingPieces {
    fn from_iter<I: IntoIterator<Item = u32>>(chunks: I) -> Self {
        Self { has_checksum: false, chunks: chunks.into_iter().collect() }
    }
}

/// The result of finishing an object whose pieces have all been moved.
pub(crate) enum FinishOutcome {
    /// The object is complete.
    Done(CompletedObject),
    /// Pieces that have to be moved, or moved again.
    Again(PendingPieces),
}

/// The result of starting an object.
pub(crate) enum StartOutcome {
    /// The object was small, and is already complete.
    Done(CompletedObject),
    /// The object moves in pieces. The worker that has started it moves `first`.
    Split { object: Arc<dyn ObjectPieces>, pending: PendingPieces, first: Option<Piece> },
}
