//! Deletes what lies below a location while it is listed: keys of a store by the page, from several
//! threads; local names one by one beneath an open directory. Links are deleted, and none
//! is followed. [`Engine::remove`](crate::Engine::remove) calls it.

use std::io::ErrorKind;
use std::mem::take;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use firstbyte_location::{Kind, Location, S3Object};
use firstbyte_store::{Beneath, Directories, Error as StoreError, Links, ListOptions, Order, PAGE};

use crate::context::Scope;
use crate::job::{as_path, is_unfinished};
use crate::tree::with_sort_name;
use crate::{Action, Concurrency, Effect, Error, Failure, Levels, Observer, Result, Stop, Summary};

/// Concurrent requests of 1,000 keys each, unless the settings fix the concurrency. A server takes
/// many times a round trip for one.
const DELETERS: usize = 8;

/// What to delete.
pub struct Removal<'a> {
    /// The location whose contents are deleted.
    pub root: Location,
    /// How far it goes.
    pub extent: Extent,
    /// A prefix of all names; the store is asked for no others.
    pub beginning: String,
    /// The levels that are deleted.
    pub levels: Levels,
    /// A filter on names, relative to the root.
    pub select: &'a (dyn Fn(&[u8]) -> bool + Sync),
    /// Whether the run changes anything.
    pub effect: Effect,
}

/// How far a removal goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Objects, files and links. Local directories stay.
    Files,
    /// Also local directories that are empty in the end. The root stays.
    Contents,
    /// Also the root: an empty local directory, or the object that marks a prefix. A local root
    /// that is a link is refused.
    Whole,
}

pub(crate) fn remove(scope: &Scope<'_>, removal: &Removal<'_>, observer: &dyn Observer) -> Result<Summary> {
    let outcome = Outcome { summary: Mutex::default(), observer, stop: &scope.settings.stop };
    match &removal.root {
        Location::Local(path) => remove_names(scope, removal, path, &outcome)?,
        Location::S3(object) => remove_keys(scope, removal, object, &outcome)?,
        Location::Http(_) => {
            return Err(Error::invalid(&removal.root, "HTTP has no listing; name single objects to delete"));
        }
    }
    Ok(outcome.summary.into_inner().unwrap_or_else(PoisonError::into_inner))
}

impl Removal<'_> {
    fn options(&self, order: Order, scope: &Scope<'_>) -> ListOptions {
        ListOptions {
            recursive: self.levels == Levels::All,
            beginning: self.beginning.clone(),
            order,
            links: Links::Report,
            directories: Directories::Listed,
            requests: Some(scope.settings.listing_requests()),
            ..ListOptions::default()
        }
    }

    fn is_whole(&self) -> bool {
        self.extent == Extent::Whole
    }

    /// Whether a selected name is to be deleted now. A dry run only reports it.
    fn applies(&self, name: &[u8], outcome: &Outcome<'_>) -> bool {
        if self.effect == Effect::DryRun {
            outcome.observer.planned(&Action::Delete { location: self.root.join(name) });
        }
        self.effect == Effect::Apply
    }
}

/// The results of all threads.
struct Outcome<'a> {
    summary: Mutex<Summary>,
    observer: &'a dyn Observer,
    stop: &'a Stop,
}

impl Outcome<'_> {
    fn deleted(&self, count: u64) {
        self.summary().deleted += count;
    }

    /// Records a failure. One of a request that was cut by a stop is the end of the run instead.
    fn failed(&self, location: String, error: impl Into<Error>) {
        let error = error.into();
        let mut summary = self.summary();
        if let (Error::Store(StoreError::Cancelled), Some(why)) = (&error, self.stop.error()) {
            summary.ended.get_or_insert(why);
            return;
        }
        let failure = Failure { location, error };
        self.observer.failed(&failure);
        summary.failures += 1;
        if summary.failed.len() < Summary::LISTED_FAILURES {
            summary.failed.push(failure);
        }
    }

    /// Whether the run has to end now.
    fn has_ended(&self) -> bool {
        let mut summary = self.summary();
        if let (None, Some(why)) = (&summary.ended, self.stop.error()) {
            summary.ended = Some(why);
        }
        summary.ended.is_some()
    }

    fn has_failures(&self) -> bool {
        self.summary().failures > 0
    }

    fn summary(&self) -> MutexGuard<'_, Summary> {
        self.summary.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn remove_keys(
    scope: &Scope<'_>,
    removal: &Removal<'_>,
    root: &S3Object,
    outcome: &Outcome<'_>,
) -> Result<()> {
    let listing = scope.store.list(&removal.root, &removal.options(Order::Any, scope))?;
    let threads = match scope.settings.concurrency {
        Concurrency::Auto => DELETERS,
        Concurrency::Fixed(count) => count.max(1),
    };
    // Without room: a page waits for a free thread, so what is kept in memory stays small.
    let (pages, waiting) = sync_channel::<Vec<Location>>(0);
    let waiting = Mutex::new(waiting);
    let mut kept = false;
    thread::scope(|started| {
        for _ in 0..threads {
            started.spawn(|| delete_pages(scope, &waiting, outcome));
        }
        let mut page = Vec::new();
        for entry in listing {
            if outcome.has_ended() {
                break;
            }
            match entry {
                Ok(entry) if entry.kind == Kind::Directory => {}
                Ok(entry) if !(removal.select)(&entry.name) => kept = true,
                Ok(entry) if removal.applies(&entry.name, outcome) => {
                    page.push(removal.root.join(&entry.name));
                }
                Ok(_) => {}
                Err(error) => outcome.failed(removal.root.to_string(), error),
            }
            if page.len() == PAGE && pages.send(take(&mut page)).is_err() {
                break;
            }
        }
        // This fails only if every thread has panicked.
        let _ = pages.send(page);
        drop(pages);
    });
    let is_empty =
        removal.effect == Effect::Apply && !kept && !outcome.has_ended() && !outcome.has_failures();
    if removal.is_whole() && is_empty {
        remove_marker(scope, root, outcome);
    }
    Ok(())
}

