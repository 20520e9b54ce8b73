//! Caches the names of directories, for the metadata time-to-live.
//!
//! A directory whose names are all known answers lookups without a request, for missing names too,
//! serves a second listing, and gives the order of files. Memory is bounded: only directories of up
//! to [`Directories::widest`] names are kept, and the least recently used are dropped. Of a wider
//! directory the page around the last name looked up is kept, and the last pages that were listed
//! (`pages`). A page answers only for the names it has.

mod pages;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use firstbyte_location::to_usize;
use rustix_futex_sync::Mutex;

use crate::child::Child;
use crate::inodes::Ino;
use pages::Pages;

/// Widest directory kept: 16,384 names are some 3 MB.
const WIDEST: usize = 16_384;
/// Bytes of a name with what is known of its object, where both are of usual length.
const NAME: u64 = 200;
/// Names may take one part in this many of the memory.
const SHARE: u64 = 8;
/// Names kept in all, at least: a directory of one S3 page, and one beside it.
const LEAST: u64 = 2048;
/// The packed pages of wide directories may take one part in this many of the memory: the 100,000
/// names that `find` reads before it looks at them fit into that of the default.
const PAGES_SHARE: u64 = 6;
/// Names looked up in their order before a whole page is requested for the next: its thousand names
/// cost a server more than one.
const IN_ORDER: u32 = 4;
/// Directories known to be wide that are remembered; when there are more all are forgotten, which
/// costs a request each.
const WIDE: usize = 4096;

/// A name and the number it was shown with. Clones share the name.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) child: Arc<Child>,
    pub(crate) ino: Ino,
}

/// The part of a directory that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    Whole,
    Page,
}

/// A directory at one instant, or a page of one.
#[derive(Debug)]
pub(crate) struct Directory {
    extent: Extent,
    /// The position of its first name in the listing.
    first: usize,
    /// In the order of the listing.
    listed: Vec<Listed>,
    /// Positions in `listed`, by name.
    by_name: Vec<u32>,
    /// When the listing began.
    taken: Instant,
}

impl Directory {
    pub(crate) fn new(listed: Vec<Listed>, taken: Instant) -> Self {
        Self::sorted(Extent::Whole, 0, listed, taken)
    }

    /// Adjacent names of a wide directory, the first of them at position `first` in its listing.
    pub(crate) fn page(listed: Vec<Listed>, first: usize, taken: Instant) -> Self {
        Self::sorted(Extent::Page, first, listed, taken)
    }

    fn sorted(extent: Extent, first: usize, listed: Vec<Listed>, taken: Instant) -> Self {
        let mut by_name: Vec<u32> = (0..).take(listed.len()).collect();
        by_name.sort_by(|a, b| listed[*a as usize].child.name.cmp(&listed[*b as usize].child.name));
        Self { extent, first, listed, by_name, taken }
    }

    /// The position of `name` among those listed here.
    pub(crate) fn position(&self, name: &[u8]) -> Option<usize> {
        let found =
            self.by_name.binary_search_by(|at| self.listed[*at as usize].child.name.as_ref().cmp(name));
        found.ok().map(|at| self.by_name[at] as usize)
    }

    /// The names that begin with `prefix`, in the order of their bytes.
    pub(crate) fn beginning_with(&self, prefix: &[u8]) -> impl Iterator<Item = &Listed> {
        let name = |at: &u32| &*self.listed[*at as usize].child.name;
        let start = self.by_name.partition_point(|at| name(at) < prefix);
        self.by_name[start..]
            .iter()
            .take_while(move |at| name(at).starts_with(prefix))
            .map(|at| &self.listed[*at as usize])
    }

    pub(crate) fn listed(&self) -> &[Listed] {
        &self.listed
    }

    /// Whether a name that it does not have does not exist.
    pub(crate) fn is_whole(&self) -> bool {
        self.extent == Extent::Whole
    }

    /// The position of its first name in the listing: 0 if it is whole.
    pub(crate) fn first(&self) -> usize {
        self.first
    }

    /// The position behind its last name in the listing.
    pub(crate) fn end(&self) -> usize {
        self.first + self.listed.len()
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
    /// It has more names than are kept; pages of it may be.
    Wide,
    /// Nothing that is still valid.
    Nothing,
}

/// The names looked up in a wide directory.
#[derive(Default)]
struct Lookups {
    last: Vec<u8>,
    /// How many followed each other in the order of names.
    in_order: u32,
}

impl Lookups {
    fn note(&mut self, name: &[u8]) {
        self.in_order = if self.last.as_slice() <= name { self.in_order.saturating_add(1) } else { 0 };
        self.last.clear();
        self.last.extend_from_slice(name);
    }
}

#[derive(Default)]
struct Inner {
    /// Whole directories, and of each wide one the page around the last name looked up, with the
    /// time of their last use.
    kept: HashMap<Box<[u8]>, (Arc<Directory>, u64)>,
    wide: HashMap<Box<[u8]>, Lookups>,
    pages: Pages,
    /// Names in `kept`.
    names: usize,
    clock: u64,
}

/// All known directories.
pub(crate) struct Directories {
    ttl: Duration,
    /// Names kept in all.
    names: usize,
    /// Bytes of packed pages.
    page_bytes: usize,
    inner: Mutex<Inner>,
}

impl Directories {
    /// A cache of directories that are valid for `ttl`, in a share of `memory` bytes.
    pub(crate) fn new(ttl: Duration, memory: u64) -> Self {
        let names = to_usize((memory / SHARE / NAME).max(LEAST));
        Self { ttl, names, page_bytes: to_usize(memory / PAGES_SHARE), inner: Mutex::default() }
    }

    /// Names of the widest directory that is kept.
    pub(crate) fn widest(&self) -> usize {
        WIDEST.min(self.names / 4 * 3)
    }

