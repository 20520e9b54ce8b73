//! Keeps the table of inodes. An inode is one version of one object, or a directory.
//!
//! The content of an inode never changes: an overwritten object gets another inode number, so pages
//! and attributes in the kernel are never a mixture of versions. A record is kept as long as the
//! kernel knows its inode (from LOOKUP until FORGET). If there are many records, the kernel is
//! asked to drop inodes, and names become valid only for a moment ([`InodeBounds`]). So the memory
//! does not grow with the number of files. Inode numbers follow the order of listings, because
//! `cp`, `tar` and other programs read files in the order of inode numbers.

mod paths;
mod record;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use firstbyte_location::{EntryKind, Version, to_usize};
use rustix_futex_sync::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use crate::child::{Child, Permissions, VersionIdentity};
use crate::error::{Error, Result};
use crate::source::join;
use paths::InodePaths;
use record::{InodeRecord, StoredIdentity};

/// An inode number.
pub(crate) type Ino = u64;

/// The inode number of the root, which the kernel prescribes.
pub(crate) const ROOT: Ino = 1;

/// Memory of an inode in the tables, with a name and an `ETag` of usual length, bytes.
const BYTES_PER_INODE: u64 = 160;
/// Reciprocal of the share of the memory that inodes may take. The rest is for names, listings and
/// fetches.
const INODES_SHARE: u64 = 2;
/// Minimum of the hard bound, so that the first listings of a directory fit.
const MIN_HARD_BOUND: u64 = 8192;

/// Bounds on the number of inodes that the kernel has in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InodeBounds {
    /// Number of inodes above which the kernel is asked to forget the oldest.
    pub(crate) soft: usize,
    /// Number of inodes at which the kernel may cache no new reply.
    pub(crate) hard: usize,
}

impl InodeBounds {
    /// Returns the bounds for `memory` bytes. The soft bound is half of the hard one: as long as at
    /// most half of a hash table is used, deleted entries make it rehash in place and not grow.
    pub(crate) fn of(memory: u64) -> Self {
        let hard = to_usize((memory / INODES_SHARE / BYTES_PER_INODE).max(MIN_HARD_BOUND));
        Self { soft: hard / 2, hard }
    }
}

/// How the number of inodes compares with its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fullness {
    /// At most the soft bound: the kernel may cache replies.
    Room,
    /// Above the soft bound: the kernel is asked to forget inodes.
    Many,
    /// At the hard bound or above: the kernel may cache no new replies.
    Full,
}

/// The attributes of an inode that the kernel gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InodeAttributes {
    pub(crate) ino: Ino,
    pub(crate) kind: EntryKind,
    pub(crate) size: u64,
    pub(crate) modified: Option<SystemTime>,
    pub(crate) permissions: Option<Permissions>,
}

/// Facts about one inode that operations need.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) ino: Ino,
    /// The path relative to the root.
    pub(crate) path: Box<[u8]>,
    pub(crate) kind: EntryKind,
    pub(crate) pin: VersionIdentity,
    /// True if the object is known to be overwritten. An open is then refused, so that the kernel
    /// looks the name up again.
    pub(crate) is_stale: bool,
}

impl Node {
    /// Returns the path as text for messages.
    pub(crate) fn name(&self) -> String {
        String::from_utf8_lossy(&self.path).into_owned()
    }
}

/// Inode numbers, by the hashes of their identities.
type Numbers = HashMap<u64, Ino, BuildHasherDefault<IdentityHasher>>;

struct InodeTables {
    records: HashMap<Ino, InodeRecord>,
    /// Finds the inode number of an identity that has a record. If two inodes have the same hash,
    /// their records distinguish them, and only the first inode is found here. The other inode gets
    /// a new number with each lookup, which is slower but correct.
    numbers: Numbers,
    paths: InodePaths,
    /// Versions that do not fit into a record, by inode number.
    versions: HashMap<Ino, Box<Version>>,
    /// Inodes whose objects are known to be overwritten or deleted, and since when.
    stale: HashMap<Ino, Instant>,
    /// The next number for a new inode.
    next_ino: Ino,
}

