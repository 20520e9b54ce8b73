//! Keeps the queues of waiting fetches, and counts the running ones. Starts no thread, and reads
//! the clock only for the deadlines of reads.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Instant;

use firstbyte_location::to_usize;
use firstbyte_pacing::{START, Work};
use firstbyte_store::THREAD_MEMORY;

use crate::block::BLOCK;
use crate::block_table::{Fetch, FetchId, PendingRead, Priority};

/// Maximum length of a small fetch, bytes. A small fetch spends most of its time on the round trip.
const SMALL_FETCH: u64 = BLOCK;
/// Maximum number of whole-block fetches for which memory is reserved. Fetches ahead leave this
/// much memory for fetches on demand, and background fetches leave it for fetches ahead.
pub(super) const RESERVED_FETCHES: u64 = START as u64;
/// Reciprocal of the largest share of the memory that is reserved. The rest is for fetches ahead,
/// because a sequential reader waits for them.
const RESERVED_SHARE: u64 = 4;
/// Memory of a fetch of whole blocks, bytes, including its thread.
pub(super) const WHOLE_BLOCK_MEMORY: u64 = THREAD_MEMORY + BLOCK;

#[derive(Default)]
pub(super) struct Queues {
    pub(super) demand: VecDeque<Fetch>,
    /// Fetches ahead, sorted by distance from the reader in MiB, then by age.
    pub(super) ahead: BTreeMap<(u64, u64), Fetch>,
    pub(super) background: VecDeque<Fetch>,
    /// Total number of fetches ever submitted.
    pub(super) submitted: u64,
    pub(super) running_ahead: usize,
    pub(super) running_background: usize,
    pub(super) running: usize,
    /// Bytes of memory that no fetch uses.
    pub(super) memory: u64,
    /// Bytes of memory left for fetches ahead and in the background. The rest is left for fetches
    /// on demand.
    pub(super) non_demand_budget: u64,
    /// Bytes of memory that background fetches leave for fetches ahead.
    pub(super) readahead_reserve: u64,
    pub(super) concurrency: usize,
    pub(super) idle: usize,
    /// Number of threads that were woken and have not run yet. Such threads no longer count as
    /// idle.
    pub(super) woken: usize,
    /// Number of new threads that have not run yet.
    pub(super) starting: usize,
    pub(super) free_slots: Vec<usize>,
    pub(super) threads: usize,
    /// True if there is no thread, and none could be started.
    pub(super) has_no_thread: bool,
    /// True if the supervisor's thread exists.
    pub(super) is_supervised: bool,
    /// True if the supervisor sleeps until it is woken. Otherwise it wakes after a tick by itself,
    /// because waking it for each request would cost more.
    pub(super) is_dormant: bool,
    pub(super) is_closed: bool,
    /// Reads with a callback, in the order of their deadlines. All deadlines are equally long, so
    /// this is the order in which the reads began.
    pub(super) waiting: VecDeque<Weak<PendingRead>>,
}

impl Queues {
    /// Creates empty queues, with `memory` bytes for fetches.
    pub(super) fn new(memory: u64) -> Self {
        let left = (memory / RESERVED_SHARE).min(RESERVED_FETCHES * WHOLE_BLOCK_MEMORY);
        let non_demand_budget = memory - left;
        Self { concurrency: START, memory, non_demand_budget, readahead_reserve: left, ..Self::default() }
    }

    pub(super) fn push(&mut self, fetch: Fetch) {
        self.submitted += 1;
        match fetch.priority {
            Priority::Demand => self.demand.push_back(fetch),
            Priority::Ahead => drop(self.ahead.insert((fetch.distance, self.submitted), fetch)),
            Priority::Background => self.background.push_back(fetch),
        }
    }

    /// Raises a queued fetch to demand priority.
    pub(super) fn promote(&mut self, id: FetchId) {
        let ahead = self.ahead.iter().find(|(_, fetch)| fetch.id == id).map(|(key, _)| *key);
        let behind = || self.background.iter().position(|fetch| fetch.id == id);
        let found = match ahead {
            Some(key) => self.ahead.remove(&key),
            None => behind().and_then(|index| self.background.remove(index)),
        };
        if let Some(fetch) = found {
            self.demand.push_back(Fetch { priority: Priority::Demand, ..fetch });
        }
    }

