//! Copies of whole trees: which names, where to, and whether for real.
//!
//! A local destination is only ever touched beneath its root ([`Beneath`]): no link below it is followed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use firstbyte_location::{Entry, Kind, Location, S3Object};
use firstbyte_store::{Beneath, Directories, Error as StoreError, ListOptions, Listing, Order, Over, Store};

use crate::leftovers::Leftovers;
use crate::{Action, Compare, Error, Failure, Job, Observer, Result, Settings, unchanged};

/// What happens to objects that only the destination has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extras {
    /// They stay.
    #[default]
    Keep,
    /// They are deleted.
    Delete(Empty),
}

/// Whether a source without any object is taken at its word when extras are deleted: it may be a wrong name, and everything
/// at the destination would be extra.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Empty {
    /// It is an error, and nothing is deleted.
    #[default]
    Refuse,
    /// Everything is deleted.
    Allow,
}

/// Whether anything is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effect {
    /// Yes.
    #[default]
    Apply,
    /// No: [`Observer::planned`](crate::Observer::planned) is told what would be.
    DryRun,
}

/// One worker's share of a tree: names whose stable hash falls on `index` of `count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 0.
    pub index: u32,
    /// At least 1.
    pub count: u32,
}

impl Default for Shard {
    fn default() -> Self {
        Self { index: 0, count: 1 }
    }
}

impl Shard {
    /// Whether `name` is this shard's. FNV-1a: the same on every machine and in every release.
    #[must_use]
    pub fn takes(self, name: &[u8]) -> bool {
        let hash = name.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        // FNV's low bits are its weak ones.
        (hash ^ (hash >> 32)) % u64::from(self.count.max(1)) == u64::from(self.index)
    }
}

/// How much of a source is listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Levels {
    /// What lies directly in it.
    One,
    /// Everything below it.
    #[default]
    All,
}

/// A tree to copy or to bring up to date.
pub struct Tree<'a> {
    /// What is copied: everything below it.
    pub source: Location,
    /// Where each name goes, joined below it.
    pub destination: Location,
    /// Names begin with this; the store is asked for no others.
    pub beginning: String,
    /// How deep the source is listed.
    pub levels: Levels,
    /// Which names (relative to `source`) take part; includes and excludes are the caller's.
    pub select: &'a (dyn Fn(&[u8]) -> bool + Sync),
    /// This worker's share.
    pub shard: Shard,
    /// Whether anything is done.
    pub effect: Effect,
}

/// What a run over a tree counts beside its jobs.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) skipped: AtomicU64,
    pub(crate) deleted: AtomicU64,
    /// Pipes, sockets and devices.
    pub(crate) special: AtomicU64,
    /// Empty directories that a store cannot hold.
    pub(crate) directories: AtomicU64,
}

pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

/// A tree while it is copied.
pub(crate) struct Copying<'a> {
    pub(crate) tree: &'a Tree<'a>,
    /// The destination, where it is local: everything is written and deleted beneath it.
    pub(crate) beneath: Option<Beneath>,
    leftovers: Leftovers,
    pub(crate) counts: Counts,
}

impl<'a> Copying<'a> {
    pub(crate) fn new(tree: &'a Tree<'a>) -> Self {
        let like = tree.source.as_local();
        let beneath = tree.destination.as_local().map(|root| Beneath::new(root, like));
        Self { tree, beneath, leftovers: Leftovers::default(), counts: Counts::default() }
    }

    /// Whether a listed entry takes part. One that cannot be copied is counted.
    pub(crate) fn takes(&self, entry: &Entry) -> bool {
        // What lies in a directory is not looked at where one level is copied.
        if entry.kind == Kind::Directory && self.tree.levels == Levels::One {
            return false;
        }
        let name = entry.name.strip_suffix(b"/").filter(|_| entry.kind == Kind::Directory);
        let name = name.unwrap_or(&entry.name);
        let takes = !is_unfinished(name) && self.tree.shard.takes(name) && (self.tree.select)(name);
        if takes && entry.kind == Kind::Other {
            add(&self.counts.special, 1);
        }
        takes && matches!(entry.kind, Kind::File | Kind::Directory)
    }

    /// The job that copies a listed entry, or its plan told. `None` too for a directory, which is made at once.
    pub(crate) fn job(
        &self,
        entry: Entry,
        over: Over,
        observer: &dyn Observer,
    ) -> Option<std::result::Result<Job, Failure>> {
        let source = self.tree.source.join(&entry.name);
        let destination = match self.place(&entry) {
            Ok(destination) => destination?,
            Err(error) => return Some(Err(Failure { location: source.to_string(), error })),
        };
        let size = entry.size;
        if self.tree.effect == Effect::DryRun {
            observer.planned(&Action::Copy { source, destination, size });
            return None;
        }
        observer.expected(1, size.unwrap_or(0));
        Some(Ok(Job { source, destination, entry: Some(entry), over }))
    }

    /// Counts an object found unchanged, and removes what a killed copy of it left.
    pub(crate) fn skip(&self, entry: &Entry, observer: &dyn Observer) -> std::result::Result<(), Failure> {
        let source = self.tree.source.join(&entry.name);
        add(&self.counts.skipped, 1);
        observer.skipped(&source);
        match (&self.beneath, self.tree.effect) {
            (Some(beneath), Effect::Apply) => self
                .leftovers
                .clear(beneath, os_path(&entry.name))
                .map_err(|error| Failure { location: source.to_string(), error }),
            _ => Ok(()),
        }
    }

