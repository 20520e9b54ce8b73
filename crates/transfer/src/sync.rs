//! Updates a destination tree: walks two listings in byte order side by side. Memory does not
//! depend on their length, and an object that both sides list as the same costs no request.
//!
//! Names that only the destination has are deleted at once if the source is a file system. A store
//! may list out of order, and name later what seemed to be missing, so deletions wait for the end
//! of its listing. If a listing was out of order, the run starts again with the store's names
//! sorted here ([`Engine::sync`](crate::Engine::sync)).
//!
//! The destination is listed without following links, and files are deleted beneath a local one, so
//! nothing outside is touched. If a source file has the name of a destination directory, the
//! decision waits until both listings have passed the directory. If everything in it is to be
//! deleted, it is removed when the file is complete ([`Replacement`]).

use std::cmp::Ordering;

use firstbyte_location::{Entry, EntryKind, Location};
use firstbyte_store::{
    Directories, EntryOrder, Error as StoreError, Links, ListOptions, PAGE, Partials, ReplaceKind, Store,
    Unfinished,
};

use crate::apart::{Apart, Separation};
use crate::compare::{Comparisons, Sameness, SourceComparison, TimeUnit, TimeVerdict, is_newer};
use crate::context::{CallScope, add};
use crate::deferred::{DeferredRecordReader, DeferredRecords};
use crate::error::{Error, Failure, Result};
use crate::job::{Effect, EmptySource, Extras, Tree};
use crate::job::{JobResult, TransferRoute, as_path, has_directories};
use crate::listing_prefetch::ListingPrefetch;
use crate::mounts;
use crate::report::{Action, Observer};
use crate::settings::Compare;
use crate::side::Side;
use crate::spelling::CheckedParts;
use crate::tree::{self, TreeCopy};

/// The jobs that bring the destination up to date. Deletes the extras that may go on the way.
pub(crate) fn jobs<'a>(
    scope: &'a CallScope<'a>,
    copy: &'a TreeCopy<'a>,
    extras: Extras,
    observer: &'a dyn Observer,
) -> Result<Join<'a>> {
    let (store, settings, tree) = (&scope.store, scope.settings, copy.tree);
    if let (Some(from), Some(to)) = (tree.source.as_local(), tree.destination.as_local())
        && extras != Extras::Keep
    {
        mounts::prove_apart(from, to)?;
    }
    let options = tree::list_options(tree, EntryOrder::Bytes, settings);
    let destination_options = ListOptions {
        links: Links::Report,
        directories: Directories::Listed,
        partials: Partials::Hidden,
        ..options.clone()
    };
    // The source is read while the destination is opened: a wide directory is read and sorted.
    let source = open_source(scope, tree, &options, extras)?;
    let destination = tree::list(store, &tree.destination, &destination_options)?
        .map(|listing| ListingPrefetch::start(listing, scope.cancel.clone()))
        .transpose()?;
    let route = TransferRoute::of(&tree.source, &tree.destination);
    Ok(Join {
        scope,
        copy,
        extras,
        has_names: copy.root.as_ref().is_some_and(|root| !root.beneath.is_empty()),
        apart: Apart::new(store),
        compare: settings.compare,
        comparisons: Comparisons::new(store, settings.concurrency, route),
        observer,
        source,
        destination: Side::new(destination),
        destination_options,
        passed: 0,
        kept: 0,
        replacements: Vec::new(),
        directories: Vec::new(),
        deferred: (extras != Extras::Keep && matches!(tree.source, Location::Object(_)))
            .then(DeferredRecords::default),
        obstacles: Vec::new(),
        decided: None,
        deletions: Vec::new(),
        failures: Vec::new(),
        disordered: false,
    })
}

/// The listing of the source. One without objects is an error if that would delete everything.
fn open_source(
    scope: &CallScope<'_>,
    tree: &Tree<'_>,
    options: &ListOptions,
    extras: Extras,
) -> Result<Side> {
    let store = &scope.store;
    let listing = match tree::source(store, tree, options) {
        Err(StoreError::NotFound { .. })
            if extras == Extras::Delete(EmptySource::Allow) && tree::is_prefix(&tree.source) =>
        {
            // In a store an empty prefix and a missing one are the same, but the bucket must exist.
            tree::bucket_of(&tree.source).map_or(Ok(()), |bucket| store.stat(&bucket).map(drop))?;
            None
        }
        other => Some(ListingPrefetch::start(other?, scope.cancel.clone())?),
    };
    let mut source = Side::new(listing);
    if extras == Extras::Delete(EmptySource::Refuse) && is_empty(store, tree, &mut source)? {
        return Err(Error::EmptySource { location: tree.source.to_string() });
    }
    Ok(source)
}

