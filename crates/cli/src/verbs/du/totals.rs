//! Sums by directory in bounded memory. Called by the local and the remote `du`.
//!
//! Each listing thread adds to a small [`ThreadSums`] of its own. When that is large, the thread
//! merges it into the [`DirectorySums`] of the operand. At the end, the [`Rollup`] adds to each
//! directory the sums of its subdirectories.

use std::collections::BTreeMap;

use rustix_futex_sync::Mutex;

use super::SCHEMA;
use crate::render::error::Result;
use crate::render::rows;

/// Bytes of names that a thread collects before it merges its sums. That is enough for the
/// directories that a thread works in at the same time, and little enough for some dozens of
/// threads.
const MAX_THREAD_BYTES: usize = 128 << 10;
/// Memory that a map takes for each name, besides the name itself, bytes.
const NODE_BYTES: usize = 128;

/// Number of bytes, files and directories in a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DirectoryTotals {
    pub(super) bytes: u64,
    /// Everything except directories.
    pub(super) files: u64,
    /// Number of subdirectories; the directory itself does not count.
    pub(super) directories: u64,
}

impl DirectoryTotals {
    pub(super) fn add(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.files = self.files.saturating_add(other.files);
        self.directories = self.directories.saturating_add(other.directories);
    }
}

/// Sums of one operand by directory name, shared by the listing threads. Names are relative to the
/// root and end in `/`; the root's name is empty. The sums of a directory exclude those of its
/// subdirectories.
#[derive(Debug)]
pub(super) struct DirectorySums {
    locked: Mutex<LockedSums>,
}

#[derive(Debug)]
struct LockedSums {
    rows: rows::NameSums<3>,
    /// The sum over all directories; `None` if nothing was added.
    total: Option<DirectoryTotals>,
}

impl DirectorySums {
    /// Makes empty sums that use about `memory` bytes of memory.
    pub(super) fn new(memory: usize) -> Self {
        Self { locked: Mutex::new(LockedSums { rows: rows::NameSums::new(SCHEMA, memory), total: None }) }
    }

    /// Adds to a directory's own sums.
    pub(super) fn add(&self, directory: &[u8], totals: DirectoryTotals) {
        self.locked.lock().add(directory, totals);
    }

    /// Returns whether nothing was added.
    pub(super) fn is_empty(&self) -> bool {
        self.locked.lock().total.is_none()
    }

    /// Returns the sum over all directories.
    pub(super) fn total(&self) -> DirectoryTotals {
        self.locked.lock().total.unwrap_or_default()
    }

    /// Passes each directory name to `each`, with the sums that exclude subdirectories.
    ///
    /// # Errors
    /// The temporary file of sums cannot be written or read.
    pub(super) fn each_own(self, mut each: impl FnMut(&[u8], DirectoryTotals)) -> Result<()> {
        let locked = self.locked.into_inner();
        locked.rows.finish(|name, [bytes, files, directories]| {
            each(name, DirectoryTotals { bytes, files, directories })
        })
    }

    /// Passes every directory to `each`, with the sums that include all levels below it.
    /// Subdirectories come before the directory that contains them.
    ///
    /// # Errors
    /// The errors of [`each_own`](Self::each_own).
    pub(super) fn each_directory(self, each: impl FnMut(&[u8], DirectoryTotals)) -> Result<()> {
        let mut rollup = Rollup { path: Vec::new(), open: Vec::new(), each };
        self.each_own(|name, own| rollup.add(name, own))?;
        rollup.leave(|_, _| false);
        Ok(())
    }
}

impl LockedSums {
    fn add(&mut self, directory: &[u8], totals: DirectoryTotals) {
        self.total.get_or_insert_default().add(totals);
        self.rows.add(directory, [totals.bytes, totals.files, totals.directories]);
    }
}

/// Sums of one thread that are not merged yet. Dropping the value merges them.
#[derive(Debug)]
pub(super) struct ThreadSums<'a> {
    sums: &'a DirectorySums,
    own: BTreeMap<Vec<u8>, DirectoryTotals>,
    bytes: usize,
}

impl<'a> ThreadSums<'a> {
    pub(super) fn new(sums: &'a DirectorySums) -> Self {
        Self { sums, own: BTreeMap::new(), bytes: 0 }
    }

