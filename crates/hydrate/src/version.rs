//! Represents one open version: its table of blocks, and the context whose queue fetches them.
//!
//! Every read is a request for blocks ([`SharedVersion::request`]). There are two ways to wait for
//! them: a blocked thread (`blocking`), and a callback. The table decides what to fetch, and the
//! queue runs the fetches.

mod blocking;
mod context;

use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::Instant;

use firstbyte_location::ByteRange;

pub(crate) use context::HydrationContext;
pub use context::ReadObserver;

use crate::block_table::{
    AheadRange, BlockReader, BlockTable, Delivery, PendingRead, ReadCallback, Receiver, Requests, Rounding,
};
use crate::job_state::JobFile;

/// An open version. Clones share its table.
#[derive(Clone)]
pub(crate) struct SharedVersion {
    pub(crate) context: Arc<HydrationContext>,
    pub(crate) table: Arc<BlockTable>,
}

impl SharedVersion {
    /// Returns the width of the widest read-ahead window of one reader, bytes.
    pub(crate) fn max_window(&self) -> u64 {
        self.table.blocks.max_window()
    }

    /// Calls `done` with the bytes of `range`, either at once or when they have arrived. Blocks
    /// that are not cached are copied as they arrive, because they may be dropped before the last
    /// one arrives.
    pub(crate) fn read_then(&self, range: ByteRange, done: ReadCallback) {
        let deadline = Instant::now() + self.context.settings.deadline;
        let delivery = if self.table.blocks.is_caching() { Delivery::FromCache } else { Delivery::Copied };
        let pending = self.table.new_pending_read(deadline, Receiver::Callback(range, delivery, done));
        self.request(&pending, range.start, None, Rounding::Blocks);
    }

    /// Requests the absent blocks of a read, for a reader at offset `at`. If there is an
    /// `interest`, other readers have priority, and fetches that have not started are no longer
    /// wanted when the owner of the interest is dropped.
    fn request(&self, pending: &Arc<PendingRead>, at: u64, interest: Option<&Weak<()>>, rounding: Rounding) {
        let sizes = self.context.queue.read_sizes();
        self.context
            .queue
            .submit(self.table.request(pending, &BlockReader { at, interest, rounding, sizes }));
    }

    /// Fetches absent blocks ahead of a reader, as long as the reader's handle lives.
    pub(crate) fn fetch_ahead(&self, ahead: &AheadRange, handle: &Weak<()>) {
        self.context.queue.submit(self.table.request_ahead(ahead, handle));
    }

    /// Starts a background fetch of at most `most` blocks: the first run at or after `from` that is
    /// neither cached nor being fetched. Returns `None` if no such block is before `end`.
    pub(crate) fn fetch_in_background(
        &self,
        from: u64,
        end: u64,
        most: u64,
        job: &Arc<JobFile>,
    ) -> Option<Range<u64>> {
        let fetch = self.table.request_in_background(from, end, most, job)?;
        let blocks = fetch.blocks.clone();
        self.context.queue.submit(Requests { fetches: vec![fetch], ..Requests::default() });
        Some(blocks)
    }
}