/// Whether a source has no objects. Directories do not count: a tree of files is searched for one.
fn is_empty(store: &Store, tree: &Tree<'_>, source: &mut Side) -> Result<bool> {
    if !has_directories(&tree.source) {
        return Ok(source.has_only_marker());
    }
    let options = ListOptions { recursive: true, ..ListOptions::default() };
    for entry in store.list(&tree.source, &options)? {
        match entry {
            Ok(entry) if entry.kind == EntryKind::File => return Ok(false),
            Err(error @ StoreError::Cancelled) => return Err(error.into()),
            _ => {}
        }
    }
    Ok(true)
}

/// A file that replaces a directory.
struct Replacement {
    file: Entry,
    /// The directory's name, with its `/`.
    prefix: Vec<u8>,
    /// Whether all names listed in it so far may be deleted.
    whole: bool,
}

/// Two listings side by side.
pub(crate) struct Join<'a> {
    scope: &'a CallScope<'a>,
    copy: &'a TreeCopy<'a>,
    extras: Extras,
    /// Whether a local destination had any name at the start.
    has_names: bool,
    apart: Apart,
    compare: Compare,
    comparisons: Comparisons,
    observer: &'a dyn Observer,
    source: Side,
    destination: Side,
    destination_options: ListOptions,
    /// Names passed over that only the destination has, since the last name that both have.
    passed: usize,
    /// Extras kept because the source's listing broke.
    kept: u64,
    /// Replacements not decided yet. Few: both listings have yet to leave their directories.
    replacements: Vec<Replacement>,
    /// Directories that only the destination has, outermost first; removed when left.
    directories: Vec<Vec<u8>>,
    /// Names to be deleted unless the source still names them.
    deferred: Option<DeferredRecords>,
    /// Files to be deleted that may be in the place of a directory of the source.
    obstacles: Vec<Vec<u8>>,
    /// Names that are deleted now that the source has been listed.
    decided: Option<DeferredRecordReader>,
    deletions: Vec<Location>,
    failures: Vec<Failure>,
    /// Whether a listing was out of order: then nothing more is done.
    disordered: bool,
}

