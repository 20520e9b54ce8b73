//! Defines the requests that the table returns for the fetch queue.

use std::ops::Range;
use std::sync::{Arc, Weak};

use firstbyte_location::ByteRange;

use super::BlockTable;
use super::in_flight::{FetchId, Priority};
use super::pending_read::PendingRead;
use crate::block::BLOCK;
use crate::cache::Exempt;
use crate::job_state::JobFile;

/// Requests to the queue that result from a change of the table.
#[derive(Default)]
pub(crate) struct Requests {
    /// New fetches.
    pub(crate) fetches: Vec<Fetch>,
    /// Queued fetches for which a reader now waits.
    pub(crate) promoted: Vec<FetchId>,
    /// Reads with a callback. The queue must fail them at their deadlines.
    pub(crate) watched: Vec<Arc<PendingRead>>,
}

impl Requests {
    /// Adds the requests that result from another change.
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
    /// Offset of the reader in the object.
    pub(crate) reader: u64,
}

/// A run of blocks to fetch.
pub(crate) struct Fetch {
    pub(crate) table: Arc<BlockTable>,
    pub(crate) id: FetchId,
    pub(crate) priority: Priority,
    pub(crate) blocks: Range<u64>,
    /// The bytes to request, if fewer than the whole blocks. A block that arrives only in part is
    /// not stored.
    pub(crate) only_bytes: Option<ByteRange>,
    /// True if some of the blocks belonged to another fetch of this process that has the right to
    /// fetch them.
    pub(crate) took_over: bool,
    /// Distance from the reader, in MiB.
    pub(crate) distance: u64,
    /// The handle of the expected reader. When the handle is dropped, the fetch is no longer
    /// wanted.
    pub(crate) handle: Option<Weak<()>>,
    /// The job that requested the fetch.
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
        Self {
            table,
            id,
            priority,
            blocks,
            took_over,
            only_bytes: None,
            distance: 0,
            handle: None,
            job: None,
        }
    }

    /// Records the position of the reader that the fetch is for, and the reader's handle.
    pub(super) fn place(&mut self, reader: u64, handle: Option<&Weak<()>>) {
        self.distance = (self.blocks.start * BLOCK).saturating_sub(reader) >> 20;
        self.handle = handle.cloned();
    }

    pub(crate) fn bytes(&self) -> u64 {
        (self.blocks.end - self.blocks.start) * BLOCK
    }

    /// Returns the size of the buffer that the fetch needs, bytes: that of its longest block.
    pub(crate) fn buffer(&self) -> u64 {
        self.table.size().min(BLOCK)
    }

    /// Returns the bytes of `blocks` that the fetch requests.
    pub(crate) fn requested(&self, blocks: &Range<u64>) -> ByteRange {
        let all = self.table.blocks.bytes(blocks);
        self.only_bytes.map_or(all, |only| all.intersect(only))
    }

    /// Returns the versions that are not evicted to make room for the blocks.
    pub(crate) fn exempt(&self) -> Exempt {
        self.job.as_ref().map_or(Exempt::Pinned, |job| job.exempt())
    }

    /// Returns whether a reader or a job still wants the bytes.
    pub(crate) fn is_wanted(&self) -> bool {
        let has_handle = self.handle.as_ref().is_none_or(|handle| handle.strong_count() > 0);
        let has_job = self.job.as_ref().is_none_or(|job| !job.is_cancelled());
        (has_handle && has_job) || self.table.latest_deadline(self.id).is_some()
    }
}
