//! Offers the public operations. Each call that moves or deletes objects is one run with threads of
//! its own.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use firstbyte_location::{ByteRange, Entry, Location, Version};
use firstbyte_pacing::Throttle;
use firstbyte_store::{Beneath, Cancel, Error as StoreError, ReplaceKind, StaleUpload, Store};

use crate::check::Check;
use crate::context::{CallScope, Context, RunKind, Throttles, Unchanged};
use crate::error::{Error, Result};
use crate::job::{CopyJob, CopyJobs, EarlierSources, Effect, Extras, Move, Tree};
use crate::job::{Extent, ObjectCount, TransferRoute, keeps_all};
use crate::moving;
use crate::remove::Removal;
use crate::report::{Action, CompletedObject, Observer, Summary};
use crate::scheduler::Scheduler;
use crate::settings::{Compare, TransferSettings};
use crate::sources::{self, MovedSources};
use crate::tree::TreeCopy;
use crate::{attributes, check, named, remove, stream, sync, tree};

/// The engine that moves objects between locations. Creating an engine is cheap.
#[derive(Clone)]
pub struct Engine {
    store: Store,
    settings: TransferSettings,
    throttles: Throttles,
}

impl Engine {
    /// Creates an engine that works on `store`.
    #[must_use]
    pub fn new(store: Store, settings: TransferSettings) -> Self {
        let (reading, writing) = (Throttle::new(settings.limit_rate), Throttle::new(settings.limit_rate));
        let store = store.scoped(settings.stop.cancel());
        Self { store, settings, throttles: Throttles { reading, writing } }
    }

    /// Returns the store that the engine works on. Its requests end when the engine is stopped.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the settings of all runs.
    #[must_use]
    pub fn settings(&self) -> &TransferSettings {
        &self.settings
    }

    /// Copies one object, in any direction. The destination is always either the old object or the
    /// complete new one.
    ///
    /// # Errors
    /// The reason why the copy failed. The destination's content is unchanged, and the bytes that
    /// have arrived are kept for the next run if the copy can be resumed. With
    /// [`KeptAttributes::All`](crate::KeptAttributes::All), an attribute may fail after the content
    /// was replaced.
    pub fn copy(
        &self,
        source: &Location,
        destination: &Location,
        observer: &dyn Observer,
    ) -> Result<Summary> {
        self.copy_until_stopped(source, destination, observer).and_then(single_result)
    }

    /// Copies the version of the source that `version` describes, like [`copy`](Self::copy).
    ///
    /// # Errors
    /// The errors of [`copy`](Self::copy).
    pub fn copy_version(
        &self,
        source: &Location,
        version: &Version,
        destination: &Location,
        observer: &dyn Observer,
    ) -> Result<Summary> {
        let entry = Entry::of_version(version);
        self.copy_one(source, Some(entry), destination, observer).and_then(single_result)
    }

    /// Copies one object like [`copy`](Self::copy), but returns a summary even if the run ended
    /// early. The summary says what the run did, and from how many bytes the next run can resume.
    ///
    /// # Errors
    /// No worker can be started, or a link or the attributes of a file cannot be copied
    /// ([`KeptAttributes::All`](crate::KeptAttributes::All)).
    pub fn copy_until_stopped(
        &self,
        source: &Location,
        destination: &Location,
        observer: &dyn Observer,
    ) -> Result<Summary> {
        self.copy_one(source, None, destination, observer)
    }

    fn copy_one(
        &self,
        source: &Location,
        entry: Option<Entry>,
        destination: &Location,
        observer: &dyn Observer,
    ) -> Result<Summary> {
        let kept = keeps_all(&self.settings, source, destination);
        let local = source.as_local().zip(destination.as_local()).filter(|_| kept);
        if let Some((from, to)) = local
            && let Some(linked) = attributes::one_link(from, to)?
        {
            return Ok(linked);
        }
        let summary = self.copy_content(source, entry, destination, observer)?;
        if let Some((from, to)) = local.filter(|_| summary.ended.is_none() && summary.failures == 0) {
            attributes::of_one(from, to)?;
        }
        Ok(summary)
    }

