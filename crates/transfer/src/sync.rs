//! Brings a tree up to date: two listings in byte order are walked side by side, so memory does not depend on their
//! length, and nothing is asked about an object that both sides list as the same.
//!
//! **Unchanged** means, by size and time: the same length, and either the same modification time (in whole seconds,
//! for listings and file systems tell no more in common), or the destination was *written* after the source was last
//! modified. When a destination was written is `LastModified` for a store and the inode change time for a file, which
//! nobody can set back. So after a copy in either direction nothing is to be done, although an upload cannot choose
//! its `LastModified` and a download restores an older modification time. Between two local trees times are copied
//! exactly, and only equal ones count. What this takes for unchanged and is not: content of the same length put at
//! the source with a time before the destination was written. `--compare checksum` sees that too: it compares the
//! checksums that the stores hold, or else reads both sides.

use std::cmp::Ordering;
use std::iter::Peekable;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering as Memory};
use std::time::{Duration, SystemTime};

use firstbyte_location::{Entry, Location};
use firstbyte_store::{Algorithm, Checksum, Get, Hasher, Listing, Order, Store};

use crate::engine::{Batch, Engine, Route};
use crate::tree::{self, Tree};
use crate::{Action, Compare, Effect, Error, Extras, Failure, Job, Observer, Result, Summary};

/// Deletions sent together: what S3 takes in one request.
const DELETE_BATCH: usize = 1_000;

/// Brings `tree.destination` up to date.
pub(crate) fn sync(
    engine: &Engine,
    tree: &Tree<'_>,
    extras: Extras,
    observer: &dyn Observer,
) -> Result<Summary> {
    let store = engine.store();
    let source = store.list(
        &tree.source,
        &firstbyte_store::ListOptions { recursive: true, order: Order::Bytes, ..Default::default() },
    )?;
    let destination = tree::list(store, &tree.destination, Order::Bytes)?;
    let counts = Counts::default();
    let mut join = Join {
        store,
        tree,
        extras,
        compare: engine.settings().compare,
        observer,
        counts: &counts,
        source: Side::new(Some(source), tree),
        destination: Side::new(destination, tree),
        deletions: Vec::new(),
        failures: Vec::new(),
    };
    let mut summary =
        engine.run(&mut join, observer, Batch::Many, Route::of(&tree.source, &tree.destination))?;
    summary.skipped = counts.skipped.load(Memory::Relaxed);
    summary.deleted = counts.deleted.load(Memory::Relaxed);
    Ok(summary)
}

#[derive(Default)]
struct Counts {
    skipped: AtomicU64,
    deleted: AtomicU64,
}

/// One listing, of what takes part.
struct Side<'a> {
    entries: Peekable<Box<dyn Iterator<Item = firstbyte_store::Result<Entry>> + Send + 'a>>,
    /// It broke off: what it did not show may exist all the same.
    broken: bool,
}

impl<'a> Side<'a> {
    fn new(listing: Option<Listing>, tree: &'a Tree<'a>) -> Self {
        let takes = move |entry: &firstbyte_store::Result<Entry>| {
            entry.as_ref().map_or(true, |entry| tree.takes(entry))
        };
        let entries: Box<dyn Iterator<Item = _> + Send + 'a> =
            Box::new(listing.into_iter().flatten().filter(takes));
        Self { entries: entries.peekable(), broken: false }
    }

    /// Takes an error that comes next.
    fn error(&mut self) -> Option<firstbyte_store::Error> {
        let error = self.entries.next_if(firstbyte_store::Result::is_err)?.err();
        self.broken = true;
        error
    }

    fn name(&mut self) -> Option<&[u8]> {
        self.entries.peek()?.as_ref().ok().map(|entry| entry.name.as_slice())
    }

    fn take(&mut self) -> Option<Entry> {
        self.entries.next()?.ok()
    }
}

/// Two listings side by side.
struct Join<'a> {
    store: &'a Store,
    tree: &'a Tree<'a>,
    extras: Extras,
    compare: Compare,
    observer: &'a dyn Observer,
    counts: &'a Counts,
    source: Side<'a>,
    destination: Side<'a>,
    deletions: Vec<Location>,
    failures: Vec<Failure>,
}

impl Iterator for Join<'_> {
    type Item = std::result::Result<Job, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(failure) = self.failures.pop() {
                return Some(Err(failure));
            }
            for (side, place) in
                [(&mut self.source, &self.tree.source), (&mut self.destination, &self.tree.destination)]
            {
                if let Some(error) = side.error() {
                    return Some(Err(Failure { location: place.to_string(), error: error.into() }));
                }
            }
            let order = match (self.source.name(), self.destination.name()) {
                (None, None) => {
                    self.delete();
                    return self.failures.pop().map(Err);
                }
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(source), Some(destination)) => source.cmp(destination),
            };
            let job = match order {
                Ordering::Less => self.source.take().and_then(|entry| self.copy(entry)),
                Ordering::Greater => {
                    self.extra();
                    None
                }
                Ordering::Equal => self.pair(),
            };
            if job.is_some() {
                return job;
            }
        }
    }
}

