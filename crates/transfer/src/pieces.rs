//! The interface between the scheduler and an object that moves in pieces. Movers implement it.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use firstbyte_store::Store;

use crate::error::{Error, Result};
use crate::report::CompletedObject;
use crate::request::{OpenedBody, Requester};

/// An object that moves in pieces. The workers that move them share it.
pub(crate) trait ObjectPieces: Send + Sync {
    /// Moves a piece until it is complete or fails.
    fn move_piece(&self, requester: &mut Requester<'_>, piece: Piece) -> Result<()>;
    /// The most neighbouring pieces that one request of at most `longest` bytes can move.
    fn most_together(&self, _longest: u64) -> u32 {
        1
    }
    /// Bytes of a piece, if pieces are parts of an upload: each is sent again whole when it is cut
    /// off.
    fn part_length(&self) -> Option<u64> {
        None
    }
    /// Called once every piece has been moved: verifies the object and puts it in place.
    fn finish(&self, requester: &mut Requester<'_>) -> Result<Finish>;
    /// Bytes that a later run resumes from.
    fn kept(&self) -> u64 {
        0
    }
    /// Called instead of `finish` when a piece failed for good or the run ended.
    fn abandon(&self, store: &Store, error: &Error);
}

/// A piece of an object that one worker moves.
pub(crate) enum Piece {
    /// The chunk whose answer is already open: the object was opened by requesting it.
    FirstBody(u32, Box<OpenedBody>),
    /// Neighbouring chunks of a download, or parts of an upload.
    Chunks(Range<u32>),
    /// The checksum of the whole, which ranged answers do not carry.
    Checksum,
}

impl Piece {
    /// Returns the parts of an upload, which has no pieces of other kinds.
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
    /// Whether the checksum of the whole is to be requested. It comes before the chunks.
    pub(crate) checksum: bool,
    /// Chunks or parts.
    pub(crate) chunks: VecDeque<u32>,
}

impl PendingPieces {
    /// The number of pieces.
    pub(crate) fn len(&self) -> usize {
        self.chunks.len() + usize::from(self.checksum)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Claims the next piece: the checksum, or up to `most` neighbouring chunks.
    pub(crate) fn claim(&mut self, most: u32) -> Option<Piece> {
        if std::mem::take(&mut self.checksum) {
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
        Self { checksum: false, chunks: chunks.into_iter().collect() }
    }
}

/// The state of an object when all its pieces have moved.
pub(crate) enum Finish {
    /// The object is complete.
    Done(CompletedObject),
    /// These pieces have to be moved (again).
    Again(PendingPieces),
}

/// The state of an object once it has been started.
pub(crate) enum Started {
    /// The object was small and is complete.
    Done(CompletedObject),
    /// The object moves in pieces. The worker that started it moves `first`.
    Split { object: Arc<dyn ObjectPieces>, pending: PendingPieces, first: Option<Piece> },
}
