//! Caches the names of directories for the metadata time-to-live.
//!
//! If all names of a directory are known, lookups in it need no request, even if the name does not
//! exist. A second listing needs no request either, and the order of files is known. The memory is
//! bounded: only directories of up to [`KnownDirectories::max_kept_names`] names are kept, and the
//! least recently used are dropped. Of a wider directory, two things are kept: the page around the
//! last name that was looked up, and the pages that were listed most recently (`pages`). A page
//! only shows that the names in it exist.

mod pages;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firstbyte_location::to_usize;
use firstbyte_store::Moment;
use rustix_futex_sync::Mutex;

use crate::child::Child;
use crate::inodes::Ino;
use pages::PackedPages;

/// Maximum number of names of a directory that is kept as a whole. 16,384 names take some 3 MB.
const MAX_NAMES_KEPT: usize = 16_384;
/// Memory of a name with the attributes of its object, both of usual length, bytes.
const BYTES_PER_NAME: u64 = 200;
/// Reciprocal of the share of the memory that names may take.
const NAMES_SHARE: u64 = 8;
/// Minimum number of names for which there is room, however small the memory is: two directories of
/// one S3 page (1,000 names) each.
const MIN_TOTAL_NAMES: u64 = 2048;
/// Reciprocal of the share of the memory that packed pages of wide directories may take. The
/// default memory has room for the 100,000 names that `find` reads before it looks them up.
const PAGES_SHARE: u64 = 6;
/// Number of names that are looked up in order before a whole page is requested for the next name.
/// A page of a thousand names costs a server more than one name.
const LOOKUPS_BEFORE_PAGE: u32 = 4;
/// Maximum number of directories that are remembered as wide. If there are more, all of them are
/// forgotten, which costs one request for each.
const MAX_WIDE_REMEMBERED: usize = 4096;

/// A name, and the inode number that listings show for it. Clones share the name's data.
#[derive(Clone, Debug)]
pub(crate) struct ListedName {
    pub(crate) child: Arc<Child>,
    pub(crate) ino: Ino,
}

/// How much of a directory is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    Whole,
    Page,
}

/// The names of a directory at one moment: all of them, or a page.
#[derive(Debug)]
pub(crate) struct DirectorySnapshot {
    extent: Extent,
    /// The position, in the directory's whole listing, of the first name here.
    first: usize,
    /// The names, in the order of the listing.
    listed: Vec<ListedName>,
    /// Positions in `listed`, sorted by name.
    by_name: Vec<u32>,
    /// The time at which the listing began.
    taken: Moment,
    /// True if the kernel's cache has exactly the names of this snapshot.
    is_in_kernel: AtomicBool,
}

impl DirectorySnapshot {
    pub(crate) fn new(listed: Vec<ListedName>, taken: Moment) -> Self {
        Self::sorted(Extent::Whole, 0, listed, taken)
    }

    /// Creates a page of adjacent names of a wide directory. The first of them is at position
    /// `first` of the directory's listing.
    pub(crate) fn page(listed: Vec<ListedName>, first: usize, taken: Moment) -> Self {
        Self::sorted(Extent::Page, first, listed, taken)
    }

    fn sorted(extent: Extent, first: usize, listed: Vec<ListedName>, taken: Moment) -> Self {
        let mut by_name: Vec<u32> = (0..).take(listed.len()).collect();
        by_name.sort_by(|a, b| listed[*a as usize].child.name.cmp(&listed[*b as usize].child.name));
        Self { extent, first, listed, by_name, taken, is_in_kernel: AtomicBool::new(false) }
    }

    /// Returns the position of `name` in this snapshot.
    pub(crate) fn position(&self, name: &[u8]) -> Option<usize> {
        let found =
            self.by_name.binary_search_by(|at| self.listed[*at as usize].child.name.as_ref().cmp(name));
        found.ok().map(|at| self.by_name[at] as usize)
    }

