//! Fetches small files ahead that are read in the order of their directory. Fetched one by one,
//! each would cost a round trip; fetched together, dozens cost one.
//!
//! For each directory the file opened last is recorded. If the next opened file is its successor,
//! the files after it are fetched, twice as many each time, and later half of the window at a time,
//! because each time wakes a thread. After a listing was read to its end, opening its first file
//! counts as such a step, because `cp -r` and `tar` work that way.
//!
//! If files are opened in any other order, each open from the second in a directory on fetches a
//! few others, beginning with the directory's first, and twice as many each time. After
//! [`MAX_UNPROVED`] files, an open fetches more than a few again only if its file was among them.
//! So a directory that is read whole in any order is fetched after a dozen opens, and if only some
//! files of a large directory are read, each open costs a few small files more.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Weak};

use firstbyte_hydrate::File;
use firstbyte_location::ByteRange;
use rustix_futex_sync::Mutex;

use super::Prefetch;
use crate::blocking_pool::BlockingPool;
use crate::directory::DirectorySnapshot;
use crate::inodes::{Node, name_of, parent};

/// Bytes of the largest file fetched ahead: a larger one is worth its own requests, and is read
/// ahead by itself.
pub(super) const SMALL_FILE: u64 = 1 << 20;
/// The number of files fetched ahead of the first file opened in order, the most fetched ahead of
/// any, and the most bytes of them. More than half of `MAX_BATCH` are wanted at any time: with a
/// round trip of 30 ms and memory for so many requests these are 4,000 per second.
const FIRST_BATCH: usize = 8;
const MAX_BATCH: usize = 256;
const MAX_BATCH_BYTES: u64 = 16 << 20;
/// The number of files of a directory that are fetched for opens in no order before one of them is
/// opened. Of 500 files in no order, the seventh open finds every second file cached.
const MAX_UNPROVED: usize = 256;
/// The most bytes of files fetched for an open that was not expected: a link of 40 MB/s brings them
/// in a quarter of the round trip that the open takes.
const UNEXPECTED_BATCH_BYTES: u64 = 1 << 20;
/// The most directories remembered. If there are more, all are forgotten, which costs each a few
/// round trips.
const DIRECTORIES: usize = 1024;

/// The state of reads in one directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Run {
    /// The position behind the file opened last.
    next: usize,
    /// The position up to which files have been fetched ahead.
    ahead: usize,
    /// The number of files to fetch ahead; 0 until files have been opened in order.
    window: usize,
    /// Whether a file has been opened.
    opened: bool,
    /// The position up to which files have been fetched for opens in no order, and the number
    /// fetched last.
    beside: usize,
    width: usize,
}

/// Files to fetch, by their positions, and the most bytes of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Batch {
    files: Range<usize>,
    bytes: u64,
    order: Order,
}

/// The order in which files are opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Order {
    /// In the order of the listing.
    #[default]
    Listed,
    Any,
}

impl Run {
    /// The state after a listing was read: its files may follow, from the first on.
    const LISTED: Self =
        Self { next: 0, ahead: 0, window: FIRST_BATCH / 2, opened: false, beside: 0, width: 0 };

    /// Records that the file at `position` is opened. Returns the files to fetch.
    fn open(&mut self, position: usize) -> Batch {
        let was_opened = std::mem::replace(&mut self.opened, true);
        // Files among those fetched ahead may be left out: those that are not files, or not wanted.
        let goes_on = (self.next..=self.ahead.max(self.next)).contains(&position);
        if goes_on {
            return Batch { files: self.in_order(position), bytes: MAX_BATCH_BYTES, order: Order::Listed };
        }
        (self.next, self.ahead, self.window) = (position + 1, position + 1, 0);
        if !was_opened {
            return Batch::default();
        }
        let was_expected = position < self.beside;
        let grows = was_expected || self.beside < MAX_UNPROVED;
        self.width = if grows { (self.width * 2).clamp(FIRST_BATCH, MAX_BATCH) } else { FIRST_BATCH };
        let from = self.beside;
        self.beside += self.width;
        let bytes = if was_expected { MAX_BATCH_BYTES } else { UNEXPECTED_BATCH_BYTES };
        Batch { files: from..self.beside, bytes, order: Order::Any }
    }

    /// Records that the next file in order is opened. Returns the files to fetch ahead.
    fn in_order(&mut self, position: usize) -> Range<usize> {
        self.window = (self.window * 2).clamp(FIRST_BATCH, MAX_BATCH);
        self.next = position + 1;
        let from = self.ahead.max(self.next);
        if from >= self.next + self.window / 2 {
            return from..from;
        }
        self.ahead = from.max(self.next + self.window);
        from..self.ahead
    }
}

/// The state of reads in all directories.
#[derive(Default)]
pub(super) struct Siblings {
    runs: Mutex<HashMap<Box<[u8]>, Run>>,
    alive: Arc<()>,
    /// The files fetched ahead last, so that an open that soon follows finds its file prepared.
    /// Each holds a descriptor, so there are at most `MAX_BATCH`.
    held: Mutex<VecDeque<File>>,
}

impl Siblings {
    /// Records that a directory's listing was read to its end.
    pub(super) fn note_listing_read(&self, path: &[u8]) {
        self.with(path, |run| {
            if *run == Run::default() {
                *run = Run::LISTED;
            }
        });
    }

    fn open(&self, path: &[u8], position: usize) -> Batch {
        self.with(path, |run| run.open(position))
    }

    /// Records that files were fetched only up to `end`, because their bytes were too many.
    fn reached(&self, path: &[u8], order: Order, end: usize) {
        self.with(path, |run| match order {
            Order::Listed => run.ahead = run.ahead.min(end),
            Order::Any => run.beside = run.beside.min(end),
        });
    }