/// The table of all inodes.
pub(crate) struct Inodes {
    bounds: InodeBounds,
    tables: Mutex<InodeTables>,
}

impl Inodes {
    /// Creates the table of a mount whose root has these `permissions`.
    pub(crate) fn new(bounds: InodeBounds, permissions: Option<Permissions>) -> Self {
        let mut paths = InodePaths::default();
        // The record of the root is never removed.
        let root = InodeRecord::new(paths.enter(b""), &Child { permissions, ..Child::directory(b"") }, 0);
        let tables = InodeTables {
            records: HashMap::from([(ROOT, root)]),
            numbers: Numbers::default(),
            paths,
            versions: HashMap::new(),
            stale: HashMap::new(),
            next_ino: ROOT + 1,
        };
        Self { bounds, tables: Mutex::new(tables) }
    }

    /// Returns the inode of a child of `directory`, and counts a lookup of it. `number` is the
    /// inode number that a listing has given to the child, if any.
    pub(crate) fn enter(&self, directory: &[u8], child: &Child, number: Option<Ino>) -> InodeAttributes {
        self.tables.lock().enter(directory, child, number)
    }

    /// Returns the inode of a child that the store reported when it was asked at the time `asked`.
    /// If the object was found overwritten or deleted before that time, the same version exists
    /// again, and the inode is no longer stale.
    pub(crate) fn enter_seen(
        &self,
        directory: &[u8],
        child: &Child,
        number: Option<Ino>,
        asked: Instant,
    ) -> InodeAttributes {
        let mut tables = self.tables.lock();
        let entered = tables.enter(directory, child, number);
        if tables.stale.get(&entered.ino).is_some_and(|since| asked > *since) {
            tables.stale.remove(&entered.ino);
        }
        entered
    }

    /// Returns an inode number to show for a child in a listing: the number of its inode if there
    /// is one, otherwise a number that its inode may get later.
    pub(crate) fn number(&self, directory: &[u8], child: &Child) -> Ino {
        let identity = identity(directory, child);
        let mut tables = self.tables.lock();
        tables.find(directory, child, identity).unwrap_or_else(|| tables.number())
    }

    pub(crate) fn get(&self, ino: Ino) -> Result<Arc<Node>> {
        let tables = self.tables.lock();
        let record = tables.records.get(&ino).ok_or(Error::Unknown { number: ino })?;
        let pin = match record.pin() {
            StoredIdentity::Here(pin) => pin,
            StoredIdentity::Elsewhere => {
                tables.versions.get(&ino).cloned().map_or(VersionIdentity::Unknown, VersionIdentity::Other)
            }
        };
        Ok(Arc::new(Node {
            ino,
            path: tables.path(record).into(),
            kind: record.kind(),
            pin,
            is_stale: tables.stale.contains_key(&ino),
        }))
    }

    /// Returns the attributes of an inode, in the form that the kernel gets.
    pub(crate) fn attributes(&self, ino: Ino) -> Result<InodeAttributes> {
        let tables = self.tables.lock();
        tables.records.get(&ino).map(|record| attributes(ino, record)).ok_or(Error::Unknown { number: ino })
    }

    /// Records that the object of an inode was overwritten or deleted.
    pub(crate) fn mark_stale(&self, ino: Ino) {
        let mut tables = self.tables.lock();
        if tables.records.contains_key(&ino) {
            tables.stale.insert(ino, Instant::now());
        }
    }

    /// Records that the content of an inode was given to the kernel. Returns true the first time.
    pub(crate) fn hand_over(&self, ino: Ino) -> bool {
        self.tables.lock().records.get_mut(&ino).is_some_and(InodeRecord::hand_over)
    }