    fn copy_content(
        &self,
        source: &Location,
        entry: Option<Entry>,
        destination: &Location,
        observer: &dyn Observer,
    ) -> Result<Summary> {
        observer.expected(1, 0);
        let (source, destination) = (source.clone(), destination.clone());
        let run_kind = RunKind::of_one(TransferRoute::of(&source, &destination));
        let job = CopyJob { source, destination, entry, over: ReplaceKind::File };
        let mut jobs = std::iter::once(Ok(job));
        self.run_counted(|scope| Scheduler::new(scope, observer, run_kind).run(&mut jobs))
    }

    /// Returns whether the settings want one object to be copied. The settings may compare the
    /// object with its destination ([`Compare::Size`], [`Compare::Newer`], [`Compare::Existence`])
    /// or limit sources.
    ///
    /// # Errors
    /// One of the two locations cannot be looked up.
    pub fn is_wanted(&self, source: &Location, destination: &Location) -> Result<bool> {
        let wanted = named::is_wanted(&self.store, &self.settings, source, destination);
        wanted.map_err(|error| self.reason(error))
    }

    /// Returns whether the destination is a complete copy of the source as it is now, by size and
    /// time. Returns false if the settings compare in another way or choose how a copy is stored,
    /// or if one of the two locations cannot be looked up.
    ///
    /// # Errors
    /// The run was stopped, or the whole store or bucket cannot be used.
    pub fn is_unchanged(&self, source: &Location, destination: &Location) -> Result<bool> {
        let once = self.store.without_retries();
        let unchanged = named::is_unchanged(&once, &self.settings, source, destination);
        unchanged.map_err(|error| self.reason(error))
    }

    /// Reports to `observer` that one object would be copied, without copying it.
    ///
    /// # Errors
    /// The source cannot be looked up, so that the copy would fail.
    pub fn plan_copy(
        &self,
        source: &Location,
        destination: &Location,
        observer: &dyn Observer,
    ) -> Result<()> {
        let is_link = source.as_local().is_some_and(std::path::Path::is_symlink);
        let size = match is_link && keeps_all(&self.settings, source, destination) {
            // The link itself is copied, so its target need not exist.
            true => None,
            false => self.store.stat_object(source).map_err(|error| self.reason(error.into()))?.size(),
        };
        let (source, destination) = (source.clone(), destination.clone());
        observer.planned(&Action::Copy { source, destination, size });
        Ok(())
    }

    /// Copies many objects, in constant memory. If one object fails, the others are still copied:
    /// the summary lists the failures, and [`Summary::ended`] says why a run has ended early.
    ///
    /// # Errors
    /// No worker can be started.
    pub fn copy_many(&self, jobs: &mut CopyJobs<'_>, observer: &dyn Observer) -> Result<Summary> {
        self.run_counted(|scope| run_many(scope, None, Unchanged::Copied, jobs, observer))
    }

    /// Copies objects that were named one by one, like [`copy_many`](Self::copy_many), but skips
    /// objects that are not [wanted](Self::is_wanted) or are [unchanged](Self::is_unchanged).
    ///
    /// # Errors
    /// The errors of [`copy_many`](Self::copy_many).
    pub fn copy_named(&self, jobs: &mut CopyJobs<'_>, observer: &dyn Observer) -> Result<Summary> {
        self.run_counted(|scope| run_many(scope, None, Unchanged::Skipped, jobs, observer))
    }

    /// Copies everything below a location, while listing, reading and writing at the same time.
    /// Skips objects that are complete and unchanged at the destination, so a repeated copy resumes
    /// an interrupted one.
    ///
    /// # Errors
    /// The listing cannot be started. The summary lists the failures of single objects. A failure
    /// that concerns all objects, such as a missing bucket, ends the run and is in
    /// [`Summary::ended`].
    pub fn copy_tree(&self, tree: &Tree<'_>, observer: &dyn Observer) -> Result<Summary> {
        self.copy_tree_after(&|_| Vec::new(), tree, observer)
    }