    /// Returns the names that begin with `prefix`, in byte order.
    pub(crate) fn beginning_with(&self, prefix: &[u8]) -> impl Iterator<Item = &ListedName> {
        let name = |at: &u32| &*self.listed[*at as usize].child.name;
        let start = self.by_name.partition_point(|at| name(at) < prefix);
        self.by_name[start..]
            .iter()
            .take_while(move |at| name(at).starts_with(prefix))
            .map(|at| &self.listed[*at as usize])
    }

    pub(crate) fn listed(&self) -> &[ListedName] {
        &self.listed
    }

    /// Returns whether all names of the directory are in the snapshot, so other names do not exist.
    pub(crate) fn is_whole(&self) -> bool {
        self.extent == Extent::Whole
    }

    /// Returns the position of the first name in the listing. It is 0 if all names are in the
    /// snapshot.
    pub(crate) fn first_position(&self) -> usize {
        self.first
    }

    /// Returns the position after the last name in the listing.
    pub(crate) fn end_position(&self) -> usize {
        self.first + self.listed.len()
    }

    /// Returns whether the kernel's cache has exactly the names of this snapshot. Snapshots that
    /// came from a lookup, or from a listing that the kernel has not read, are not in its cache.
    pub(crate) fn is_in_kernel(&self) -> bool {
        self.is_in_kernel.load(Ordering::Relaxed)
    }

    /// Returns the memory of the snapshot, in units of one name. The snapshot itself takes about as
    /// much as one name.
    fn weight(&self) -> usize {
        self.listed.len() + 1
    }

    /// Returns the time at which the listing began.
    pub(crate) fn began(&self) -> Moment {
        self.taken
    }

    /// Returns how much of `ttl` is left, which is the time for which the names are still valid.
    pub(crate) fn valid(&self, ttl: Duration) -> Duration {
        ttl.saturating_sub(self.taken.age())
    }
}

/// Knowledge of the names of a directory.
#[derive(Clone, Debug)]
pub(crate) enum KnownNames {
    /// All names.
    Whole(Arc<DirectorySnapshot>),
    /// The directory has too many names to be kept. Pages of it may be known.
    Wide,
    /// No names, or only names that are no longer valid.
    Nothing,
}

/// The recent lookups in a wide directory.
#[derive(Default)]
struct Lookups {
    last: Vec<u8>,
    /// Number of consecutive lookups that followed each other in the order of names.
    in_order: u32,
}

impl Lookups {
    fn note(&mut self, name: &[u8]) {
        self.in_order = if self.last.as_slice() <= name { self.in_order.saturating_add(1) } else { 0 };
        self.last.clear();
        self.last.extend_from_slice(name);
    }
}

/// The open handles of a directory.
#[derive(Default)]
struct Readers {
    open: usize,
    /// Number of the last handle that was opened.
    last: u64,
}

/// Proves that one handle alone has filled the kernel's cache of a directory. No other handle was
/// open when this handle was opened. It contains the number of the handle: as long as no later
/// handle has been opened, [`Readers::last`] is the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OnlyReader(u64);

#[derive(Default)]
struct DirectoryTables {
    readers: HashMap<Box<[u8]>, Readers>,
    /// Whole directories, and for each wide directory the page around the last name that was looked
    /// up. Each has the time of its last use.
    snapshots: HashMap<Box<[u8]>, (Arc<DirectorySnapshot>, u64)>,
    /// The recent lookups in each directory that is known to be wide, that is, too large to be kept
    /// as a whole.
    wide: HashMap<Box<[u8]>, Lookups>,
    pages: PackedPages,
    /// Total number of names in `snapshots`.
    name_count: usize,
    /// Counts the uses of directories; the value at a use is its time.
    clock: u64,
}

/// The cache of all known directories.
pub(crate) struct KnownDirectories {
    ttl: Duration,
    /// Maximum total number of names that are kept.
    max_names: usize,
    /// Maximum total length of packed pages, bytes.
    page_bytes: usize,
    tables: Mutex<DirectoryTables>,
}