    /// Subtracts `lookups`, which the kernel forgets, from the lookups of an inode. Removes the
    /// record if none is left.
    pub(crate) fn forget(&self, ino: Ino, lookups: u64) {
        if ino == ROOT {
            return;
        }
        let mut tables = self.tables.lock();
        let Some(record) = tables.records.get_mut(&ino) else { return };
        let left = u64::from(record.lookups()).saturating_sub(lookups);
        record.set_lookups(u32::try_from(left).unwrap_or(u32::MAX));
        if left > 0 {
            return;
        }
        let (identity, directory) = (record.identity(), record.directory());
        tables.records.remove(&ino);
        tables.versions.remove(&ino);
        tables.stale.remove(&ino);
        tables.paths.leave(directory);
        if tables.numbers.get(&identity) == Some(&ino) {
            tables.numbers.remove(&identity);
        }
        tables.shrink();
    }

    /// Returns the `count` oldest inodes whose numbers are above `after`.
    pub(crate) fn oldest(&self, after: Ino, count: usize) -> Vec<Ino> {
        let tables = self.tables.lock();
        let mut found: Vec<Ino> =
            tables.records.keys().copied().filter(|ino| *ino > after && *ino != ROOT).collect();
        found.sort_unstable();
        found.truncate(count);
        found
    }

    /// Returns the inode number of a file's directory and the file's name. Returns `None` if the
    /// kernel has forgotten the directory, or if `ino` is not a file.
    pub(crate) fn directory_and_name(&self, ino: Ino) -> Option<(Ino, Box<[u8]>)> {
        let mut tables = self.tables.lock();
        let record = tables.records.get(&ino).filter(|record| record.kind() == EntryKind::File)?;
        let (name, directory) = (record.name().into(), tables.paths.path(record.directory()).to_vec());
        if directory.is_empty() {
            return Some((ROOT, name));
        }
        let (above, last) = (parent(&directory), Child::directory(name_of(&directory)));
        // This identity has no permissions, because only the path of a directory matters here.
        let number = *tables.numbers.get(&identity(above, &last))?;
        let path = tables.paths.find(above);
        let found = tables.records.get(&number)?;
        (path == Some(found.directory()) && found.name() == &*last.name).then_some((number, name))
    }

    /// Returns the number of inodes that the kernel has not forgotten.
    pub(crate) fn len(&self) -> usize {
        self.tables.lock().records.len()
    }

    pub(crate) fn bounds(&self) -> InodeBounds {
        self.bounds
    }

    /// Compares the number of inodes that the kernel has in memory with the bounds.
    pub(crate) fn fullness(&self) -> Fullness {
        match self.len() {
            len if len >= self.bounds.hard => Fullness::Full,
            len if len > self.bounds.soft => Fullness::Many,
            _ => Fullness::Room,
        }
    }
}

impl InodeTables {
    fn enter(&mut self, directory: &[u8], child: &Child, number: Option<Ino>) -> InodeAttributes {
        let identity = identity(directory, child);
        if let Some(ino) = self.find(directory, child, identity)
            && let Some(record) = self.records.get_mut(&ino)
        {
            // The time of a directory changes with its names. A file with another time is another
            // inode.
            if child.kind == EntryKind::Directory {
                record.update_time(child);
            }
            record.set_lookups(record.lookups() + 1);
            return attributes(ino, record);
        }
        let ino = number.filter(|ino| !self.records.contains_key(ino)).unwrap_or_else(|| self.number());
        let path = self.paths.enter(directory);
        let record = InodeRecord::new(path, child, identity);
        if let VersionIdentity::Other(version) = &child.pin {
            self.versions.insert(ino, version.clone());
        }
        let attributes = attributes(ino, &record);
        self.numbers.insert(identity, ino);
        self.records.insert(ino, record);
        attributes
    }

    fn number(&mut self) -> Ino {
        self.next_ino += 1;
        self.next_ino - 1
    }

