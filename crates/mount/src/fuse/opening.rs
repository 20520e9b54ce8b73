//! Opens files. An open is answered at once or, for files small enough for `--eager`, after the
//! file was hydrated; the kernel then reads the hydrated file directly. A packed file has no file
//! of its own in the cache. Its content is given to the kernel with the first open, which costs
//! less than the read request that the kernel would otherwise send.
//!
//! An open that is answered at once costs nothing, but every byte that is read for the first time
//! passes through this process. A program that reads nearly all of a file, or maps it into memory,
//! is faster if the open waits for the whole file: see
//! [`MountOptions::eager`](crate::MountOptions::eager).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use firstbyte_hydrate::{Backing, File, HydrationItem, HydrationJob};
use fuser::{BackingId, FileHandle, FopenFlags, INodeNo, Notifier, ReplyOpen};

use super::reply::FailableReply;
use crate::blocking_pool::BlockingPool;
use crate::filesystem::FileSystem;
use crate::handles::{HandleTable, InodeReadMode};
use crate::inodes::{Ino, Node};
use crate::operations::{MountOperation, OperationOutcome};
use crate::reader::OpenFile;

/// Minimum and maximum interval at which a file is checked for being complete.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(1);
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A hydrated file that the kernel reads directly.
pub(super) struct PassthroughFile {
    backing_id: BackingId,
    /// Prevents the file from being evicted.
    _file: Backing,
}

pub(super) struct FileOpener {
    core: Arc<FileSystem>,
    pub(super) handles: Arc<HandleTable<OpenFile, PassthroughFile>>,
    pool: BlockingPool,
    /// True if the kernel has refused to pass files through.
    is_refused: AtomicBool,
    /// The connection through which content is given to the kernel. Not set until the file system
    /// is mounted.
    pub(super) notifier: OnceLock<Notifier>,
}

impl FileOpener {
    pub(super) fn new(core: Arc<FileSystem>, pool: BlockingPool) -> Self {
        let (handles, is_refused) = (Arc::new(HandleTable::new()), AtomicBool::new(false));
        Self { core, pool, handles, is_refused, notifier: OnceLock::new() }
    }

    /// Records that the kernel passes no file through.
    pub(super) fn refuse(&self) {
        self.is_refused.store(true, Ordering::Relaxed);
    }

    /// Opens an inode. Replies at once, or after the file was hydrated.
    pub(super) fn open(self: &Arc<Self>, ino: Ino, reply: ReplyOpen) {
        let begun = Instant::now();
        let reader = self.core.open(ino);
        self.core.operations.count(MountOperation::Open, begun, OperationOutcome::from(&reader), String::new);
        let reader = match reader {
            Ok(reader) => reader,
            Err(error) => return reply.fail(&error),
        };
        match self.start_hydration(ino, &reader) {
            None => self.answer(ino, reader, reply),
            Some(job) => {
                let (done, late, deadline) = (Arc::clone(self), Arc::clone(self), self.pool.deadline());
                let file = reader.handle.file().clone();
                self.pool.run_with_deadline(
                    (reply, reader),
                    move || {
                        // The job itself ends later, after its bytes were written to the disk.
                        while begun.elapsed() < deadline && !file.is_complete() {
                            let progress = job.wait_for_more(
                                (begun.elapsed() / 8).clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL),
                            );
                            let failed =
                                progress.failed.iter().any(|failure| failure.location == *file.location());
                            if progress.is_over || failed {
                                break;
                            }
                        }
                    },
                    // The reply is the same if the file is not complete by now: a read of a missing
                    // byte requests it again, and reports an error if that fails.
                    move |(reply, reader), ()| done.answer(ino, reader, reply),
                    move |(reply, reader)| late.answer(ino, reader, reply),
                );
            }
        }
    }

    /// Starts to hydrate a file and then the next file of its series. Returns the job for which the
    /// open has to wait, or `None` if the open need not wait.
    fn start_hydration(&self, ino: Ino, reader: &OpenFile) -> Option<HydrationJob> {
        let file = reader.handle.file();
        // Waiting is useful only if the kernel then reads the file directly.
        if !self.core.prefetch.is_eager(file.size()) || self.is_refused() || self.handles.is_open(ino) {
            return None;
        }
        let is_whole = file.is_complete();
        let next = self.core.prefetch.next_in_series(&reader.node.path);
        if is_whole && next.is_none() {
            return None;
        }
        let (location, version) = (file.location().clone(), Some(file.version().clone()));
        let this = (!is_whole).then_some(HydrationItem { location, version, range: None });
        // The job looks up the next file only after the first one is complete.
        let prefetch = Arc::clone(&self.core.prefetch);
        let next = next.into_iter().filter_map(move |path| prefetch.wanted(&path));
        let job = self.core.hydrator.hydrate(Box::new(this.into_iter().chain(next).map(Ok)), None);
        job.inspect_err(|error| tracing::warn!("not waited for: {error}")).ok().filter(|_| !is_whole)
    }

    fn answer(&self, ino: Ino, reader: OpenFile, reply: ReplyOpen) {
        let operations = &self.core.operations;
        operations.open.fetch_add(1, Ordering::Relaxed);
        let (node, file) = (Arc::clone(&reader.node), reader.handle.file().clone());
        // Until the closure returns, no other open of this inode gets its reply. So no read of the
        // inode has to wait for pages that are being given to the kernel.
        let (handle, mode) = self.handles.open(ino, reader, || {
            self.hand_over(ino, &node, &file);
            self.pass_through(&file, &reply)
        });
        match mode {
            // The content of an inode never changes, so its pages stay valid. There is no data to
            // flush on close.
            InodeReadMode::Cached => {
                let flags = FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH;
                reply.opened(FileHandle(handle), flags);
            }
            InodeReadMode::Direct(file) => {
                self.core.note_whole(&node);
                operations.direct_opens.fetch_add(1, Ordering::Relaxed);
                reply.opened_passthrough(FileHandle(handle), FopenFlags::FOPEN_NOFLUSH, &file.backing_id);
            }
        }
        self.core.prefetch.file_opened(&node, &self.pool);
    }

    /// Returns the cached file for the kernel to read, if the file is hydrated and the kernel
    /// supports this.
    fn pass_through(&self, file: &File, reply: &ReplyOpen) -> Option<PassthroughFile> {
        if self.is_refused() {
            return None;
        }
        let file = file.backing()?;
        match reply.open_backing(&file) {
            Ok(backing_id) => Some(PassthroughFile { backing_id, _file: file }),
            Err(error) => {
                self.refuse();
                tracing::info!("hydrated files are read through the page cache: passthrough: {error}");
                None
            }
        }
    }

    /// Puts the content of a small hydrated file into the kernel's page cache, once per inode. If
    /// the kernel later drops pages of the file, it requests them again as usual.
    fn hand_over(&self, ino: Ino, node: &Node, file: &File) {
        let Some(notifier) = self.notifier.get() else { return };
        let store = |content: &[u8]| {
            self.core.inodes.hand_over(ino) && notifier.store(INodeNo(ino), 0, content).is_ok()
        };
        if file.with_packed(store) == Some(true) {
            self.core.note_whole(node);
            self.core.operations.given_contents.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
    }
}