impl KnownDirectories {
    /// Creates a cache of directories that are valid for `ttl`. It uses fixed shares of `memory`
    /// bytes.
    pub(crate) fn new(ttl: Duration, memory: u64) -> Self {
        let max_names = to_usize((memory / NAMES_SHARE / BYTES_PER_NAME).max(MIN_TOTAL_NAMES));
        Self { ttl, max_names, page_bytes: to_usize(memory / PAGES_SHARE), tables: Mutex::default() }
    }

    /// Returns the maximum number of names of a directory that is kept as a whole.
    pub(crate) fn max_kept_names(&self) -> usize {
        MAX_NAMES_KEPT.min(self.max_names / 4 * 3)
    }

    pub(crate) fn get(&self, path: &[u8]) -> KnownNames {
        let mut tables = self.tables.lock();
        let clock = tables.tick();
        if let Some((directory, used)) = tables.snapshots.get_mut(path)
            && directory.extent == Extent::Whole
            && !directory.valid(self.ttl).is_zero()
        {
            *used = clock;
            return KnownNames::Whole(Arc::clone(directory));
        }
        if tables.wide.contains_key(path) { KnownNames::Wide } else { KnownNames::Nothing }
    }

    /// Returns the kept page that contains `name`, of a directory too large to be kept whole, and
    /// records the lookup. `None` if there is no such page or it has expired.
    pub(crate) fn page(&self, path: &[u8], name: &[u8]) -> Option<Arc<DirectorySnapshot>> {
        let mut tables = self.tables.lock();
        let page = tables
            .snapshot_around(path, name, self.max_names)
            .filter(|page| !page.valid(self.ttl).is_zero())?;
        tables.wide.entry(path.into()).or_default().note(name);
        Some(page)
    }

    /// Records a lookup of `name`, which is in no valid page. Returns whether to request the page
    /// that begins with `name`: the names before it were looked up in order.
    pub(crate) fn note_lookup_in_order(&self, path: &[u8], name: &[u8]) -> bool {
        let mut tables = self.tables.lock();
        let Some(lookups) = tables.wide.get_mut(path) else { return false };
        lookups.note(name);
        let in_order = lookups.in_order > LOOKUPS_BEFORE_PAGE;
        if in_order {
            lookups.in_order = 0;
        }
        in_order
    }

    /// Returns the last listing of a directory, or the page of it that contains `name`, even if it
    /// has expired. Used for the order of names and for their inode numbers, which seldom change.
    pub(crate) fn snapshot_around(&self, path: &[u8], name: &[u8]) -> Option<Arc<DirectorySnapshot>> {
        self.tables.lock().snapshot_around(path, name, self.max_names)
    }

    /// Returns the position after the last name of the kept page. If names are looked up in order,
    /// the next page begins there.
    pub(crate) fn end_of_page(&self, path: &[u8]) -> usize {
        self.tables.lock().snapshots.get(path).map_or(0, |(directory, _)| directory.end_position())
    }

    /// Keeps a directory, or a page of one. Drops the names of the directory that were kept before.
    pub(crate) fn keep(&self, path: &[u8], directory: Arc<DirectorySnapshot>) {
        self.tables.lock().keep(path, directory, self.max_names);
    }

    /// Records that a directory has too many names to be kept as a whole.
    pub(crate) fn mark_wide(&self, path: &[u8]) {
        let mut tables = self.tables.lock();
        tables.remove(path);
        if tables.wide.len() >= MAX_WIDE_REMEMBERED {
            tables.wide.clear();
        }
        tables.wide.insert(path.into(), Lookups::default());
    }

    /// Keeps the next names of a wide directory's listing, in packed form.
    pub(crate) fn keep_listed(&self, path: &[u8], first: usize, listed: &[ListedName], taken: Moment) {
        self.tables.lock().pages.add(path, first, listed, taken, self.page_bytes);
    }

