//! Caches directories whose names are all known, for the metadata time-to-live.
//!
//! A cached directory answers lookups without a request, for missing names too, serves a second
//! listing, and gives the order of files. Memory is bounded: only directories of up to
//! [`Directories::widest`] names are kept, and the least recently used are dropped. Of a wider
//! directory only the fact that it is wide is kept.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use firstbyte_location::to_usize;

use crate::child::Child;
use crate::inodes::Ino;

/// Widest directory kept: 16,384 names are some 3 MB.
const WIDEST: usize = 16_384;
/// Bytes of a name with what is known of its object, where both are of usual length.
const NAME: u64 = 200;
/// Names may take one part in this many of the memory.
const SHARE: u64 = 8;
/// Names kept in all, at least: a directory of one S3 page, and one beside it.
const LEAST: u64 = 2048;
/// Directories known to be wide that are remembered; when there are more all are forgotten, which
/// costs a request each.
const WIDE: usize = 4096;

/// A name and the number it was shown with. Clones share the name.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) child: Arc<Child>,
    pub(crate) ino: Ino,
}

/// A complete directory at one instant.
#[derive(Debug)]
pub(crate) struct Directory {
    /// In the order of the listing.
    listed: Vec<Listed>,
    /// Positions in `listed`, by name.
    by_name: Vec<u32>,
    /// When the listing began.
    taken: Instant,
}

impl Directory {
    pub(crate) fn new(listed: Vec<Listed>, taken: Instant) -> Self {
        let mut by_name: Vec<u32> = (0..).take(listed.len()).collect();
        by_name.sort_by(|a, b| listed[*a as usize].child.name.cmp(&listed[*b as usize].child.name));
        Self { listed, by_name, taken }
    }

    /// The position of `name` in the listing.
    pub(crate) fn position(&self, name: &[u8]) -> Option<usize> {
        let found =
            self.by_name.binary_search_by(|at| self.listed[*at as usize].child.name.as_ref().cmp(name));
        found.ok().map(|at| self.by_name[at] as usize)
    }

    pub(crate) fn listed(&self) -> &[Listed] {
        &self.listed
    }

    /// Its memory, in names. The directory itself takes about as much as one name.
    fn weight(&self) -> usize {
        self.listed.len() + 1
    }

    /// The remaining part of `ttl` for which it is valid.
    pub(crate) fn valid(&self, ttl: Duration) -> Duration {
        ttl.saturating_sub(self.taken.elapsed())
    }
}

/// What is known about a directory.
#[derive(Clone, Debug)]
pub(crate) enum Known {
    /// Everything.
    Whole(Arc<Directory>),
    /// It has more names than are kept.
    Wide,
    /// Nothing that is still valid.
    Nothing,
}

#[derive(Default)]
struct Inner {
    whole: HashMap<Box<[u8]>, (Arc<Directory>, u64)>,
    wide: HashMap<Box<[u8]>, ()>,
    names: usize,
    clock: u64,
}

/// All known directories.
pub(crate) struct Directories {
    ttl: Duration,
    /// Names kept in all.
    names: usize,
    inner: Mutex<Inner>,
}

impl Directories {
    /// A cache of directories that are valid for `ttl`, in a share of `memory` bytes.
    pub(crate) fn new(ttl: Duration, memory: u64) -> Self {
        let names = to_usize((memory / SHARE / NAME).max(LEAST));
        Self { ttl, names, inner: Mutex::default() }
    }

    /// Names of the widest directory that is kept.
    pub(crate) fn widest(&self) -> usize {
        WIDEST.min(self.names / 4 * 3)
    }

    pub(crate) fn get(&self, path: &[u8]) -> Known {
        let mut inner = self.inner();
        inner.clock += 1;
        let clock = inner.clock;
        if let Some((directory, used)) = inner.whole.get_mut(path)
            && !directory.valid(self.ttl).is_zero()
        {
            *used = clock;
            return Known::Whole(Arc::clone(directory));
        }
        if inner.wide.contains_key(path) { Known::Wide } else { Known::Nothing }
    }

