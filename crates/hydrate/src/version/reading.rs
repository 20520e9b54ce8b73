//! Reads by threads that wait: one or many ranges, in parallel, straight into the callers' memory.
//!
//! A read is cut into groups of parts, one request each. A bounded number of groups is under way;
//! as the first of them ends, the next follows. Only the first has priority over other readers, so
//! that one long read does not delay short ones.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use firstbyte_location::ByteRange;
use firstbyte_pacing::{Controller, Proximity, START, START_NEAR};

use super::{Rounding, VersionState};
use crate::block::{BLOCK, blocks_of};
use crate::inflight::Want;
use crate::part::{Groups, Part};
use crate::pending_read::{PendingRead, Receiver};
use crate::read_ahead::Ahead;
use crate::{Error, Result};

/// The groups of a read that wait for blocks, in order.
#[derive(Default)]
struct Window {
    pending: VecDeque<Arc<PendingRead>>,
    /// Fetches that have not begun are wanted while this lives.
    alive: Arc<()>,
}

impl Drop for Window {
    /// The caller gets its memory back.
    fn drop(&mut self) {
        self.pending.iter().for_each(|pending| pending.abandon());
    }
}

impl VersionState {
    /// Fills `parts`, waiting for absent blocks. Calls `requested` once the first blocks are
    /// requested, so that requests of lower priority can follow. Calls `go_on` every `tick` of the
    /// wait, and fails as cancelled if it returns false. The deadline counts from the latest
    /// progress.
    pub(crate) fn read(
        self: &Arc<Self>,
        parts: Vec<Part>,
        rounding: Rounding,
        requested: &mut dyn FnMut(),
        tick: Duration,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let mut groups = Groups::new(parts);
        let mut window = Window::default();
        let mut first = None;
        loop {
            let deadline = Instant::now() + self.engine.settings.deadline;
            while window.pending.len() < self.most_groups() {
                let Some(parts) = groups.next(self.engine.fetcher.read_sizes()) else { break };
                let missing = self.read_present(parts);
                let Some(start) = missing.first().map(|part| part.range.start) else { continue };
                let reader = *first.get_or_insert(start);
                let interest = Arc::downgrade(&window.alive);
                let interest = (!window.pending.is_empty()).then_some(&interest);
                self.extend_reach(missing.iter().map(|part| part.range.end).max().unwrap_or(start));
                let rounding = if window.pending.is_empty() { rounding } else { Rounding::Blocks };
                // The window abandons it if anything fails from here on: fetches write to the
                // caller's memory only while the read is open.
                let pending = self.pending(deadline, Receiver::Thread(missing));
                window.pending.push_back(Arc::clone(&pending));
                self.demand(&pending, reader, interest, rounding);
            }
            requested();
            let Some(front) = window.pending.front() else { return Ok(()) };
            self.hasten(front);
            match front.wait(tick, go_on) {
                Some(result) => result?,
                None if Instant::now() < front.deadline() => {
                    return Err(firstbyte_store::Error::Cancelled.into());
                }
                None => return Err(Error::deadline(&self.location, self.engine.settings.deadline)),
            }
            window.pending.pop_front();
            let deadline = Instant::now() + self.engine.settings.deadline;
            window.pending.iter().for_each(|pending| pending.extend(deadline));
        }
    }

    /// Fills the parts whose bytes are present. Returns the others.
    fn read_present(&self, mut parts: Vec<Part>) -> Vec<Part> {
        parts.retain_mut(|part| {
            let (range, memory) = (part.range, part.all());
            self.blocks.read_at(memory, range.start) < memory.len()
        });
        parts
    }

    /// Groups under way at once. A server nearby is kept busy by few; before its distance is known,
    /// not many short requests are queued for it.
    fn most_groups(&self) -> usize {
        match self.engine.fetcher.server() {
            Proximity::Near => 2 * START_NEAR,
            Proximity::Unknown => START,
            Proximity::Far => Controller::MOST_OF_ONE,
        }
    }

    /// Starts the queued fetches that a read waits for.
    fn hasten(&self, pending: &PendingRead) {
        let now = Instant::now();
        let promoted: Vec<_> = {
            let mut table = self.lock();
            let mut ids = Vec::new();
            for block in pending.blocks() {
                if let Want::Promote(id) = table.in_flight.want(block, None, now) {
                    table.in_flight.promote(id);
                    ids.push(id);
                }
            }
            ids
        };
        promoted.into_iter().for_each(|id| self.engine.fetcher.promote(id));
    }

    /// Requests blocks that a reader is about to ask for, by the same request as those of `read`
    /// before them.
    pub(crate) fn request_with(self: &Arc<Self>, read: ByteRange, expected: ByteRange, handle: &Weak<()>) {
        if blocks_of(expected).end > blocks_of(read).end {
            let segment = self.engine.fetcher.read_sizes().request / BLOCK * BLOCK;
            let ahead = Ahead { range: read.start..expected.end, segment, reader: read.start };
            self.fetch_ahead(&ahead, handle);
        }
    }

    /// Whether a long read takes a block that has arrived. Kept in memory, such blocks would push
    /// out what short reads come back to.
    pub(super) fn is_taken(&self, block: u64) -> bool {
        let bytes = self.blocks.bytes(&(block..block + 1));
        let table = self.lock();
        table.waiting.get(&block).into_iter().flatten().any(|pending| pending.takes(bytes))
    }
}
