//! Deletes everything below a location while it is being listed. Keys of a store are deleted in
//! pages, on several threads. Local names are deleted one by one beneath an open directory. Names
//! on an SFTP host are deleted directory by directory. Links are deleted and never followed. A move
//! removes its empty directories with the same walk. The engine calls this.

use std::io::ErrorKind;
use std::mem::take;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use firstbyte_location::{Entry, EntryKind, Location, ObjectLocation};
use firstbyte_store::{
    Beneath, Directories, DirectoryBlobs, EntryOrder, Error as StoreError, Links, ListOptions, PAGE,
    Partials, STACK, Unfinished, WalkBounds,
};
use rustix_futex_sync::Mutex;

use crate::context::CallScope;
use crate::error::{Error, Failure, Result};
use crate::job::{Effect, Extent, Levels, Move, Tree, as_path, is_unfinished_file};
use crate::report::{Action, Observer, Summary};
use crate::settings::Concurrency;
use crate::stop::Stop;
use crate::tree::with_sort_name;

/// Number of concurrent deletions of 1,000 keys each, unless the settings fix the concurrency. One
/// deletion keeps a server busy for many round trips.
const CONCURRENT_DELETIONS: usize = 8;
/// Maximum number of concurrent requests of the listing. Few are enough, because listing a page
/// takes a server less time than deleting the page's keys. Some servers also start a separate
/// listing for each range of keys that is requested at the same time.
const MAX_LISTING_REQUESTS: NonZeroUsize = NonZeroUsize::new(2).unwrap();

/// The names to delete below a location.
pub struct Removal<'a> {
    /// The location whose contents are deleted.
    pub root: Location,
    /// Kinds of entries that are deleted.
    pub extent: Extent,
    /// The prefix of all names to delete. The store lists no other names.
    pub beginning: String,
    /// Depth of the deletion: only the entries directly in the root, or everything below it.
    pub levels: Levels,
    /// A filter on names, which are relative to the root.
    pub select: &'a (dyn Fn(&[u8]) -> bool + Sync),
    /// The filter in the form of bounds: directories without names to delete are not opened.
    pub bounds: WalkBounds,
    /// Effect of the run: deletions, or only a report of them.
    pub effect: Effect,
}

/// Entries that a removal deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RemovalFilter {
    All,
    /// Only empty local directories, and objects without content that mark prefixes.
    Empty,
}

pub(crate) fn remove(
    scope: &CallScope<'_>,
    removal: &Removal<'_>,
    observer: &dyn Observer,
) -> Result<Summary> {
    run(scope, removal, RemovalFilter::All, observer)
}

/// Removes the directories that a move has emptied. Adds failures to the summary of the move.
pub(crate) fn remove_empty_directories(
    scope: &CallScope<'_>,
    moved: &Move<'_>,
    observer: &dyn Observer,
    summary: &mut Summary,
) -> Result<()> {
    let Tree { source, beginning, levels, .. } = &moved.tree;
    let removal = Removal {
        root: source.clone(),
        extent: moved.extent,
        beginning: beginning.clone(),
        levels: *levels,
        select: moved.tree.select,
        bounds: moved.tree.bounds.clone(),
        effect: Effect::Apply,
    };
    // In a store, the prefix no longer exists if the move has deleted its last key.
    match run(scope, &removal, RemovalFilter::Empty, observer) {
        Err(Error::Store(StoreError::NotFound { .. })) => Ok(()),
        Err(error) => Err(error),
        Ok(mut removed) => {
            summary.failures += removed.failures;
            summary.failed.append(&mut removed.failed);
            summary.ended = removed.ended;
            Ok(())
        }
    }
}

fn run(
    scope: &CallScope<'_>,
    removal: &Removal<'_>,
    filter: RemovalFilter,
    observer: &dyn Observer,
) -> Result<Summary> {
    let outcome = Outcome { summary: Mutex::default(), observer, stop: &scope.settings.stop };
    match &removal.root {
        Location::Local(path) => {
            // The directory is opened before it is listed. So names are deleted in this directory,
            // even if its path leads to another one later.
            let beneath = if removal.is_whole() { Beneath::open(path)? } else { Beneath::new(path, None) };
            let mut names = LocalNames { beneath, path, removal, filter, outcome: &outcome };
            remove_names(scope, removal, filter, &mut names, &outcome)?;
        }
        Location::Sftp(_) => {
            let mut names = RemoteNames { scope, removal, filter, outcome: &outcome, files: Vec::new() };
            remove_names(scope, removal, filter, &mut names, &outcome)?;
        }
        Location::Object(object) => remove_keys(scope, removal, filter, object, &outcome)?,
        Location::Http(_) => {
            return Err(Error::invalid(&removal.root, "HTTP has no listing; name single objects to delete"));
        }
    }
    Ok(outcome.summary.into_inner())
}

