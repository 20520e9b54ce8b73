//! Updates a destination tree by walking two listings side by side in byte order. The memory needed
//! does not depend on the length of the listings. If both listings show that an object is
//! unchanged, no request is made for it.
//!
//! Names that only the destination has are deleted after the copies of the run ([`extras`]). If a
//! listing was out of order, the run starts again and sorts the store's names itself
//! ([`Engine::sync`](crate::Engine::sync)).
//!
//! The destination is listed without following links, and files are deleted beneath a local
//! destination, so no file outside of it is touched. A source file may have the name of a
//! destination directory. Whether the file replaces the directory is decided when both listings
//! have passed the directory. If everything in the directory has to be deleted, the directory is
//! removed when the copy of the file is complete ([`Replacement`]).
//!
//! [`extras`]: crate::extras

use std::cmp::Ordering;

use firstbyte_location::{Entry, EntryKind, Location};
use firstbyte_store::{
    Directories, EntryOrder, Error as StoreError, Links, ListOptions, PAGE, Partials, ReplaceKind, Store,
};

use crate::compare::{Comparisons, Sameness, SourceComparison, TimeVerdict, is_newer};
use crate::context::CallScope;
use crate::error::{Error, Failure, Result};
use crate::extras::ExtraNames;
use crate::job::{Effect, EmptySource, Extras, Tree};
use crate::job::{JobResult, TransferRoute, as_path, has_directories};
use crate::listing_prefetch::ListingPrefetch;
use crate::mounts;
use crate::report::{Observer, Summary};
use crate::settings::Compare;
use crate::side::Side;
use crate::spelling::CheckedParts;
use crate::times::{SourceTime, stored_times};
use crate::tree::{self, TreeCopy};

/// Returns the jobs that bring the destination up to date. The caller deletes the extras when the
/// jobs are done ([`Join::delete_extras`]).
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
    let options = tree::list_options(tree, EntryOrder::Bytes, extras, settings);
    let destination_options = ListOptions {
        links: Links::Report,
        copied_to: None,
        bounds: tree.bounds.clone(),
        directories: Directories::Listed,
        // Files that interrupted copies have left for names that the source lacks are deleted with
        // the extras.
        partials: if copy.root.is_some() { Partials::Listed } else { Partials::Hidden },
        ..options.clone()
    };
    // The source is read ahead while the destination is opened. That takes time for a directory
    // with many names, because all of them are read and sorted.
    let source = open_source(scope, tree, &options, extras)?;
    // Nothing is decided by the keys of a store if everything is copied and nothing deleted. The
    // user may have no right to list them.
    let decides = settings.compare != Compare::None
        || extras != Extras::Keep
        || !matches!(tree.destination, Location::Object(_));
    let destination = match decides {
        true => tree::list(store, &tree.destination, &destination_options)?,
        false => None,
    };
    let destination =
        destination.map(|listing| ListingPrefetch::start(listing, scope.cancel.clone())).transpose()?;
    let route = TransferRoute::of(&tree.source, &tree.destination);
    Ok(Join {
        scope,
        copy,
        extras,
        has_names: copy.root.as_ref().is_some_and(|root| !root.beneath.is_empty()),
        extra_names: ExtraNames::new(scope, copy, observer),
        compare: match settings.compare {
            // If source and destination are the same location, the copy changes properties of the
            // objects, which are not compared.
            Compare::SizeMtime | Compare::Checksum if tree.source == tree.destination => Compare::None,
            compare => compare,
        },
        comparisons: Comparisons::new(store, settings.concurrency, route),
        observer,
        source,
        is_destination_listed: decides,
        destination: Side::new(destination),
        destination_options,
        passed: 0,
        kept: 0,
        replacements: Vec::new(),
        directories: Vec::new(),
        obstacles: Vec::new(),
        last_obstacle: None,
        failures: Vec::new(),
        is_disordered: false,
    })
}

/// Lists the source. A source without objects is an error if everything at the destination would be
/// deleted.
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
            // A store cannot distinguish an empty prefix from a missing one, but the bucket must
            // exist.
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

/// Returns whether a source has no objects. Directories do not count as objects, so a tree of files
/// is searched until a file is found.
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

/// A file of the source that replaces a directory of the destination.
struct Replacement {
    file: Entry,
    /// The name of the directory, which ends in `/`.
    prefix: Vec<u8>,
    /// True if all names that were listed in the directory so far may be deleted.
    is_deletable: bool,
}

