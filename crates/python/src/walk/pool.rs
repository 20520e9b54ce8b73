//! Runs threads that read the directories that a walk will request, nearest first.
//!
//! The work of the pool is the walk's own stack. Threads take the entry nearest to the top of the
//! stack that no thread has begun. The walk takes the top entry, whether it has been read or not.
//! If no thread has begun that entry, the walk reads the directory itself, so there is no deadlock.
//! Threads that have read everything within [`READ_WINDOW`] sleep until directories are added,
//! until the walk takes a directory that was not read ahead, or until the walk has taken
//! [`TAKEN_BEFORE_WAKING`] directories. Waking threads for each directory would cost more than it
//! saves.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use firstbyte_listing::{Batch, FileSystemReach, Tuning};
use rustix_futex_sync::{Condvar, Mutex, MutexGuard};

use super::contents::Contents;

/// Threads read only directories within this many entries from the top of the stack. On a remote
/// file system, that is some directories for each thread.
const READ_WINDOW: usize = 256;

/// Number of directories at the top of the stack that are left to the walk itself on a local file
/// system. The walk reads a directory about as fast as a thread would. Without this distance, the
/// walk would wait for a directory that a thread has just begun.
const LEFT_TO_LOCAL_WALK: usize = 4;

/// Number of directories that were read ahead and that the walk takes before sleeping threads are
/// woken.
const TAKEN_BEFORE_WAKING: usize = READ_WINDOW / 4;

/// Maximum number of bytes that are read and not yet requested.
const MAX_WAITING_BYTES: usize = 16 << 20;

/// The threads and their work.
pub(super) struct WalkPool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// The process that started the threads. A forked child has the stack but no threads.
    process: u32,
}

struct Shared {
    stack: Mutex<Stack>,
    /// Wakes threads when there is work, or when the walk is over.
    work: Condvar,
    /// Wakes the walk when the directory for which it waits has been read.
    done: Condvar,
    /// Bytes of the buffer for one read of a directory.
    buffer: usize,
}

#[derive(Default)]
struct Stack {
    directories: Vec<Entry>,
    /// Bytes that are read and not yet requested.
    waiting: usize,
    /// Contents that the walk has processed, whose memory is reused.
    #[expect(
        clippy::vec_box,
        reason = "they come and go in their boxes, so that an entry of the stack is small"
    )]
    spent: Vec<Box<Contents>>,
    /// Number of directories at the top of the stack that threads leave to the walk.
    left_to_walk: usize,
    /// Number of sleeping threads. `taken` counts the directories taken since the threads were
    /// woken.
    asleep: usize,
    taken: usize,
    /// True if the walk waits for a directory.
    waited_for: bool,
    is_over: bool,
}

/// A directory that the walk will request.
struct Entry {
    path: PathBuf,
    work: Work,
}

/// The state of a directory.
enum Work {
    Expected,
    Begun,
    /// Read. `None` if reading failed: the walk then reads the directory itself and reports the
    /// error.
    Done(Option<Box<Contents>>),
}

impl WalkPool {
    /// Starts as many threads as suit this file system.
    pub(super) fn new(tuning: &Tuning) -> Self {
        // On local disks, the walk itself keeps one processor busy, so there is one thread fewer.
        let (threads, left_to_walk) = match tuning.file_system.reach {
            FileSystemReach::Local => (tuning.threads.saturating_sub(1).clamp(1, 3), LEFT_TO_LOCAL_WALK),
            FileSystemReach::Remote => (tuning.threads, 1),
        };
        let stack = Mutex::new(Stack { left_to_walk, ..Stack::default() });
        let shared = Shared { stack, work: Condvar::new(), done: Condvar::new(), buffer: tuning.buffer };
        let shared = Arc::new(shared);
        let start = |number| {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new().name(format!("firstbyte-walk-{number}")).spawn(move || shared.serve())
        };
        // If fewer threads can be started, or none, the walk reads more directories itself.
        let workers = (0..threads).map_while(|number| start(number).ok()).collect();
        Self { shared, workers, process: std::process::id() }
    }

