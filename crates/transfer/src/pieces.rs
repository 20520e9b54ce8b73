//! The interface of an object to the scheduler: it has pieces for workers, and an end. Movers
//! implement it.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use firstbyte_store::Store;

use crate::report::Done;
use crate::request::Requester;
use crate::{Error, Result};

/// An object that moves in pieces. The workers that move them share it.
pub(crate) trait Pieces: Send + Sync {
    /// Moves these pieces, to the end or an error.
    fn move_pieces(&self, requester: &mut Requester<'_>, pieces: Range<u32>) -> Result<()>;
    /// The number of neighbours that one request can move.
    fn most_together(&self) -> u32 {
        1
    }
    /// Whether its pieces are parts of an upload. Each is sent again whole when it is cut off.
    fn is_upload(&self) -> bool {
        false
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

/// The state of an object when all its pieces have moved.
pub(crate) enum Finish {
    /// The object is complete.
    Done(Done),
    /// These pieces have to be moved (again).
    Again(VecDeque<u32>),
}

/// The state of an object once it has been started.
pub(crate) enum Started {
    /// The object was small and is complete.
    Done(Done),
    /// It moves in pieces. The answer for piece `own` is already open.
    Split { object: Arc<dyn Pieces>, pending: VecDeque<u32>, own: Option<u32> },
}