    /// Adds to a directory's own sums.
    pub(super) fn add(&mut self, directory: &[u8], totals: DirectoryTotals) {
        if let Some(own) = self.own.get_mut(directory) {
            return own.add(totals);
        }
        self.bytes += directory.len() + NODE_BYTES;
        self.own.insert(directory.to_vec(), totals);
        if self.bytes >= MAX_THREAD_BYTES {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        self.bytes = 0;
        let own = std::mem::take(&mut self.own);
        let mut locked = self.sums.locked.lock();
        own.into_iter().for_each(|(directory, totals)| locked.add(&directory, totals));
    }
}

impl Drop for ThreadSums<'_> {
    fn drop(&mut self) {
        self.hand_over();
    }
}

/// Adds to each directory the sums of its subdirectories. Directories must arrive in ascending
/// order, so that all subdirectories of a directory follow it directly.
struct Rollup<F> {
    /// The directory that was added last.
    path: Vec<u8>,
    /// The current directory and all directories above it. Each has the length of its path and its
    /// sum so far.
    open: Vec<(usize, DirectoryTotals)>,
    each: F,
}

impl<F: FnMut(&[u8], DirectoryTotals)> Rollup<F> {
    fn add(&mut self, name: &[u8], own: DirectoryTotals) {
        self.leave(|path, end| name.starts_with(&path[..end]));
        let inside = self.open.last().map_or(0, |(end, _)| *end + 1);
        self.open
            .extend(ends(name).filter(|end| *end >= inside).map(|end| (end, DirectoryTotals::default())));
        self.path.clear();
        self.path.extend_from_slice(name);
        if let Some((_, sum)) = self.open.last_mut() {
            sum.add(own);
        }
    }

    /// Closes open directories, innermost first, until `stays` returns true for one. The sum of a
    /// closed directory is passed to `each` and added to the directory above. `stays` gets the
    /// current path, and the length of the part of that path which is the directory's path.
    fn leave(&mut self, stays: impl Fn(&[u8], usize) -> bool) {
        while let Some((end, sum)) = self.open.pop_if(|(end, _)| !stays(&self.path, *end)) {
            (self.each)(&self.path[..end], sum);
            if let Some((_, above)) = self.open.last_mut() {
                above.add(sum);
            }
        }
    }
}

/// Shortens a directory's path to its first `levels` levels. Only directories down to that level
/// have sums of their own.
pub(super) fn shorten_path(path: &[u8], levels: u32) -> &[u8] {
    let end = ends(path).take(levels as usize + 1).last().unwrap_or(0);
    &path[..end]
}

/// Returns the end of each directory name in a path, after its `/`. The first end is 0, for the
/// root.
fn ends(path: &[u8]) -> impl Iterator<Item = usize> {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    std::iter::once(0).chain(slashes.map(|(at, _)| at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_holds_what_is_in_those_below_it() {
        let one = |bytes| DirectoryTotals { bytes, files: 1, directories: 0 };
        let sums = DirectorySums::new(1 << 20);
        assert!(sums.is_empty());
        let (mut left, mut right) = (ThreadSums::new(&sums), ThreadSums::new(&sums));
        left.add(b"", one(1));
        left.add(b"a/b/", one(20));
        right.add(b"a-b/", one(50_000));
        right.add(b"a/", one(300));
        right.add(b"a/b/", DirectoryTotals { bytes: 4000, files: 0, directories: 1 });
        right.add(b"x/y/z/", one(600_000));
        drop((left, right));
        assert_eq!(sums.total(), DirectoryTotals { bytes: 654_321, files: 5, directories: 1 });
        let mut rows = BTreeMap::new();
        sums.each_directory(|name, totals| assert!(rows.insert(name.to_vec(), totals).is_none())).unwrap();
        let found: Vec<_> = rows.iter().map(|(name, totals)| (&name[..], totals.bytes)).collect();
        let expected: [(&[u8], u64); 7] = [
            (b"", 654_321),
            (b"a-b/", 50_000),
            (b"a/", 4320),
            (b"a/b/", 4020),
            (b"x/", 600_000),
            (b"x/y/", 600_000),
            (b"x/y/z/", 600_000),
        ];
        assert_eq!(found, expected);
        assert_eq!(rows[&b"a/"[..]], DirectoryTotals { bytes: 4320, files: 2, directories: 1 });
    }

    #[test]
    fn paths_are_shortened_to_the_levels_that_have_rows() {
        for (levels, expected) in [(0, ""), (1, "a/"), (2, "a/b/"), (3, "a/b/c/"), (9, "a/b/c/")] {
            assert_eq!(shorten_path(b"a/b/c/", levels), expected.as_bytes());
        }
        assert_eq!(shorten_path(b"", 2), b"");
    }
}