    /// Records that a handle of a directory was opened. Returns an [`OnlyReader`] if no other
    /// handle of the directory is open.
    pub(crate) fn begin_reading(&self, path: &[u8]) -> Option<OnlyReader> {
        let mut tables = self.tables.lock();
        let number = tables.tick();
        let readers = tables.readers.entry(path.into()).or_default();
        readers.open += 1;
        readers.last = number;
        (readers.open == 1).then_some(OnlyReader(number))
    }

    /// Records that a handle of a directory was closed.
    pub(crate) fn end_reading(&self, path: &[u8]) {
        let mut tables = self.tables.lock();
        let Some(readers) = tables.readers.get_mut(path) else { return };
        readers.open -= 1;
        if readers.open == 0 {
            tables.readers.remove(path);
        }
    }

    /// Records that the kernel has read all names of `snapshot` into an empty cache. Does so only
    /// if `reader` is still the only handle from which the kernel got names.
    pub(crate) fn note_in_kernel(&self, path: &[u8], snapshot: &DirectorySnapshot, reader: OnlyReader) {
        let tables = self.tables.lock();
        if tables.readers.get(path).is_some_and(|readers| OnlyReader(readers.last) == reader) {
            snapshot.is_in_kernel.store(true, Ordering::Relaxed);
        }
    }

    /// Drops the names of a directory in which an object has changed.
    pub(crate) fn drop_names(&self, path: &[u8]) {
        self.tables.lock().remove(path);
    }
}

impl DirectoryTables {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn snapshot_around(
        &mut self,
        path: &[u8],
        name: &[u8],
        max_names: usize,
    ) -> Option<Arc<DirectorySnapshot>> {
        let clock = self.tick();
        if let Some((kept, used)) = self.snapshots.get_mut(path)
            && (kept.extent == Extent::Whole || kept.position(name).is_some())
        {
            *used = clock;
            return Some(Arc::clone(kept));
        }
        let page = Arc::new(self.pages.find(path, name)?);
        self.keep(path, Arc::clone(&page), max_names);
        Some(page)
    }

    /// Keeps a directory. Then drops the least recently used directories until at most
    /// `max_names` names are kept.
    fn keep(&mut self, path: &[u8], directory: Arc<DirectorySnapshot>, max_names: usize) {
        let clock = self.tick();
        if directory.extent == Extent::Whole {
            self.wide.remove(path);
            self.pages.remove(path);
        }
        self.name_count += directory.weight();
        if let Some((old, _)) = self.snapshots.insert(path.into(), (directory, clock)) {
            self.name_count -= old.weight();
        }
        while self.name_count > max_names {
            let Some(oldest) =
                self.snapshots.iter().min_by_key(|(_, (_, used))| *used).map(|(path, _)| path.clone())
            else {
                break;
            };
            if let Some((gone, _)) = self.snapshots.remove(&oldest) {
                self.name_count -= gone.weight();
            }
        }
    }

