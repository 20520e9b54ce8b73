//! What a node is told by its fetches: blocks that have come, and why others do not.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::{Node, Table};
use crate::Error;
use crate::cache::Spare;
use crate::here::{Keeping, Stored};
use crate::inflight::{Class, Id, InFlight};
use crate::pending::Pending;

impl Node {
    /// Takes what has come by another way from a fetch: another process has cached it. `buffer` is of a block. Whether there
    /// was any.
    pub(crate) fn absorb(self: &Arc<Self>, id: Id, buffer: &mut [u8]) -> bool {
        let mut kept = self.here.kept_in_order();
        let own: Vec<u64> = self.lock().flights.own(id).filter(|block| kept(*block)).collect();
        let any = !own.is_empty();
        for block in own {
            let bytes = self.here.bytes(&(block..block + 1));
            let buffer = &mut buffer[..usize::try_from(bytes.len()).unwrap_or(0)];
            if self.here.read_at(buffer, bytes.start) == buffer.len() {
                self.hand_out(block, buffer, |flights| flights.here(id, block));
            }
        }
        any
    }

    /// Verifies the whole once its last block has come, against the store's checksum where it has one.
    pub(crate) fn settle(&self) {
        if !self.here.is_to_be_verified() {
            return;
        }
        self.learn_checksum();
        self.here.verify(&self.location);
    }

    /// Asks the store for the checksum over the whole, unless the one request for a small object brought it along, or the one
    /// that opened it. Blocks that come later are summed up as they come, those before are read again.
    pub(crate) fn learn_checksum(&self) {
        if !self.here.knows_checksum()
            && let Ok(stat) = self.shared.store.stat(&self.location)
            && stat.version.agrees_with(&self.version)
        {
            self.here.expect(stat.checksum);
        }
    }

    /// A thread has taken up a fetch.
    pub(crate) fn started(&self, id: Id) {
        self.lock().flights.start(id, Instant::now());
    }

    /// A fetch has the right to fetch its blocks now.
    pub(crate) fn has_turn(&self, id: Id) {
        self.lock().flights.has_turn(id);
    }

    /// What a fetch has still to bring.
    pub(crate) fn rest(&self, id: Id) -> Range<u64> {
        self.lock().flights.rest(id)
    }

    /// Whether a block is still a fetch's to bring.
    pub(crate) fn is_own(&self, id: Id, block: u64) -> bool {
        self.lock().flights.is_owned_by(block, id)
    }

    /// Whether a fetch has anything left to bring.
    pub(crate) fn is_needed(&self, id: Id) -> bool {
        self.lock().flights.is_needed(id)
    }

    /// Takes a block that a fetch has brought; where room has to be made for it, what `spare` says stays.
    pub(crate) fn store(&self, block: u64, bytes: &[u8], keeping: Keeping, spare: Spare) -> Stored {
        let stored = self.here.store(block, bytes, keeping, spare);
        if stored == Stored::Held {
            self.shared.counters.unkept.fetch_add(1, Ordering::Relaxed);
        }
        stored
    }

    /// Tells who waits for a block that it has come and is where blocks are kept.
    pub(crate) fn arrived(self: &Arc<Self>, id: Id, block: u64, bytes: &[u8], class: Class) {
        self.shared.counters.brought(class, bytes.len());
        self.hand_out(block, bytes, |flights| flights.arrived(id, block));
    }

    /// Takes a block off the table and gives it to who waits for it.
    fn hand_out(self: &Arc<Self>, block: u64, bytes: &[u8], take_off: impl FnOnce(&mut InFlight)) {
        let waiters = {
            let mut table = self.lock();
            take_off(&mut table.flights);
            table.waiters.remove(&block).unwrap_or_default()
        };
        for pending in waiters {
            if let Some(done) = pending.deliver(block, bytes) {
                self.read_out(&pending, done);
            }
        }
    }

    /// Ends a fetch in vain; who still waits for one of its blocks is told why.
    pub(crate) fn failed(&self, id: Id, error: &Error) {
        let waiters = {
            let mut table = self.lock();
            if let Error::Changed { .. } = error {
                table.gone.get_or_insert_with(|| error.clone());
            }
            table.end(id)
        };
        waiters.iter().for_each(|pending| pending.fail(error));
    }

    /// Ends a fetch that nobody seems to wait for any longer; false where somebody does. Those whose time is up are told
    /// what went wrong.
    pub(crate) fn give_up(&self, id: Id, error: Option<&Error>) -> bool {
        let waiters = {
            let mut table = self.lock();
            if table.latest_deadline(id).is_some_and(|deadline| deadline > Instant::now()) {
                return false;
            }
            table.end(id)
        };
        if let Some(error) = error {
            waiters.iter().for_each(|pending| pending.fail(error));
        }
        true
    }

    /// Until when somebody waits for what a fetch has still to bring.
    pub(crate) fn latest_deadline(&self, id: Id) -> Option<Instant> {
        self.lock().latest_deadline(id)
    }
}

impl Table {
    /// Ends a fetch; returns who waited for what it did not bring.
    fn end(&mut self, id: Id) -> Vec<Arc<Pending>> {
        let left = self.flights.end(id);
        left.iter().filter_map(|block| self.waiters.remove(block)).flatten().collect()
    }

    fn latest_deadline(&self, id: Id) -> Option<Instant> {
        let waiting = |block: u64| self.waiters.get(&block).into_iter().flatten();
        let open = self.flights.own(id).flat_map(waiting).filter(|pending| pending.is_open());
        open.map(|pending| pending.deadline).max()
    }
}