impl Iterator for Join<'_> {
    type Item = JobResult;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(failure) = self.failures.pop() {
                return Some(Err(failure));
            }
            if self.disordered {
                return None;
            }
            let tree = self.copy.tree;
            for (side, place) in
                [(&mut self.source, &tree.source), (&mut self.destination, &tree.destination)]
            {
                if let Some(error) = side.error() {
                    self.disordered = matches!(error, StoreError::Disordered { .. });
                    return Some(Err(Failure { location: place.to_string(), error: error.into() }));
                }
            }
            self.leave_directories();
            self.leave_obstacles();
            if let Some(job) = self.replace() {
                return Some(job);
            }
            let order = match (self.source.name(), self.destination.name()) {
                (None, Some(_)) if self.extras != Extras::Keep => Ordering::Greater,
                (None, _) => {
                    if let Some((source, same)) = self.comparisons.wait() {
                        match self.settle(source, same) {
                            None => continue,
                            job => return job,
                        }
                    }
                    if self.delete_deferred() {
                        continue;
                    }
                    self.delete();
                    self.report_kept();
                    return self.failures.pop().map(Err);
                }
                (Some(_), None) => Ordering::Less,
                (Some(source), Some(destination)) => source.cmp(destination),
            };
            let job = match order {
                Ordering::Less => self.only_source(),
                Ordering::Greater => {
                    self.handle_extra();
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
    fn only_source(&mut self) -> Option<JobResult> {
        let entry = self.source.take()?;
        self.keep_directory_of(&entry.name);
        self.clear_way(&entry.name);
        if !self.copy.selects(&entry) {
            return None;
        }
        // A file in another spelling is noticed when the copy is complete, but it may be deleted as
        // an extra before.
        let parts = if self.extras == Extras::Keep { CheckedParts::Directories } else { CheckedParts::All };
        if self.has_names
            && let Err(failure) = self.copy.check_spelling(&entry, parts)
        {
            // Names of the destination may be names of the source in another spelling.
            self.source.broken |= self.extras != Extras::Keep;
            return Some(Err(failure));
        }
        self.add_over(entry, ReplaceKind::Nothing)
    }

    fn add(&mut self, entry: Entry) -> Option<JobResult> {
        self.add_over(entry, ReplaceKind::File)
    }

    fn add_over(&mut self, entry: Entry, over: ReplaceKind) -> Option<JobResult> {
        if entry.kind == EntryKind::File && self.is_over_directory(&entry.name) {
            let prefix = [&entry.name[..], b"/"].concat();
            self.replacements.push(Replacement { file: entry, prefix, whole: true });
            return None;
        }
        self.copy.job(entry, over, self.observer)
    }

    /// Whether extras are deleted and a directory has this name at a local destination.
    fn is_over_directory(&self, name: &[u8]) -> bool {
        let Some(root) = self.copy.root.as_ref().filter(|_| self.extras != Extras::Keep) else {
            return false;
        };
        root.beneath
            .find(as_path(name))
            .is_ok_and(|found| found.is_some_and(|found| found.kind == EntryKind::Directory))
    }

    fn pair(&mut self) -> Option<JobResult> {
        let (source, destination) = (self.source.take()?, self.destination.take()?);
        self.passed = 0;
        self.keep_directory_of(&source.name);
        // A directory on one side may be an empty object on the other.
        let directories = source.kind == EntryKind::Directory || destination.kind == EntryKind::Directory;
        let has_content = source.kind == EntryKind::File && source.size != Some(0);
        if directories && !has_content || !self.copy.selects(&source) {
            return None;
        }
        let tree = self.copy.tree;
        let with = match self.compare {
            Compare::Existence => return self.settle(source, Ok(Sameness::Same)),
            Compare::Newer if destination.kind == EntryKind::File => {
                let unit = || TimeUnit::of_tree(tree, &self.copy.root.as_ref()?.beneath);
                let newer = is_newer(destination.modified, source.modified, unit);
                return self.settle(source, Ok(Sameness::of(newer)));
            }
            _ if destination.kind != EntryKind::File || source.size != destination.size => {
                return self.add(source);
            }
            Compare::None | Compare::Newer => return self.add(source),
            Compare::Size => return self.settle(source, Ok(Sameness::Same)),
            Compare::Checksum => SourceComparison::Content(tree.destination.join(&destination.name)),
            Compare::SizeMtime => {
                let beneath = self.copy.root.as_ref().map(|root| &root.beneath);
                match TimeVerdict::of_entries(tree, &self.scope.store, beneath, &source, &destination) {
                    TimeVerdict::Unchanged => return self.settle(source, Ok(Sameness::Same)),
                    TimeVerdict::Changed => return self.add(source),
                    TimeVerdict::Ask(ask) => {
                        SourceComparison::Times(ask, tree.destination.join(&destination.name))
                    }
                }
            }
        };
        let location = tree.source.join(&source.name);
        if let Err(error) = self.comparisons.start(source, location.clone(), with) {
            return Some(Err(Failure { location: location.to_string(), error }));
        }
        let done = if self.comparisons.is_full() { self.comparisons.wait() } else { None };
        done.and_then(|(source, same)| self.settle(source, same))
    }

    /// Skips or copies an object that was compared.
    fn settle(&mut self, source: Entry, same: Result<Sameness>) -> Option<JobResult> {
        match same {
            Ok(Sameness::Same) => self.copy.skip(&source, self.observer).err().map(Err),
            Ok(Sameness::Different | Sameness::Unknown) => self.add(source),
            Err(error) => Some(Err(self.copy.tree.failure(&source.name, error))),
        }
    }

    /// Handles a name that only the destination has.
    fn handle_extra(&mut self) {
        let Some(entry) = self.destination.take() else { return };
        if self.extras == Extras::Keep {
            return self.pass();
        }
        // The source may have the name after all.
        if self.source.broken {
            self.kept += u64::from(entry.kind != EntryKind::Directory && self.may_delete(&entry));
            return;
        }
        let deletable = self.may_delete(&entry);
        if let Some(over) = self.replacements.iter_mut().find(|over| entry.name.starts_with(&over.prefix)) {
            // A directory is deleted with its contents.
            over.whole &= deletable || entry.kind == EntryKind::Directory;
            return;
        }
        if !deletable {
            // The directories above it stay.
            self.directories.retain(|directory| !entry.name.starts_with(directory));
            return;
        }
        let tree = self.copy.tree;
        if tree.effect == Effect::Apply
            && let Err(error) = self.prove_source_outside()
        {
            self.extras = Extras::Keep;
            self.failures.push(Failure { location: tree.destination.to_string(), error });
            return;
        }
        if entry.kind == EntryKind::Directory {
            // A store has no directories, so it cannot show which of them are extra.
            if has_directories(&tree.source) && tree.effect == Effect::Apply {
                self.directories.push(entry.name);
            }
            return;
        }
        match self.deferred {
            Some(_) => self.defer(entry.name),
            None => self.delete_extra(&entry.name),
        }
    }

    /// Deletes a name that only the destination has: a local file or link at once, others in pages.
    fn delete_extra(&mut self, name: &[u8]) {
        let tree = self.copy.tree;
        let location = tree.destination.join(name);
        if tree.effect == Effect::DryRun {
            return self.observer.planned(&Action::Delete { location });
        }
        if let Some(root) = &self.copy.root {
            match root.beneath.remove_file(as_path(name)) {
                Ok(()) => add(&self.copy.counts.deleted, 1),
                Err(error) => {
                    self.failures.push(Failure { location: location.to_string(), error: error.into() });
                }
            }
            return;
        }
        self.deletions.push(location);
        if self.deletions.len() == PAGE {
            self.delete();
        }
    }

    /// Defers the deletion of a name.
    fn defer(&mut self, name: Vec<u8>) {
        // Until the source has passed all names below this one, the file may be in the way of a
        // directory.
        if has_directories(&self.copy.tree.destination)
            && !self.source.has_passed(&[&name[..], b"/"].concat())
        {
            return self.obstacles.push(name);
        }
        if let Some(Err(error)) = self.deferred.as_mut().map(|deferred| deferred.add(&name)) {
            self.failures.push(self.copy.tree.failure(&name, error));
        }
    }

    /// Defers the deletion of files that turned out not to be in the way of a directory.
    fn leave_obstacles(&mut self) {
        let (source, obstacles) = (&mut self.source, &mut self.obstacles);
        let passed: Vec<_> =
            obstacles.extract_if(.., |name| source.has_passed(&[&name[..], b"/"].concat())).collect();
        passed.into_iter().for_each(|name| self.defer(name));
    }

    /// Deletes the file that is in the place of a directory which `name` needs.
    fn clear_way(&mut self, name: &[u8]) {
        let is_above =
            |file: &Vec<u8>| name.strip_prefix(&file[..]).is_some_and(|rest| rest.starts_with(b"/"));
        if let Some(at) = self.obstacles.iter().position(is_above) {
            let file = self.obstacles.swap_remove(at);
            self.delete_extra(&file);
        }
    }

    /// Deletes the next deferred name, once the source has been listed in order. Returns false if
    /// there is none.
    fn delete_deferred(&mut self) -> bool {
        if let Some(deferred) = self.deferred.take() {
            if self.source.broken {
                self.kept += deferred.count();
                return false;
            }
            match deferred.into_records() {
                Ok(records) => self.decided = Some(records),
                Err(error) => self.failures.push(self.copy.tree.failure(b"", error)),
            }
        }
        match self.decided.as_mut().and_then(Iterator::next) {
            Some(Ok(name)) => self.delete_extra(&name),
            Some(Err(error)) => self.failures.push(self.copy.tree.failure(b"", error)),
            None => return false,
        }
        true
    }

    /// Fails if the source lies in the destination under another name, or the reverse: it would be
    /// deleted as an extra. A store may keep the source's keys in the destination's directories.
    fn prove_source_outside(&self) -> Result<()> {
        let Tree { source, destination, .. } = self.copy.tree;
        if !has_directories(destination) {
            return Ok(());
        }
        self.apart.prove(source, destination, Separation::Inside)
    }

    /// Whether an entry that only the destination has may be deleted.
    fn may_delete(&self, entry: &Entry) -> bool {
        let tree = self.copy.tree;
        match entry.kind {
            // If the source is a directory, it takes the place of the object that marks the prefix.
            EntryKind::File if entry.name.is_empty() && !matches!(tree.source, Location::Object(_)) => false,
            EntryKind::File | EntryKind::Symlink => self.copy.takes_extra(entry),
            EntryKind::Directory => (tree.select)(entry.name.strip_suffix(b"/").unwrap_or(&entry.name)),
            EntryKind::Other => false,
        }
    }

    /// Skips a name that only the destination has, if such names are kept. After a page of them an
    /// S3 destination is listed again, from the source's next name, so that copying few objects
    /// among many costs at most a few pages for each.
    fn pass(&mut self) {
        self.passed += 1;
        let destination = &self.copy.tree.destination;
        if self.passed < PAGE || !matches!(destination, Location::Object(_)) {
            return;
        }
        self.passed = 0;
        // Without an order no names can be passed over.
        if self.scope.store.is_unsorted(destination) {
            return;
        }
        // A listing starts after a given name, so a shorter one is given.
        let before = self.source.name().and_then(|name| std::str::from_utf8(name.split_last()?.1).ok());
        let start_after = before.map(str::to_owned);
        let options = ListOptions { start_after, ..self.destination_options.clone() };
        let (Some(from), Some(now)) = (&options.start_after, self.destination.name()) else { return };
        if from.as_bytes() <= now {
            return;
        }
        let cancel = || self.scope.cancel.clone();
        let listing = tree::list(&self.scope.store, destination, &options)
            .and_then(|listing| listing.map(|listing| ListingPrefetch::start(listing, cancel())).transpose());
        match listing {
            Ok(listing) => self.destination = Side::new(listing),
            Err(error) => self.failures.push(Failure { location: destination.to_string(), error }),
        }
    }

    /// Removes the extra directories that the destination's listing has passed, if they are empty.
    fn leave_directories(&mut self) {
        while let Some(last) = self.directories.last() {
            if !self.destination.has_passed(last) {
                return;
            }
            let Some(name) = self.directories.pop() else { return };
            let name = name.strip_suffix(b"/").unwrap_or(&name);
            let location = self.copy.tree.destination.join(name);
            let removed = match &self.copy.root {
                Some(root) => root.beneath.remove_empty_directory(as_path(name)),
                None => {
                    // The files in it are deleted first.
                    self.delete();
                    self.scope.store.remove_directory(&location, Unfinished::Keep)
                }
            };
            if let Err(error) = removed {
                self.failures.push(Failure { location: location.to_string(), error: error.into() });
            }
        }
    }

    /// Keeps the directory that a name of the source is in.
    fn keep_directory_of(&mut self, name: &[u8]) {
        for over in self.replacements.iter_mut().filter(|over| name.starts_with(&over.prefix)) {
            over.whole = false;
        }
    }

    /// The job of the next file that replaces a directory, or the failure of one that cannot.
    fn replace(&mut self) -> Option<JobResult> {
        let (source, destination) = (&mut self.source, &mut self.destination);
        let decided = self
            .replacements
            .iter()
            .position(|over| source.has_passed(&over.prefix) && destination.has_passed(&over.prefix))?;
        let over = self.replacements.swap_remove(decided);
        if over.whole && !self.source.broken && !self.destination.broken {
            return self.copy.job(over.file, ReplaceKind::Directory, self.observer);
        }
        let place = self.copy.tree.destination.join(&over.file.name);
        let why = "a directory is in the file's place, and part of it has to stay; nothing in it was deleted";
        Some(Err(self.copy.tree.failure(&over.file.name, Error::invalid(&place, why))))
    }

    /// Reports once that extras were kept: the failure of one name does not say so.
    fn report_kept(&mut self) {
        let kept = std::mem::take(&mut self.kept);
        if kept > 0 {
            let location = self.copy.tree.destination.to_string();
            self.failures.push(Failure { location, error: Error::ExtrasKept { kept } });
        }
    }

    fn delete(&mut self) {
        let failed = if self.deletions.is_empty() {
            Vec::new()
        } else {
            self.scope.store.delete_many(&self.deletions)
        };
        add(&self.copy.counts.deleted, (self.deletions.len() - failed.len()) as u64);
        self.deletions.clear();
        let failures = failed
            .into_iter()
            .map(|(location, error)| Failure { location: location.to_string(), error: error.into() });
        self.failures.extend(failures);
    }
}
