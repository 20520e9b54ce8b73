//! Copies of whole trees: which names, where to, and whether for real.

use firstbyte_location::{Entry, Kind, Location, shown};
use firstbyte_store::{Error as StoreError, ListOptions, Listing, Order, Store};

use crate::{Action, Error, Failure, Job, Observer, Result, Settings};

/// What happens to objects that only the destination has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extras {
    /// They stay.
    #[default]
    Keep,
    /// They are deleted.
    Delete,
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

/// A tree to copy or to bring up to date.
pub struct Tree<'a> {
    /// What is copied: everything below it.
    pub source: Location,
    /// Where each name goes, joined below it.
    pub destination: Location,
    /// Which names (relative to `source`) take part; includes and excludes are the caller's.
    pub select: &'a (dyn Fn(&[u8]) -> bool + Sync),
    /// This worker's share.
    pub shard: Shard,
    /// Whether anything is done.
    pub effect: Effect,
}

impl Tree<'_> {
    /// Whether a listed entry takes part.
    pub(crate) fn takes(&self, entry: &Entry) -> bool {
        entry.kind == Kind::File
            && !is_unfinished(&entry.name)
            && self.shard.takes(&entry.name)
            && (self.select)(&entry.name)
    }

    /// The job that copies a listed entry. `None`: a directory marker, which is no object to a file system; the
    /// directory is made.
    pub(crate) fn job(&self, entry: Entry) -> std::result::Result<Option<Job>, Failure> {
        let source = self.source.join(&entry.name);
        match self.place(&entry) {
            Ok(destination) => {
                Ok(destination.map(|destination| Job { source, destination, entry: Some(entry) }))
            }
            Err(error) => Err(Failure { location: source.to_string(), error }),
        }
    }

    fn place(&self, entry: &Entry) -> Result<Option<Location>> {
        let Location::Local(root) = &self.destination else {
            if matches!(self.destination, Location::S3(_)) && std::str::from_utf8(&entry.name).is_err() {
                return Err(Error::invalid(
                    &self.source.join(&entry.name),
                    "a key has to be UTF-8 and this name is not",
                ));
            }
            return Ok(Some(self.destination.join(&entry.name)));
        };
        if let (Some(directory), Some(0)) = (entry.name.strip_suffix(b"/"), entry.size) {
            let path = firstbyte_store::local_path(root, directory)?;
            if self.effect == Effect::Apply {
                std::fs::create_dir_all(&path).map_err(Error::io(shown(&path)))?;
            }
            return Ok(None);
        }
        Ok(Some(Location::Local(firstbyte_store::local_path(root, &entry.name)?)))
    }

    /// Announces a job, or plans it: only what is to be done comes back.
    pub(crate) fn announce(&self, job: Job, observer: &dyn Observer) -> Option<Job> {
        let size = job.entry.as_ref().and_then(|entry| entry.size);
        if self.effect == Effect::Apply {
            observer.expected(1, size.unwrap_or(0));
            return Some(job);
        }
        observer.planned(&Action::Copy { source: job.source, destination: job.destination, size });
        None
    }
}

/// What an unfinished copy leaves beside its destination is no content of a tree.
fn is_unfinished(name: &[u8]) -> bool {
    let ours = name.ends_with(b".firstbyte-part") || name.ends_with(b".firstbyte-journal");
    ours && name.rsplit(|byte| *byte == b'/').next().is_some_and(|last| last.starts_with(b"."))
}

/// How a tree is listed.
pub(crate) fn listed(order: Order, settings: &Settings) -> ListOptions {
    let requests = Some(settings.listing_requests());
    ListOptions { recursive: true, order, requests, ..ListOptions::default() }
}

/// Lists a tree; a place that is not there yet is an empty one.
pub(crate) fn list(store: &Store, location: &Location, options: &ListOptions) -> Result<Option<Listing>> {
    match store.list(location, options) {
        Ok(listing) => Ok(Some(listing)),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The jobs of copying a tree.
pub(crate) fn jobs<'a>(
    store: &Store,
    tree: &'a Tree<'a>,
    settings: &Settings,
    observer: &'a dyn Observer,
) -> Result<impl Iterator<Item = std::result::Result<Job, Failure>> + Send + 'a> {
    let listing = store.list(&tree.source, &listed(Order::Any, settings))?;
    Ok(listing.filter_map(move |entry| match entry {
        Ok(entry) if !tree.takes(&entry) => None,
        Ok(entry) => match tree.job(entry) {
            Ok(job) => tree.announce(job?, observer).map(Ok),
            Err(failure) => Some(Err(failure)),
        },
        Err(error) => Some(Err(Failure { location: tree.source.to_string(), error: error.into() })),
    }))
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
