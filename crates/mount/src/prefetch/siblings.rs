//! Fetches small files ahead of a program that reads the files of a directory. Fetching the files
//! one by one takes a round trip for each; fetching them together takes one for dozens of files.
//!
//! For each directory, the file that was opened last is recorded. If the next opened file is the
//! one after it in the listing, the files after that are fetched: twice as many each time, up to a
//! maximum window. Later, files are fetched only when half of the window has been opened, because
//! each fetch wakes a thread. If a listing was read to its end, opening the directory's first file
//! counts in the same way, because `cp -r` and `tar` read directories like that.
//!
//! If files are opened in any other order, each open after the first in a directory fetches a few
//! other files, beginning with the directory's first, and twice as many each time. After
//! [`MAX_UNPROVED`] files, an open fetches more than a few again only if its own file was among
//! those fetched. So a directory that is read completely, in any order, is fetched after a dozen
//! opens. If only some files of a large directory are read, each open costs the fetch of a few
//! small files.

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

/// Maximum length of a file that is fetched ahead, bytes. A larger file is worth requests of its
/// own, and is read ahead by itself.
pub(super) const SMALL_FILE: u64 = 1 << 20;
/// Three numbers for files that are opened in order: how many files the first open fetches, the
/// maximum number of files fetched ahead, and the maximum number of their bytes. At any time, more
/// than half of `MAX_BATCH` files are fetched ahead. With a round trip of 30 ms and enough memory
/// for as many requests, that is enough for 4,000 files per second.
const FIRST_BATCH: usize = 8;
const MAX_BATCH: usize = 256;
const MAX_BATCH_BYTES: u64 = 16 << 20;
/// Maximum number of files that are fetched in a directory whose files are opened in no order,
/// before any of these files is opened. With 500 files, the seventh open finds every second file
/// cached.
const MAX_UNPROVED: usize = 256;
/// Maximum number of bytes of files that are fetched for an open that was not expected. A link of
/// 40 MB/s brings this many in 26 ms, less than one round trip of 30 ms.
const UNEXPECTED_BATCH_BYTES: u64 = 1 << 20;
/// Maximum number of directories that are remembered. If there are more, all of them are forgotten,
/// which costs each directory a few round trips.
const MAX_DIRECTORIES: usize = 1024;

/// The state of the reads in one directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct DirectoryOpens {
    /// The position after the file that was opened last.
    next_position: usize,
    /// The position up to which files were fetched ahead.
    fetched_end: usize,
    /// Number of files to fetch ahead. 0 until files are opened in order.
    window: usize,
    /// True if a file has been opened.
    is_opened: bool,
    /// The position up to which files were fetched for opens in no order, and the number of files
    /// fetched last.
    unordered_end: usize,
    unordered_count: usize,
}

/// The positions of files to fetch, and the maximum number of their bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct FilesToFetch {
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

impl DirectoryOpens {
    /// The state after a listing was read: the files may be opened in order, from the first on.
    const LISTED: Self = Self {
        next_position: 0,
        fetched_end: 0,
        window: FIRST_BATCH / 2,
        is_opened: false,
        unordered_end: 0,
        unordered_count: 0,
    };

    /// Records that the file at `position` is opened. Returns the files to fetch.
    fn open(&mut self, position: usize) -> FilesToFetch {
        let was_opened = std::mem::replace(&mut self.is_opened, true);
        // Some files up to `ahead` may be skipped: entries that are not files, and files that the
        // program does not read.
        let is_in_order = (self.next_position..=self.fetched_end.max(self.next_position)).contains(&position);
        if is_in_order {
            return FilesToFetch {
                files: self.in_order(position),
                bytes: MAX_BATCH_BYTES,
                order: Order::Listed,
            };
        }
        (self.next_position, self.fetched_end, self.window) = (position + 1, position + 1, 0);
        if !was_opened {
            return FilesToFetch::default();
        }
        let was_expected = position < self.unordered_end;
        let grows = was_expected || self.unordered_end < MAX_UNPROVED;
        self.unordered_count =
            if grows { (self.unordered_count * 2).clamp(FIRST_BATCH, MAX_BATCH) } else { FIRST_BATCH };
        let from = self.unordered_end;
        self.unordered_end += self.unordered_count;
        let bytes = if was_expected { MAX_BATCH_BYTES } else { UNEXPECTED_BATCH_BYTES };
        FilesToFetch { files: from..self.unordered_end, bytes, order: Order::Any }
    }

    /// Records that the next file in order is opened. Returns the files to fetch ahead.
    fn in_order(&mut self, position: usize) -> Range<usize> {
        self.window = (self.window * 2).clamp(FIRST_BATCH, MAX_BATCH);
        self.next_position = position + 1;
        let from = self.fetched_end.max(self.next_position);
        if from >= self.next_position + self.window / 2 {
            return from..from;
        }
        self.fetched_end = from.max(self.next_position + self.window);
        from..self.fetched_end
    }
}

/// The state of the reads in all directories.
#[derive(Default)]
pub(super) struct Siblings {
    directories: Mutex<HashMap<Box<[u8]>, DirectoryOpens>>,
    alive: Arc<()>,
    /// The files that were fetched ahead most recently. They are kept open, so that an open that
    /// soon follows finds its file ready. Each has a file descriptor, so there are at most
    /// `MAX_BATCH`.
    held: Mutex<VecDeque<File>>,
}

