//! Copies whole trees: turns a listing of the source into jobs.
//!
//! The engine creates a [`TreeCopy`] for each call. [`sync`](crate::sync) uses it for each name.

use std::sync::atomic::AtomicU64;

use firstbyte_location::{DestinationName, Entry, EntryKind, Location};
use firstbyte_store::{
    CopiedTo, Directories, EntryOrder, Error as StoreError, FoundEntry, Links, ListOptions, Listing, Marker,
    NameTest, Partials, ReplaceKind, Store, WalkBounds, location_below,
};

use crate::compare::{ComparedPair, Comparisons, MetadataCheck, Sameness, SourceComparison, TimeVerdict};
use crate::context::{CallScope, add_relaxed, load_relaxed};
use crate::error::{Error, Failure, Result};
use crate::job::{CopyJob, EarlierSources, Effect, Extras, Levels, Tree, TreeNames};
use crate::job::{JobResult, TransferRoute, as_path, has_directories, is_unfinished, keeps_all};
use crate::leftovers::{Leftover, Leftovers};
use crate::local_root::LocalRoot;
use crate::mounts;
use crate::report::{Action, Observer, Summary};
use crate::settings::{Compare, SourceLimits, TransferSettings};
use crate::spelling::{CheckedParts, Spellings};

/// Counts of names that need no job, in a run over a tree. The scheduler counts the jobs.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    skipped: AtomicU64,
    /// Number of links created.
    links: AtomicU64,
    pub(crate) deleted: AtomicU64,
    /// Number of pipes, sockets and devices.
    special: AtomicU64,
    /// Number of empty directories, which a store cannot hold.
    empty_directories: AtomicU64,
    /// Number of partial files that interrupted copies have left at the source.
    unfinished: AtomicU64,
}

impl Counts {
    pub(crate) fn add_to(&self, summary: &mut Summary) {
        summary.skipped += load_relaxed(&self.skipped);
        summary.objects += load_relaxed(&self.links);
        summary.deleted += load_relaxed(&self.deleted);
        summary.special = load_relaxed(&self.special);
        summary.empty_directories = load_relaxed(&self.empty_directories);
        summary.unfinished = load_relaxed(&self.unfinished);
    }
}

/// A tree that is being copied.
pub(crate) struct TreeCopy<'a> {
    pub(crate) tree: &'a Tree<'a>,
    /// The sources whose copies must not be replaced.
    earlier: &'a EarlierSources<'a>,
    /// The destination, if it is local.
    pub(crate) root: Option<LocalRoot<'a>>,
    limits: SourceLimits,
    /// True if links are copied as links and not followed.
    keeps_links: bool,
    leftovers: Leftovers,
    spellings: Spellings,
    store: Store,
    pub(crate) counts: Counts,
}

impl<'a> TreeCopy<'a> {
    pub(crate) fn new(tree: &'a Tree<'a>, scope: &CallScope<'_>) -> Self {
        let settings = scope.settings;
        let root = LocalRoot::of(tree, settings.limits);
        let keeps_links = keeps_all(settings, &tree.source, &tree.destination);
        Self {
            tree,
            earlier: &no_sources,
            root,
            limits: settings.limits,
            keeps_links,
            leftovers: Leftovers::default(),
            spellings: Spellings::default(),
            store: scope.store.clone(),
            counts: Counts::default(),
        }
    }

    /// Returns the same copy, which does not replace the copies of `earlier` sources.
    pub(crate) fn after(self, earlier: &'a EarlierSources<'a>) -> Self {
        Self { earlier, ..self }
    }

    /// Returns whether a listed entry is copied. Counts unfinished copies and special files, which
    /// are not copied.
    pub(crate) fn selects(&self, entry: &Entry) -> bool {
        // If only one level is copied, directories and their contents are skipped.
        if entry.kind == EntryKind::Directory && self.tree.levels == Levels::One {
            return false;
        }
        let name = entry.name.strip_suffix(b"/").filter(|_| entry.kind == EntryKind::Directory);
        let name = name.unwrap_or(&entry.name);
        let selected = self.tree.contains(name);
        if !selected && is_unfinished(&self.tree.source, name) && self.tree.includes(name) {
            add_relaxed(&self.counts.unfinished, 1);
        }
        if selected && entry.kind == EntryKind::Other {
            add_relaxed(&self.counts.special, 1);
        }
        match entry.kind {
            // The caller has named this file, and its length is unknown. The job is made anyway, so
            // that the copy reports what is wrong with the file.
            EntryKind::File if matches!(self.tree.names, TreeNames::Given(_)) && entry.size.is_none() => {
                selected
            }
            EntryKind::File => selected && self.limits.take(entry.size, entry.modified),
            EntryKind::Directory => selected,
            EntryKind::Symlink => selected && self.keeps_links,
            EntryKind::Other => false,
        }
    }