/// The side-by-side walk of two listings.
pub(crate) struct Join<'a> {
    scope: &'a CallScope<'a>,
    copy: &'a TreeCopy<'a>,
    extras: Extras,
    /// True if a local destination contained any name at the start.
    has_names: bool,
    /// Names that are deleted after the copies, unless the source still lists them.
    extra_names: ExtraNames<'a>,
    compare: Compare,
    comparisons: Comparisons,
    observer: &'a dyn Observer,
    source: Side,
    /// False if nothing depends on the names of the destination, so they are not listed.
    is_destination_listed: bool,
    destination: Side,
    destination_options: ListOptions,
    /// Number of names that were passed over since the last common name. Only the destination has
    /// these names, and they are kept.
    passed: usize,
    /// Number of extras that were kept because the source's listing had an error.
    kept: u64,
    /// Files that may replace a directory, and are not decided yet. There are few: a file is
    /// decided as soon as the listings have passed the directory.
    replacements: Vec<Replacement>,
    /// Directories that only the destination has, the outermost first. The deletion of each is
    /// deferred when the listing leaves it.
    directories: Vec<Vec<u8>>,
    /// Files that will be deleted, unless a name of the source is below the file's name: then the
    /// file is in the place of a directory and is deleted at once.
    obstacles: Vec<Vec<u8>>,
    /// The last file that was in the place of a directory. In a dry run, the file still exists.
    last_obstacle: Option<Vec<u8>>,
    failures: Vec<Failure>,
    /// True if a listing was out of order. If so, the walk ends.
    is_disordered: bool,
}

