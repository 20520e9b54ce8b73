//! Brings a tree up to date: two listings in byte order are walked side by side, so memory does not depend on their
//! length, and nothing is asked about an object that both sides list as the same ([`unchanged`](crate::unchanged)).
//!
//! The destination is listed without following links, and what is deleted from a local one is removed beneath it, so
//! nothing outside is touched. A directory in a file's place is decided on only once both listings have passed it: it makes
//! way for the file if all of it is extra, when the file is complete ([`Replacement`]).

use std::cmp::Ordering;
use std::iter::Peekable;
use std::path::Path;

use firstbyte_location::{Entry, Kind, Location};
use firstbyte_store::{Directories, Error as StoreError, Links, ListOptions, Order, Over, Store};

use crate::ahead::Ahead;
use crate::compare::Comparisons;
use crate::engine::{Route, Scope};
use crate::tree::{self, Copying, add, os_path};
use crate::{
    Action, Compare, Effect, Empty, Error, Extras, Failure, Job, Observer, Result, Settings, unchanged,
};

/// Deletions sent together: what S3 takes in one request.
const DELETE_BATCH: usize = 1_000;
/// Names of the destination that are passed over before it is listed anew from the source's next name: two pages. A copy of
/// few objects among many then costs at most a few pages for each.
const FAR: usize = 2_000;

/// The jobs that bring the destination up to date; deletes what `extras` says on the way.
pub(crate) fn jobs<'a>(
    settings: &Settings,
    scope: &'a Scope,
    copying: &'a Copying<'a>,
    extras: Extras,
    observer: &'a dyn Observer,
) -> Result<Join<'a>> {
    let (store, tree) = (&scope.store, copying.tree);
    let ahead = |listing| Ahead::start(listing, scope.cancel.clone());
    let listed = tree::listed(tree, Order::Bytes, settings);
    let there = ListOptions { links: Links::Report, directories: Directories::Listed, ..listed.clone() };
    // The source is on its way while the destination is opened, which for a wide directory means read and sorted.
    let source = match store.list(&tree.source, &listed) {
        Err(StoreError::NotFound { .. })
            if extras == Extras::Delete(Empty::Allow) && tree::is_prefix(&tree.source) =>
        {
            // A store cannot tell an empty prefix from one that is not there, but it can tell about the bucket.
            tree::bucket_of(&tree.source).map_or(Ok(()), |bucket| store.stat(&bucket).map(drop))?;
            None
        }
        other => Some(ahead(other?)?),
    };
    let mut source = Side::new(source);
    if extras == Extras::Delete(Empty::Refuse) && is_empty(store, tree, &mut source)? {
        return Err(Error::EmptySource { location: tree.source.to_string() });
    }
    let destination = tree::list(store, &tree.destination, &there)?.map(ahead).transpose()?;
    let comparisons = match settings.compare {
        Compare::SizeMtime | Compare::None => None,
        Compare::Checksum => {
            let route = Route::of(&tree.source, &tree.destination);
            Some(Comparisons::new(store, settings.concurrency, route))
        }
    };
    Ok(Join {
        scope,
        copying,
        extras,
        compare: settings.compare,
        comparisons,
        observer,
        source,
        destination: Side::new(destination),
        there,
        passed: 0,
        replacements: Vec::new(),
        directories: Vec::new(),
        deletions: Vec::new(),
        failures: Vec::new(),
    })
}

/// Whether a source holds no object. Directories are none, so a local tree is looked through until there is a file.
fn is_empty(store: &Store, tree: &crate::Tree<'_>, source: &mut Side) -> Result<bool> {
    if !matches!(tree.source, Location::Local(_)) {
        return Ok(source.entries.peek().is_none());
    }
    let options = ListOptions { recursive: true, ..ListOptions::default() };
    for entry in store.list(&tree.source, &options)? {
        match entry {
            Ok(entry) if entry.kind == Kind::File => return Ok(false),
            Err(error @ StoreError::Cancelled) => return Err(error.into()),
            _ => {}
        }
    }
    Ok(true)
}

/// One listing; the name of a directory ends in `/`, as it sorts.
struct Side {
    entries: Peekable<Box<dyn Iterator<Item = firstbyte_store::Result<Entry>> + Send>>,
    /// It broke off: what it did not show may exist all the same.
    broken: bool,
}

