//! Fetches small files ahead that are read in the order of their directory. Fetched one by one,
//! each would cost a round trip; fetched together, dozens cost one.
//!
//! For each directory the file opened last is recorded. If the next opened file is its successor,
//! the files after it are fetched, twice as many each time, and from then on half of the window at
//! a time, because each time wakes a thread. After a listing was read to its end, opening its first
//! file counts as such a step, since `cp -r` and `tar` work that way.
//!
//! Opened in any other order, each file from the second of a directory on has a few others fetched,
//! from the first on, and twice as many each time. Once [`UNPROVED`] have been fetched, more than a
//! few again follow only a file that was among them. So a directory that is read whole in any order
//! is here after a dozen opens, and a large one of which some files are read costs each of them a
//! few small ones.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Weak};

use firstbyte_hydrate::File;
use firstbyte_location::ByteRange;
use rustix_futex_sync::Mutex;

use super::Prefetch;
use crate::blocking_pool::BlockingPool;
use crate::directory::Directory;
use crate::inodes::{Node, name_of, parent};

/// Largest file fetched ahead: a larger one is worth its own requests, and is read ahead by itself.
pub(super) const SMALL: u64 = 1 << 20;
/// Files fetched ahead of the first file opened in order, files fetched ahead of any, and their
/// bytes in all. More than half of `MOST` are wanted at any time: with a round trip of 30 ms and
/// memory for so many requests these are 4,000 a second.
const FIRST: usize = 8;
const MOST: usize = 256;
const BYTES: u64 = 16 << 20;
/// Files of a directory fetched beside others before one of them is opened. Of 500 files in no
/// order the seventh open finds every second file here.
const UNPROVED: usize = 256;
/// Bytes of the files fetched beside one that was not expected: what a link of 40 MB/s brings in a
/// quarter of the round trip that its open takes.
const BESIDE: u64 = 1 << 20;
/// Directories remembered; when there are more all are forgotten, which costs each a few round
/// trips.
const DIRECTORIES: usize = 1024;

/// The state of reads in one directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Run {
    /// Position behind the file opened last.
    next: usize,
    /// Position up to which files have been fetched ahead.
    ahead: usize,
    /// Files to fetch ahead; 0 until files have been opened in order.
    window: usize,
    /// Whether a file has been opened.
    opened: bool,
    /// Position up to which files have been fetched beside files opened in no order, and how many
    /// were fetched last.
    beside: usize,
    width: usize,
}

/// Files to fetch, by their positions, and their bytes at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Batch {
    files: Range<usize>,
    bytes: u64,
    order: Order,
}

/// How files are opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Order {
    /// One after the other.
    #[default]
    Listed,
    Any,
}

impl Run {
    /// A listing was read: its files may follow, from the first on.
    const LISTED: Self = Self { next: 0, ahead: 0, window: FIRST / 2, opened: false, beside: 0, width: 0 };

    /// The file at `position` is opened: which ones to fetch.
    fn open(&mut self, position: usize) -> Batch {
        let was_opened = std::mem::replace(&mut self.opened, true);
        // Within what was fetched ahead files may be left out: those that are no files, or are not
        // wanted.
        let goes_on = (self.next..=self.ahead.max(self.next)).contains(&position);
        if goes_on {
            return Batch { files: self.in_order(position), bytes: BYTES, order: Order::Listed };
        }
        (self.next, self.ahead, self.window) = (position + 1, position + 1, 0);
        if !was_opened {
            return Batch::default();
        }
        let was_expected = position < self.beside;
        let grows = was_expected || self.beside < UNPROVED;
        self.width = if grows { (self.width * 2).clamp(FIRST, MOST) } else { FIRST };
        let from = self.beside;
        self.beside += self.width;
        let bytes = if was_expected { BYTES } else { BESIDE };
        Batch { files: from..self.beside, bytes, order: Order::Any }
    }

    /// The next file in order is opened: which ones to fetch ahead.
    fn in_order(&mut self, position: usize) -> Range<usize> {
        self.window = (self.window * 2).clamp(FIRST, MOST);
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
    /// Each holds a descriptor, so there are at most `MOST`.
    held: Mutex<VecDeque<File>>,
}

impl Siblings {
    /// A directory's listing was read to its end.
    pub(super) fn read(&self, path: &[u8]) {
        self.with(path, |run| {
            if *run == Run::default() {
                *run = Run::LISTED;
            }
        });
    }

    fn open(&self, path: &[u8], position: usize) -> Batch {
        self.with(path, |run| run.open(position))
    }

    /// Fewer were fetched than said: the bytes were too many.
    fn reached(&self, path: &[u8], order: Order, end: usize) {
        self.with(path, |run| match order {
            Order::Listed => run.ahead = run.ahead.min(end),
            Order::Any => run.beside = run.beside.min(end),
        });
    }

    /// Keeps prefetched bytes wanted while the mount exists.
    pub(super) fn interest(&self) -> Weak<()> {
        Arc::downgrade(&self.alive)
    }

    pub(super) fn hold(&self, file: File) {
        let mut held = self.held.lock();
        held.push_back(file);
        let oldest = if held.len() > MOST { held.pop_front() } else { None };
        drop(held);
        // It may be the last to let go of it, which takes a while.
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
    /// A file was opened: fetches ahead what is likely to be opened next.
    pub(crate) fn file_opened(self: &Arc<Self>, node: &Node, pool: &BlockingPool) {
        if !self.is_enabled {
            return;
        }
        let path = parent(&node.path);
        let name = name_of(&node.path);
        let Some(directory) = self.directories.around(path, name) else { return };
        self.member_opened(node, &directory, pool);
        if node.pin.size().is_none_or(|size| size > SMALL) {
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

    /// Those of `wanted` whose bytes are not too many, as positions in `directory`.
    fn affordable(&self, directory: &Directory, path: &[u8], batch: Batch) -> Range<usize> {
        let Batch { files: wanted, bytes: most, order } = batch;
        let (first, end) = (directory.first(), wanted.end.min(directory.end()));
        let (mut at, mut bytes) = (wanted.start.max(first), 0);
        while at < end && bytes < most {
            let size = directory.listed()[at - first].child.pin.size();
            bytes += size.filter(|size| *size <= SMALL).unwrap_or(0);
            at += 1;
        }
        if at < wanted.end {
            self.siblings.reached(path, order, at);
        }
        wanted.start.max(first) - first..at - first
    }

    fn fetch_ahead(&self, directory: &Directory, path: &[u8], wanted: Range<usize>) {
        for listed in directory.listed().get(wanted).unwrap_or_default() {
            self.fetch(path, &listed.child, |size| (size <= SMALL).then(|| ByteRange::new(0, size)));
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
        assert_eq!(run.open(20), Batch { files: 0..8, bytes: BESIDE, order: Order::Any });
        assert_eq!(run.open(300), Batch { files: 8..24, bytes: BESIDE, order: Order::Any });
        assert_eq!(run.open(3), Batch { files: 24..56, bytes: BYTES, order: Order::Any });
        assert_eq!(run.open(1).files, 56..120);
        assert_eq!(run.open(901).files, 120..248);
        assert_eq!(run.open(500).files, 248..504);
        assert_eq!(run.open(930), Batch { files: 504..512, bytes: BESIDE, order: Order::Any });
        assert_eq!(run.open(931), Batch { files: 932..940, bytes: BYTES, order: Order::Listed });
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
                prop_assert!(wanted.end <= position + 1 + MOST);
                fetched = fetched.max(wanted.end);
                prop_assert!(fetched > position);
            }
        }
    }
}