    /// Returns the interest in prefetched bytes, which lasts as long as the mount.
    pub(super) fn interest(&self) -> Weak<()> {
        Arc::downgrade(&self.alive)
    }

    pub(super) fn hold(&self, file: File) {
        let mut held = self.held.lock();
        held.push_back(file);
        let oldest = if held.len() > MAX_BATCH { held.pop_front() } else { None };
        drop(held);
        // This may close the file, which takes a while.
        drop(oldest);
    }

    fn with<T>(&self, path: &[u8], change: impl FnOnce(&mut Run) -> T) -> T {
        let mut runs = self.runs.lock();
        if runs.len() >= DIRECTORIES && !runs.contains_key(path) {
            runs.clear();
        }
        change(runs.entry(path.into()).or_default())
    }
}

impl Prefetch {
    /// Fetches the files that are likely to be opened after the file that was just opened.
    pub(crate) fn file_opened(self: &Arc<Self>, node: &Node, pool: &BlockingPool) {
        if !self.is_enabled {
            return;
        }
        let path = parent(&node.path);
        let name = name_of(&node.path);
        let Some(directory) = self.directories.around(path, name) else { return };
        self.member_opened(node, &directory, pool);
        if node.pin.size().is_none_or(|size| size > SMALL_FILE) {
            return;
        }
        let Some(position) = directory.position(name) else { return };
        let wanted = self.siblings.open(path, directory.first() + position);
        let wanted = self.affordable(&directory, path, wanted);
        if !wanted.is_empty() {
            let (prefetch, path) = (Arc::clone(self), path.to_vec());
            pool.run(move || prefetch.fetch_ahead(&directory, &path, wanted));
        }
    }

    /// Returns the files of a batch whose bytes are not too many, as positions in `directory`.
    fn affordable(&self, directory: &DirectorySnapshot, path: &[u8], batch: Batch) -> Range<usize> {
        let Batch { files: wanted, bytes: most, order } = batch;
        let (first, end) = (directory.first(), wanted.end.min(directory.end()));
        let (mut at, mut bytes) = (wanted.start.max(first), 0);
        while at < end && bytes < most {
            let size = directory.listed()[at - first].child.pin.size();
            bytes += size.filter(|size| *size <= SMALL_FILE).unwrap_or(0);
            at += 1;
        }
        if at < wanted.end {
            self.siblings.reached(path, order, at);
        }
        wanted.start.max(first) - first..at - first
    }

    fn fetch_ahead(&self, directory: &DirectorySnapshot, path: &[u8], wanted: Range<usize>) {
        for listed in directory.listed().get(wanted).unwrap_or_default() {
            self.fetch(path, &listed.child, |size| (size <= SMALL_FILE).then(|| ByteRange::new(0, size)));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_file_fetches_nothing_and_the_next_in_order_does() {
        let mut run = Run::default();
        assert_eq!(run.open(20), Batch::default());
        assert_eq!(run.open(21).files, 22..30);
        assert_eq!(run.open(22).files, 30..39);
        let opened = [23, 24, 25, 26, 27].map(|position| run.open(position).files);
        assert_eq!(opened, [39..56, 56..89, 89..154, 154..283, 283..283]);
        assert!((28..155).all(|position| run.open(position).files.is_empty()));
        assert_eq!(run.open(155).files, 283..412);
    }

    #[test]
    fn in_no_order_twice_as_many_are_fetched_each_time_and_few_again_if_none_was_right() {
        let mut run = Run::default();
        assert_eq!(run.open(500), Batch::default());
        assert_eq!(run.open(20), Batch { files: 0..8, bytes: UNEXPECTED_BATCH_BYTES, order: Order::Any });
        assert_eq!(run.open(300), Batch { files: 8..24, bytes: UNEXPECTED_BATCH_BYTES, order: Order::Any });
        assert_eq!(run.open(3), Batch { files: 24..56, bytes: MAX_BATCH_BYTES, order: Order::Any });
        assert_eq!(run.open(1).files, 56..120);
        assert_eq!(run.open(901).files, 120..248);
        assert_eq!(run.open(500).files, 248..504);
        assert_eq!(
            run.open(930),
            Batch { files: 504..512, bytes: UNEXPECTED_BATCH_BYTES, order: Order::Any }
        );
        assert_eq!(run.open(931), Batch { files: 932..940, bytes: MAX_BATCH_BYTES, order: Order::Listed });
    }

    #[test]
    fn a_directory_of_500_read_in_any_order_is_fetched_after_few_opens() {
        let mut run = Run::default();
        // Each file once, in steps that have no common divisor with their number.
        let waits = (0..500).map(|step| step * 277 % 500).filter(|position| {
            let was_here = *position < run.beside;
            run.open(*position);
            !was_here
        });
        assert!(waits.count() < 12);
    }

    #[test]
    fn after_a_listing_the_first_file_is_enough() {
        let mut run = Run::LISTED;
        assert_eq!(run.open(0).files, 1..9);
    }

    proptest! {
        #[test]
        fn nothing_is_fetched_ahead_twice_and_nothing_is_left_out(count in 1_usize..2000) {
            let mut run = Run::LISTED;
            let mut fetched = 1;
            for position in 0..count {
                let wanted = run.open(position).files;
                prop_assert!(wanted.start >= fetched || wanted.is_empty());
                prop_assert!(wanted.is_empty() || wanted.start == fetched);
                prop_assert!(wanted.end <= position + 1 + MAX_BATCH);
                fetched = fetched.max(wanted.end);
                prop_assert!(fetched > position);
            }
        }
    }
}
