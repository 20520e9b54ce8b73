//! Reads on threads that wait: one or many ranges, in parallel, directly into the callers' memory.
//!
//! A read is split into groups of parts. Each group needs one request. A limited number of groups
//! is in flight; when the first of them has arrived, the next is requested. Only the first group
//! has priority over other readers, so that one long read does not delay short ones.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use firstbyte_location::ByteRange;
use firstbyte_pacing::{Proximity, START, START_NEAR};

use super::SharedVersion;
use crate::block::{BLOCK, blocks_of};
use crate::block_table::{AheadRange, Groups, ObjectPart, PendingRead, Receiver, Rounding};
use crate::error::{Error, Result};

/// The groups of a read that are in flight, in order.
#[derive(Default)]
struct Window {
    pending: VecDeque<Arc<PendingRead>>,
    /// Fetches that have not started are wanted as long as this value lives.
    alive: Arc<()>,
}

impl Drop for Window {
    /// Abandons the pending reads, so that no fetch writes to the caller's memory any more.
    fn drop(&mut self) {
        self.pending.iter().for_each(|pending| pending.abandon());
    }
}

impl SharedVersion {
    /// Fills `parts`, waiting for absent blocks. Calls `requested` after the first blocks are
    /// requested, so that requests of lower priority can follow. Calls `go_on` every `tick` while
    /// it waits, and fails with the store's `Cancelled` if `go_on` returns false. Whenever a group
    /// of parts is filled, the deadline starts again.
    pub(crate) fn read(
        &self,
        parts: Vec<ObjectPart>,
        rounding: Rounding,
        requested: &mut dyn FnMut(),
        tick: Duration,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let mut groups = Groups::new(parts);
        let mut window = Window::default();
        let mut first = None;
        loop {
            let deadline = Instant::now() + self.context.settings.deadline;
            while window.pending.len() < self.most_groups() {
                let Some(parts) = groups.next(self.context.queue.read_sizes()) else { break };
                let missing = self.read_present(parts);
                let Some(start) = missing.first().map(|part| part.range.start) else { continue };
                let reader = *first.get_or_insert(start);
                let interest = Arc::downgrade(&window.alive);
                let interest = (!window.pending.is_empty()).then_some(&interest);
                self.table.extend_reach(missing.iter().map(|part| part.range.end).max().unwrap_or(start));
                let rounding = if window.pending.is_empty() { rounding } else { Rounding::Blocks };
                // From here on, fetches write to the caller's memory while the read is open. If a
                // later step fails, dropping the window abandons the read.
                let pending = self.table.new_pending_read(deadline, Receiver::Thread(missing));
                window.pending.push_back(Arc::clone(&pending));
                self.request(&pending, reader, interest, rounding);
            }
            requested();
            let Some(front) = window.pending.front() else { return Ok(()) };
            self.context.queue.submit(self.table.promote_fetches_of(front));
            match front.wait(tick, go_on) {
                Some(result) => result?,
                None if Instant::now() < front.deadline() => {
                    return Err(firstbyte_store::Error::Cancelled.into());
                }
                None => return Err(Error::deadline(&self.table.location, self.context.settings.deadline)),
            }
            window.pending.pop_front();
            let deadline = Instant::now() + self.context.settings.deadline;
            window.pending.iter().for_each(|pending| pending.extend(deadline));
        }
    }

    /// Fills the parts whose bytes are all present. Returns the parts that were not filled.
    fn read_present(&self, mut parts: Vec<ObjectPart>) -> Vec<ObjectPart> {
        parts.retain_mut(|part| {
            let (range, memory) = (part.range, part.all());
            self.table.blocks.read_at(memory, range.start) < memory.len()
        });
        parts
    }

    /// Returns the maximum number of groups that one read has in flight. A few groups keep a near
    /// server busy. The number is small as long as the distance of the server is unknown, because a
    /// near server would otherwise get a queue of short requests.
    fn most_groups(&self) -> usize {
        match self.context.queue.server() {
            Proximity::Near => 2 * START_NEAR,
            Proximity::Unknown => START,
            Proximity::Far => (2 * self.context.queue.concurrency()).max(4 * START),
        }
    }

    /// Requests the blocks from the start of `read` to the end of `expected`, which the reader is
    /// about to read. Makes no request if `read` already contains the blocks of `expected`.
    pub(crate) fn request_with(&self, read: ByteRange, expected: ByteRange, handle: &Weak<()>) {
        if blocks_of(expected).end > blocks_of(read).end {
            let segment = self.context.queue.read_sizes().request / BLOCK * BLOCK;
            let ahead = AheadRange { range: read.start..expected.end, segment, reader: read.start };
            self.fetch_ahead(&ahead, handle);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use firstbyte_location::{Location, Version, to_usize};
    use firstbyte_store::{Store, StoreOptions};

    use super::*;
    use crate::settings::HydrationSettings;
    use crate::version::HydrationContext;

    #[test]
    fn memory_that_is_lent_to_a_read_that_panics_is_not_written_to() {
        let context = Arc::new(HydrationContext::new(
            Store::new(StoreOptions::default()).unwrap(),
            HydrationSettings::default(),
            None,
        ));
        context.queue.prevent_new_threads();
        let version = Version { size: Some(8 * BLOCK), etag: Some("\"1\"".into()), ..Version::default() };
        let version = context.open_version(&Location::parse("s3://bucket/key".as_ref()).unwrap(), version);
        let mut memory = [0; 10];
        // SAFETY: `memory` outlives the part, and is used again only after the read has ended.
        let part = unsafe { ObjectPart::new(0, &mut memory) };
        let read = catch_unwind(AssertUnwindSafe(|| {
            let mut requested = || panic!("the panic of the test");
            version.read(vec![part], Rounding::Blocks, &mut requested, Duration::MAX, &mut || true)
        }));
        assert!(read.is_err());
        assert!(version.table.is_in_flight(0));
        drop(version.table.arrived(0, 0, &vec![7; to_usize(BLOCK)]));
        assert_eq!(memory, [0; 10]);
    }
}