    /// Copies everything below a location like [`copy_tree`](Self::copy_tree), after other sources
    /// of the same command. If a file would replace the copy of an earlier source, its copy fails.
    ///
    /// # Errors
    /// The errors of [`copy_tree`](Self::copy_tree).
    pub fn copy_tree_after(
        &self,
        earlier: &EarlierSources<'_>,
        tree: &Tree<'_>,
        observer: &dyn Observer,
    ) -> Result<Summary> {
        self.in_order(|scope| {
            let copy = TreeCopy::new(tree, scope).after(earlier);
            if copy.root.is_some() && self.settings.compare != Compare::Checksum {
                let mut jobs = tree::jobs(scope, &copy, observer)?;
                return run_tree(scope, &copy, None, &mut jobs, observer);
            }
            let mut jobs = sync::jobs(scope, &copy, Extras::Keep, observer)?;
            run_tree(scope, &copy, None, &mut jobs, observer)
        })
    }

    /// Performs `jobs`, which the caller made from its own listing of `tree`, in their order. Like
    /// [`copy_tree`](Self::copy_tree), writes nothing outside a local destination, and skips
    /// objects that are complete and unchanged there. At other destinations it would take a request
    /// to find an object, so objects are copied even if the destination already has them.
    ///
    /// # Errors
    /// The errors of [`copy_many`](Self::copy_many).
    pub fn copy_listed(
        &self,
        tree: &Tree<'_>,
        jobs: &mut CopyJobs<'_>,
        observer: &dyn Observer,
    ) -> Result<Summary> {
        self.run_counted(|scope| {
            let copy = TreeCopy::new(tree, scope);
            let unchanged = if copy.root.is_some() { Unchanged::Skipped } else { Unchanged::Copied };
            complete_tree(scope, &copy, run_jobs(scope, &copy, None, unchanged, jobs, observer), observer)
        })
    }

    /// Brings a tree up to date: copies missing and changed objects, and treats objects that only
    /// the destination has as `extras` says.
    ///
    /// # Errors
    /// A listing cannot be started. The summary lists the failures of single objects.
    pub fn sync(&self, tree: &Tree<'_>, extras: Extras, observer: &dyn Observer) -> Result<Summary> {
        self.in_order(|scope| {
            let copy = TreeCopy::new(tree, scope);
            let mut jobs = sync::jobs(scope, &copy, extras, observer)?;
            let run = run_jobs(scope, &copy, None, Unchanged::Copied, &mut jobs, observer);
            let run = run.map(|mut summary| {
                jobs.delete_extras(&mut summary);
                summary
            });
            complete_tree(scope, &copy, run, observer)
        })
    }

    /// Moves objects that were named one by one. Each source is deleted when its copy is complete,
    /// if the source is still the version that was copied. The durability in the settings should be
    /// [`Full`].
    ///
    /// [`Full`]: firstbyte_store::Durability::Full
    ///
    /// # Errors
    /// The errors of [`copy_many`](Self::copy_many).
    pub fn move_many(&self, jobs: &mut CopyJobs<'_>, observer: &dyn Observer) -> Result<Summary> {
        self.run_counted(|scope| {
            run_many(scope, Some(&MovedSources::named(&scope.store)), Unchanged::Copied, jobs, observer)
        })
    }

    /// Moves everything below a location, like [`move_many`](Self::move_many), and then removes the
    /// directories that have become empty. Skips nothing.
    ///
    /// # Errors
    /// The errors of [`copy_tree`](Self::copy_tree).
    pub fn move_tree(&self, moved: &Move<'_>, observer: &dyn Observer) -> Result<Summary> {
        self.run_counted(|scope| {
            let sources = MovedSources::below(&scope.store, &moved.tree)?;
            let copy = TreeCopy::new(&moved.tree, scope);
            let directories = AtomicBool::new(false);
            let mut jobs = moving::MoveJobs::new(scope, &copy, &directories, observer)?;
            let mut summary = run_tree(scope, &copy, Some(&sources), &mut jobs, observer)?;
            if summary.ended.is_none() {
                // Only directories are left at the source.
                attributes::of_tree(scope, &copy, moved.extent, observer, &mut summary)?;
                moving::set_times(jobs.into_times(), &copy, moved, observer, &mut summary)?;
            }
            if summary.ended.is_none() && moved.removes_directories(directories.load(Ordering::Relaxed)) {
                remove::remove_empty_directories(scope, moved, observer, &mut summary)?;
            }
            Ok(summary)
        })
    }

