//! Lists a tree with several threads. Each thread reads directories into its own batch and passes
//! it to its own visitor.
//!
//! A worker renders or sums up what it reads itself, on its own processor and from its own cache.
//! So entries do not pass through a queue. While one worker processes the entries that it read from
//! a large directory, another may read the next ones. A worker enters the directories that it found
//! before it continues with their parent. The missing queue and this order bound the memory: at
//! each level of the tree a few buffers of names wait, however wide the tree is.

mod cursor;
mod pool;
mod thread_cwd;
mod worker;

use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread::{Builder, Scope};

use rustix_futex_sync::Mutex;

use crate::batch::Batch;
use crate::chain::{DirectoryChain, DirectoryIdentity};
use crate::error::{Error, Result};
use crate::open::DirectoryHandle;
use crate::options::ListingOptions;
use crate::tuning::{FileSystemReach, Tuning};
use cursor::{DirectoryCursor, ScanJob};
use pool::ScanPool;
use thread_cwd::ThreadCwd;
use worker::Worker;

/// Receives what a listing finds; one per thread.
pub trait Visitor {
    /// Processes a batch, which is then cleared and filled again. The visitor may swap another
    /// batch for it. `Break` stops all threads soon, each after at most one more batch.
    fn visit(&mut self, batch: &mut Batch) -> ControlFlow<()>;

    /// True to list the contents of the directory `name`. It lies in `directory`, a path from the
    /// root that is empty or ends in `/`. Called for each directory that the options allow, before
    /// it is opened. The directory's own entry may be visited before or after the call.
    fn enters(&self, _directory: &[u8], _name: &[u8]) -> bool {
        true
    }
}

impl<F: FnMut(&mut Batch) -> ControlFlow<()>> Visitor for F {
    fn visit(&mut self, batch: &mut Batch) -> ControlFlow<()> {
        self(batch)
    }
}

/// Lists everything below the directory `root`, in no order, and returns once all of it has been
/// visited. Each thread calls `visitor` to make its own visitor. All visitors are returned, so that
/// their sums can be added up. The first batch comes as soon as it has an entry, later ones when
/// they are full or a millisecond old.
///
/// # Errors
/// [`Error::Io`] if `root` cannot be opened as a directory. All other errors are in the batches.
pub fn scan<V: Visitor + Send>(
    root: &Path,
    options: &ListingOptions,
    visitor: impl Fn() -> V + Sync,
) -> Result<Vec<V>> {
    Ok(Scan::open(root, options)?.run(visitor))
}

/// A listing that has its root open.
pub struct Scan {
    path: PathBuf,
    options: ListingOptions,
    tuning: Tuning,
    root: Arc<DirectoryHandle>,
    identity: DirectoryIdentity,
    pool: ScanPool<ScanJob>,
}

impl Scan {
    /// Opens the directory `path`.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be opened as a directory.
    pub fn open(path: &Path, options: &ListingOptions) -> Result<Self> {
        let fail = |error| Error::at(path, b"", error);
        let options = &options.with_types_to_enter();
        let root = DirectoryHandle::root(path, &Arc::new(AtomicUsize::new(0))).map_err(fail)?;
        let tuning = Tuning::of_open(&root, options).map_err(fail)?;
        let identity = DirectoryIdentity::of(&root).map_err(fail)?;
        let pool = ScanPool::new(tuning.threads);
        Ok(Self { path: path.to_owned(), options: *options, tuning, root: Arc::new(root), identity, pool })
    }

    /// Settings of this listing, chosen for its file system and options.
    #[must_use]
    pub fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    /// Whether each worker changes its working directory to the directory whose entries it
    /// examines. This pays if every entry needs a system call and the file system is local.
    fn changes_directory(&self) -> bool {
        self.options.detail.has_stats() && self.tuning.file_system.reach == FileSystemReach::Local
    }

    /// Lists everything, as [`scan`] does. The calling thread is the first worker, unless workers
    /// change their working directories.
    pub fn run<V: Visitor + Send>(self, visitor: impl Fn() -> V + Sync) -> Vec<V> {
        let above = Some(Arc::new(DirectoryChain { identity: self.identity, above: None }));
        self.pool
            .push(0, ScanJob::Read(DirectoryCursor::new(Arc::clone(&self.root), Vec::new(), 0, true, above)));
        let home = if self.changes_directory() { thread_cwd::here() } else { None };
        let crew = Crew { scan: &self, visitor, home, done: Mutex::default() };
        std::thread::scope(|scope| {
            if crew.home.is_none() || !crew.start(scope, 0) {
                crew.work(scope, 0, ThreadCwd::shared());
            }
        });
        crew.done.into_inner()
    }
}

/// The threads of one listing.
struct Crew<'env, V, F> {
    scan: &'env Scan,
    visitor: F,
    /// The working directory of the process, if workers change theirs.
    home: Option<OwnedFd>,
    done: Mutex<Vec<V>>,
}

impl<V: Visitor + Send, F: Fn() -> V + Sync> Crew<'_, V, F> {
    /// Works as worker `index` until nothing is left.
    fn work<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, index: usize, thread_cwd: ThreadCwd<'_>) {
        let pool = &self.scan.pool;
        let _guard = StopOnPanic(pool);
        let mut worker = Worker::new(self.scan, index, (self.visitor)(), thread_cwd);
        loop {
            let job = pool.take(index).or_else(|| {
                worker.flush();
                pool.wait(index)
            });
            let Some(job) = job else { break };
            worker.run(job, &|| self.enlist(scope));
            pool.finish();
        }
        worker.flush();
        self.done.lock().push(worker.into_visitor());
    }

    /// Starts one more thread if it would find work. If none can be started, the listing is slower
    /// but complete.
    fn enlist<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        if let Some(index) = self.scan.pool.enlist() {
            self.start(scope, index);
        }
    }

    /// Starts worker `index` on its own thread. False if no thread can be started.
    fn start<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, index: usize) -> bool {
        let begin = move || {
            let thread_cwd = self.home.as_ref().map_or_else(ThreadCwd::shared, ThreadCwd::own);
            self.work(scope, index, thread_cwd);
        };
        Builder::new().name("listing".into()).spawn_scoped(scope, begin).is_ok()
    }
}

/// Stops the other workers when a visitor panics: they would wait for its job for ever.
struct StopOnPanic<'a>(&'a ScanPool<ScanJob>);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

#[cfg(test)]
mod tests;
