//! The interface by which a version submits fetches to the threads of
//! [`WorkerPool`](crate::workers).

use std::ops::Range;
use std::sync::{Arc, Weak};

use firstbyte_location::ByteRange;
use firstbyte_pacing::{Proximity, ReadSizes};

use super::VersionState;
use crate::background::JobFile;
use crate::block::BLOCK;
use crate::cache::Exempt;
use crate::inflight::{FetchId, Priority};
use crate::pending_read::PendingRead;

/// Runs fetches in order of priority.
pub(crate) trait Fetcher: Send + Sync {
    /// Queues fetches; those of priority `Ahead` with their distance from the reader, in MiB.
    fn submit(&self, fetches: Vec<(Fetch, u64)>);

    /// Raises a queued fetch to demand priority.
    fn promote(&self, id: FetchId);

    /// Fails a callback's read at its deadline.
    fn watch_deadline(&self, pending: &Arc<PendingRead>);

    /// The measured distance of the server.
    fn server(&self) -> Proximity;

    /// The sizes of requests for readers, as measured.
    fn read_sizes(&self) -> ReadSizes;

    /// Bytes that a background fetch should request if `rest` are left for it and others.
    fn background_request(&self, rest: u64) -> u64;

    /// Whether another background fetch should be submitted now.
    fn has_room_in_background(&self) -> bool;

    /// No more work will be submitted: idle threads end.
    fn close(&self);
}

/// Blocks to fetch.
pub(crate) struct Fetch {
    pub(crate) version: Arc<VersionState>,
    pub(crate) id: FetchId,
    pub(crate) priority: Priority,
    pub(crate) blocks: Range<u64>,
    /// The bytes of the blocks that are requested, if not all. Blocks of which only a part arrives
    /// are not kept.
    pub(crate) only: Option<ByteRange>,
    /// Whether some blocks belonged to another fetch of this process, which has the right to fetch
    /// them.
    pub(crate) took_over: bool,
    /// The handle of the expected reader. The fetch is not wanted after it is dropped.
    pub(crate) handle: Option<Weak<()>>,
    /// The job that requested it.
    pub(crate) job: Option<Arc<JobFile>>,
}

impl Fetch {
    pub(crate) fn bytes(&self) -> u64 {
        (self.blocks.end - self.blocks.start) * BLOCK
    }

    /// Bytes of the buffer that it needs: its longest block.
    pub(crate) fn buffer(&self) -> u64 {
        self.version.size().min(BLOCK)
    }

    /// The bytes that it requests of some of its blocks.
    pub(crate) fn requested(&self, blocks: &Range<u64>) -> ByteRange {
        let all = self.version.blocks.bytes(blocks);
        self.only.map_or(all, |only| all.intersect(only))
    }

    /// The versions that are exempt from eviction if room has to be made for the blocks.
    pub(crate) fn exempt(&self) -> Exempt {
        self.job.as_ref().map_or(Exempt::Pinned, |job| job.exempt())
    }

    /// Whether a reader or a job still wants the bytes.
    pub(crate) fn is_wanted(&self) -> bool {
        let has_handle = self.handle.as_ref().is_none_or(|handle| handle.strong_count() > 0);
        let has_job = self.job.as_ref().is_none_or(|job| !job.is_cancelled());
        (has_handle && has_job) || self.version.latest_deadline(self.id).is_some()
    }
}

/// A queue of a test: keeps what is submitted, and has the rest of a [`Fetcher`] from here.
#[cfg(test)]
pub(super) trait TestQueue: Send + Sync {
    fn submit(&self, fetches: Vec<(Fetch, u64)>);

    fn promote(&self, _: FetchId) {}
}

#[cfg(test)]
impl<Q: TestQueue> Fetcher for Arc<Q> {
    fn submit(&self, fetches: Vec<(Fetch, u64)>) {
        self.as_ref().submit(fetches);
    }

    fn promote(&self, id: FetchId) {
        self.as_ref().promote(id);
    }

    fn watch_deadline(&self, _: &Arc<PendingRead>) {}

    fn server(&self) -> Proximity {
        Proximity::Unknown
    }

    fn read_sizes(&self) -> ReadSizes {
        ReadSizes::of(None, None)
    }

    fn background_request(&self, rest: u64) -> u64 {
        rest
    }

    fn has_room_in_background(&self) -> bool {
        false
    }

    fn close(&self) {}
}