    /// Returns whether the filters include an entry that only the destination has. They are the
    /// filters that apply to the source.
    pub(crate) fn includes_extra(&self, entry: &Entry) -> bool {
        let is_content = !is_unfinished(&self.tree.destination, &entry.name);
        is_content && self.tree.includes(&entry.name) && self.limits.take(entry.size, entry.modified)
    }

    /// Parses the name of a file that an interrupted copy has left. Returns `None` for other names,
    /// and if the destination is not local.
    pub(crate) fn leftover(&self, name: &[u8]) -> Option<Leftover> {
        self.root.as_ref().and_then(|_| Leftover::of(name))
    }

    /// Returns whether a name in the destination's listing belongs to a directory. In a store, such
    /// a name is the key of an object.
    pub(crate) fn is_directory(&self, name: &[u8]) -> bool {
        name.ends_with(b"/") && has_directories(&self.tree.destination)
    }

    /// Returns the job that copies a listed entry. Returns `None` for a directory or link, which is
    /// created here, and in a dry run, which only reports the entry.
    pub(crate) fn job(&self, entry: Entry, over: ReplaceKind, observer: &dyn Observer) -> Option<JobResult> {
        let source = self.tree.source.join(&entry.name);
        let destination = match self.destination_of(&entry) {
            Ok(Some(destination)) => destination,
            Ok(None) => {
                observer.made_directory(&source);
                return None;
            }
            Err(error) => return Some(Err(Failure { location: source.to_string(), error })),
        };
        if let Err(error) = self.check_earlier(&source, &destination, over) {
            return Some(Err(Failure { location: source.to_string(), error }));
        }
        let size = entry.size.filter(|_| entry.kind != EntryKind::Symlink);
        if self.tree.effect == Effect::DryRun {
            observer.planned(&Action::Copy { source, destination, size });
            return None;
        }
        if let (EntryKind::Symlink, Some(from), Some(root)) =
            (entry.kind, self.tree.source.as_local(), &self.root)
        {
            return match root.link(&entry.name, from) {
                Ok(made) => {
                    add_relaxed(if made { &self.counts.links } else { &self.counts.skipped }, 1);
                    None
                }
                Err(error) => Some(Err(self.tree.failure(&entry.name, error))),
            };
        }
        observer.expected(1, size.unwrap_or(0));
        Some(Ok(CopyJob { source, destination, entry: Some(entry), over }))
    }