    fn remove(&mut self, path: &[u8]) {
        self.pages.remove(path);
        if let Some((old, _)) = self.snapshots.remove(path) {
            self.name_count -= old.weight();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(count: usize) -> Arc<DirectorySnapshot> {
        let name = |index: usize| format!("n{:05}", (index * 7919) % count.max(1));
        let listed = (0..count)
            .map(|index| ListedName { child: Arc::new(Child::directory(name(index).as_bytes())), ino: 2 })
            .collect();
        Arc::new(DirectorySnapshot::new(listed, Moment::now()))
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
        // Room for four directories of the maximum width.
        let names = 4 * (MAX_NAMES_KEPT as u64 + 1);
        let directories =
            KnownDirectories::new(Duration::from_secs(60), NAMES_SHARE * BYTES_PER_NAME * names);
        assert_eq!(directories.max_kept_names(), MAX_NAMES_KEPT);
        for path in [&b"0"[..], b"1", b"2", b"3"] {
            directories.keep(path, directory(MAX_NAMES_KEPT));
        }
        assert!(matches!(directories.get(b"0"), KnownNames::Whole(_)));
        directories.keep(b"4", directory(1));
        assert!(matches!(directories.get(b"1"), KnownNames::Nothing));
        assert!(matches!(directories.get(b"0"), KnownNames::Whole(_)));
        directories.keep(b"0", directory(1));
        directories.keep(b"5", directory(MAX_NAMES_KEPT));
        assert!(
            matches!(directories.get(b"2"), KnownNames::Whole(_)),
            "names replaced are not counted twice"
        );
    }

    #[test]
    fn the_kernel_has_the_names_of_a_snapshot_only_if_one_handle_alone_has_read_all_of_it() {
        let directories = KnownDirectories::new(Duration::from_secs(60), 0);
        let snapshot = directory(3);
        let alone = directories.begin_reading(b"d").unwrap();
        assert_eq!(directories.begin_reading(b"d"), None, "another handle is open");
        directories.note_in_kernel(b"d", &snapshot, alone);
        assert!(!snapshot.is_in_kernel(), "the other handle's names may be in the kernel");
        directories.end_reading(b"d");
        directories.end_reading(b"d");
        let alone = directories.begin_reading(b"d").unwrap();
        directories.note_in_kernel(b"d", &snapshot, alone);
        directories.end_reading(b"d");
        assert!(snapshot.is_in_kernel() && directories.tables.lock().readers.is_empty());
        assert!(!directory(3).is_in_kernel(), "a later snapshot has other names");
    }

    #[test]
    fn empty_directories_take_room_too() {
        let directories = KnownDirectories::new(Duration::from_secs(60), 0);
        for number in 0..3 * MIN_TOTAL_NAMES {
            directories.keep(number.to_string().as_bytes(), directory(0));
        }
        assert_eq!(directories.tables.lock().snapshots.len() as u64, MIN_TOTAL_NAMES);
    }

    #[test]
    fn nothing_is_believed_beyond_its_time() {
        let directories = KnownDirectories::new(Duration::ZERO, 0);
        assert_eq!(directories.max_kept_names(), 1536);
        directories.keep(b"d", directory(3));
        assert!(matches!(directories.get(b"d"), KnownNames::Nothing));
        directories.mark_wide(b"d");
        assert!(matches!(directories.get(b"d"), KnownNames::Wide));
    }

    #[test]
    fn names_expire_while_the_machine_is_suspended() {
        let ttl = Duration::from_secs(60);
        let directories = KnownDirectories::new(ttl, 0);
        let snapshot = |taken| Arc::new(DirectorySnapshot::new(Vec::new(), taken));
        directories.keep(b"d", snapshot(Moment::now()));
        assert!(matches!(directories.get(b"d"), KnownNames::Whole(_)));
        directories.keep(b"d", snapshot(Moment::now().before_suspension(ttl)));
        assert!(matches!(directories.get(b"d"), KnownNames::Nothing));
    }

    #[test]
    fn a_page_is_requested_only_for_names_looked_up_in_their_order() {
        let directories = KnownDirectories::new(Duration::from_secs(60), 0);
        let in_order = |name: &str| directories.note_lookup_in_order(b"d", name.as_bytes());
        assert!(!in_order("a"), "nothing is known of it");
        directories.mark_wide(b"d");
        assert_eq!(["a", "b", "c", "d", "e"].map(in_order), [false, false, false, false, true]);
        assert_eq!(["f", "c", "d", "e", "f", "a", "b"].map(in_order), [false; 7]);
        let listed = |name: &str| ListedName { child: Arc::new(Child::directory(name.as_bytes())), ino: 2 };
        let names = ["b", "c", "d", "e"].map(listed).to_vec();
        directories.keep(b"d", Arc::new(DirectorySnapshot::page(names, 1000, Moment::now())));
        assert!(directories.page(b"d", b"a").is_none());
        for name in ["b", "c", "d", "e"] {
            let page = directories.page(b"d", name.as_bytes()).unwrap();
            assert!(page.position(name.as_bytes()).is_some() && page.first_position() == 1000);
        }
        assert!(in_order("f"), "those in the page count too");
        assert!(matches!(directories.get(b"d"), KnownNames::Wide));
    }
}