impl Iterator for Join<'_> {
    type Item = JobResult;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(failure) = self.failures.pop() {
                return Some(Err(failure));
            }
            if self.is_disordered {
                return None;
            }
            let tree = self.copy.tree;
            for (side, place) in
                [(&mut self.source, &tree.source), (&mut self.destination, &tree.destination)]
            {
                while let Some(error) = side.take_error() {
                    // If extras are kept, it does not matter that a name of the destination could
                    // not be listed. If an object is copied below such a directory, the copy
                    // reports its own error.
                    let is_destination = place == &tree.destination;
                    if is_destination && self.extras == Extras::Keep && error.unlisted_name(place).is_some() {
                        continue;
                    }
                    self.is_disordered = matches!(error, StoreError::Disordered { .. });
                    return Some(Err(Failure::of_listing(place, error)));
                }
            }
            self.defer_passed_obstacles();
            self.defer_passed_directories();
            if let Some(job) = self.next_replacement() {
                return Some(job);
            }
            let order = match (self.source.name(), self.destination.name()) {
                (None, Some(_)) if self.extras != Extras::Keep => Ordering::Greater,
                (None, _) => {
                    if let Some((source, same)) = self.comparisons.wait() {
                        match self.skip_or_copy(source, same) {
                            None => continue,
                            job => return job,
                        }
                    }
                    return None;
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
    /// Deletes the names that only the destination has. The copies of the run have completed
    /// before. So even if a link of the source led to such a name, its content has been copied.
    pub(crate) fn delete_extras(self, summary: &mut Summary) {
        if summary.ended.is_some() || self.is_disordered {
            return;
        }
        if !self.source.is_broken {
            return self.extra_names.delete_all(summary);
        }
        let kept = self.kept + self.extra_names.files();
        if kept > 0 {
            let location = self.copy.tree.destination.to_string();
            let failure = Failure { location, error: Error::ExtrasKept { kept } };
            self.observer.failed(&failure);
            summary.fail(failure);
        }
    }

    fn only_source(&mut self) -> Option<JobResult> {
        let entry = self.source.take()?;
        self.keep_directory_of(&entry.name);
        self.delete_obstacle_above(&entry.name);
        if !self.copy.selects(&entry) {
            return None;
        }
        // The copy would notice a file whose name is another spelling of this one, but by then the
        // file could have been deleted as an extra. So the spelling is checked now.
        let parts = if self.extras == Extras::Keep { CheckedParts::Directories } else { CheckedParts::All };
        if self.has_names
            && !self.is_below_planned_deletion(&entry.name)
            && let Err(failure) = self.copy.check_spelling(&entry, parts)
        {
            // A name of the destination may be another spelling of a name of the source, so no name
            // is deleted.
            self.source.is_broken |= self.extras != Extras::Keep;
            return Some(Err(failure));
        }
        // A name that was not looked for may be the copy of an earlier source.
        let over = if self.is_destination_listed { ReplaceKind::Nothing } else { ReplaceKind::File };
        self.add_over(entry, over)
    }

    fn add(&mut self, entry: Entry) -> Option<JobResult> {
        self.add_over(entry, ReplaceKind::File)
    }

    fn add_over(&mut self, entry: Entry, over: ReplaceKind) -> Option<JobResult> {
        if entry.kind == EntryKind::File && self.is_over_directory(&entry.name) {
            let prefix = [&entry.name[..], b"/"].concat();
            self.replacements.push(Replacement { file: entry, prefix, is_deletable: true });
            return None;
        }
        self.copy.job(entry, over, self.observer)
    }

    /// Returns whether extras are deleted and a local destination has a directory of this name.
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
        // A directory on one side may be an empty object on the other side.
        let directories = source.kind == EntryKind::Directory || destination.kind == EntryKind::Directory;
        let has_content = source.kind == EntryKind::File && source.size != Some(0);
        if directories && !has_content || !self.copy.selects(&source) {
            return None;
        }
        let tree = self.copy.tree;
        let with = match self.compare {
            Compare::Existence => return self.skip_or_copy(source, Ok(Sameness::Same)),
            Compare::Newer if destination.kind == EntryKind::File => {
                let beneath = self.copy.root.as_ref().map(|root| &root.beneath);
                let stored = || stored_times(tree, beneath?, &destination.name);
                let newer = is_newer(destination.modified, SourceTime::of(&tree.source, &source), stored);
                return self.skip_or_copy(source, Ok(Sameness::of(newer)));
            }
            _ if destination.kind != EntryKind::File || source.size != destination.size => {
                return self.add(source);
            }
            Compare::None | Compare::Newer => return self.add(source),
            Compare::Size => return self.skip_or_copy(source, Ok(Sameness::Same)),
            Compare::Checksum => SourceComparison::Content(tree.destination.join(&destination.name)),
            Compare::SizeMtime => {
                let beneath = self.copy.root.as_ref().map(|root| &root.beneath);
                match TimeVerdict::of_entries(tree, &self.scope.store, beneath, &source, &destination) {
                    TimeVerdict::Unchanged => return self.skip_or_copy(source, Ok(Sameness::Same)),
                    TimeVerdict::Changed => return self.add(source),
                    TimeVerdict::CheckMetadata(check) => {
                        SourceComparison::Times(check, tree.destination.join(&destination.name))
                    }
                }
            }
        };
        let location = tree.source.join(&source.name);
        if let Err(error) = self.comparisons.start(source, location.clone(), with) {
            return Some(Err(Failure { location: location.to_string(), error }));
        }
        let done = if self.comparisons.is_full() { self.comparisons.wait() } else { None };
        done.and_then(|(source, same)| self.skip_or_copy(source, same))
    }

    /// Skips or copies an object that was compared.
    fn skip_or_copy(&mut self, source: Entry, same: Result<Sameness>) -> Option<JobResult> {
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
            return self.pass_over_name();
        }
        if self.copy.leftover(&entry.name).is_some() {
            self.failures.extend(self.extra_names.add(&entry.name).err());
            return;
        }
        // The source may have a name that its listing does not show.
        let deletable = self.extra_names.may_delete(&entry);
        if self.source.is_broken {
            self.kept += u64::from(entry.kind != EntryKind::Directory && deletable);
            return;
        }
        if let Some(over) = self.replacements.iter_mut().find(|over| entry.name.starts_with(&over.prefix)) {
            // A directory is deleted together with its contents.
            over.is_deletable &= deletable || entry.kind == EntryKind::Directory;
            return;
        }
        if !deletable {
            // The directories that contain this entry have to stay.
            self.directories.retain(|directory| !entry.name.starts_with(directory));
            return;
        }
        let tree = self.copy.tree;
        if tree.effect == Effect::Apply
            && let Err(error) = self.extra_names.prove_source_outside()
        {
            self.extras = Extras::Keep;
            self.failures.push(Failure { location: tree.destination.to_string(), error });
            return;
        }
        if entry.kind == EntryKind::Directory {
            // Whether a directory is an extra can be known only if the source has directories,
            // which a store does not.
            if has_directories(&tree.source) && tree.effect == Effect::Apply {
                self.directories.push(entry.name);
            }
            return;
        }
        self.defer(entry.name);
    }

    /// Defers the deletion of a name that only the destination has.
    fn defer(&mut self, name: Vec<u8>) {
        // As long as the source may list names below this one, the file may be in the place of a
        // directory.
        if has_directories(&self.copy.tree.destination)
            && !self.source.has_passed(&[&name[..], b"/"].concat())
        {
            return self.obstacles.push(name);
        }
        self.failures.extend(self.extra_names.add(&name).err());
    }

    /// Defers the deletion of files once it is known that they are not in the place of a directory.
    fn defer_passed_obstacles(&mut self) {
        let (source, obstacles) = (&mut self.source, &mut self.obstacles);
        let passed: Vec<_> =
            obstacles.extract_if(.., |name| source.has_passed(&[&name[..], b"/"].concat())).collect();
        passed.into_iter().for_each(|name| self.defer(name));
    }

    /// Deletes the file that is in the place of a directory above `name`.
    fn delete_obstacle_above(&mut self, name: &[u8]) {
        let is_above =
            |file: &Vec<u8>| name.strip_prefix(&file[..]).is_some_and(|rest| rest.starts_with(b"/"));
        if let Some(at) = self.obstacles.iter().position(is_above) {
            let file = self.obstacles.swap_remove(at);
            let mut deletion = self.extra_names.deletion();
            deletion.delete(&file);
            self.failures.extend(deletion.into_failures());
            self.last_obstacle = Some(file);
        }
    }

    /// Returns whether a dry run has only reported the deletion of a file above `name`, so that
    /// `name` cannot be looked up.
    fn is_below_planned_deletion(&self, name: &[u8]) -> bool {
        let above = self.last_obstacle.as_ref().filter(|_| self.copy.tree.effect == Effect::DryRun);
        let rest = above.and_then(|file| name.strip_prefix(&file[..]));
        rest.is_some_and(|rest| rest.starts_with(b"/"))
    }

    /// Passes over a name that only the destination has, if such names are kept. After a page of
    /// such names, the listing of an S3 destination is started again at the source's next name. So
    /// copying a few objects into a prefix with very many takes at most a few pages for each
    /// object.
    fn pass_over_name(&mut self) {
        self.passed += 1;
        let destination = &self.copy.tree.destination;
        if self.passed < PAGE || !matches!(destination, Location::Object(_)) {
            return;
        }
        self.passed = 0;
        // If the listing has no order, names cannot be passed over.
        if self.scope.store.is_unsorted(destination) {
            return;
        }
        // A listing starts after a given name. To include the source's next name, it starts after
        // that name without its last character.
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

    /// Defers the deletion of the extra directories that the destination's listing has passed.
    fn defer_passed_directories(&mut self) {
        while let Some(last) = self.directories.last() {
            // A directory can be deleted only after the names in it.
            if !self.destination.has_passed(last) || self.obstacles.iter().any(|name| name.starts_with(last))
            {
                return;
            }
            let Some(name) = self.directories.pop() else { return };
            self.failures.extend(self.extra_names.add(&name).err());
        }
    }

    /// Keeps the directories that contain the source's `name`.
    fn keep_directory_of(&mut self, name: &[u8]) {
        for over in self.replacements.iter_mut().filter(|over| name.starts_with(&over.prefix)) {
            over.is_deletable = false;
        }
    }

    /// Returns the job of the next file that replaces a directory, or the failure of a file that
    /// cannot replace one.
    fn next_replacement(&mut self) -> Option<JobResult> {
        let (source, destination) = (&mut self.source, &mut self.destination);
        let decided = self
            .replacements
            .iter()
            .position(|over| source.has_passed(&over.prefix) && destination.has_passed(&over.prefix))?;
        let over = self.replacements.swap_remove(decided);
        if over.is_deletable && !self.source.is_broken && !self.destination.is_broken {
            return self.copy.job(over.file, ReplaceKind::Directory, self.observer);
        }
        let place = self.copy.tree.destination.join(&over.file.name);
        let why = "a directory is in the file's place, and part of it has to stay; nothing in it was deleted";
        Some(Err(self.copy.tree.failure(&over.file.name, Error::invalid(&place, why))))
    }
}