impl Removal<'_> {
    fn options(&self, order: EntryOrder, scope: &CallScope<'_>) -> ListOptions {
        ListOptions {
            recursive: self.levels == Levels::All,
            beginning: self.beginning.clone(),
            bounds: self.bounds.clone(),
            order,
            links: Links::Report,
            directories: Directories::Listed,
            directory_blobs: DirectoryBlobs::Listed,
            requests: Some(scope.settings.listing_requests().min(MAX_LISTING_REQUESTS)),
            ..ListOptions::default()
        }
    }

    /// Returns whether names below a directory may have to be deleted.
    fn enters(&self, directory: &[u8]) -> bool {
        self.bounds.entered.as_ref().is_none_or(|entered| entered.is_met(directory))
    }

    fn is_whole(&self) -> bool {
        self.extent == Extent::Whole
    }

    /// Returns whether the caller must delete a selected name. Reports the name if the run is a dry
    /// run.
    fn apply_or_report(&self, name: &[u8], outcome: &Outcome<'_>) -> bool {
        if self.effect == Effect::DryRun {
            outcome.observer.planned(&Action::Delete { location: self.root.join(name) });
        }
        self.effect == Effect::Apply
    }
}

impl RemovalFilter {
    fn includes_key(self, entry: &Entry) -> bool {
        self == Self::All || (entry.name.ends_with(b"/") && entry.size == Some(0))
    }
}

/// The results of all threads that delete.
struct Outcome<'a> {
    summary: Mutex<Summary>,
    observer: &'a dyn Observer,
    stop: &'a Stop,
}

impl Outcome<'_> {
    fn count_deleted(&self, count: u64) {
        self.summary.lock().deleted += count;
    }

    /// Records a failure. If the failed request was cancelled by a stop, ends the run instead.
    fn record_failure(&self, location: String, error: impl Into<Error>) {
        let error = error.into();
        let mut summary = self.summary.lock();
        if let (Error::Store(StoreError::Cancelled), Some(why)) = (&error, self.stop.error()) {
            summary.ended.get_or_insert(why);
            return;
        }
        let failure = Failure { location, error };
        self.observer.failed(&failure);
        summary.fail(failure);
    }

    /// Records a name that a listing could not show.
    fn record_unlisted(&self, root: &Location, error: StoreError) {
        let Failure { location, error } = Failure::of_listing(root, error);
        self.record_failure(location, error);
    }

    /// Returns whether the run has to end now.
    fn has_ended(&self) -> bool {
        let mut summary = self.summary.lock();
        if let (None, Some(why)) = (&summary.ended, self.stop.error()) {
            summary.ended = Some(why);
        }
        summary.ended.is_some()
    }

    fn failures(&self) -> u64 {
        self.summary.lock().failures
    }

    fn has_failures(&self) -> bool {
        self.failures() > 0
    }
}

fn remove_keys(
    scope: &CallScope<'_>,
    removal: &Removal<'_>,
    filter: RemovalFilter,
    root: &ObjectLocation,
    outcome: &Outcome<'_>,
) -> Result<()> {
    let listing = scope.store.list(&removal.root, &removal.options(EntryOrder::Any, scope))?;
    let threads = match scope.settings.concurrency {
        Concurrency::Auto => CONCURRENT_DELETIONS,
        Concurrency::Fixed(count) => count.max(1),
    };
    // The channel stores no pages: each page is handed to a free thread, so memory stays small.
    let (pages, waiting) = sync_channel::<Vec<Location>>(0);
    let waiting = Mutex::new(waiting);
    let mut kept = false;
    thread::scope(|started| -> Result<()> {
        let start = |_| {
            let deleter = thread::Builder::new().stack_size(STACK);
            deleter.spawn_scoped(started, || delete_pages(scope, &waiting, outcome)).map(drop)
        };
        // If the system refuses some of the threads, the others are enough, but there must be one.
        start(0).map_err(Error::io("starting a thread"))?;
        (1..threads).map(start).take_while(std::io::Result::is_ok).for_each(drop);
        let mut page = Vec::new();
        for entry in listing {
            if outcome.has_ended() {
                break;
            }
            match entry {
                Ok(entry) if entry.kind == EntryKind::Directory => {}
                Ok(entry) if !(removal.select)(&entry.name) || !filter.includes_key(&entry) => kept = true,
                Ok(entry) if removal.apply_or_report(&entry.name, outcome) => {
                    page.push(removal.root.join(&entry.name));
                }
                Ok(_) => {}
                Err(error) => outcome.record_unlisted(&removal.root, error),
            }
            if page.len() == PAGE && pages.send(take(&mut page)).is_err() {
                break;
            }
        }
        // Sending fails only if every thread has panicked.
        let _ = pages.send(page);
        drop(pages);
        Ok(())
    })?;
    let is_empty =
        removal.effect == Effect::Apply && !kept && !outcome.has_ended() && !outcome.has_failures();
    if removal.is_whole() && is_empty {
        remove_marker(scope, root, filter, outcome);
    }
    Ok(())
}