    /// Adds reads that have to fail at their deadlines.
    pub(super) fn watch(&mut self, reads: &[Arc<PendingRead>]) {
        while self.waiting.front().is_some_and(|old| old.strong_count() == 0) {
            self.waiting.pop_front();
        }
        self.waiting.extend(reads.iter().map(Arc::downgrade));
    }

    /// Returns the number of queued fetches that may start.
    pub(super) fn startable_count(&self) -> usize {
        let demand = fetches_that_fit(self.memory, self.demand.front()).min(self.demand.len());
        let ahead = self.room_ahead().min(self.ahead.len());
        demand + ahead + self.room_in_background().min(self.background.len())
    }

    /// Returns the number of fetches ahead that may start.
    pub(super) fn room_ahead(&self) -> usize {
        let fit = fetches_that_fit(self.memory.min(self.non_demand_budget), self.ahead.values().next());
        self.concurrency.saturating_sub(self.running_ahead).min(fit)
    }

    /// Returns the number of background fetches that may start.
    pub(super) fn room_in_background(&self) -> usize {
        let free = self.memory.min(self.non_demand_budget.saturating_sub(self.readahead_reserve));
        let running = self.running_ahead + self.running_background;
        self.concurrency.saturating_sub(running).min(fetches_that_fit(free, self.background.front()))
    }

    /// Returns whether there is memory for another idle thread. Frees the thread's `buffer` if
    /// there is no memory for the buffer too. Idle threads use only memory that no fetch uses.
    pub(super) fn can_idle(&self, buffer: &mut Vec<u8>) -> bool {
        let threads = self.idle as u64 + 1;
        if threads * WHOLE_BLOCK_MEMORY > self.memory {
            *buffer = Vec::new();
        }
        threads * THREAD_MEMORY <= self.memory
    }

    /// Counts an idle thread that runs again. Returns whether any thread was woken and has not run
    /// yet. If that is another thread, the calling thread has woken by itself.
    pub(super) fn count_resumed_thread(&mut self) -> bool {
        let was_woken = self.woken > 0;
        if was_woken {
            self.woken -= 1;
        } else {
            self.idle -= 1;
        }
        was_woken
    }

    /// Removes the next fetch that may start from its queue. If there is no memory for the first
    /// fetch of a queue, the fetches behind it wait too. If a fetch on demand has to wait, all
    /// other fetches wait.
    pub(super) fn next(&mut self) -> Option<Fetch> {
        if let Some(first) = self.demand.front() {
            return if memory_of(first) <= self.memory { self.demand.pop_front() } else { None };
        }
        if self.room_ahead() > 0
            && let Some((_, fetch)) = self.ahead.pop_first()
        {
            return Some(fetch);
        }
        if self.room_in_background() > 0 { self.background.pop_front() } else { None }
    }

    /// Counts a fetch that starts, and its memory.
    pub(super) fn count_start(&mut self, priority: Priority, memory: u64) {
        self.running += 1;
        self.memory -= memory;
        match priority {
            Priority::Demand => return,
            Priority::Ahead => self.running_ahead += 1,
            Priority::Background => self.running_background += 1,
        }
        self.non_demand_budget -= memory;
    }

    /// Counts the end of a fetch, and releases its memory.
    pub(super) fn count_end(&mut self, priority: Priority, memory: u64) {
        self.running -= 1;
        self.memory += memory;
        match priority {
            Priority::Demand => return,
            Priority::Ahead => self.running_ahead -= 1,
            Priority::Background => self.running_background -= 1,
        }
        self.non_demand_budget += memory;
    }

    /// Returns whether there is nothing to supervise. Queued fetches count as work, because the
    /// supervisor is not woken when they start.
    pub(super) fn is_idle(&self) -> bool {
        let queued = self.demand.len() + self.ahead.len() + self.background.len();
        self.running + queued == 0 && self.waiting.is_empty()
    }

    /// Removes and returns the reads whose deadlines have passed.
    pub(super) fn take_overdue_reads(&mut self) -> Vec<Arc<PendingRead>> {
        let now = Instant::now();
        let mut late = Vec::new();
        while let Some(first) = self.waiting.front() {
            match first.upgrade() {
                Some(pending) if pending.deadline() > now => break,
                Some(pending) => late.push(pending),
                None => {}
            }
            self.waiting.pop_front();
        }
        late
    }

    /// Returns the kind of the queued work, not counting fetches on demand. `None` if nothing is
    /// queued.
    pub(super) fn work(&self) -> Option<Work> {
        let next = self.ahead.values().next().or(self.background.front())?;
        Some(if next.bytes() <= SMALL_FETCH { Work::Small } else { Work::One })
    }
}

