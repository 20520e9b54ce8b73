//! The requests that the table hands to the queue.

use std::ops::Range;
use std::sync::{Arc, Weak};

use firstbyte_location::ByteRange;

use super::BlockTable;
use super::in_flight::{FetchId, Priority};
use super::pending_read::PendingRead;
use crate::block::BLOCK;
use crate::cache::Exempt;
use crate::job_state::JobFile;

/// Requests to the queue that follow from a change of the table.
#[derive(Default)]
pub(crate) struct Requests {
    /// New fetches.
    pub(crate) fetches: Vec<Fetch>,
    /// Queued fetches that a reader waits for now.
    pub(crate) promoted: Vec<FetchId>,
    /// Reads of callbacks, which fail at their deadlines.
    pub(crate) watched: Vec<Arc<PendingRead>>,
}

impl Requests {
    /// Adds the requests of another change.
    pub(super) fn add(&mut self, other: Self) {
        self.fetches.extend(other.fetches);
        self.promoted.extend(other.promoted);
        self.watched.extend(other.watched);
    }
}

/// Bytes to fetch ahead of a reader, in requests of `segment` bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AheadRange {
    pub(crate) range: Range<u64>,
    pub(crate) segment: u64,
    /// The reader's position.
    pub(crate) reader: u64,
}

/// Blocks to fetch.
pub(crate) struct Fetch {
    pub(crate) table: Arc<BlockTable>,
    pub(crate) id: FetchId,
    pub(crate) priority: Priority,
    pub(crate) blocks: Range<u64>,
    /// The bytes of the blocks that are requested, if not all. A block that arrives only in part is
    /// not kept.
    pub(crate) only: Option<ByteRange>,
    /// Whether some blocks belonged to another fetch of this process, which holds the right to
    /// fetch them.
    pub(crate) took_over: bool,
    /// Distance from the reader, MiB.
    pub(crate) distance: u64,
    /// The handle of the expected reader. The fetch is not wanted after it is dropped.
    pub(crate) handle: Option<Weak<()>>,
    /// The job that requested it.
    pub(crate) job: Option<Arc<JobFile>>,
}

impl Fetch {
    pub(crate) fn new(
        table: Arc<BlockTable>,
        id: FetchId,
        priority: Priority,
        blocks: Range<u64>,
        took_over: bool,
    ) -> Self {
        Self { table, id, priority, blocks, took_over, only: None, distance: 0, handle: None, job: None }
    }

    /// Records the reader that the fetch is for.
    pub(super) fn place(&mut self, reader: u64, handle: Option<&Weak<()>>) {
        self.distance = (self.blocks.start * BLOCK).saturating_sub(reader) >> 20;
        self.handle = handle.cloned();
    }

    pub(crate) fn bytes(&self) -> u64 {
        (self.blocks.end - self.blocks.start) * BLOCK
    }

    /// Bytes of the buffer that the fetch needs: those of its longest block.
    pub(crate) fn buffer(&self) -> u64 {
        self.table.size().min(BLOCK)
    }

    /// The bytes that the fetch requests of `blocks`.
    pub(crate) fn requested(&self, blocks: &Range<u64>) -> ByteRange {
        let all = self.table.blocks.bytes(blocks);
        self.only.map_or(all, |only| all.intersect(only))
    }

    /// The versions that are exempt from eviction when room is made for the blocks.
    pub(crate) fn exempt(&self) -> Exempt {
        self.job.as_ref().map_or(Exempt::Pinned, |job| job.exempt())
    }

    /// Whether a reader or a job still wants the bytes.
    pub(crate) fn is_wanted(&self) -> bool {
        let has_handle = self.handle.as_ref().is_none_or(|handle| handle.strong_count() > 0);
        let has_job = self.job.as_ref().is_none_or(|job| !job.is_cancelled());
        (has_handle && has_job) || self.table.latest_deadline(self.id).is_some()
    }
}
