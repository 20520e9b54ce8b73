//! Deletes what lies below a location while its listing goes on: keys of a store by the page, from
//! several threads; local names one by one beneath an open directory. Links are deleted, and none
//! is followed. [`Engine::remove`](crate::Engine::remove) calls it.

use std::mem::take;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use firstbyte_location::{Kind, Location};
use firstbyte_store::{Beneath, Directories, Error as StoreError, Links, ListOptions, Order, PAGE};

use crate::context::Scope;
use crate::job::{as_path, is_unfinished};
use crate::tree::with_sort_name;
use crate::{Action, Concurrency, Effect, Error, Failure, Levels, Observer, Result, Summary};

/// Concurrent requests of 1,000 keys each, unless the settings fix the concurrency. A server takes
/// many times a round trip for one.
const DELETERS: usize = 8;

/// What to delete.
pub struct Removal<'a> {
    /// The location whose contents are deleted.
    pub root: Location,
    /// Whether the root is deleted too.
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
    /// A local root stays, even if it is empty in the end.
    Contents,
    /// A local root is removed if it is empty in the end.
    Whole,
}

/// The results of all threads.
type Done = Mutex<Summary>;

pub(crate) fn remove(scope: &Scope<'_>, removal: &Removal<'_>, observer: &dyn Observer) -> Result<Summary> {
    let done = Done::default();
    match &removal.root {
        Location::Local(path) => remove_names(scope, removal, path, observer, &done)?,
        Location::S3(_) => remove_keys(scope, removal, observer, &done)?,
        Location::Http(_) => {
            return Err(Error::invalid(&removal.root, "HTTP has no listing; name single objects to delete"));
        }
    }
    Ok(done.into_inner().unwrap_or_else(PoisonError::into_inner))
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

    /// Whether a name is to be deleted now. A dry run only reports it.
    fn takes(&self, name: &[u8], observer: &dyn Observer) -> bool {
        let takes = (self.select)(name);
        if takes && self.effect == Effect::DryRun {
            observer.planned(&Action::Delete { location: self.root.join(name) });
        }
        takes && self.effect == Effect::Apply
    }
}

/// Records an error of a listing. Returns whether it ends the run.
fn is_end(scope: &Scope<'_>, removal: &Removal<'_>, error: StoreError, done: &Done) -> bool {
    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
    if let (StoreError::Cancelled, Some(why)) = (&error, scope.settings.stop.error()) {
        done.ended = Some(why);
        return true;
    }
    fail(&mut done, removal.root.to_string(), error.into());
    false
}

fn fail(done: &mut Summary, location: String, error: Error) {
    done.failures += 1;
    if done.failed.len() < Summary::LISTED_FAILURES {
        done.failed.push(Failure { location, error });
    }
}

fn remove_keys(scope: &Scope<'_>, removal: &Removal<'_>, observer: &dyn Observer, done: &Done) -> Result<()> {
    let listing = scope.store.list(&removal.root, &removal.options(Order::Any, scope))?;
    let threads = match scope.settings.concurrency {
        Concurrency::Auto => DELETERS,
        Concurrency::Fixed(count) => count.max(1),
    };
    // Without room: a page waits for a free thread, so what is kept in memory stays small.
    let (pages, waiting) = sync_channel::<Vec<Location>>(0);
    let waiting = Mutex::new(waiting);
    thread::scope(|started| {
        for _ in 0..threads {
            started.spawn(|| delete_pages(scope, &waiting, done));
        }
        let mut page = Vec::new();
        for entry in listing {
            match entry {
                Ok(entry) if entry.kind == Kind::Directory || !removal.takes(&entry.name, observer) => {}
                Ok(entry) => page.push(removal.root.join(&entry.name)),
                Err(error) => {
                    if is_end(scope, removal, error, done) {
                        break;
                    }
                }
            }
            if page.len() == PAGE && pages.send(take(&mut page)).is_err() {
                break;
            }
        }
        // This fails only if every thread has panicked.
        let _ = pages.send(page);
        drop(pages);
    });
    Ok(())
}

fn delete_pages(scope: &Scope<'_>, waiting: &Mutex<Receiver<Vec<Location>>>, done: &Done) {
    loop {
        let page = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(page) = page else { return };
        let stopped = scope.settings.stop.error();
        if stopped.is_some() || page.is_empty() {
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.ended = done.ended.take().or(stopped);
            continue;
        }
        let failed = scope.store.delete_many(&page);
        let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
        done.deleted += (page.len() - failed.len()) as u64;
        for (location, error) in failed {
            fail(&mut done, location.to_string(), error.into());
        }
    }
}

fn remove_names(
    scope: &Scope<'_>,
    removal: &Removal<'_>,
    path: &Path,
    observer: &dyn Observer,
    done: &Done,
) -> Result<()> {
    let names = Names { beneath: Beneath::new(path, None), removal, done };
    let mut directories: Vec<Vec<u8>> = Vec::new();
    let listing = scope.store.list(&removal.root, &removal.options(Order::Bytes, scope))?;
    for entry in listing.map(|entry| entry.map(with_sort_name)) {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => match is_end(scope, removal, error, done) {
                true => return Ok(()),
                false => continue,
            },
        };
        names.leave(&mut directories, &entry.name);
        match entry.name.strip_suffix(b"/").filter(|_| entry.kind == Kind::Directory) {
            Some(name) if removal.levels == Levels::All && (removal.select)(name) => {
                directories.push(entry.name);
            }
            None if removal.takes(&entry.name, observer) => names.remove_file(&entry.name),
            _ => {}
        }
    }
    names.leave(&mut directories, b"");
    if removal.extent == Extent::Whole && removal.effect == Effect::Apply {
        names.remove_root(path);
    }
    Ok(())
}

/// Deletes local names.
struct Names<'a> {
    beneath: Beneath,
    removal: &'a Removal<'a>,
    done: &'a Done,
}

impl Names<'_> {
    fn remove_file(&self, name: &[u8]) {
        let removed = self.beneath.remove_file(as_path(name));
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        match removed {
            Ok(()) => done.deleted += 1,
            Err(error) => fail(&mut done, self.removal.root.join(name).to_string(), error.into()),
        }
    }

    /// Removes the directories that the listing has left for `name`, if they are empty.
    fn leave(&self, directories: &mut Vec<Vec<u8>>, name: &[u8]) {
        while let Some(directory) = directories.pop_if(|last| !name.starts_with(last)) {
            if self.removal.effect == Effect::DryRun {
                continue;
            }
            let path = as_path(directory.strip_suffix(b"/").unwrap_or(&directory));
            self.remove_unfinished(path);
            if let Err(error) = self.beneath.remove_empty_directory(path) {
                let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
                fail(&mut done, self.removal.root.join(&directory).to_string(), error.into());
            }
        }
    }

    /// Removes what interrupted copies left in a directory, which no listing shows.
    fn remove_unfinished(&self, directory: &Path) {
        let unfinished = self.beneath.names(directory, &is_unfinished).unwrap_or_default();
        for name in unfinished {
            // If it stays, so does the directory, and the error of a file beside it says why.
            let _ = self.beneath.remove_file(&directory.join(name));
        }
    }

    fn remove_root(&self, path: &Path) {
        self.remove_unfinished(Path::new(""));
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        match std::fs::remove_dir(path) {
            Err(error) if error.kind() != std::io::ErrorKind::DirectoryNotEmpty => {
                let location = self.removal.root.to_string();
                let error = StoreError::Io { location: location.clone(), source: error };
                fail(&mut done, location, error.into());
            }
            _ => {}
        }
    }
}
