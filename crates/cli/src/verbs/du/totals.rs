//! Sums by directory.

use std::collections::BTreeMap;

/// What a directory holds, all levels together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) bytes: u64,
    /// Everything that is no directory.
    pub(super) files: u64,
    /// Directories in it, itself not counted.
    pub(super) directories: u64,
}

impl Totals {
    pub(super) fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.files += other.files;
        self.directories += other.directories;
    }
}

/// Sums by name of directory, from the root and with a `/` at its end; the root's name is empty. While entries are added,
/// each directory has its own alone; [`rows`](Self::rows) adds up.
#[derive(Debug, Default)]
pub(super) struct Tree {
    own: BTreeMap<Vec<u8>, Totals>,
}

impl Tree {
    /// Adds to what a directory itself holds.
    pub(super) fn add(&mut self, directory: &[u8], totals: Totals) {
        match self.own.get_mut(directory) {
            Some(own) => own.add(totals),
            None => drop(self.own.insert(directory.to_vec(), totals)),
        }
    }

    /// Adds what somebody else has summed of the same root.
    pub(super) fn merge(&mut self, other: Self) {
        other.own.into_iter().for_each(|(directory, totals)| self.add(&directory, totals));
    }

    /// Whether nothing was added.
    pub(super) fn is_empty(&self) -> bool {
        self.own.is_empty()
    }

    /// The sum of everything.
    pub(super) fn total(&self) -> Totals {
        self.own.values().fold(Totals::default(), |mut sum, totals| {
            sum.add(*totals);
            sum
        })
    }

    /// What was added under each name, as it is.
    pub(super) fn into_own(self) -> BTreeMap<Vec<u8>, Totals> {
        self.own
    }

    /// Every directory with what it holds at all levels.
    pub(super) fn rows(self) -> BTreeMap<Vec<u8>, Totals> {
        let mut rows: BTreeMap<Vec<u8>, Totals> =
            self.own.keys().map(|name| (name.clone(), Totals::default())).collect();
        for (name, totals) in self.own {
            for end in ends(&name) {
                rows.entry(name[..end].to_vec()).or_default().add(totals);
            }
        }
        rows
    }
}

/// The part of a directory's path that its sums belong to, where `levels` levels have their own.
pub(super) fn shortened(path: &[u8], levels: u32) -> &[u8] {
    let end = ends(path).take(levels as usize + 1).last().unwrap_or(0);
    &path[..end]
}

/// Where the directories in a path end, from the root's empty one on, each behind its `/`.
fn ends(path: &[u8]) -> impl Iterator<Item = usize> {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    std::iter::once(0).chain(slashes.map(|(at, _)| at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_holds_what_is_in_those_below_it() {
        let one = |bytes| Totals { bytes, files: 1, directories: 0 };
        let (mut left, mut right) = (Tree::default(), Tree::default());
        left.add(b"", one(1));
        left.add(b"a/b/", one(20));
        right.add(b"a/", one(300));
        right.add(b"a/b/", Totals { bytes: 4000, files: 0, directories: 1 });
        left.merge(right);
        assert_eq!(left.total(), Totals { bytes: 4321, files: 3, directories: 1 });
        let rows = left.rows();
        assert_eq!(rows[&b""[..]].bytes, 4321);
        assert_eq!(rows[&b"a/"[..]], Totals { bytes: 4320, files: 2, directories: 1 });
        assert_eq!(rows[&b"a/b/"[..]].bytes, 4020);
    }

    #[test]
    fn paths_are_shortened_to_the_levels_that_have_rows() {
        for (levels, expected) in [(0, ""), (1, "a/"), (2, "a/b/"), (3, "a/b/c/"), (9, "a/b/c/")] {
            assert_eq!(shortened(b"a/b/c/", levels), expected.as_bytes());
        }
        assert_eq!(shortened(b"", 2), b"");
    }
}