    /// Fails if this copy would replace the copy of an earlier source. In a dry run, the earlier
    /// copies do not exist, so every name is checked, and not only names that replace an entry.
    fn check_earlier(&self, source: &Location, destination: &Location, over: ReplaceKind) -> Result<()> {
        if over == ReplaceKind::Nothing && self.tree.effect == Effect::Apply {
            return Ok(());
        }
        for other in (self.earlier)(destination).into_iter().filter(|other| other != source) {
            match self.store.stat_object(&other) {
                Ok(found) if found.kind != EntryKind::Directory => {
                    let why = format!(
                        "has the copy of {other} already, from another source of this command; copy one at a time, \
                         each to a directory of its own"
                    );
                    return Err(Error::invalid(destination, why));
                }
                Ok(_) | Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Fails if a local destination has the name of an entry in another spelling. The file system
    /// treats both spellings as the same name, so the copy would replace the other file.
    pub(crate) fn check_spelling(
        &self,
        entry: &Entry,
        parts: CheckedParts,
    ) -> std::result::Result<(), Failure> {
        let name = entry.name.strip_suffix(b"/").unwrap_or(&entry.name);
        // A name that no file can have is reported later, when its destination is determined.
        let Some(root) = self.root.as_ref().filter(|_| DestinationName::check_path(name).is_ok()) else {
            return Ok(());
        };
        let failure = |error: StoreError| self.tree.failure(&entry.name, error);
        match self.spellings.find_other(&root.beneath, as_path(name), parts).map_err(failure)? {
            None => Ok(()),
            Some(other) => Err(failure(root.beneath.spelling_error(as_path(name), &other))),
        }
    }

    /// Returns the kinds of entries that the copy may replace. Called for a name that was in no
    /// listing of the destination.
    pub(crate) fn replaceable_kinds(&self, entry: &Entry) -> std::result::Result<ReplaceKind, Failure> {
        let found = self.root.as_ref().map(|root| root.beneath.find(as_path(&entry.name)));
        match found {
            Some(Ok(Some(_))) => self.check_spelling(entry, CheckedParts::All).map(|()| ReplaceKind::File),
            _ => self.check_spelling(entry, CheckedParts::Directories).map(|()| ReplaceKind::Nothing),
        }
    }

    /// Counts an object that was found unchanged, and removes the files that a killed copy of it
    /// has left.
    pub(crate) fn skip(&self, entry: &Entry, observer: &dyn Observer) -> std::result::Result<(), Failure> {
        add_relaxed(&self.counts.skipped, 1);
        observer.skipped(&self.tree.source.join(&entry.name));
        match (&self.root, self.tree.effect) {
            (Some(root), Effect::Apply) => self
                .leftovers
                .remove(&root.beneath, as_path(&entry.name))
                .map_err(|error| self.tree.failure(&entry.name, error)),
            _ => Ok(()),
        }
    }

    /// Returns the destination of an entry. Returns `None` for a directory, which is created or
    /// counted here.
    fn destination_of(&self, entry: &Entry) -> Result<Option<Location>> {
        let directory = match entry.kind {
            EntryKind::Directory => Some(entry.name.strip_suffix(b"/").unwrap_or(&entry.name)),
            // An empty object whose name ends in `/` marks a directory.
            _ if entry.size == Some(0) => entry.name.strip_suffix(b"/").or(root_marker(&entry.name)),
            _ => None,
        };
        let tree = self.tree;
        if !has_directories(&tree.destination) {
            // A store cannot hold an empty directory.
            if entry.kind == EntryKind::Directory {
                add_relaxed(
                    &self.counts.empty_directories,
                    u64::from(self.is_empty(&entry.name) == Some(true)),
                );
                return Ok(None);
            }
            if matches!(tree.destination, Location::Object(_)) && std::str::from_utf8(&entry.name).is_err() {
                let why = "a key must be UTF-8, and this name is not";
                return Err(Error::invalid(&tree.source.join(&entry.name), why));
            }
            return Ok(Some(tree.destination.join(&entry.name)));
        }
        if directory.is_none() && entry.name.is_empty() {
            let why = "marks the prefix and has content, which no file can have; copy it by its name";
            return Err(Error::invalid(&tree.source.join(b""), why));
        }
        let Some(directory) = directory else {
            return Ok(Some(location_below(&tree.destination, &entry.name)?));
        };
        let place = match directory {
            b"" => tree.destination.clone(),
            below => location_below(&tree.destination, below)?,
        };
        match &self.root {
            _ if tree.effect == Effect::DryRun => {}
            Some(root) => root.beneath.create_directory(as_path(directory))?,
            // A directory with files is created together with its first file.
            None if self.is_empty(directory) == Some(false) => {}
            None => self.store.create_directory(&place)?,
        }
        Ok(None)
    }

    /// Returns whether a directory of the source is empty. `None` if the source is not local.
    fn is_empty(&self, name: &[u8]) -> Option<bool> {
        let root = self.tree.source.as_local()?;
        Some(std::fs::read_dir(root.join(as_path(name))).is_ok_and(|mut entries| entries.next().is_none()))
    }
}

/// Returns no earlier sources, for a tree that is the only source of its command.
fn no_sources(_copy: &Location) -> Vec<Location> {
    Vec::new()
}

/// Returns the empty name, if `name` is the name of the object that marks the root.
fn root_marker(name: &[u8]) -> Option<&[u8]> {
    name.is_empty().then_some(name)
}

/// Gives an entry the name by which listings sort it. The name of a directory ends in `/`.
pub(crate) fn with_sort_name(mut entry: Entry) -> Entry {
    if entry.kind == EntryKind::Directory && !entry.name.ends_with(b"/") {
        entry.name.push(b'/');
    }
    entry
}

/// Returns whether a location is a prefix of a store's keys. A prefix exists only as long as a key
/// begins with it.
pub(crate) fn is_prefix(location: &Location) -> bool {
    matches!(location, Location::Object(object) if !object.key.is_empty())
}

/// Returns the bucket of a location.
pub(crate) fn bucket_of(location: &Location) -> Option<Location> {
    let Location::Object(object) = location else { return None };
    Some(Location::Object(object.with_key("")))
}

/// Returns the options for listing a source. Links are followed unless they are copied as links.
/// Directories of local trees are listed too. Links and mount points that lead to the destination
/// are not entered.
pub(crate) fn list_options(
    tree: &Tree<'_>,
    order: EntryOrder,
    extras: Extras,
    settings: &TransferSettings,
) -> ListOptions {
    let bounds = match (tree.source.as_local(), tree.destination.as_local()) {
        (Some(from), Some(to)) => mounts::source_bounds(from, to, extras),
        _ => WalkBounds::default(),
    };
    let (wanted, entered) = (tree.bounds.wanted.clone(), tree.bounds.entered.clone());
    let bounds = WalkBounds { wanted, entered, ..bounds };
    ListOptions {
        bounds,
        recursive: tree.levels == Levels::All,
        beginning: tree.beginning.clone(),
        order,
        requests: Some(settings.listing_requests()),
        directories: Directories::Listed,
        marker: Marker::Listed,
        partials: Partials::Listed,
        links: if keeps_all(settings, &tree.source, &tree.destination) {
            Links::Report
        } else {
            Links::Follow
        },
        copied_to: Some(CopiedTo { destination: tree.destination.clone(), deletes: extras != Extras::Keep }),
        ..ListOptions::default()
    }
}

/// Opens the entries of a source: its listing, or the names from the caller.
pub(crate) fn source(
    store: &Store,
    tree: &Tree<'_>,
    options: &ListOptions,
) -> firstbyte_store::Result<Listing> {
    let listing = match tree.names {
        TreeNames::Listed => store.list(&tree.source, options)?,
        TreeNames::Given(open) => refuse_names(open()?, tree.source.clone(), options.bounds.refused.clone()),
    };
    if tree.source.as_local().is_none() {
        return Ok(listing);
    }
    let (store, root) = (store.clone(), tree.source.clone());
    Ok(Listing::of(listing.map(move |entry| entry.map(|entry| with_looked_up_length(&store, &root, entry)))))
}

/// Turns names that lead to the destination into errors. Used for names from the caller; in a
/// listing of a directory, the store does this.
fn refuse_names(listing: Listing, root: Location, refused: Option<NameTest>) -> Listing {
    let Some(refused) = refused else { return listing };
    Listing::of(listing.map(move |entry| match entry {
        Ok(entry) if refused.is_met(&entry.name) => {
            Err(StoreError::leads_to_destination(root.join(&entry.name).to_string()))
        }
        other => other,
    }))
}

/// Looks up the length of a file that is listed as empty. Such a file may have content of unknown
/// length. Then its length becomes unknown, so that it does not equal any object at the
/// destination.
fn with_looked_up_length(store: &Store, root: &Location, mut entry: Entry) -> Entry {
    if entry.kind == EntryKind::File && entry.size == Some(0) {
        let found = store.stat(&root.join(&entry.name));
        entry.size = found.map_or(entry.size, |found| found.size());
    }
    entry
}

/// Lists a tree. Returns `None` if it does not exist yet.
pub(crate) fn list(store: &Store, location: &Location, options: &ListOptions) -> Result<Option<Listing>> {
    match store.list(location, options) {
        Ok(listing) => Ok(Some(listing)),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the jobs that copy a tree to a local directory, in the order in which names are found.
/// Each name is looked up at the destination, which is quick.
pub(crate) fn jobs<'a>(
    scope: &CallScope<'_>,
    copy: &'a TreeCopy<'a>,
    observer: &'a dyn Observer,
) -> Result<impl Iterator<Item = JobResult> + Send + 'a> {
    let (tree, settings) = (copy.tree, scope.settings);
    let route = TransferRoute::of(&tree.source, &tree.destination);
    Ok(Jobs {
        copy,
        observer,
        listing: source(&scope.store, tree, &list_options(tree, EntryOrder::Any, Extras::Keep, settings))?,
        compare: settings.compare,
        has_names: copy.root.as_ref().is_some_and(|root| !root.beneath.is_empty()),
        comparisons: Comparisons::new(&scope.store, settings.concurrency, route),
    })
}

/// Iterates over the jobs of a listing. Some jobs wait for a comparison.
struct Jobs<'a> {
    copy: &'a TreeCopy<'a>,
    observer: &'a dyn Observer,
    listing: Listing,
    compare: Compare,
    /// True if the destination contained any name at the start.
    has_names: bool,
    comparisons: Comparisons,
}

impl Iterator for Jobs<'_> {
    type Item = JobResult;

    fn next(&mut self) -> Option<Self::Item> {
        let copy = self.copy;
        loop {
            let job = match self.listing.next().map(|entry| entry.map(with_sort_name)) {
                Some(Ok(entry)) if !copy.selects(&entry) => None,
                Some(Ok(entry)) => self.handle_entry(entry),
                Some(Err(error)) => Some(Err(Failure::of_listing(&copy.tree.source, error))),
                None => {
                    let outcome = self.comparisons.wait()?;
                    self.skip_or_copy(outcome)
                }
            };
            if job.is_some() {
                return job;
            }
        }
    }
}

impl Jobs<'_> {
    fn handle_entry(&mut self, entry: Entry) -> Option<JobResult> {
        let (copy, observer) = (self.copy, self.observer);
        let root = copy.root.as_ref().filter(|_| self.has_names);
        let found = root.map(|root| root.beneath.find(as_path(&entry.name)));
        let (over, parts) = match found {
            Some(Ok(Some(_)) | Err(_)) => (ReplaceKind::File, CheckedParts::All),
            Some(Ok(None)) | None => (ReplaceKind::Nothing, CheckedParts::Directories),
        };
        if self.has_names
            && let Err(failure) = copy.check_spelling(&entry, parts)
        {
            return Some(Err(failure));
        }
        match self.compare_times(&entry, found) {
            TimeVerdict::Unchanged => copy.skip(&entry, observer).err().map(Err),
            TimeVerdict::Changed => copy.job(entry, over, observer),
            TimeVerdict::CheckMetadata(check) => self.check_metadata(entry, check),
        }
    }

