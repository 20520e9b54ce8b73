//! Deletes the names that only the destination of a sync has (extras). [`sync`](crate::sync) adds a
//! name when both listings have passed it. The names are deleted after the copies of the run have
//! completed, for two reasons: a store may list its names out of order, so that a name that seemed
//! to be missing comes later; and a link of the source may lead to a name that is deleted.

use firstbyte_location::{Entry, EntryKind, Location};
use firstbyte_store::{Error as StoreError, PAGE, Unfinished};

use crate::apart::{Separation, SeparationProver};
use crate::context::{CallScope, add_relaxed};
use crate::deferred::DeferredRecords;
use crate::error::{Error, Failure, Result};
use crate::job::{Effect, Tree, as_path, has_directories};
use crate::leftovers::Leftover;
use crate::report::{Action, Observer, Summary};
use crate::tree::TreeCopy;

/// The names to delete, in order. A directory comes after the names in it, and ends in `/`.
pub(crate) struct ExtraNames<'a> {
    scope: &'a CallScope<'a>,
    copy: &'a TreeCopy<'a>,
    observer: &'a dyn Observer,
    separation: SeparationProver,
    names: DeferredRecords,
    /// Number of names of objects, files and links, without directories and leftovers.
    files: u64,
}

impl<'a> ExtraNames<'a> {
    pub(crate) fn new(scope: &'a CallScope<'a>, copy: &'a TreeCopy<'a>, observer: &'a dyn Observer) -> Self {
        let separation = SeparationProver::new(&scope.store);
        Self { scope, copy, observer, separation, names: DeferredRecords::default(), files: 0 }
    }

    /// Returns whether an entry that only the destination has may be deleted.
    pub(crate) fn may_delete(&self, entry: &Entry) -> bool {
        let tree = self.copy.tree;
        match entry.kind {
            // The entry with the empty name is the object that marks the prefix. If the source is a
            // directory and not a prefix, the marker corresponds to that directory and is no extra.
            EntryKind::File if entry.name.is_empty() && !matches!(tree.source, Location::Object(_)) => false,
            EntryKind::File | EntryKind::Symlink => self.copy.includes_extra(entry),
            EntryKind::Directory => (tree.select)(entry.name.strip_suffix(b"/").unwrap_or(&entry.name)),
            EntryKind::Other => false,
        }
    }

    /// Fails if the source is in the destination under another name, or the destination in the
    /// source: the source would then be deleted as an extra. That can happen even if the source is
    /// in a store, which may keep the objects of the source as files in the destination.
    pub(crate) fn prove_source_outside(&self) -> Result<()> {
        let Tree { source, destination, .. } = self.copy.tree;
        if !has_directories(destination) {
            return Ok(());
        }
        self.separation.prove(source, destination, Separation::SourceOutside)
    }

    /// Adds a name.
    pub(crate) fn add(&mut self, name: &[u8]) -> std::result::Result<(), Failure> {
        self.files += u64::from(!self.copy.is_directory(name) && self.copy.leftover(name).is_none());
        self.names.add(name).map_err(|error| self.copy.tree.failure(name, error))
    }

    /// Returns the number of names of objects, files and links.
    pub(crate) fn files(&self) -> u64 {
        self.files
    }

    /// Begins to delete names.
    pub(crate) fn deletion(&self) -> ExtraDeletion<'a> {
        let Self { scope, copy, observer, .. } = *self;
        ExtraDeletion { scope, copy, observer, keeps_leftovers: true, page: Vec::new(), failures: Vec::new() }
    }

    /// Deletes all names, until the run is stopped.
    pub(crate) fn delete_all(self, summary: &mut Summary) {
        let mut deletion = self.deletion();
        // A failed copy may have left a partial file, which the next run can continue.
        deletion.keeps_leftovers = summary.failures > 0;
        let names = match self.names.into_records() {
            Ok(names) => names,
            Err(error) => return summary.ended = Some(error),
        };
        for name in names {
            match name {
                Ok(name) => deletion.delete(&name),
                Err(error) => return summary.ended = Some(error),
            }
            deletion.report(summary);
            summary.ended = summary.ended.take().or_else(|| self.scope.settings.stop.error());
            if summary.ended.is_some() {
                return;
            }
        }
        deletion.delete_page();
        deletion.report(summary);
    }
}