    /// Adds directories to the top of the stack. The last one is on top and is requested first.
    pub(super) fn expect(&self, paths: impl Iterator<Item = Vec<u8>>) {
        if self.process != std::process::id() {
            return;
        }
        let entry = |path| Entry { path: PathBuf::from(OsString::from_vec(path)), work: Work::Expected };
        let paths: Vec<_> = paths.map(entry).collect();
        let mut stack = self.shared.stack.lock();
        stack.directories.extend(paths);
        self.shared.wake(stack);
    }

    /// Takes `path` from the stack. Returns its contents if a thread has read them, or has begun to
    /// read them. The caller may give back earlier contents as `spent`.
    pub(super) fn take(&self, path: &Path, spent: Option<Box<Contents>>) -> Option<Box<Contents>> {
        if self.process != std::process::id() {
            return None;
        }
        let mut stack = self.shared.stack.lock();
        stack.spent.extend(spent);
        // Drops the directories above this one, which were expected but never requested.
        let place = stack.directories.iter().rposition(|entry| entry.path == path)?;
        while matches!(stack.directories.get(place), Some(Entry { work: Work::Begun, .. })) {
            stack.waited_for = true;
            stack = self.shared.done.wait(stack);
        }
        stack.waited_for = false;
        let taken = stack.directories.split_off(place);
        stack.waiting -= taken.iter().map(Entry::size).sum::<usize>();
        stack.taken += 1;
        let contents = match taken.into_iter().next() {
            Some(Entry { work: Work::Done(contents), .. }) => contents,
            _ => None,
        };
        if contents.is_none() || stack.taken >= TAKEN_BEFORE_WAKING {
            self.shared.wake(stack);
        }
        contents
    }
}

impl Drop for WalkPool {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // A forked child must not wait for threads that it does not have.
            return self.workers.drain(..).for_each(std::mem::forget);
        }
        self.shared.stack.lock().is_over = true;
        self.shared.work.notify_all();
        for worker in self.workers.drain(..) {
            // A panic need not be reported, because the walk itself reads the directories that the
            // thread has not read.
            let _ = worker.join();
        }
    }
}

impl Shared {
    /// Wakes sleeping threads, if there is work for them.
    fn wake(&self, mut stack: MutexGuard<'_, Stack>) {
        stack.taken = 0;
        let needed = stack.asleep > 0 && stack.next().is_some();
        drop(stack);
        if needed {
            self.work.notify_all();
        }
    }

    /// Runs a thread: reads directories until the walk is over.
    fn serve(&self) {
        let mut batch = Batch::new(self.buffer);
        let mut stack = self.stack.lock();
        while !stack.is_over {
            let Some(path) = stack.next().map(Entry::begin) else {
                stack.asleep += 1;
                stack = self.work.wait(stack);
                stack.asleep -= 1;
                continue;
            };
            let mut contents = stack.spent.pop().unwrap_or_default();
            drop(stack);
            let read = contents.read(&path, &mut batch);
            stack = self.stack.lock();
            stack.finish(&path, read.is_ok().then_some(contents));
            if stack.waited_for {
                self.done.notify_one();
            }
        }
    }
}

impl Stack {
    /// Returns the directory that a thread should read next. `None` if there is none, or no memory
    /// for it. Directories at the top of the stack are left to the walk.
    fn next(&mut self) -> Option<&mut Entry> {
        if self.waiting > MAX_WAITING_BYTES {
            return None;
        }
        self.directories
            .iter_mut()
            .rev()
            .skip(self.left_to_walk)
            .take(READ_WINDOW)
            .find(|entry| matches!(entry.work, Work::Expected))
    }

    fn finish(&mut self, path: &Path, contents: Option<Box<Contents>>) {
        let begun = |entry: &&mut Entry| matches!(entry.work, Work::Begun) && entry.path == path;
        // The entry is missing if the walk has dropped the directory.
        if let Some(entry) = self.directories.iter_mut().rfind(begun) {
            entry.work = Work::Done(contents);
            self.waiting += entry.size();
        }
    }
}

impl Entry {
    /// Marks the directory as begun. Returns its path.
    fn begin(&mut self) -> PathBuf {
        self.work = Work::Begun;
        self.path.clone()
    }

    /// Returns the bytes that are read and not yet requested.
    fn size(&self) -> usize {
        match &self.work {
            Work::Done(Some(contents)) => contents.size(),
            _ => 0,
        }
    }
}
