//! What an object is to the run that moves it: pieces to hand out, and an end.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use firstbyte_location::Version;
use firstbyte_store::Store;

use crate::flight::Distance;
use crate::worker::Worker;
use crate::{Error, Result, Verified};

/// An object that moves in pieces. Shared by the workers that move them.
pub(crate) trait Pieces: Send + Sync {
    /// Moves these pieces, to the end or an error.
    fn move_pieces(&self, worker: &mut Worker<'_>, pieces: Range<u32>) -> Result<()>;
    /// How many neighbours one worker may take together, because one request moves them.
    fn most_together(&self, _source: Distance) -> u32 {
        1
    }
    /// Whether its pieces are parts of an upload, each of which is sent again whole when it is cut off.
    fn is_upload(&self) -> bool {
        false
    }
    /// Called once every piece has been moved: verifies and puts the object in place.
    fn finish(&self, worker: &mut Worker<'_>) -> Result<Finish>;
    /// Called instead when a piece failed for good or the run ended.
    fn abandon(&self, store: &Store, error: &Error);
}

/// What is left of an object when all its pieces have moved.
pub(crate) enum Finish {
    /// Nothing.
    Done(Done),
    /// These pieces have to be moved (again).
    Again(VecDeque<u32>),
}

/// A complete object.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) bytes: u64,
    pub(crate) verified: Verified,
    pub(crate) version: Option<Version>,
}

/// What beginning an object came to.
pub(crate) enum Begun {
    /// It was small and is complete.
    Done(Done),
    /// It moves in pieces. `own` is the piece whose answer the beginner holds already.
    Split { object: Arc<dyn Pieces>, pending: VecDeque<u32>, own: Option<u32> },
}