    pub(crate) fn get(&self, path: &[u8]) -> Known {
        let mut inner = self.inner.lock();
        let clock = inner.tick();
        if let Some((directory, used)) = inner.kept.get_mut(path)
            && directory.extent == Extent::Whole
            && !directory.valid(self.ttl).is_zero()
        {
            *used = clock;
            return Known::Whole(Arc::clone(directory));
        }
        if inner.wide.contains_key(path) { Known::Wide } else { Known::Nothing }
    }

    /// The page of a wide directory that has `name`, if one is valid.
    pub(crate) fn page(&self, path: &[u8], name: &[u8]) -> Option<Arc<Directory>> {
        let mut inner = self.inner.lock();
        let page = inner.around(path, name, self.names).filter(|page| !page.valid(self.ttl).is_zero())?;
        inner.wide.entry(path.into()).or_default().note(name);
        Some(page)
    }

    /// Whether the page that begins with `name` is worth a request, as no valid page has it: the
    /// names before it were looked up in their order.
    pub(crate) fn is_in_order(&self, path: &[u8], name: &[u8]) -> bool {
        let mut inner = self.inner.lock();
        let Some(lookups) = inner.wide.get_mut(path) else { return false };
        lookups.note(name);
        let in_order = lookups.in_order > IN_ORDER;
        if in_order {
            lookups.in_order = 0;
        }
        in_order
    }

    /// The last listing of a directory, or the page of it that has `name`, however old: for the
    /// order and the numbers of names, which seldom change.
    pub(crate) fn around(&self, path: &[u8], name: &[u8]) -> Option<Arc<Directory>> {
        self.inner.lock().around(path, name, self.names)
    }

    /// The position behind the page kept of a directory: that of the next one, as they are looked
    /// up in their order.
    pub(crate) fn end_of_page(&self, path: &[u8]) -> usize {
        self.inner.lock().kept.get(path).map_or(0, |(directory, _)| directory.end())
    }

    /// Keeps a directory, or a page in place of another.
    pub(crate) fn keep(&self, path: &[u8], directory: Arc<Directory>) {
        self.inner.lock().keep(path, directory, self.names);
    }

    /// A directory has more names than are kept.
    pub(crate) fn mark_wide(&self, path: &[u8]) {
        let mut inner = self.inner.lock();
        inner.remove(path);
        if inner.wide.len() >= WIDE {
            inner.wide.clear();
        }
        inner.wide.insert(path.into(), Lookups::default());
    }

    /// Keeps the next names of the listing of a wide directory, packed.
    pub(crate) fn keep_listed(&self, path: &[u8], first: usize, listed: &[Listed], taken: Instant) {
        self.inner.lock().pages.add(path, first, listed, taken, self.page_bytes);
    }

    /// Drops a directory in which an object has changed.
    pub(crate) fn doubt(&self, path: &[u8]) {
        self.inner.lock().remove(path);
    }
}

impl Inner {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn around(&mut self, path: &[u8], name: &[u8], names: usize) -> Option<Arc<Directory>> {
        let clock = self.tick();
        if let Some((kept, used)) = self.kept.get_mut(path)
            && (kept.extent == Extent::Whole || kept.position(name).is_some())
        {
            *used = clock;
            return Some(Arc::clone(kept));
        }
        let page = Arc::new(self.pages.find(path, name)?);
        self.keep(path, Arc::clone(&page), names);
        Some(page)
    }

    /// Keeps a directory, and drops the least recently used above `names` names.
    fn keep(&mut self, path: &[u8], directory: Arc<Directory>, names: usize) {
        let clock = self.tick();
        if directory.extent == Extent::Whole {
            self.wide.remove(path);
            self.pages.remove(path);
        }
        self.names += directory.weight();
        if let Some((old, _)) = self.kept.insert(path.into(), (directory, clock)) {
            self.names -= old.weight();
        }
        while self.names > names {
            let Some(oldest) =
                self.kept.iter().min_by_key(|(_, (_, used))| *used).map(|(path, _)| path.clone())
            else {
                break;
            };
            if let Some((gone, _)) = self.kept.remove(&oldest) {
                self.names -= gone.weight();
            }
        }
    }

    fn remove(&mut self, path: &[u8]) {
        self.pages.remove(path);
        if let Some((old, _)) = self.kept.remove(path) {
            self.names -= old.weight();
        }
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
        assert_eq!(directories.inner.lock().kept.len() as u64, LEAST);
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

    #[test]
    fn a_page_is_requested_only_for_names_looked_up_in_their_order() {
        let directories = Directories::new(Duration::from_secs(60), 0);
        let in_order = |name: &str| directories.is_in_order(b"d", name.as_bytes());
        assert!(!in_order("a"), "nothing is known of it");
        directories.mark_wide(b"d");
        assert_eq!(["a", "b", "c", "d", "e"].map(in_order), [false, false, false, false, true]);
        assert_eq!(["f", "c", "d", "e", "f", "a", "b"].map(in_order), [false; 7]);
        let listed = |name: &str| Listed { child: Arc::new(Child::directory(name.as_bytes())), ino: 2 };
        let names = ["b", "c", "d", "e"].map(listed).to_vec();
        directories.keep(b"d", Arc::new(Directory::page(names, 1000, Instant::now())));
        assert!(directories.page(b"d", b"a").is_none());
        for name in ["b", "c", "d", "e"] {
            let page = directories.page(b"d", name.as_bytes()).unwrap();
            assert!(page.position(name.as_bytes()).is_some() && page.first() == 1000);
        }
        assert!(in_order("f"), "those in the page count too");
        assert!(matches!(directories.get(b"d"), Known::Wide));
    }
}