/// Deletes `PREFIX/`, the object that marks a prefix, which a listing of the prefix does not show.
/// The object is not counted as deleted, because a store does not say whether it existed.
fn remove_marker(scope: &CallScope<'_>, root: &ObjectLocation, filter: RemovalFilter, outcome: &Outcome<'_>) {
    let prefix = root.key.strip_suffix('/').unwrap_or(&root.key);
    if prefix.is_empty() {
        return;
    }
    let marker = Location::Object(root.with_key(format!("{prefix}/")));
    if filter == RemovalFilter::Empty
        && !scope.store.stat_object(&marker).is_ok_and(|stat| stat.size() == Some(0))
    {
        return;
    }
    if let Err(error) = scope.store.delete(&marker) {
        outcome.record_failure(marker.to_string(), error);
    }
}

fn delete_pages(scope: &CallScope<'_>, waiting: &Mutex<Receiver<Vec<Location>>>, outcome: &Outcome<'_>) {
    loop {
        let page = waiting.lock().recv();
        let Ok(page) = page else { return };
        if outcome.has_ended() || page.is_empty() {
            continue;
        }
        let failed = scope.store.delete_many(&page);
        outcome.count_deleted((page.len() - failed.len()) as u64);
        for (location, error) in failed {
            outcome.record_failure(location.to_string(), error);
        }
    }
}

/// Deletes the names of a tree of files.
trait Names {
    fn remove_file(&mut self, name: &[u8]);

    /// Removes a directory if it is empty. Called after everything in the directory was deleted.
    fn remove_directory(&mut self, name: &[u8]);

    /// Removes the root. A root that is not empty is an error, unless the filter has excluded names
    /// in it (`kept`) or a deletion has failed.
    fn remove_root(&mut self, kept: bool);

    /// Deletes the names that were collected and are not deleted yet.
    fn finish(&mut self) {}
}

/// A directory whose contents are being listed.
struct EnteredDirectory {
    /// The name, which ends in `/`.
    name: Vec<u8>,
    /// True if a name below the directory stays, so that the directory has to stay too. The flag is
    /// needed because an SFTP host does not say why it cannot remove a directory.
    keeps_names: bool,
    /// Number of failures before anything in the directory was deleted.
    failures: u64,
}

fn remove_names(
    scope: &CallScope<'_>,
    removal: &Removal<'_>,
    filter: RemovalFilter,
    names: &mut dyn Names,
    outcome: &Outcome<'_>,
) -> Result<()> {
    let leave = |names: &mut dyn Names, directories: &mut Vec<EnteredDirectory>, name: &[u8]| {
        // These directories do not contain `name`, so the listing has shown everything in them.
        while let Some(directory) = directories.pop_if(|last| !name.starts_with(&last.name)) {
            if removal.effect != Effect::Apply || removal.extent == Extent::Files || directory.keeps_names {
                continue;
            }
            names.finish();
            // A name that could not be deleted is reported once, and not for each directory above.
            if outcome.failures() == directory.failures {
                names.remove_directory(directory.name.strip_suffix(b"/").unwrap_or(&directory.name));
            }
        }
    };
    let mut directories: Vec<EnteredDirectory> = Vec::new();
    let mut kept = false;
    // A move leaves the files of unfinished copies in place. A removal deletes them with their
    // directory.
    let partials = if filter == RemovalFilter::Empty { Partials::Listed } else { Partials::Hidden };
    let options = ListOptions { partials, ..removal.options(EntryOrder::Bytes, scope) };
    for entry in scope.store.list(&removal.root, &options)?.map(|entry| entry.map(with_sort_name)) {
        if outcome.has_ended() {
            return Ok(());
        }
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                outcome.record_unlisted(&removal.root, error);
                continue;
            }
        };
        leave(names, &mut directories, &entry.name);
        let directory = entry.name.strip_suffix(b"/").filter(|_| entry.kind == EntryKind::Directory);
        if !(removal.select)(directory.unwrap_or(&entry.name))
            || directory.is_some_and(|directory| !removal.enters(directory))
            || (filter == RemovalFilter::Empty && directory.is_none())
        {
            kept = true;
            directories.iter_mut().for_each(|directory| directory.keeps_names = true);
        } else if directory.is_some() {
            names.finish();
            let failures = outcome.failures();
            directories.push(EnteredDirectory { name: entry.name, keeps_names: false, failures });
        } else if removal.apply_or_report(&entry.name, outcome) {
            names.remove_file(&entry.name);
        }
    }
    leave(names, &mut directories, b"");
    names.finish();
    if removal.is_whole() && removal.effect == Effect::Apply {
        names.remove_root(kept);
    }
    Ok(())
}