    /// Renames a directory with all of its contents, or a link, if the new name does not exist and
    /// is on the same file system. Returns whether this was possible.
    ///
    /// # Errors
    /// One of the two locations cannot be reached.
    pub fn rename(&self, source: &Location, destination: &Location) -> Result<bool> {
        sources::rename(source, destination)
    }

    /// Deletes everything below a location. Links are deleted and never followed.
    ///
    /// # Errors
    /// The listing cannot be started. The summary lists the failures of single names.
    pub fn remove(&self, removal: &Removal<'_>, observer: &dyn Observer) -> Result<Summary> {
        self.run_counted(|scope| remove::remove(scope, removal, observer))
    }

    /// Compares everything below two locations. Writes nothing.
    ///
    /// # Errors
    /// The source does not exist, or a listing cannot be started.
    pub fn check(&self, places: &Check<'_>, observer: &dyn Observer) -> Result<Summary> {
        self.in_order(|scope| check::check(scope, places, observer))
    }

    /// Compares two objects.
    ///
    /// # Errors
    /// The source does not exist, or one of the two objects cannot be reached.
    pub fn check_object(&self, places: &Check<'_>, observer: &dyn Observer) -> Result<Summary> {
        self.run_counted(|scope| check::check_one(scope, places, observer))
    }

    /// Writes an object, or a range of it, to `out`, in order.
    ///
    /// # Errors
    /// The reason why writing failed. Bytes that were written before stay written.
    pub fn cat(
        &self,
        source: &Location,
        range: Option<ByteRange>,
        out: &mut (dyn Write + Send),
        observer: &dyn Observer,
    ) -> Result<Summary> {
        self.cat_version(source, None, range, out, observer)
    }

    /// Writes one version of the source, like [`cat`](Self::cat).
    ///
    /// # Errors
    /// The errors of [`cat`](Self::cat).
    pub fn cat_version(
        &self,
        source: &Location,
        version: Option<&Version>,
        range: Option<ByteRange>,
        out: &mut (dyn Write + Send),
        observer: &dyn Observer,
    ) -> Result<Summary> {
        self.run_stream(observer, |context| stream::cat(context, source, version, range, out))
    }

    /// Writes a stream of unknown length to `destination`, with the metadata of the settings.
    ///
    /// # Errors
    /// The reason why writing failed. The destination is unchanged.
    pub fn put_stream(
        &self,
        reader: &mut (dyn Read + Send),
        destination: &Location,
        observer: &dyn Observer,
    ) -> Result<Summary> {
        self.run_stream(observer, |context| stream::put(context, reader, destination))
    }

    /// Aborts and returns the multipart uploads below `location` that are older than `older_than`.
    /// A dry run only returns them.
    ///
    /// # Errors
    /// The uploads cannot be listed, or one of them cannot be aborted.
    pub fn abort_stale(
        &self,
        location: &Location,
        older_than: Duration,
        effect: Effect,
    ) -> Result<Vec<StaleUpload>> {
        let now = SystemTime::now();
        let mut stale = self.store.stale_uploads(location).map_err(|error| self.reason(error.into()))?;
        stale.retain(|upload| {
            upload.initiated.is_none_or(|at| now.duration_since(at).is_ok_and(|age| age >= older_than))
        });
        for found in stale.iter().filter(|_| effect == Effect::Apply) {
            self.store.abort_upload(&found.upload).map_err(|error| self.reason(error.into()))?;
        }
        Ok(stale)
    }

