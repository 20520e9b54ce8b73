//! The engine: every kind of transfer, as verbs.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use firstbyte_location::{ByteRange, Entry, Location, shown};
use firstbyte_pacing::Throttle;
use firstbyte_store::{Beneath, Cancel, Durability, Over, StaleUpload, Store};

use crate::level::Level;
use crate::part_limit::PartLimit;
use crate::relay::PART;
use crate::run::{Role, Run, Unwinding};
use crate::tree::Copying;
use crate::worker::scratch;
use crate::{
    Compare, Concurrency, Error, Extras, Failure, Observer, Result, Settings, Summary, Tree, bound, stream,
    sync, tree, watch,
};

/// What the process needs beside its workers: program, runtime, credentials, a page of a listing.
const BASE_MEMORY: u64 = 14 << 20;
/// What a worker needs beside its buffer: touched stack, socket and TLS state; 80 KiB in all, measured between 64 and
/// 256 workers on small objects.
const WORKER_MEMORY: u64 = 56 << 10;
/// The level one object starts with: at the 40 MB/s S3 gives a connection these fill a network of 4 Gbit/s at once, and
/// are too few to hurt any server.
const START: usize = 12;
/// The level many objects start with: more only wait for each other where the server is near, and large ones take fewer there;
/// where it is far, no answer for a while shows it and all that may be are asked for at once.
const START_MANY: usize = 32;
/// More requests than this have not been seen to help one object: its chunks fill any link with fewer.
const MOST: usize = 64;
/// Small objects are all round trip, and each request more shortens the whole; memory ends it at about 200 by default.
const MOST_OF_MANY: usize = 256;
/// Between local files one copy call a core is all there is to gain.
const START_LOCAL: usize = 2;

/// One object to copy.
#[derive(Clone, Debug)]
pub struct Job {
    /// From.
    pub source: Location,
    /// To; the full name, never a directory.
    pub destination: Location,
    /// What a listing told about the source: saves a request.
    pub entry: Option<Entry>,
    /// What it may take the place of.
    pub over: Over,
}

/// Jobs as they are found. An `Err` is an object that cannot be copied, such as a name that cannot be written.
pub type Jobs<'a> = dyn Iterator<Item = std::result::Result<Job, Failure>> + Send + 'a;

/// Moves objects between locations. Cheap to make; each call is one run with its own workers.
#[derive(Clone)]
pub struct Engine {
    store: Store,
    settings: Settings,
    throttles: Throttles,
}

/// The rate limit of an engine's runs, for each direction by itself: what is relayed passes in both.
#[derive(Clone, Debug)]
pub(crate) struct Throttles {
    pub(crate) reading: Throttle,
    pub(crate) writing: Throttle,
}

/// Where the bytes of a run pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// From file to file.
    Local,
    /// Between a file or stream and a store.
    Network,
    /// Between two stores, through memory.
    Relay,
}

impl Route {
    pub(crate) fn of(source: &Location, destination: &Location) -> Self {
        match (source.as_local(), destination.as_local()) {
            (Some(_), Some(_)) => Self::Local,
            (None, None) => Self::Relay,
            _ => Self::Network,
        }
    }
}

/// The store as one call uses it: what is asked for ends with the call's run.
pub(crate) struct Scope {
    pub(crate) store: Store,
    pub(crate) cancel: Cancel,
}

impl Scope {
    fn new(store: &Store) -> Self {
        let cancel = Cancel::new();
        Self { store: store.scoped(&cancel), cancel }
    }

    fn parts(&self) -> (&Store, &Cancel) {
        (&self.store, &self.cancel)
    }
}

/// How many objects a run is of: one settles its own durability, many are made durable together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Batch {
    One,
    Many,
    /// Many between the same two places: an error that concerns one of these ends the run.
    Tree,
}

impl Engine {
    /// An engine over `store`.
    #[must_use]
    pub fn new(store: Store, settings: Settings) -> Self {
        let (reading, writing) = (Throttle::new(settings.limit_rate), Throttle::new(settings.limit_rate));
        let store = store.scoped(settings.stop.cancel());
        Self { store, settings, throttles: Throttles { reading, writing } }
    }

    /// The store it works on; its requests end when the engine is stopped.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The rate limits of its runs.
    pub(crate) fn throttles(&self) -> &Throttles {
        &self.throttles
    }

    /// How it works.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Copies one object, in any direction. The destination is the old one or the whole new one.
    ///
    /// # Errors
    /// What ended it; the destination is as it was, and what arrived is kept for the next run.
    pub fn copy(
        &self,
        source: &Location,
        destination: &Location,
        observer: &dyn Observer,
    ) -> Result<Summary> {
        observer.expected(1, 0);
        let (source, destination) = (source.clone(), destination.clone());
        let route = Route::of(&source, &destination);
        let job = Job { source, destination, entry: None, over: Over::File };
        let mut jobs = std::iter::once(Ok(job));
        let mut summary =
            self.counted(|scope| self.run(scope, &mut jobs, observer, Batch::One, route, None))?;
        match (summary.ended.take(), summary.failed.pop()) {
            (Some(error), _) => Err(error),
            (None, Some(failure)) => Err(failure.error),
            (None, None) => Ok(summary),
        }
    }