/// Returns the memory of a fetch while it runs, bytes.
pub(super) fn memory_of(fetch: &Fetch) -> u64 {
    THREAD_MEMORY + fetch.buffer()
}

/// Returns how many fetches like `first` fit into `memory` bytes. Without `first`, fetches of whole
/// blocks are assumed.
fn fetches_that_fit(memory: u64, first: Option<&Fetch>) -> usize {
    to_usize(memory / first.map_or(WHOLE_BLOCK_MEMORY, memory_of))
}

#[cfg(test)]
mod tests {
    use firstbyte_location::{Location, Version};

    use super::*;
    use crate::block_store::{BlockStore, MemoryBlocks};
    use crate::block_table::OpenTables;

    /// Starts as many fetches of objects of `size` bytes as may run. Returns their number, and the
    /// memory of one fetch.
    fn start(queues: &mut Queues, priority: Priority, size: u64) -> (usize, u64) {
        let location = Location::parse("s3://bucket/key".as_ref()).unwrap();
        let version = Version { size: Some(size), ..Version::default() };
        let blocks = |id, _: &Version| BlockStore::new(id, size, None, Arc::new(MemoryBlocks::new(0)));
        let table = Arc::new(OpenTables::default()).open(&location, version, blocks);
        (0..1000).for_each(|id| queues.push(Fetch::new(Arc::clone(&table), id, priority, 0..1, false)));
        let (startable, mut started, mut memory) = (queues.startable_count(), 0, 0);
        while let Some(fetch) = queues.next() {
            memory = memory_of(&fetch);
            queues.count_start(priority, memory);
            started += 1;
        }
        assert_eq!(started, startable);
        (queues.demand, queues.ahead, queues.background) = Default::default();
        (started, memory)
    }

    #[test]
    fn more_small_objects_than_large_ones_fit_into_the_memory_and_each_kind_leaves_some() {
        for (size, in_background, all) in [(BLOCK, 60, 76), (1 << 30, 60, 76), (16 << 10, 153, 194)] {
            let mut queues = Queues { concurrency: 256, ..Queues::new(92 * WHOLE_BLOCK_MEMORY) };
            let (started, memory) = start(&mut queues, Priority::Background, size);
            assert_eq!(started, in_background);
            assert_eq!(start(&mut queues, Priority::Ahead, size).0, all - in_background);
            assert_eq!(start(&mut queues, Priority::Ahead, size).0, 0);
            assert_eq!(start(&mut queues, Priority::Demand, BLOCK).0, 16);
            assert_eq!(start(&mut queues, Priority::Demand, BLOCK).0, 0);
            queues.count_end(Priority::Background, memory);
            assert_eq!(start(&mut queues, Priority::Background, size).0, 0, "it is left for those ahead");
            assert_eq!(start(&mut queues, Priority::Ahead, size).0, 1);
        }
    }

    #[test]
    fn idle_threads_and_their_buffers_fit_into_the_memory_that_no_fetch_uses() {
        let mut queues = Queues::new(20 * WHOLE_BLOCK_MEMORY);
        queues.count_start(Priority::Demand, 18 * WHOLE_BLOCK_MEMORY);
        let mut can_idle = |idle: usize| {
            queues.idle = idle;
            let mut buffer = vec![0; 9];
            (queues.can_idle(&mut buffer), buffer.len())
        };
        assert_eq!(can_idle(1), (true, 9));
        assert_eq!(can_idle(2), (true, 0));
        assert_eq!(can_idle(20), (false, 0));
    }

    #[test]
    fn an_idle_thread_that_times_out_does_not_take_the_place_of_one_that_starts() {
        let mut queues = Queues { idle: 1, threads: 2, starting: 1, ..Queues::default() };
        assert!(!queues.count_resumed_thread(), "nothing woke it");
        assert_eq!((queues.idle, queues.woken, queues.starting), (0, 0, 1));
    }

    #[test]
    fn a_thread_that_times_out_while_another_is_woken_works_in_its_place() {
        let mut queues = Queues { idle: 1, threads: 2, woken: 1, ..Queues::default() };
        assert!(queues.count_resumed_thread());
        assert!(
            !queues.count_resumed_thread(),
            "the one that was woken finds nothing to do, and stays if it is not late"
        );
        assert_eq!((queues.idle, queues.woken), (0, 0));
    }
}