    fn run_stream(
        &self,
        observer: &dyn Observer,
        stream: impl FnOnce(&Context<'_>) -> Result<CompletedObject> + Send,
    ) -> Result<Summary> {
        let run_kind = RunKind::of_one(TransferRoute::Network);
        self.run_counted(|scope| Scheduler::of_stream(scope, observer, run_kind).run_stream(stream))
    }

    /// Runs a verb that needs sorted listings. If a listing turns out to be unsorted, runs the verb
    /// again: by then the store has recorded that, and sorts the names.
    fn in_order(&self, verb: impl Fn(&CallScope<'_>) -> Result<Summary>) -> Result<Summary> {
        let first = match self.run_counted(&verb) {
            Err(Error::Store(StoreError::Disordered { .. })) => return self.run_counted(&verb),
            first => first?,
        };
        match first.ended {
            Some(Error::Store(StoreError::Disordered { .. })) => Ok(self.run_counted(&verb)?.added_to(first)),
            _ => Ok(first),
        }
    }

    /// Runs a verb and counts its requests, including those of its listings.
    fn run_counted(&self, verb: impl FnOnce(&CallScope<'_>) -> Result<Summary>) -> Result<Summary> {
        let before = self.store.counters();
        let cancel = Cancel::new();
        let store = self.store.scoped(&cancel);
        let scope = CallScope { store, cancel, settings: &self.settings, throttles: &self.throttles };
        let mut summary = verb(&scope).map_err(|error| self.reason(error))?;
        let after = self.store.counters();
        summary.requests = after.requests - before.requests;
        summary.requests_by_kind = after.requests_by_kind.since(&before.requests_by_kind);
        (summary.received, summary.sent) = (after.received - before.received, after.sent - before.sent);
        summary.retries = after.retries - before.retries;
        Ok(summary)
    }

    /// Returns why the run was stopped, if `error` comes from a request that the stop has
    /// cancelled. Otherwise returns `error`.
    fn reason(&self, error: Error) -> Error {
        match self.settings.stop.error() {
            Some(why) if error.ends_run() => why,
            _ => error,
        }
    }
}

/// Returns the summary of a run over one object, or the error with which it failed.
fn single_result(mut summary: Summary) -> Result<Summary> {
    match (summary.ended.take(), summary.failed.pop()) {
        (Some(error), _) => Err(error),
        (None, Some(failure)) => Err(failure.error),
        (None, None) => Ok(summary),
    }
}

/// Runs jobs for objects that were named one by one. With `sources`, the run is a move, and deletes
/// each source after its copy.
fn run_many(
    scope: &CallScope<'_>,
    sources: Option<&MovedSources<'_>>,
    unchanged: Unchanged,
    jobs: &mut CopyJobs<'_>,
    observer: &dyn Observer,
) -> Result<Summary> {
    let mut jobs = jobs.peekable();
    let route = match jobs.peek() {
        Some(Ok(job)) => TransferRoute::of(&job.source, &job.destination),
        _ => TransferRoute::Network,
    };
    let run_kind = RunKind { batch: ObjectCount::Many, route, root: None, sources, unchanged };
    Scheduler::new(scope, observer, run_kind).run(&mut jobs)
}

fn run_tree(
    scope: &CallScope<'_>,
    copy: &TreeCopy<'_>,
    sources: Option<&MovedSources<'_>>,
    jobs: &mut CopyJobs<'_>,
    observer: &dyn Observer,
) -> Result<Summary> {
    complete_tree(scope, copy, run_jobs(scope, copy, sources, Unchanged::Copied, jobs, observer), observer)
}

fn run_jobs(
    scope: &CallScope<'_>,
    copy: &TreeCopy<'_>,
    sources: Option<&MovedSources<'_>>,
    unchanged: Unchanged,
    jobs: &mut CopyJobs<'_>,
    observer: &dyn Observer,
) -> Result<Summary> {
    let route = TransferRoute::of(&copy.tree.source, &copy.tree.destination);
    let run_kind = RunKind { batch: ObjectCount::Tree, route, root: copy.root.as_ref(), sources, unchanged };
    Scheduler::new(scope, observer, run_kind).run(jobs)
}

/// Completes the run of a tree: sets the permissions of its directories, and adds its counts.
fn complete_tree(
    scope: &CallScope<'_>,
    copy: &TreeCopy<'_>,
    run: Result<Summary>,
    observer: &dyn Observer,
) -> Result<Summary> {
    let settled = copy.root.as_ref().map(|root| &root.beneath).map_or(Ok(()), Beneath::settle);
    let mut summary = run?;
    settled?;
    copy.counts.add_to(&mut summary);
    if summary.ended.is_none() && keeps_all(scope.settings, &copy.tree.source, &copy.tree.destination) {
        attributes::of_tree(scope, copy, Extent::Whole, observer, &mut summary)?;
    }
    Ok(summary)
}
