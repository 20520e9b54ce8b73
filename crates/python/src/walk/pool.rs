//! Threads that read the directories a walk will ask for, the next one first.
//!
//! The pool's work is the walk's own stack: threads take the topmost directories nobody has begun, the walk takes the
//! top one, read or not. Nothing can wait for itself: what no thread has begun, the walk reads. Two ceilings keep the
//! threads close to the walk: how deep in the stack they look, and how much may be waiting.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use firstbyte_listing::{Reach, Tuning};

use super::contents::Contents;

/// How far from the top of the stack a thread looks for work: a few for each of the threads a remote file system gets.
const WINDOW: usize = 64;

/// Bytes that may be read and not asked for.
const MOST: usize = 16 << 20;

/// The threads, and what they have to do.
pub(super) struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// A child of this process has the stack but not the threads.
    process: u32,
}

#[derive(Default)]
struct Shared {
    stack: Mutex<Stack>,
    /// Work came, was done, or is over.
    changed: Condvar,
}

#[derive(Default)]
struct Stack {
    directories: Vec<(PathBuf, Work)>,
    /// Bytes read and not asked for.
    waiting: usize,
    over: bool,
}

/// How far a directory is.
enum Work {
    Expected,
    Begun,
    /// Read; nothing if it could not be, which the walk will then find out itself.
    Done(Option<Contents>),
}

impl Pool {
    /// Starts the threads that are right for this file system.
    pub(super) fn new(tuning: &Tuning) -> Self {
        // On local disks the walk itself keeps one processor busy.
        let threads = match tuning.file_system.reach {
            Reach::Local => tuning.threads.saturating_sub(1).clamp(1, 3),
            Reach::Remote => tuning.threads,
        };
        let shared = Arc::<Shared>::default();
        let start = |number| {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new().name(format!("firstbyte-walk-{number}")).spawn(move || shared.work())
        };
        // With fewer threads than wished, or none, the walk reads more itself.
        let workers = (0..threads).map_while(|number| start(number).ok()).collect();
        Self { shared, workers, process: std::process::id() }
    }

    /// Adds directories to the top of the stack, so that the last one is asked for first.
    pub(super) fn expect(&self, paths: impl Iterator<Item = Vec<u8>>) {
        if self.process != std::process::id() {
            return;
        }
        let paths = paths.map(|path| (PathBuf::from(OsStr::from_bytes(&path)), Work::Expected));
        self.shared.lock().directories.extend(paths);
        self.shared.changed.notify_all();
    }

    /// Takes `path` from the stack: what is in it, if a thread has read it or is about to.
    pub(super) fn take(&self, path: &Path) -> Option<Contents> {
        if self.process != std::process::id() {
            return None;
        }
        let mut stack = self.shared.lock();
        // What lies above was expected and not asked for.
        let place = stack.directories.iter().rposition(|(expected, _)| expected == path)?;
        while matches!(stack.directories.get(place), Some((_, Work::Begun))) {
            stack = self.shared.changed.wait(stack).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        let taken = stack.directories.split_off(place);
        let size = |(_, work): &(PathBuf, Work)| match work {
            Work::Done(Some(contents)) => contents.size(),
            _ => 0,
        };
        stack.waiting -= taken.iter().map(size).sum::<usize>();
        drop(stack);
        self.shared.changed.notify_all();
        match taken.into_iter().next() {
            Some((_, Work::Done(contents))) => contents,
            _ => None,
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // Threads that are not here cannot be waited for.
            return self.workers.drain(..).for_each(std::mem::forget);
        }
        self.shared.lock().over = true;
        self.shared.changed.notify_all();
        for worker in self.workers.drain(..) {
            // A thread that panicked has nothing to tell: the walk reads what it did not.
            let _ = worker.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Stack> {
        self.stack.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A thread's life.
    fn work(&self) {
        let mut stack = self.lock();
        while !stack.over {
            let Some(path) = stack.begin() else {
                stack = self.changed.wait(stack).unwrap_or_else(|poisoned| poisoned.into_inner());
                continue;
            };
            drop(stack);
            let contents = Contents::read(&path).ok();
            stack = self.lock();
            stack.finish(&path, contents);
            self.changed.notify_all();
        }
    }
}

impl Stack {
    /// The directory to read next, if there is one and room for it.
    fn begin(&mut self) -> Option<PathBuf> {
        if self.waiting > MOST {
            return None;
        }
        let expected = |entry: &&mut (PathBuf, Work)| matches!(entry.1, Work::Expected);
        let (path, work) = self.directories.iter_mut().rev().take(WINDOW).find(expected)?;
        *work = Work::Begun;
        Some(path.clone())
    }

    fn finish(&mut self, path: &Path, contents: Option<Contents>) {
        let begun = |entry: &&mut (PathBuf, Work)| matches!(entry.1, Work::Begun) && entry.0 == path;
        // The walk may have dropped it.
        if let Some((_, work)) = self.directories.iter_mut().rfind(begun) {
            self.waiting += contents.as_ref().map_or(0, Contents::size);
            *work = Work::Done(contents);
        }
    }
}
