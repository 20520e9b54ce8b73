//! Moves trees: copies them and deletes the sources ([`sources`](crate::sources)).
//!
//! A killed run has deleted only sources whose copies are complete. So the same move can continue
//! without comparing anything: all sources that remain have to be moved. The engine calls this.

use std::sync::atomic::{AtomicBool, Ordering};

use firstbyte_location::{Entry, EntryKind};
use firstbyte_store::{EntryOrder, Links, ListOptions, Listing};

use crate::context::CallScope;
use crate::error::{Error, Failure, Result};
use crate::job::{Extras, JobResult};
use crate::report::Observer;
use crate::sources::LINK_REFUSED;
use crate::tree::{self, TreeCopy, with_sort_name};

/// The jobs of a move, in the order in which names are found. A link is a failure: its target may
/// be outside the tree, and would not be moved.
pub(crate) struct MoveJobs<'a> {
    copy: &'a TreeCopy<'a>,
    observer: &'a dyn Observer,
    listing: Listing,
    /// Set when a directory, or an object that marks a prefix, is found.
    directories: &'a AtomicBool,
}

impl<'a> MoveJobs<'a> {
    pub(crate) fn new(
        scope: &CallScope<'_>,
        copy: &'a TreeCopy<'a>,
        directories: &'a AtomicBool,
        observer: &'a dyn Observer,
    ) -> Result<Self> {
        let options = tree::list_options(copy.tree, EntryOrder::Any, Extras::Keep, scope.settings);
        let options = ListOptions { links: Links::Report, ..options };
        let listing = tree::source(&scope.store, copy.tree, &options)?;
        Ok(Self { copy, observer, listing, directories })
    }

    fn job(&self, entry: Entry) -> Option<JobResult> {
        if entry.kind == EntryKind::Symlink {
            return self.copy.tree.contains(&entry.name).then(|| {
                let place = self.copy.tree.source.join(&entry.name);
                Err(Failure { location: place.to_string(), error: Error::invalid(&place, LINK_REFUSED) })
            });
        }
        if !self.copy.selects(&entry) {
            return None;
        }
        if entry.name.ends_with(b"/") || entry.name.is_empty() {
            self.directories.store(true, Ordering::Relaxed);
        }
        match self.copy.replaceable_kinds(&entry) {
            Ok(over) => self.copy.job(entry, over, self.observer),
            Err(failure) => Some(Err(failure)),
        }
    }
}

impl Iterator for MoveJobs<'_> {
    type Item = JobResult;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let job = match self.listing.next()?.map(with_sort_name) {
                Ok(entry) => self.job(entry),
                Err(error) => {
                    let location = self.copy.tree.source.to_string();
                    Some(Err(Failure { location, error: error.into() }))
                }
            };
            if job.is_some() {
                return job;
            }
        }
    }
}