/// Deletes the object that marks a prefix, `PREFIX/`, which no listing of the prefix shows. It is
/// not counted, because a store does not say whether there was one.
fn remove_marker(scope: &Scope<'_>, root: &S3Object, outcome: &Outcome<'_>) {
    let prefix = root.key.strip_suffix('/').unwrap_or(&root.key);
    if prefix.is_empty() {
        return;
    }
    let marker = Location::S3(S3Object { bucket: root.bucket.clone(), key: format!("{prefix}/") });
    if let Err(error) = scope.store.delete(&marker) {
        outcome.failed(marker.to_string(), error);
    }
}

fn delete_pages(scope: &Scope<'_>, waiting: &Mutex<Receiver<Vec<Location>>>, outcome: &Outcome<'_>) {
    loop {
        let page = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(page) = page else { return };
        if outcome.has_ended() || page.is_empty() {
            continue;
        }
        let failed = scope.store.delete_many(&page);
        outcome.deleted((page.len() - failed.len()) as u64);
        for (location, error) in failed {
            outcome.failed(location.to_string(), error);
        }
    }
}

fn remove_names(scope: &Scope<'_>, removal: &Removal<'_>, path: &Path, outcome: &Outcome<'_>) -> Result<()> {
    // Opened before it is listed: what is deleted lies in it, whatever its name means later.
    let beneath = if removal.is_whole() { Beneath::itself(path)? } else { Beneath::new(path, None) };
    let names = Names { beneath, removal, outcome };
    let mut directories: Vec<Vec<u8>> = Vec::new();
    let mut kept = false;
    let listing = scope.store.list(&removal.root, &removal.options(Order::Bytes, scope))?;
    for entry in listing.map(|entry| entry.map(with_sort_name)) {
        if outcome.has_ended() {
            return Ok(());
        }
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                outcome.failed(removal.root.to_string(), error);
                continue;
            }
        };
        names.leave(&mut directories, &entry.name);
        let directory = entry.name.strip_suffix(b"/").filter(|_| entry.kind == Kind::Directory);
        if !(removal.select)(directory.unwrap_or(&entry.name)) {
            kept = true;
        } else if directory.is_some() {
            directories.push(entry.name);
        } else if removal.applies(&entry.name, outcome) {
            names.remove_file(&entry.name);
        }
    }
    names.leave(&mut directories, b"");
    if removal.is_whole() && removal.effect == Effect::Apply {
        names.remove_root(path, kept);
    }
    Ok(())
}

/// Deletes local names.
struct Names<'a> {
    beneath: Beneath,
    removal: &'a Removal<'a>,
    outcome: &'a Outcome<'a>,
}

impl Names<'_> {
    fn remove_file(&self, name: &[u8]) {
        match self.beneath.remove_file(as_path(name)) {
            Ok(()) => self.outcome.deleted(1),
            Err(error) => self.outcome.failed(self.removal.root.join(name).to_string(), error),
        }
    }

    /// Removes the directories that the listing has left for `name`, if they are empty.
    fn leave(&self, directories: &mut Vec<Vec<u8>>, name: &[u8]) {
        while let Some(directory) = directories.pop_if(|last| !name.starts_with(last)) {
            if self.removal.effect == Effect::DryRun || self.removal.extent == Extent::Files {
                continue;
            }
            let path = as_path(directory.strip_suffix(b"/").unwrap_or(&directory));
            self.remove_unfinished(path);
            if let Err(error) = self.beneath.remove_empty_directory(path) {
                self.outcome.failed(self.removal.root.join(&directory).to_string(), error);
            }
        }
    }

    /// Removes what interrupted copies left in a directory that holds nothing else. No listing
    /// shows it.
    fn remove_unfinished(&self, directory: &Path) {
        let others = |name: &[u8]| !matches!(name, b"." | b"..") && !is_unfinished(name);
        if !self.beneath.names(directory, &others).is_ok_and(|names| names.is_empty()) {
            return;
        }
        for name in self.beneath.names(directory, &is_unfinished).unwrap_or_default() {
            // If it stays, so does the directory.
            let _ = self.beneath.remove_file(&directory.join(name));
        }
    }

    /// Removes the root. That it is not empty is an error, unless the selection or a failure kept
    /// some of it.
    fn remove_root(&self, path: &Path, kept: bool) {
        self.remove_unfinished(Path::new(""));
        let Err(error) = std::fs::remove_dir(path) else { return };
        if error.kind() == ErrorKind::DirectoryNotEmpty && (kept || self.outcome.has_failures()) {
            return;
        }
        let location = self.removal.root.to_string();
        self.outcome.failed(location.clone(), StoreError::Io { location, source: error });
    }
}