    /// Copies many objects, in constant memory. Failures do not stop the others; they are in the summary, and
    /// [`Summary::ended`] says why a run stopped before its time.
    ///
    /// # Errors
    /// No worker can be started.
    pub fn copy_many(&self, jobs: &mut Jobs<'_>, observer: &dyn Observer) -> Result<Summary> {
        let mut jobs = jobs.peekable();
        let route = match jobs.peek() {
            Some(Ok(job)) => Route::of(&job.source, &job.destination),
            _ => Route::Network,
        };
        self.counted(|scope| self.run(scope, &mut jobs, observer, Batch::Many, route, None))
    }

    /// Copies everything below a location, listing, reading and writing at once. What the destination has already, complete
    /// and unchanged, is skipped, so an interrupted copy repeated does the rest.
    ///
    /// # Errors
    /// The listing cannot be begun. Failures of single objects are in the summary; one that concerns all of them, as of a
    /// bucket that is not there, ends the run and is [`Summary::ended`].
    pub fn copy_tree(&self, tree: &Tree<'_>, observer: &dyn Observer) -> Result<Summary> {
        self.counted(|scope| {
            let copying = Copying::new(tree);
            if copying.beneath.is_some() && self.settings.compare != Compare::Checksum {
                let mut jobs = tree::jobs(&scope.store, &copying, &self.settings, observer)?;
                return self.run_tree(scope, &copying, &mut jobs, observer);
            }
            let mut jobs = sync::jobs(&self.settings, scope, &copying, Extras::Keep, observer)?;
            self.run_tree(scope, &copying, &mut jobs, observer)
        })
    }

    /// Brings a tree up to date: copies what is missing or changed, and deletes what `extras` says.
    ///
    /// # Errors
    /// A listing cannot be begun. Failures of single objects are in the summary.
    pub fn sync(&self, tree: &Tree<'_>, extras: Extras, observer: &dyn Observer) -> Result<Summary> {
        self.counted(|scope| {
            let copying = Copying::new(tree);
            let mut jobs = sync::jobs(&self.settings, scope, &copying, extras, observer)?;
            self.run_tree(scope, &copying, &mut jobs, observer)
        })
    }

    fn run_tree(
        &self,
        scope: &Scope,
        copying: &Copying<'_>,
        jobs: &mut Jobs<'_>,
        observer: &dyn Observer,
    ) -> Result<Summary> {
        let route = Route::of(&copying.tree.source, &copying.tree.destination);
        let run = self.run(scope, jobs, observer, Batch::Tree, route, Some(copying));
        let settled = copying.beneath.as_ref().map_or(Ok(()), Beneath::settle);
        let mut summary = run?;
        settled?;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        summary.skipped = count(&copying.counts.skipped);
        summary.deleted = count(&copying.counts.deleted);
        summary.special = count(&copying.counts.special);
        summary.empty_directories = count(&copying.counts.directories);
        Ok(summary)
    }

    /// Writes an object, or a range of it, to `out`, in order.
    ///
    /// # Errors
    /// What ended it; what was written before stays written.
    pub fn cat(
        &self,
        source: &Location,
        range: Option<ByteRange>,
        out: &mut (dyn Write + Send),
        observer: &dyn Observer,
    ) -> Result<Summary> {
        self.counted(|scope| self.watched(scope, observer, |run| stream::cat(run, source, range, out)))
    }

    /// Writes a stream of unknown length to `destination`, with the metadata of the settings.
    ///
    /// # Errors
    /// What ended it; the destination is as it was.
    pub fn put_stream(
        &self,
        reader: &mut (dyn Read + Send),
        destination: &Location,
        observer: &dyn Observer,
    ) -> Result<Summary> {
        self.counted(|scope| self.watched(scope, observer, |run| stream::put(run, reader, destination)))
    }

    /// Aborts the multipart uploads below `location` that began longer than `older_than` ago, and returns them.
    ///
    /// # Errors
    /// The uploads cannot be listed, or one cannot be aborted.
    pub fn abort_stale(&self, location: &Location, older_than: Duration) -> Result<Vec<StaleUpload>> {
        let now = SystemTime::now();
        let mut stale = self.store.stale_uploads(location).map_err(|error| self.reason(error.into()))?;
        stale.retain(|upload| {
            upload.initiated.is_none_or(|at| now.duration_since(at).is_ok_and(|age| age >= older_than))
        });
        for found in &stale {
            self.store.abort_upload(&found.upload).map_err(|error| self.reason(error.into()))?;
        }
        Ok(stale)
    }

