//! Moves trees: copies them and deletes the sources ([`sources`](crate::sources)).
//!
//! A run that was killed has deleted only sources whose copies are complete. So the same move can
//! continue without comparing anything: every source that still exists has to be moved. The engine
//! calls this.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use firstbyte_location::{Entry, EntryKind, Location};
use firstbyte_store::{EntryOrder, Error as StoreError, Links, ListOptions, Listing};

use crate::context::CallScope;
use crate::deferred::DeferredRecords;
use crate::error::{Error, Failure, Result};
use crate::job::{Effect, Extent, Extras, JobResult, Move, as_path};
use crate::local_root::LocalRoot;
use crate::report::{Observer, Summary};
use crate::sources::LINK_REFUSED;
use crate::tree::{self, TreeCopy, with_sort_name};

/// The jobs of a move, in the order in which names are found. A link is a failure: its target may
/// be outside the tree and would stay there.
pub(crate) struct MoveJobs<'a> {
    copy: &'a TreeCopy<'a>,
    observer: &'a dyn Observer,
    listing: Listing,
    /// Set when a directory, or an object that marks a prefix, is found.
    directories: &'a AtomicBool,
    times: DirectoryTimes,
}

/// The modification times of the local directories of a source, from before the move deleted names
/// in them.
#[derive(Default)]
pub(crate) struct DirectoryTimes(DeferredRecords);

impl DirectoryTimes {
    /// Records the time of a directory, which was listed before its contents.
    fn record(&mut self, source: &Location, name: &[u8]) -> Result<()> {
        let Some(root) = source.as_local() else { return Ok(()) };
        let found = std::fs::symlink_metadata(root.join(as_path(name))).and_then(|found| found.modified());
        // If the time of a directory cannot be read, its copy keeps the time at which it was
        // created.
        let Ok(time) = found else { return Ok(()) };
        let (is_after, since) = match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => (1, since),
            Err(before) => (0, before.duration()),
        };
        let (seconds, rest) = (since.as_secs().to_le_bytes(), since.subsec_nanos().to_le_bytes());
        self.0.add(&[&[is_after][..], &seconds, &rest, name].concat())
    }

    fn of_record(record: &[u8]) -> Option<(SystemTime, &[u8])> {
        let (head, name) = record.split_at_checked(13)?;
        let seconds = u64::from_le_bytes(head[1..9].try_into().ok()?);
        let since = Duration::new(seconds, u32::from_le_bytes(head[9..].try_into().ok()?));
        let epoch = SystemTime::UNIX_EPOCH;
        let time = if head[0] == 1 { epoch.checked_add(since) } else { epoch.checked_sub(since) };
        Some((time?, name))
    }

    /// Sets the times of the moved directories. Calls `failed` for a directory whose time cannot be
    /// set.
    fn set(self, root: &LocalRoot<'_>, extent: Extent, failed: &mut dyn FnMut(&[u8], Error)) -> Result<()> {
        for record in self.0.into_records()? {
            let record = record?;
            let Some((time, name)) = Self::of_record(&record) else { continue };
            // If only the contents of the root were moved, the root of the destination is another
            // directory, which keeps its time.
            if name.is_empty() && extent != Extent::Whole {
                continue;
            }
            match root.beneath.set_directory_time(as_path(name), time) {
                // No file of the directory was moved, so the directory does not exist at the
                // destination.
                Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {}
                Ok(()) => {}
                Err(error) => failed(name, error.into()),
            }
        }
        Ok(())
    }
}

impl<'a> MoveJobs<'a> {
    pub(crate) fn new(
        scope: &CallScope<'_>,
        copy: &'a TreeCopy<'a>,
        directories: &'a AtomicBool,
        observer: &'a dyn Observer,
    ) -> Result<Self> {
        let options = tree::list_options(copy.tree, EntryOrder::Any, Extras::Keep, scope.settings);
        // A move proves that source and destination are apart in another way, and follows no link.
        let options = ListOptions { links: Links::Report, copied_to: None, ..options };
        let listing = tree::source(&scope.store, copy.tree, &options)?;
        let mut times = DirectoryTimes::default();
        if copy.root.is_some() {
            times.record(&copy.tree.source, b"")?;
        }
        Ok(Self { copy, observer, listing, directories, times })
    }

    /// Returns the times of the directories that were listed.
    pub(crate) fn into_times(self) -> DirectoryTimes {
        self.times
    }

    fn job(&mut self, entry: Entry) -> Option<JobResult> {
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
        if entry.kind == EntryKind::Directory
            && self.copy.root.is_some()
            && let Err(error) = self.times.record(&self.copy.tree.source, &entry.name)
        {
            return Some(Err(self.copy.tree.failure(&entry.name, error)));
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
                Err(error) => Some(Err(Failure::of_listing(&self.copy.tree.source, error))),
            };
            if job.is_some() {
                return job;
            }
        }
    }
}

/// Gives moved local directories the times that they had at the source.
pub(crate) fn set_times(
    times: DirectoryTimes,
    copy: &TreeCopy<'_>,
    moved: &Move<'_>,
    observer: &dyn Observer,
    summary: &mut Summary,
) -> Result<()> {
    let Some(root) = copy.root.as_ref().filter(|_| moved.tree.effect == Effect::Apply) else { return Ok(()) };
    times.set(root, moved.extent, &mut |name, error| {
        let failure = copy.tree.failure(name, error);
        observer.failed(&failure);
        summary.fail(failure);
    })
}
