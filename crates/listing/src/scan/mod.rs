//! Lists a tree with several threads. Each thread reads directories into its own batch, and passes
//! the batch to its own visitor.
//!
//! The visitor of a worker processes the entries that the worker itself read, while they are in its
//! processor's cache. So entries do not pass through a queue. While one worker processes the
//! entries that it read from a large directory, another may read the next ones. A worker enters the
//! directories that it found before it continues with their parent. Since there is no queue, and
//! because of this order, memory is bounded: at each level of the tree only a few buffers of names
//! wait, however wide the tree is.

mod cursor;
mod pool;
mod thread_cwd;
mod worker;

use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread::{Builder, Scope};

use rustix_futex_sync::Mutex;

use crate::batch::Batch;
use crate::bounds::WalkBounds;
use crate::chain::{DirectoryChain, DirectoryIdentity};
use crate::error::{Error, Result};
use crate::open::DirectoryHandle;
use crate::options::ListingOptions;
use crate::tuning::{FileSystemReach, Tuning};
use cursor::{DirectoryCursor, ScanJob};
use pool::ScanPool;
use thread_cwd::ThreadCwd;
use worker::Worker;

/// Receives the batches of a listing. There is one visitor per thread.
pub trait Visitor {
    /// Processes a batch, which is then cleared and filled again. The visitor may put another batch
    /// in its place. `Break` stops all threads soon, each after at most one more batch.
    fn visit(&mut self, batch: &mut Batch) -> ControlFlow<()>;

    /// Returns true to list the contents of the directory `name`. Its parent is `directory`, a path
    /// from the root that is empty or ends in `/`. Called for each directory that the options allow
    /// to enter, before it is opened. The directory's own entry may be visited before or after the
    /// call.
    fn enters(&self, _directory: &[u8], _name: &[u8]) -> bool {
        true
    }
}

impl<F: FnMut(&mut Batch) -> ControlFlow<()>> Visitor for F {
    fn visit(&mut self, batch: &mut Batch) -> ControlFlow<()> {
        self(batch)
    }
}

/// Lists everything below the directory `root`, in no particular order, and returns once all
/// entries have been visited. Each thread calls `visitor` to make its own visitor. All visitors are
/// returned, so that the caller can combine their results. A thread's first batch is visited as
/// soon as it has an entry, later batches when they are nearly full or a millisecond old, or when
/// the thread has no other work.
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

/// A listing whose root is open.
pub struct Scan {
    path: PathBuf,
    options: ListingOptions,
    tuning: Tuning,
    root: Arc<DirectoryHandle>,
    identity: DirectoryIdentity,
    pool: ScanPool<ScanJob>,
    bounds: WalkBounds,
}

impl Scan {
    /// Opens the directory `path`.
    ///
    /// # Errors
    /// [`Error::Io`] if `path` cannot be opened as a directory.
    pub fn open(path: &Path, options: &ListingOptions) -> Result<Self> {
        Self::within(path, options, WalkBounds::default())
    }

    /// Opens the directory `path` for a listing within `bounds`.
    pub(crate) fn within(path: &Path, options: &ListingOptions, bounds: WalkBounds) -> Result<Self> {
        let fail = |error| Error::at(path, b"", error);
        let options = &options.with_types_to_enter();
        let root = DirectoryHandle::root(path, &Arc::new(AtomicUsize::new(0))).map_err(fail)?;
        let tuning = Tuning::of_open(&root, options).map_err(fail)?;
        let identity = DirectoryIdentity::of(&root).map_err(fail)?;
        let pool = ScanPool::new(tuning.threads);
        let (path, root) = (path.to_owned(), Arc::new(root));
        Ok(Self { path, options: *options, tuning, root, identity, pool, bounds })
    }

    /// Returns the settings of this listing, chosen for its file system and options.
    #[must_use]
    pub fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    /// Returns the open root.
    #[must_use]
    pub fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// True if each worker changes its working directory to the directory whose entries it
    /// examines. This saves time if every entry needs a system call and the file system is local.
    fn changes_directory(&self) -> bool {
        self.options.detail.has_stats() && self.tuning.file_system.reach == FileSystemReach::Local
    }

    /// Lists everything, as [`scan`] does. The calling thread is the first worker, unless workers
    /// change their working directories.
    pub fn run<V: Visitor + Send>(self, visitor: impl Fn() -> V + Sync) -> Vec<V> {
        let above = Some(Arc::new(DirectoryChain { identity: self.identity, above: None }));
        self.pool
            .push(0, ScanJob::Read(DirectoryCursor::new(Arc::clone(&self.root), Vec::new(), 0, true, above)));
        let home = if self.changes_directory() { thread_cwd::current() } else { None };
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
    /// Runs worker `index` until no job is left.
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

    /// Starts one more thread if there is work for it. If no thread can be started, the listing is
    /// slower but complete.
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

/// Stops the other workers when a visitor panics. Otherwise they would wait forever for the job of
/// the worker that panicked.
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