impl Join<'_> {
    fn copy(&self, entry: Entry) -> Option<std::result::Result<Job, Failure>> {
        match self.tree.job(entry) {
            Ok(job) => self.tree.announce(job?, self.observer).map(Ok),
            Err(failure) => Some(Err(failure)),
        }
    }

    fn pair(&mut self) -> Option<std::result::Result<Job, Failure>> {
        let (source, destination) = (self.source.take()?, self.destination.take()?);
        let same = match self.compare {
            Compare::SizeMtime => Ok(self.same_by_time(&source, &destination)),
            Compare::Checksum => self.same_by_content(&source, &destination),
        };
        match same {
            Ok(true) => {
                self.counts.skipped.fetch_add(1, Memory::Relaxed);
                self.observer.skipped(&self.tree.source.join(&source.name));
                None
            }
            Ok(false) => self.copy(source),
            Err(error) => {
                Some(Err(Failure { location: self.tree.source.join(&source.name).to_string(), error }))
            }
        }
    }

    fn same_by_time(&self, source: &Entry, destination: &Entry) -> bool {
        let (Some(modified), Some(there)) = (source.modified, destination.modified) else { return false };
        let (modified, there) = (whole_seconds(modified), whole_seconds(there));
        if source.size != destination.size || source.size.is_none() {
            return false;
        }
        match (&self.tree.source, &self.tree.destination) {
            (Location::Local(_), Location::Local(_)) => modified == there,
            (_, Location::Local(_)) => {
                modified == there
                    || changed(&self.tree.destination.join(&destination.name))
                        .is_some_and(|at| at >= modified)
            }
            _ => there >= modified,
        }
    }

    fn same_by_content(&self, source: &Entry, destination: &Entry) -> Result<bool> {
        if source.size != destination.size {
            return Ok(false);
        }
        let (left, right) =
            (self.tree.source.join(&source.name), self.tree.destination.join(&destination.name));
        let (held, other) = (self.held(&left)?, self.held(&right)?);
        if let (Some(held), Some(other)) = (&held, &other)
            && held.algorithm == other.algorithm
        {
            return Ok(held == other);
        }
        let algorithm =
            held.as_ref().or(other.as_ref()).map_or(Algorithm::Crc64Nvme, |checksum| checksum.algorithm);
        let read = |held: Option<Checksum>, location| match held {
            Some(held) if held.algorithm == algorithm => Ok(held),
            _ => content(self.store, location, algorithm),
        };
        Ok(read(held, &left)? == read(other, &right)?)
    }

    /// The checksum a store holds of an object.
    fn held(&self, location: &Location) -> Result<Option<Checksum>> {
        match location {
            Location::Local(_) => Ok(None),
            _ => Ok(self.store.stat(location)?.checksum),
        }
    }

    /// An object that only the destination has.
    fn extra(&mut self) {
        let Some(entry) = self.destination.take() else { return };
        // A listing that broke off says nothing about what it would have shown.
        if self.extras == Extras::Keep || self.source.broken {
            return;
        }
        let location = self.tree.destination.join(&entry.name);
        if self.tree.effect == Effect::DryRun {
            return self.observer.planned(&Action::Delete { location });
        }
        self.deletions.push(location);
        if self.deletions.len() == DELETE_BATCH {
            self.delete();
        }
    }

    fn delete(&mut self) {
        let failed =
            if self.deletions.is_empty() { Vec::new() } else { self.store.delete_many(&self.deletions) };
        self.counts.deleted.fetch_add((self.deletions.len() - failed.len()) as u64, Memory::Relaxed);
        self.deletions.clear();
        let failures = failed
            .into_iter()
            .map(|(location, error)| Failure { location: location.to_string(), error: error.into() });
        self.failures.extend(failures);
    }
}

/// When a file was last written or moved here, which unlike its modification time nobody can set back.
fn changed(location: &Location) -> Option<SystemTime> {
    let metadata = std::fs::metadata(location.as_local()?).ok()?;
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(metadata.ctime()).ok()?))
}

fn whole_seconds(time: SystemTime) -> SystemTime {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs())
}

/// The checksum of an object, read whole.
fn content(store: &Store, location: &Location, algorithm: Algorithm) -> Result<Checksum> {
    let mut body = store.get(location, &Get::default())?;
    let mut hasher = Hasher::new(algorithm);
    let mut buffer = vec![0; crate::worker::SCRATCH];
    loop {
        match body.read(&mut buffer).map_err(Error::from)? {
            0 => return Ok(hasher.finish()),
            read => hasher.update(&buffer[..read]),
        }
    }
}