    /// Decides whether the destination has a complete and unchanged copy of a listed file.
    fn compare_times(
        &self,
        entry: &Entry,
        found: Option<firstbyte_store::Result<Option<FoundEntry>>>,
    ) -> TimeVerdict {
        match (found, self.copy.root.as_ref()) {
            (Some(Ok(Some(found))), Some(root)) => match self.compare {
                Compare::None => TimeVerdict::Changed,
                Compare::Existence => TimeVerdict::unchanged_if(found.kind != EntryKind::Directory),
                Compare::Size => {
                    TimeVerdict::unchanged_if(found.kind == EntryKind::File && entry.size == Some(found.size))
                }
                Compare::Newer => TimeVerdict::unless_newer(self.copy.tree, entry, &found, &root.beneath),
                _ => TimeVerdict::of_file(self.copy.tree, &self.copy.store, entry, &found, &root.beneath),
            },
            // If the lookup has failed, the copy will report the error.
            _ => TimeVerdict::Changed,
        }
    }

    /// Requests the modification time of a listed file from its store.
    fn check_metadata(&mut self, entry: Entry, check: MetadataCheck) -> Option<JobResult> {
        let tree = self.copy.tree;
        let location = tree.source.join(&entry.name);
        let compared = SourceComparison::Times(check, tree.destination.join(&entry.name));
        if let Err(error) = self.comparisons.start(entry, location.clone(), compared) {
            return Some(Err(Failure { location: location.to_string(), error }));
        }
        if !self.comparisons.is_full() {
            return None;
        }
        let outcome = self.comparisons.wait()?;
        self.skip_or_copy(outcome)
    }

    /// Skips or copies an object that was compared.
    fn skip_or_copy(&self, (entry, same): ComparedPair) -> Option<JobResult> {
        match same {
            Ok(Sameness::Same) => self.copy.skip(&entry, self.observer).err().map(Err),
            Ok(Sameness::Different | Sameness::Unknown) => {
                self.copy.job(entry, ReplaceKind::File, self.observer)
            }
            Err(error) => Some(Err(self.copy.tree.failure(&entry.name, error))),
        }
    }
}