    /// Runs jobs to the end.
    pub(crate) fn run(
        &self,
        scope: &Scope,
        jobs: &mut Jobs<'_>,
        observer: &dyn Observer,
        batch: Batch,
        route: Route,
        tree: Option<&Copying<'_>>,
    ) -> Result<Summary> {
        let most = most(batch);
        let enough = self.throttles.reading.connections().unwrap_or(most);
        let cap = self.most_workers(route, batch).min(most).min(enough);
        let level = match self.settings.concurrency {
            Concurrency::Fixed(level) => Level::fixed(level.min(cap)),
            Concurrency::Auto => Level::new(start(route, batch), cap),
        };
        tracing::debug!(?route, ?batch, requests = level.now(), at_most = cap, "run");
        let clock = bound::Clock::start();
        let run = Run::new(scope.parts(), self, observer, cap, batch, route).over(tree);
        // Under a rate limit no request asks for much more than may come in a second.
        run.queue().together = self.throttles.reading.connections().map(|_| 1);
        if self.settings.concurrency == Concurrency::Auto {
            run.queue().parts = PartLimit::measuring();
        }
        run.feeding();
        let capped = std::thread::scope(|scope| {
            let run = &run;
            if batch == Batch::One {
                feed(run, jobs);
            } else {
                scope.spawn(move || feed(run, jobs));
            }
            watch::supervise(run, scope, level, cap).inspect_err(|_| run.end(Error::Interrupted))
        })?;
        run.settle()?;
        let bound_by = clock.bound(&run, capped && cap < most && enough >= most);
        let mut summary = run.into_summary();
        summary.bound_by = bound_by;
        Ok(summary)
    }

    /// Counts what a verb asks of the store, its listings included.
    fn counted(&self, verb: impl FnOnce(&Scope) -> Result<Summary>) -> Result<Summary> {
        let before = self.store.counters();
        let mut summary = verb(&Scope::new(&self.store)).map_err(|error| self.reason(error))?;
        let after = self.store.counters();
        summary.requests = after.requests - before.requests;
        summary.retries = after.retries - before.retries;
        Ok(summary)
    }

    /// What a request that was cut says is that it was cancelled; why is known here.
    fn reason(&self, error: Error) -> Error {
        match self.settings.stop.error() {
            Some(why) if error.ends_run() => why,
            _ => error,
        }
    }

    /// Runs `body` with a run that is watched but has no jobs: streams bring their own threads.
    fn watched(
        &self,
        scope: &Scope,
        observer: &dyn Observer,
        body: impl FnOnce(&Run<'_>) -> Result<()> + Send,
    ) -> Result<Summary> {
        let clock = bound::Clock::start();
        let run = Run::new(scope.parts(), self, observer, stream::WORKERS, Batch::One, Route::Network);
        run.feeding();
        let (result, watched) = std::thread::scope(|scope| {
            let run = &run;
            let thread = scope.spawn(move || {
                let _guard = Unwinding(run, Role::Feeder);
                let result = body(run);
                run.fed();
                result
            });
            let watched = watch::supervise(run, scope, Level::fixed(stream::WORKERS), stream::WORKERS);
            (thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), watched)
        });
        if result.is_err() {
            // A stop explains it, and may not have been seen yet.
            run.is_ended();
        }
        let bound_by = clock.bound(&run, false);
        let mut summary = run.into_summary();
        if let Some(ended) = summary.ended.take() {
            return Err(ended);
        }
        watched?;
        result?;
        summary.bound_by = bound_by;
        Ok(summary)
    }

    /// Workers that fit below the memory ceiling.
    fn most_workers(&self, route: Route, batch: Batch) -> usize {
        let each = WORKER_MEMORY + scratch(batch) as u64 + if route == Route::Relay { PART } else { 0 };
        let fit = self.settings.memory.saturating_sub(BASE_MEMORY) / each;
        usize::try_from(fit).unwrap_or(usize::MAX).max(1)
    }
}

fn start(route: Route, batch: Batch) -> usize {
    match (route, batch) {
        (Route::Local, _) => START_LOCAL,
        (_, Batch::One) => START,
        (_, Batch::Many | Batch::Tree) => START_MANY,
    }
}

fn most(batch: Batch) -> usize {
    match batch {
        Batch::One => MOST,
        Batch::Many | Batch::Tree => MOST_OF_MANY,
    }
}

fn feed(run: &Run<'_>, jobs: &mut Jobs<'_>) {
    let _guard = Unwinding(run, Role::Feeder);
    for job in jobs {
        match job {
            Ok(job) => {
                if !run.feed(job) {
                    break;
                }
            }
            Err(failure) => {
                run.failed(failure);
                if run.is_ended() {
                    break;
                }
            }
        }
    }
    run.fed();
}

impl Run<'_> {
    /// How durable a small file is made by itself: in a tree, not at all before the whole batch is.
    pub(crate) fn durability_of_small(&self) -> Durability {
        match (self.batch, self.settings.durability) {
            (Batch::Many | Batch::Tree, Durability::Data) => Durability::None,
            (_, durability) => durability,
        }
    }

    /// Makes a batch durable: one `syncfs` costs less than an `fsync` of each file.
    fn settle(&self) -> Result<()> {
        let Some(path) = self.wrote().filter(|_| self.settings.durability != Durability::None) else {
            return Ok(());
        };
        let file = std::fs::File::open(&path).map_err(Error::io(shown(&path)))?;
        rustix::fs::syncfs(&file).map_err(|error| Error::io("syncing the file system")(error.into()))
    }
}