/// Deletes names on an SFTP host. Names in the same directory are deleted together.
struct RemoteNames<'a> {
    scope: &'a CallScope<'a>,
    removal: &'a Removal<'a>,
    filter: RemovalFilter,
    outcome: &'a Outcome<'a>,
    files: Vec<Location>,
}

impl RemoteNames<'_> {
    fn remove(&mut self, directory: &Location) -> firstbyte_store::Result<()> {
        self.finish();
        // A move leaves the files of interrupted copies in place, because it has not moved them.
        let unfinished =
            if self.filter == RemovalFilter::Empty { Unfinished::Keep } else { Unfinished::Remove };
        self.scope.store.remove_directory(directory, unfinished)
    }
}

impl Names for RemoteNames<'_> {
    fn remove_file(&mut self, name: &[u8]) {
        self.files.push(self.removal.root.join(name));
        if self.files.len() == PAGE {
            self.finish();
        }
    }

    fn remove_directory(&mut self, name: &[u8]) {
        let directory = self.removal.root.join(name);
        if let Err(error) = self.remove(&directory) {
            self.outcome.record_failure(directory.to_string(), error);
        }
    }

    fn remove_root(&mut self, kept: bool) {
        let root = &self.removal.root;
        if kept || self.outcome.has_failures() {
            return;
        }
        if let Err(error) = self.remove(&root.clone()) {
            self.outcome.record_failure(root.to_string(), error);
        }
    }

    fn finish(&mut self) {
        let files = take(&mut self.files);
        let failed = self.scope.store.delete_many(&files);
        self.outcome.count_deleted((files.len() - failed.len()) as u64);
        for (location, error) in failed {
            self.outcome.record_failure(location.to_string(), error);
        }
    }
}

/// Deletes local names.
struct LocalNames<'a> {
    beneath: Beneath,
    path: &'a Path,
    removal: &'a Removal<'a>,
    filter: RemovalFilter,
    outcome: &'a Outcome<'a>,
}

impl Names for LocalNames<'_> {
    fn remove_file(&mut self, name: &[u8]) {
        match self.beneath.remove_file(as_path(name)) {
            Ok(()) => self.outcome.count_deleted(1),
            Err(error) => self.outcome.record_failure(self.removal.root.join(name).to_string(), error),
        }
    }

    fn remove_directory(&mut self, name: &[u8]) {
        self.remove_unfinished(as_path(name));
        if let Err(error) = self.beneath.remove_empty_directory(as_path(name)) {
            self.outcome.record_failure(self.removal.root.join(name).to_string(), error);
        }
    }

    fn remove_root(&mut self, kept: bool) {
        self.remove_unfinished(Path::new(""));
        let Err(error) = std::fs::remove_dir(self.path) else { return };
        if error.kind() == ErrorKind::DirectoryNotEmpty && (kept || self.outcome.has_failures()) {
            return;
        }
        let location = self.removal.root.to_string();
        self.outcome.record_failure(location.clone(), StoreError::Io { location, source: error });
    }
}

impl LocalNames<'_> {
    /// Removes the files of interrupted copies in a directory that contains no other files. No
    /// listing shows such files. A move leaves them in place, because it has not moved them.
    fn remove_unfinished(&self, directory: &Path) {
        if self.filter == RemovalFilter::Empty {
            return;
        }
        let others = |name: &[u8]| !matches!(name, b"." | b"..") && !is_unfinished_file(name);
        if !self.beneath.names(directory, &others).is_ok_and(|names| names.is_empty()) {
            return;
        }
        for name in self.beneath.names(directory, &is_unfinished_file).unwrap_or_default() {
            // If a file cannot be removed, its directory cannot be removed either, which is
            // reported.
            let _ = self.beneath.remove_file(&directory.join(name));
        }
    }
}
