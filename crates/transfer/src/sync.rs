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
use firstbyte_store::{Order, Store};

use crate::ahead::Ahead;
use crate::compare::Comparisons;
use crate::engine::{Batch, Engine, Route, Scope};
use crate::tree::{self, Tree};
use crate::{Action, Compare, Effect, Extras, Failure, Job, Observer, Result, Summary};

/// Deletions sent together: what S3 takes in one request.
const DELETE_BATCH: usize = 1_000;

/// Brings `tree.destination` up to date.
pub(crate) fn sync(
    engine: &Engine,
    scope: &Scope,
    tree: &Tree<'_>,
    extras: Extras,
    observer: &dyn Observer,
) -> Result<Summary> {
    let store = &scope.store;
    let options = tree::listed(Order::Bytes, engine.settings());
    // The source is on its way while the destination is opened, which for a wide directory means read and sorted.
    let ahead = |listing| Ahead::start(listing, scope.cancel.clone());
    let source = ahead(store.list(&tree.source, &options)?)?;
    let destination = tree::list(store, &tree.destination, &options)?.map(ahead).transpose()?;
    let route = Route::of(&tree.source, &tree.destination);
    let comparisons = match engine.settings().compare {
        Compare::SizeMtime => None,
        Compare::Checksum => Some(Comparisons::new(store, engine.settings().concurrency, route)),
    };
    let counts = Counts::default();
    let mut join = Join {
        store,
        tree,
        extras,
        comparisons,
        observer,
        counts: &counts,
        source: Side::new(Some(source), tree),
        destination: Side::new(destination, tree),
        deletions: Vec::new(),
        failures: Vec::new(),
    };
    let mut summary = engine.run(scope, &mut join, observer, Batch::Tree, route)?;
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
    fn new(listing: Option<Ahead>, tree: &'a Tree<'a>) -> Self {
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
    /// Where content is compared.
    comparisons: Option<Comparisons>,
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
                    if let Some((source, same)) = self.comparisons.as_mut().and_then(Comparisons::wait) {
                        match self.settle(source, same) {
                            None => continue,
                            job => return job,
                        }
                    }
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
        match &mut self.comparisons {
            None => {
                let same = self.same_by_time(&source, &destination);
                self.settle(source, Ok(same))
            }
            Some(_) if source.size != destination.size => self.settle(source, Ok(false)),
            Some(comparisons) => {
                let (left, right) =
                    (self.tree.source.join(&source.name), self.tree.destination.join(&destination.name));
                let place = left.to_string();
                if let Err(error) = comparisons.begin(source, left, right) {
                    return Some(Err(Failure { location: place, error }));
                }
                let done = if comparisons.is_full() { comparisons.wait() } else { None };
                done.and_then(|(source, same)| self.settle(source, same))
            }
        }
    }

    /// What follows from a comparison.
    fn settle(&self, source: Entry, same: Result<bool>) -> Option<std::result::Result<Job, Failure>> {
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