/// Deletes names one after another. Names in a store or on a host are deleted in pages.
pub(crate) struct ExtraDeletion<'a> {
    scope: &'a CallScope<'a>,
    copy: &'a TreeCopy<'a>,
    observer: &'a dyn Observer,
    /// True if the files that interrupted copies have left stay.
    keeps_leftovers: bool,
    page: Vec<Location>,
    failures: Vec<Failure>,
}

impl ExtraDeletion<'_> {
    /// Deletes a file, a link, an object, or a directory that has become empty.
    pub(crate) fn delete(&mut self, name: &[u8]) {
        if self.copy.is_directory(name) {
            return self.remove_directory(name.strip_suffix(b"/").unwrap_or(name));
        }
        if let Some(leftover) = self.copy.leftover(name) {
            return self.remove_leftover(name, &leftover);
        }
        let location = self.copy.tree.destination.join(name);
        if self.copy.tree.effect == Effect::DryRun {
            return self.observer.planned(&Action::Delete { location });
        }
        if let Some(root) = &self.copy.root {
            match root.beneath.remove_file(as_path(name)) {
                Ok(()) => add_relaxed(&self.copy.counts.deleted, 1),
                Err(error) => self.fail(&location, error),
            }
            return;
        }
        self.page.push(location);
        if self.page.len() == PAGE {
            self.delete_page();
        }
    }

    /// Removes a file that an interrupted copy has left, unless the source has the name that was
    /// being copied. The file is not counted, because it is no object.
    fn remove_leftover(&mut self, name: &[u8], leftover: &Leftover) {
        let is_selected = self.copy.tree.includes(&leftover.target) && !self.scope.settings.limits.is_any();
        let Some(root) = self.copy.root.as_ref().filter(|_| is_selected && !self.keeps_leftovers) else {
            return;
        };
        if self.copy.tree.effect == Effect::Apply
            && let Err(error) = root.beneath.remove_leftover(as_path(name), as_path(&leftover.partial))
        {
            self.fail(&self.copy.tree.destination.join(name), error);
        }
    }

    fn remove_directory(&mut self, name: &[u8]) {
        let location = self.copy.tree.destination.join(name);
        let removed = match &self.copy.root {
            Some(root) => root.beneath.remove_empty_directory(as_path(name)),
            None => {
                // The files in the directory have to be deleted first.
                self.delete_page();
                self.scope.store.remove_directory(&location, Unfinished::Keep)
            }
        };
        if let Err(error) = removed {
            self.fail(&location, error);
        }
    }

    fn delete_page(&mut self) {
        if self.page.is_empty() {
            return;
        }
        let failed = self.scope.store.delete_many(&self.page);
        add_relaxed(&self.copy.counts.deleted, (self.page.len() - failed.len()) as u64);
        self.page.clear();
        for (location, error) in failed {
            self.fail(&location, error);
        }
    }

    fn fail(&mut self, location: &Location, error: StoreError) {
        self.failures.push(Failure { location: location.to_string(), error: error.into() });
    }

    /// Ends the deletion, and returns the failures.
    pub(crate) fn into_failures(mut self) -> Vec<Failure> {
        self.delete_page();
        self.failures
    }

    /// Adds the failures so far to the summary. An error that concerns the whole destination ends
    /// the run.
    fn report(&mut self, summary: &mut Summary) {
        for failure in self.failures.drain(..) {
            let is_general = matches!(&failure.error, Error::Store(error) if error.concerns_store());
            if is_general || failure.error.ends_run() {
                summary.ended = Some(self.scope.settings.stop.error().unwrap_or(failure.error));
                return;
            }
            self.observer.failed(&failure);
            summary.fail(failure);
        }
    }
}