    /// The last whole listing, however old: for the order of names, which seldom changes.
    pub(crate) fn last(&self, path: &[u8]) -> Option<Arc<Directory>> {
        self.inner().whole.get(path).map(|(directory, _)| Arc::clone(directory))
    }

    pub(crate) fn keep(&self, path: &[u8], directory: Arc<Directory>) {
        let mut inner = self.inner();
        inner.clock += 1;
        let clock = inner.clock;
        inner.wide.remove(path);
        inner.names += directory.weight();
        if let Some((old, _)) = inner.whole.insert(path.into(), (directory, clock)) {
            inner.names -= old.weight();
        }
        while inner.names > self.names {
            let Some(oldest) =
                inner.whole.iter().min_by_key(|(_, (_, used))| *used).map(|(path, _)| path.clone())
            else {
                break;
            };
            if let Some((gone, _)) = inner.whole.remove(&oldest) {
                inner.names -= gone.weight();
            }
        }
    }

    pub(crate) fn mark_wide(&self, path: &[u8]) {
        let mut inner = self.inner();
        if let Some((old, _)) = inner.whole.remove(path) {
            inner.names -= old.weight();
        }
        if inner.wide.len() >= WIDE {
            inner.wide.clear();
        }
        inner.wide.insert(path.into(), ());
    }

    /// Drops a directory in which an object has changed.
    pub(crate) fn doubt(&self, path: &[u8]) {
        let mut inner = self.inner();
        if let Some((old, _)) = inner.whole.remove(path) {
            inner.names -= old.weight();
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(count: usize) -> Arc<Directory> {
        let name = |index: usize| format!("n{:05}", (index * 7919) % count.max(1));
        let listed = (0..count)
            .map(|index| Listed { child: Arc::new(Child::directory(name(index).as_bytes())), ino: 2 })
            .collect();
        Arc::new(Directory::new(listed, Instant::now()))
    }

    #[test]
    fn a_name_is_found_at_its_place_in_the_listing() {
        let directory = directory(1000);
        let at = directory.position(b"n00007").unwrap();
        assert_eq!(&*directory.listed()[at].child.name, b"n00007");
        assert_eq!(directory.position(b"n1"), None);
    }

    #[test]
    fn the_longest_unused_goes_when_there_are_too_many_names() {
        // Four of the widest.
        let names = 4 * (WIDEST as u64 + 1);
        let directories = Directories::new(Duration::from_secs(60), SHARE * NAME * names);
        assert_eq!(directories.widest(), WIDEST);
        for path in [&b"0"[..], b"1", b"2", b"3"] {
            directories.keep(path, directory(WIDEST));
        }
        assert!(matches!(directories.get(b"0"), Known::Whole(_)));
        directories.keep(b"4", directory(1));
        assert!(matches!(directories.get(b"1"), Known::Nothing));
        assert!(matches!(directories.get(b"0"), Known::Whole(_)));
        directories.keep(b"0", directory(1));
        directories.keep(b"5", directory(WIDEST));
        assert!(matches!(directories.get(b"2"), Known::Whole(_)), "names replaced are not counted twice");
    }

    #[test]
    fn empty_directories_take_room_too() {
        let directories = Directories::new(Duration::from_secs(60), 0);
        for number in 0..3 * LEAST {
            directories.keep(number.to_string().as_bytes(), directory(0));
        }
        assert_eq!(directories.inner().whole.len() as u64, LEAST);
    }

    #[test]
    fn nothing_is_believed_beyond_its_time() {
        let directories = Directories::new(Duration::ZERO, 0);
        assert_eq!(directories.widest(), 1536);
        directories.keep(b"d", directory(3));
        assert!(matches!(directories.get(b"d"), Known::Nothing));
        directories.mark_wide(b"d");
        assert!(matches!(directories.get(b"d"), Known::Wide));
    }
}