impl Siblings {
    /// Records that the listing of a directory was read to its end.
    pub(super) fn note_listing_read(&self, path: &[u8]) {
        self.with(path, |run| {
            if *run == DirectoryOpens::default() {
                *run = DirectoryOpens::LISTED;
            }
        });
    }

    fn open(&self, path: &[u8], position: usize) -> FilesToFetch {
        self.with(path, |run| run.open(position))
    }

    /// Records that files were fetched only up to `end`, because they have too many bytes.
    fn reached(&self, path: &[u8], order: Order, end: usize) {
        self.with(path, |run| match order {
            Order::Listed => run.fetched_end = run.fetched_end.min(end),
            Order::Any => run.unordered_end = run.unordered_end.min(end),
        });
    }

    /// Returns the interest with which bytes are prefetched. It lasts as long as the mount.
    pub(super) fn interest(&self) -> Weak<()> {
        Arc::downgrade(&self.alive)
    }

    pub(super) fn hold(&self, file: File) {
        let mut held = self.held.lock();
        held.push_back(file);
        let oldest = if held.len() > MAX_BATCH { held.pop_front() } else { None };
        drop(held);
        // The drop may close the file, which takes a while, so the lock is released first.
        drop(oldest);
    }

    fn with<T>(&self, path: &[u8], change: impl FnOnce(&mut DirectoryOpens) -> T) -> T {
        let mut directories = self.directories.lock();
        if directories.len() >= MAX_DIRECTORIES && !directories.contains_key(path) {
            directories.clear();
        }
        change(directories.entry(path.into()).or_default())
    }
}

impl Prefetch {
    /// Fetches files that are likely to be opened after the file that was just opened.
    pub(crate) fn file_opened(self: &Arc<Self>, node: &Node, pool: &BlockingPool) {
        if !self.is_enabled {
            return;
        }
        let path = parent(&node.path);
        let name = name_of(&node.path);
        let Some(directory) = self.directories.snapshot_around(path, name) else { return };
        self.member_opened(node, &directory, pool);
        if node.pin.size().is_none_or(|size| size > SMALL_FILE) {
            return;
        }
        let Some(position) = directory.position(name) else { return };
        let wanted = self.siblings.open(path, directory.first_position() + position);
        let wanted = self.affordable(&directory, path, wanted);
        if !wanted.is_empty() {
            let (prefetch, path) = (Arc::clone(self), path.to_vec());
            pool.run(move || prefetch.fetch_ahead(&directory, &path, wanted));
        }
    }

    /// Returns the first files of a batch that together do not exceed its maximum number of bytes,
    /// as positions in `directory`.
    fn affordable(&self, directory: &DirectorySnapshot, path: &[u8], batch: FilesToFetch) -> Range<usize> {
        let FilesToFetch { files: wanted, bytes: most, order } = batch;
        let (first, end) = (directory.first_position(), wanted.end.min(directory.end_position()));
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
        let mut run = DirectoryOpens::default();
        assert_eq!(run.open(20), FilesToFetch::default());
        assert_eq!(run.open(21).files, 22..30);
        assert_eq!(run.open(22).files, 30..39);
        let opened = [23, 24, 25, 26, 27].map(|position| run.open(position).files);
        assert_eq!(opened, [39..56, 56..89, 89..154, 154..283, 283..283]);
        assert!((28..155).all(|position| run.open(position).files.is_empty()));
        assert_eq!(run.open(155).files, 283..412);
    }

    #[test]
    fn in_no_order_twice_as_many_are_fetched_each_time_and_few_again_if_none_was_right() {
        let mut run = DirectoryOpens::default();
        assert_eq!(run.open(500), FilesToFetch::default());
        assert_eq!(
            run.open(20),
            FilesToFetch { files: 0..8, bytes: UNEXPECTED_BATCH_BYTES, order: Order::Any }
        );
        assert_eq!(
            run.open(300),
            FilesToFetch { files: 8..24, bytes: UNEXPECTED_BATCH_BYTES, order: Order::Any }
        );
        assert_eq!(run.open(3), FilesToFetch { files: 24..56, bytes: MAX_BATCH_BYTES, order: Order::Any });
        assert_eq!(run.open(1).files, 56..120);
        assert_eq!(run.open(901).files, 120..248);
        assert_eq!(run.open(500).files, 248..504);
        assert_eq!(
            run.open(930),
            FilesToFetch { files: 504..512, bytes: UNEXPECTED_BATCH_BYTES, order: Order::Any }
        );
        assert_eq!(
            run.open(931),
            FilesToFetch { files: 932..940, bytes: MAX_BATCH_BYTES, order: Order::Listed }
        );
    }

    #[test]
    fn a_directory_of_500_read_in_any_order_is_fetched_after_few_opens() {
        let mut run = DirectoryOpens::default();
        // Opens each file once, in steps whose length has no common divisor with the number of
        // files.
        let waits = (0..500).map(|step| step * 277 % 500).filter(|position| {
            let was_here = *position < run.unordered_end;
            run.open(*position);
            !was_here
        });
        assert!(waits.count() < 12);
    }

    #[test]
    fn after_a_listing_the_first_file_is_enough() {
        let mut run = DirectoryOpens::LISTED;
        assert_eq!(run.open(0).files, 1..9);
    }

    proptest! {
        #[test]
        fn nothing_is_fetched_ahead_twice_and_nothing_is_left_out(count in 1_usize..2000) {
            let mut run = DirectoryOpens::LISTED;
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