impl Side {
    fn new(listing: Option<Ahead>) -> Self {
        let entries: Box<dyn Iterator<Item = _> + Send> =
            Box::new(listing.into_iter().flatten().map(|entry| entry.map(tree::as_it_sorts)));
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

    /// Whether all names below `prefix`, which ends in `/`, have been taken.
    fn has_passed(&mut self, prefix: &[u8]) -> bool {
        self.name().is_none_or(|name| name > prefix && !name.starts_with(prefix))
    }
}

/// A file that is to take the place of a directory.
struct Replacement {
    file: Entry,
    /// The directory's name, with its `/`.
    prefix: Vec<u8>,
    /// Whether all that was listed in it so far may be deleted.
    whole: bool,
}

/// Two listings side by side.
pub(crate) struct Join<'a> {
    scope: &'a Scope,
    copying: &'a Copying<'a>,
    extras: Extras,
    compare: Compare,
    /// Where content is compared.
    comparisons: Option<Comparisons>,
    observer: &'a dyn Observer,
    source: Side,
    destination: Side,
    /// How the destination is listed.
    there: ListOptions,
    /// Names of the destination passed over since the source had one of them.
    passed: usize,
    /// Not decided on yet; few, since both listings have to be before their end.
    replacements: Vec<Replacement>,
    /// Directories that only the destination has, from the outermost in, to be removed once left.
    directories: Vec<Vec<u8>>,
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
            let tree = self.copying.tree;
            for (side, place) in
                [(&mut self.source, &tree.source), (&mut self.destination, &tree.destination)]
            {
                if let Some(error) = side.error() {
                    return Some(Err(Failure { location: place.to_string(), error: error.into() }));
                }
            }
            self.leave_directories();
            if let Some(job) = self.replace() {
                return Some(job);
            }
            let order = match (self.source.name(), self.destination.name()) {
                (None, Some(_)) if self.extras != Extras::Keep => Ordering::Greater,
                (None, _) => {
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
                (Some(source), Some(destination)) => source.cmp(destination),
            };
            let job = match order {
                Ordering::Less => self.only_source(),
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
    fn only_source(&mut self) -> Option<std::result::Result<Job, Failure>> {
        let entry = self.source.take()?;
        self.keep_directory_of(&entry.name);
        self.copying.takes(&entry).then(|| self.copy(entry)).flatten()
    }

    fn copy(&mut self, entry: Entry) -> Option<std::result::Result<Job, Failure>> {
        if entry.kind == Kind::File && self.is_over_directory(&entry.name) {
            let prefix = [&entry.name[..], b"/"].concat();
            self.replacements.push(Replacement { file: entry, prefix, whole: true });
            return None;
        }
        self.copying.job(entry, Over::File, self.observer)
    }

    /// Whether extras are deleted and a directory has this name at a local destination.
    fn is_over_directory(&self, name: &[u8]) -> bool {
        let Some(beneath) = self.copying.beneath.as_ref().filter(|_| self.extras != Extras::Keep) else {
            return false;
        };
        beneath
            .find(os_path(name))
            .is_ok_and(|found| found.is_some_and(|found| found.kind == Kind::Directory))
    }

    fn pair(&mut self) -> Option<std::result::Result<Job, Failure>> {
        let (source, destination) = (self.source.take()?, self.destination.take()?);
        self.passed = 0;
        self.keep_directory_of(&source.name);
        // A directory on both sides; a store may say so by an empty object.
        let directories = source.kind == Kind::Directory || destination.kind == Kind::Directory;
        if directories || !self.copying.takes(&source) {
            return None;
        }
        let comparable = destination.kind == Kind::File && source.size == destination.size;
        match &mut self.comparisons {
            None => {
                let same = comparable && self.compare == Compare::SizeMtime && {
                    let tree = self.copying.tree;
                    unchanged::entries(tree, self.copying.beneath.as_ref(), &source, &destination)
                };
                self.settle(source, Ok(same))
            }
            Some(_) if !comparable => self.settle(source, Ok(false)),
            Some(comparisons) => {
                let tree = self.copying.tree;
                let (left, right) =
                    (tree.source.join(&source.name), tree.destination.join(&destination.name));
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
    fn settle(&mut self, source: Entry, same: Result<bool>) -> Option<std::result::Result<Job, Failure>> {
        match same {
            Ok(true) => self.copying.skip(&source, self.observer).err().map(Err),
            Ok(false) => self.copy(source),
            Err(error) => {
                let location = self.copying.tree.source.join(&source.name).to_string();
                Some(Err(Failure { location, error }))
            }
        }
    }

    /// A name that only the destination has.
    fn extra(&mut self) {
        let Some(entry) = self.destination.take() else { return };
        if self.extras == Extras::Keep {
            return self.pass();
        }
        // A listing that broke off says nothing about what it would have shown.
        if self.source.broken {
            return;
        }
        let deletable = self.copying.may_delete(&entry);
        if let Some(over) = self.replacements.iter_mut().find(|over| entry.name.starts_with(&over.prefix)) {
            over.whole &= deletable;
            return;
        }
        if !deletable {
            return;
        }
        let tree = self.copying.tree;
        if entry.kind == Kind::Directory {
            // A store has no directories: only those of a local source say which are extra.
            if tree.source.as_local().is_some() && tree.effect == Effect::Apply {
                self.directories.push(entry.name);
            }
            return;
        }
        let location = tree.destination.join(&entry.name);
        if tree.effect == Effect::DryRun {
            return self.observer.planned(&Action::Delete { location });
        }
        if let Some(beneath) = &self.copying.beneath {
            match beneath.remove_file(os_path(&entry.name)) {
                Ok(()) => add(&self.copying.counts.deleted, 1),
                Err(error) => {
                    self.failures.push(Failure { location: location.to_string(), error: error.into() });
                }
            }
            return;
        }
        self.deletions.push(location);
        if self.deletions.len() == DELETE_BATCH {
            self.delete();
        }
    }

    /// Passes over a name of the destination that is to stay; after many, the listing leaps to the source's next name.
    fn pass(&mut self) {
        self.passed += 1;
        let destination = &self.copying.tree.destination;
        if self.passed < FAR || !matches!(destination, Location::S3(_)) {
            return;
        }
        self.passed = 0;
        // A listing starts behind a name, so it is a shorter one.
        let before = self.source.name().and_then(|name| std::str::from_utf8(name.split_last()?.1).ok());
        let there = ListOptions { start_after: before.map(str::to_owned), ..self.there.clone() };
        let (Some(from), Some(now)) = (&there.start_after, self.destination.name()) else { return };
        if from.as_bytes() <= now {
            return;
        }
        let listing = tree::list(&self.scope.store, destination, &there).and_then(|listing| {
            listing.map(|listing| Ahead::start(listing, self.scope.cancel.clone())).transpose()
        });
        match listing {
            Ok(listing) => self.destination = Side::new(listing),
            Err(error) => self.failures.push(Failure { location: destination.to_string(), error }),
        }
    }

    /// Removes the extra directories that the destination's listing has left, where they are empty.
    fn leave_directories(&mut self) {
        while let Some(last) = self.directories.last() {
            if !self.destination.has_passed(last) {
                return;
            }
            let Some(name) = self.directories.pop() else { return };
            let path = os_path(name.strip_suffix(b"/").unwrap_or(&name));
            let removed =
                self.copying.beneath.as_ref().map_or(Ok(()), |beneath| beneath.remove_empty_directory(path));
            if let Err(error) = removed {
                let location = self.copying.tree.destination.join(&name).to_string();
                self.failures.push(Failure { location, error: error.into() });
            }
        }
    }

    /// A name the source has keeps the directory it lies in.
    fn keep_directory_of(&mut self, name: &[u8]) {
        for over in self.replacements.iter_mut().filter(|over| name.starts_with(&over.prefix)) {
            over.whole = false;
        }
    }

    /// The next file that was found to take a directory's place, or that cannot.
    fn replace(&mut self) -> Option<std::result::Result<Job, Failure>> {
        let (source, destination) = (&mut self.source, &mut self.destination);
        let decided = self
            .replacements
            .iter()
            .position(|over| source.has_passed(&over.prefix) && destination.has_passed(&over.prefix))?;
        let over = self.replacements.swap_remove(decided);
        if over.whole && !self.source.broken && !self.destination.broken {
            return self.copying.job(over.file, Over::Directory, self.observer);
        }
        let place = self.copying.tree.destination.join(&over.file.name);
        let why = "a directory is in the file's place, and part of it is to stay; nothing in it was deleted";
        let location = self.copying.tree.source.join(&over.file.name).to_string();
        Some(Err(Failure { location, error: Error::invalid(&place, why) }))
    }

    fn delete(&mut self) {
        let failed = if self.deletions.is_empty() {
            Vec::new()
        } else {
            self.scope.store.delete_many(&self.deletions)
        };
        add(&self.copying.counts.deleted, (self.deletions.len() - failed.len()) as u64);
        self.deletions.clear();
        let failures = failed
            .into_iter()
            .map(|(location, error)| Failure { location: location.to_string(), error: error.into() });
        self.failures.extend(failures);
    }
}

impl Copying<'_> {
    /// Whether an entry of the destination that the source does not have may be deleted.
    fn may_delete(&self, entry: &Entry) -> bool {
        match entry.kind {
            Kind::File | Kind::Symlink => self.may_delete_name(&entry.name),
            Kind::Directory => (self.tree.select)(entry.name.strip_suffix(b"/").unwrap_or(&entry.name)),
            Kind::Other => false,
        }
    }

    /// Removes the directory that a complete file is to take the place of.
    pub(crate) fn make_way(&self, path: &Path) -> Result<()> {
        let Some((beneath, name)) = self.beneath_of(path) else { return Ok(()) };
        let deletable = |name: &[u8]| tree::is_unfinished(name) || self.may_delete_name(name);
        add(&self.counts.deleted, beneath.remove_tree(name, &deletable)?);
        Ok(())
    }

    fn may_delete_name(&self, name: &[u8]) -> bool {
        !tree::is_unfinished(name) && self.tree.shard.takes(name) && (self.tree.select)(name)
    }
}