    fn find(&mut self, directory: &[u8], child: &Child, identity: u64) -> Option<Ino> {
        let ino = *self.numbers.get(&identity)?;
        let path = self.paths.find(directory)?;
        // The kernel keeps the attributes of an inode for ever. So a child with other permissions
        // must get another inode.
        let same_version = |version: &Version| match self.versions.get(&ino) {
            Some(known) => **known == *version,
            None => false,
        };
        let record = self.records.get(&ino).filter(|record| record.matches_child(path, child))?;
        match (&child.pin, record.pin()) {
            (VersionIdentity::Other(version), StoredIdentity::Elsewhere) => {
                same_version(version).then_some(ino)
            }
            _ => Some(ino),
        }
    }

    fn path(&self, record: &InodeRecord) -> Vec<u8> {
        join(self.paths.path(record.directory()), record.name())
    }

    /// Frees memory if a table is mostly empty.
    fn shrink(&mut self) {
        let needed = 4 * self.records.len() + 1024;
        if self.records.capacity() > 2 * needed {
            self.records.shrink_to(needed);
            self.numbers.shrink_to(needed);
        }
    }
}

fn attributes(ino: Ino, record: &InodeRecord) -> InodeAttributes {
    InodeAttributes {
        ino,
        kind: record.kind(),
        size: record.size(),
        modified: record.modified(),
        permissions: record.permissions(),
    }
}

/// Returns the path of the directory that contains a path.
pub(crate) fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(b"", |slash| &path[..slash])
}

/// Returns the last component of a path.
pub(crate) fn name_of(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(path, |slash| &path[slash + 1..])
}