    /// The destination and the name of `path` beneath it.
    pub(crate) fn beneath_of<'p>(&self, path: &'p Path) -> Option<(&Beneath, &'p Path)> {
        let root = self.tree.destination.as_local()?;
        Some((self.beneath.as_ref()?, path.strip_prefix(root).ok()?))
    }

    fn place(&self, entry: &Entry) -> Result<Option<Location>> {
        let directory = match entry.kind {
            Kind::Directory => Some(entry.name.strip_suffix(b"/").unwrap_or(&entry.name)),
            // What stands for a directory in a store.
            _ if entry.size == Some(0) => entry.name.strip_suffix(b"/"),
            _ => None,
        };
        let tree = self.tree;
        let (Location::Local(root), Some(beneath)) = (&tree.destination, &self.beneath) else {
            if entry.kind == Kind::Directory {
                self.leave_directory(&entry.name);
                return Ok(None);
            }
            if matches!(tree.destination, Location::S3(_)) && std::str::from_utf8(&entry.name).is_err() {
                let why = "a key has to be UTF-8 and this name is not";
                return Err(Error::invalid(&tree.source.join(&entry.name), why));
            }
            return Ok(Some(tree.destination.join(&entry.name)));
        };
        let Some(directory) = directory else {
            return Ok(Some(Location::Local(firstbyte_store::local_path(root, &entry.name)?)));
        };
        firstbyte_store::local_path(root, directory)?;
        if tree.effect == Effect::Apply {
            beneath.create_directory(os_path(directory))?;
        }
        Ok(None)
    }

    /// Counts a local directory that goes to a store, where there are none, if it is empty: nothing else tells of it there.
    fn leave_directory(&self, name: &[u8]) {
        let Some(root) = self.tree.source.as_local() else { return };
        if std::fs::read_dir(root.join(os_path(name))).is_ok_and(|mut entries| entries.next().is_none()) {
            add(&self.counts.directories, 1);
        }
    }
}

/// A name of a listing as a path.
pub(crate) fn os_path(name: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(name))
}

/// An entry with the name by which listings sort it: a directory's ends in `/`.
pub(crate) fn as_it_sorts(mut entry: Entry) -> Entry {
    if entry.kind == Kind::Directory && !entry.name.ends_with(b"/") {
        entry.name.push(b'/');
    }
    entry
}

/// Whether a location is a prefix of a store's keys, which is there only while a key begins with it.
pub(crate) fn is_prefix(location: &Location) -> bool {
    matches!(location, Location::S3(object) if !object.key.is_empty())
}

/// The bucket a location lies in.
pub(crate) fn bucket_of(location: &Location) -> Option<Location> {
    let Location::S3(object) = location else { return None };
    Some(Location::S3(S3Object { bucket: object.bucket.clone(), key: String::new() }))
}

/// What an unfinished copy leaves beside its destination is no content of a tree.
pub(crate) fn is_unfinished(name: &[u8]) -> bool {
    let ours = name.ends_with(b".firstbyte-part") || name.ends_with(b".firstbyte-journal");
    ours && name.rsplit(|byte| *byte == b'/').next().is_some_and(|last| last.starts_with(b"."))
}

/// How a source is listed: links are followed, and local directories count where they can be made.
pub(crate) fn listed(tree: &Tree<'_>, order: Order, settings: &Settings) -> ListOptions {
    ListOptions {
        recursive: tree.levels == Levels::All,
        beginning: tree.beginning.clone(),
        order,
        requests: Some(settings.listing_requests()),
        directories: Directories::Listed,
        ..ListOptions::default()
    }
}

/// Lists a tree; a place that is not there yet is an empty one.
pub(crate) fn list(store: &Store, location: &Location, options: &ListOptions) -> Result<Option<Listing>> {
    match store.list(location, options) {
        Ok(listing) => Ok(Some(listing)),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The jobs of copying a tree to a local directory, in the order in which its names are found. What is there is looked up
/// name by name, which is quick.
pub(crate) fn jobs<'a>(
    store: &Store,
    copying: &'a Copying<'a>,
    settings: &Settings,
    observer: &'a dyn Observer,
) -> Result<impl Iterator<Item = std::result::Result<Job, Failure>> + Send + 'a> {
    let tree = copying.tree;
    let listing = store.list(&tree.source, &listed(tree, Order::Any, settings))?;
    let there = settings.compare != Compare::None && copying.beneath.as_ref().is_some_and(Beneath::exists);
    Ok(listing.filter_map(move |entry| match entry.map(as_it_sorts) {
        Ok(entry) if !copying.takes(&entry) => None,
        Ok(entry) if there && copying.has(&entry) => copying.skip(&entry, observer).err().map(Err),
        Ok(entry) => copying.job(entry, Over::File, observer),
        Err(error) => Some(Err(Failure { location: tree.source.to_string(), error: error.into() })),
    }))
}

impl Copying<'_> {
    /// Whether a local destination has a listed file, complete and unchanged.
    fn has(&self, entry: &Entry) -> bool {
        let found = self.beneath.as_ref().map(|beneath| beneath.find(os_path(&entry.name)));
        // What cannot be looked at is an error when it is written.
        matches!(found, Some(Ok(Some(found))) if unchanged::file(self.tree, entry, &found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_belongs_to_exactly_one_shard_and_shards_are_even() {
        let mut counts = [0_u32; 7];
        for number in 0..7_000 {
            let name = format!("dir/file-{number:06}");
            let mine: Vec<u32> =
                (0..7).filter(|index| Shard { index: *index, count: 7 }.takes(name.as_bytes())).collect();
            assert_eq!(mine.len(), 1);
            counts[mine[0] as usize] += 1;
        }
        assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
    }

    #[test]
    fn what_a_copy_leaves_unfinished_is_not_copied() {
        assert!(is_unfinished(b"a/.b.firstbyte-part") && is_unfinished(b".b.firstbyte-journal"));
        assert!(!is_unfinished(b"a.firstbyte-part") && !is_unfinished(b".b"));
    }
}