/// Hashes the path and version of an object. A record that is found by the hash must still be
/// compared.
fn identity(directory: &[u8], child: &Child) -> u64 {
    let mut bytes = Vec::with_capacity(USUAL_IDENTITY_LENGTH);
    bytes.extend((directory.len() as u64).to_le_bytes());
    bytes.extend_from_slice(directory);
    bytes.extend((child.name.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&child.name);
    match &child.pin {
        VersionIdentity::Directory => bytes.extend(b"directory"),
        VersionIdentity::Unknown => bytes.extend(b"unknown"),
        VersionIdentity::Tagged(size, etag) => {
            bytes.extend(size.to_le_bytes());
            bytes.extend(etag.as_bytes());
        }
        VersionIdentity::Local(size, file) => {
            bytes.extend(size.to_le_bytes());
            bytes.extend(file.device.to_le_bytes());
            bytes.extend(file.inode.to_le_bytes());
            bytes.extend(file.modified_ns.to_le_bytes());
            bytes.extend(file.changed_ns.to_le_bytes());
        }
        VersionIdentity::Other(version) => bytes.extend(version.to_string().as_bytes()),
    }
    xxh3_64(&bytes)
}

/// Length of most paths together with their versions, bytes.
const USUAL_IDENTITY_LENGTH: usize = 256;

/// A hasher for keys that are hashes already. It returns the key.
#[derive(Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.first_chunk().map_or(0, |first| u64::from_ne_bytes(*first));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, etag: &str) -> Child {
        Child {
            kind: EntryKind::File,
            pin: VersionIdentity::Tagged(3, etag.into()),
            ..Child::directory(name.as_bytes())
        }
    }

    #[test]
    fn the_same_version_is_the_same_inode_and_another_version_another() {
        let inodes = Inodes::new(InodeBounds::of(32 << 20), None);
        let first = inodes.enter(b"d", &file("a", "\"1\""), None);
        assert_eq!(inodes.enter(b"d", &file("a", "\"1\""), None).ino, first.ino);
        let second = inodes.enter(b"d", &file("a", "\"2\""), None);
        assert_ne!(second.ino, first.ino);
        assert_ne!(inodes.enter(b"e", &file("a", "\"1\""), None).ino, first.ino);
        assert_eq!(inodes.get(first.ino).unwrap().pin, VersionIdentity::Tagged(3, "\"1\"".into()));
    }

    #[test]
    fn a_node_lives_until_every_lookup_is_forgotten() {
        let inodes = Inodes::new(InodeBounds::of(32 << 20), None);
        let child = file("a", "\"1\"");
        let ino = inodes.enter(b"", &child, None).ino;
        inodes.enter(b"", &child, None);
        inodes.forget(ino, 1);
        assert!(inodes.get(ino).is_ok());
        inodes.forget(ino, 1);
        assert!(inodes.get(ino).is_err());
        inodes.forget(ROOT, 1);
        assert!(inodes.get(ROOT).is_ok());
        assert_eq!(inodes.len(), 1);
    }

    #[test]
    fn those_found_longest_ago_come_first_and_files_are_returned_with_their_places() {
        let inodes = Inodes::new(InodeBounds::of(0), None);
        let directory = inodes.enter(b"", &Child::directory(b"d"), None).ino;
        let first = inodes.enter(b"d", &file("a", "\"1\""), None).ino;
        let second = inodes.enter(b"", &file("b", "\"1\""), None).ino;
        let third = inodes.enter(b"d", &file("c", "\"1\""), None).ino;
        assert_eq!(inodes.oldest(0, 3), [directory, first, second]);
        assert_eq!(inodes.oldest(second, 2), [third]);
        assert_eq!(inodes.directory_and_name(first), Some((directory, b"a"[..].into())));
        assert_eq!(inodes.directory_and_name(second), Some((ROOT, b"b"[..].into())));
        assert_eq!(inodes.directory_and_name(directory), None);
        inodes.forget(directory, 1);
        assert_eq!(inodes.directory_and_name(first), None);
        assert_eq!(
            &*inodes.get(first).unwrap().path,
            b"d/a",
            "its path is known without the directory's inode"
        );
    }

    #[test]
    fn what_an_inode_was_overwritten_by_does_not_touch_it() {
        let inodes = Inodes::new(InodeBounds::of(0), None);
        let ino = inodes.enter(b"", &file("a", "\"1\""), None).ino;
        inodes.mark_stale(ino);
        assert!(inodes.get(ino).unwrap().is_stale);
        let version = Version { size: Some(5), last_modified: Some("Mon".into()), ..Version::default() };
        let weak = Child { pin: VersionIdentity::Other(Box::new(version)), ..file("w", "") };
        let number = inodes.enter(b"", &weak, None).ino;
        assert_eq!(inodes.enter(b"", &weak, None).ino, number);
        assert_eq!(inodes.get(number).unwrap().pin, weak.pin);
        assert_eq!(inodes.attributes(number).unwrap().size, 5);
        inodes.forget(number, 2);
        assert!(inodes.tables.lock().versions.is_empty());
    }

    #[test]
    fn an_inode_takes_no_more_memory_than_the_bounds_assume() {
        let bounds = InodeBounds::of(32 << 20);
        assert!(bounds.hard as u64 * BYTES_PER_INODE <= 16 << 20 && bounds.soft > 50_000, "{bounds:?}");
        let inodes = Inodes::new(bounds, None);
        for number in 0..bounds.hard {
            inodes.enter(b"some/directory", &file(&format!("sample-{number:06}.dat"), &"x".repeat(34)), None);
        }
        let locked = inodes.tables.lock();
        // Besides its entries, a hash table has one byte for each of them, and the allocator adds
        // eight bytes to each allocation.
        let tables =
            locked.records.capacity() * 8 / 7 * (24 + 1) + locked.numbers.capacity() * 8 / 7 * (16 + 1);
        let records = locked.records.len() * (40 + 17 + 34 + 8 + 15);
        assert!(tables + records <= bounds.hard * BYTES_PER_INODE as usize * 11 / 10, "{tables} + {records}");
        drop(locked);
        assert_eq!(inodes.fullness(), Fullness::Full);
        inodes.oldest(0, bounds.hard).into_iter().for_each(|ino| inodes.forget(ino, 1));
        assert_eq!((inodes.len(), inodes.fullness()), (1, Fullness::Room));
        assert!(inodes.tables.lock().records.capacity() < 10_000);
        assert_eq!(inodes.tables.lock().numbers.len(), 0);
    }

    #[test]
    fn the_tables_do_not_grow_while_inodes_come_and_go() {
        let bounds = InodeBounds::of(32 << 20);
        let inodes = Inodes::new(bounds, None);
        let most = HashMap::<Ino, InodeRecord>::with_capacity(bounds.hard).capacity();
        for number in 0..1_000_000 {
            inodes.enter(b"d", &file(&format!("{number:06}"), "\"1\""), None);
            if inodes.fullness() != Fullness::Room {
                let oldest = inodes.oldest(0, inodes.len() - bounds.soft / 8 * 7);
                oldest.into_iter().for_each(|ino| inodes.forget(ino, 1));
            }
            let tables = inodes.tables.lock();
            let capacity = tables.records.capacity().max(tables.numbers.capacity());
            assert!(capacity <= most, "room for {capacity} and not {most} after {number}");
        }
    }

    #[test]
    fn a_changed_modification_time_is_shown() {
        let inodes = Inodes::new(InodeBounds::of(32 << 20), None);
        let at = |child: Child, seconds| Child {
            modified: Some(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds)),
            ..child
        };
        let old = inodes.enter(b"", &at(file("a", "\"1\""), 1), None);
        assert_eq!(inodes.enter(b"", &file("a", "\"1\""), None).ino, old.ino, "a listing without a time");
        assert_eq!(inodes.enter(b"", &at(file("a", "\"1\""), 2), None).ino, old.ino, "a rounded time");
        let new = inodes.enter(b"", &at(file("a", "\"1\""), 9), None);
        assert!(new.ino != old.ino && new.modified != old.modified);
        let old = inodes.enter(b"", &at(Child::directory(b"d"), 1), None);
        let new = inodes.enter(b"", &at(Child::directory(b"d"), 2), None);
        assert!(new.ino == old.ino && new.modified != old.modified);
        assert_eq!(inodes.attributes(old.ino).unwrap().modified, new.modified);
    }

    #[test]
    fn an_object_that_is_there_again_in_the_same_version_is_no_longer_stale() {
        let inodes = Inodes::new(InodeBounds::of(32 << 20), None);
        let child = file("a", "\"1\"");
        let before = Instant::now();
        let found = inodes.enter_seen(b"", &child, None, before);
        inodes.mark_stale(found.ino);
        let is_stale = || inodes.get(found.ino).unwrap().is_stale;
        inodes.enter(b"", &child, None);
        inodes.enter_seen(b"", &child, None, before);
        assert!(is_stale(), "what was seen before proves nothing");
        // A coarse clock may return the same time several times.
        let after = std::iter::repeat_with(Instant::now).find(|now| *now > before && is_after(&inodes, *now));
        assert_eq!(inodes.enter_seen(b"", &child, None, after.unwrap()).ino, found.ino);
        assert!(!is_stale());
        inodes.mark_stale(found.ino);
        inodes.forget(found.ino, 4);
        assert!(inodes.tables.lock().stale.is_empty());
    }

    fn is_after(inodes: &Inodes, now: Instant) -> bool {
        inodes.tables.lock().stale.values().all(|since| now > *since)
    }

    #[test]
    fn a_number_shown_in_a_listing_is_the_inode_s_later() {
        let inodes = Inodes::new(InodeBounds::of(32 << 20), None);
        let child = file("a", "\"1\"");
        let shown = inodes.number(b"", &child);
        assert_eq!(inodes.enter(b"", &child, Some(shown)).ino, shown);
        assert_eq!(inodes.number(b"", &child), shown);
        let other = inodes.enter(b"", &file("b", "\"1\""), Some(shown));
        assert_ne!(other.ino, shown, "a number in use is not given twice");
    }
}
