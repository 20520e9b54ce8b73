//! How a file is opened: lazily, or, where it is not too large for that, when it is whole; and read by the kernel itself
//! where it is.
//!
//! A lazy open costs nothing, and every byte that is read for the first time passes through this process and twice through
//! memory. For a program that reads nearly all of a file, and memory-maps it, that costs more than waiting for the file at
//! once: so an open may be asked to wait ([`Options::eager`](crate::Options::eager)).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use firstbyte_hydrate::{Backing, File, Job, Wanted};
use fuser::{BackingId, FileHandle, FopenFlags, ReplyOpen};

use super::reply::Failing;
use crate::filesystem::FileSystem;
use crate::opens::{Opens, Way};
use crate::operations::{Operation, Outcome};
use crate::reader::Reader;
use crate::tree::Ino;
use crate::waiters::Waiters;

/// How often it is looked whether a file is whole: at first, and where it takes long.
const LOOK: Duration = Duration::from_millis(1);
const LATER: Duration = Duration::from_millis(10);

/// A hydrated file that the kernel reads by itself.
pub(super) struct Through {
    id: BackingId,
    /// Keeps the file from eviction.
    _file: Backing,
}

/// Opens files.
pub(super) struct Opening {
    core: Arc<FileSystem>,
    pub(super) opens: Arc<Opens<Reader, Through>>,
    waiters: Waiters,
    /// The kernel passes no file through.
    refused: AtomicBool,
}

impl Opening {
    pub(super) fn new(core: Arc<FileSystem>, waiters: Waiters) -> Self {
        Self { core, waiters, opens: Arc::new(Opens::new()), refused: AtomicBool::new(false) }
    }

    /// No file can be passed through.
    pub(super) fn refuse(&self) {
        self.refused.store(true, Ordering::Relaxed);
    }

    /// Opens an inode, and answers: at once, or when it is whole.
    pub(super) fn open(self: &Arc<Self>, ino: Ino, reply: ReplyOpen) {
        let begun = Instant::now();
        let reader = self.core.open(ino);
        self.core.operations.count(Operation::Open, begun, Outcome::from(&reader), String::new);
        let reader = match reader {
            Ok(reader) => reader,
            Err(error) => return reply.fail(&error),
        };
        match self.brought(ino, &reader) {
            None => self.answer(ino, reader, reply),
            Some(job) => {
                let (done, late, deadline) = (Arc::clone(self), Arc::clone(self), self.waiters.deadline());
                let file = reader.handle.file().clone();
                self.waiters.within(
                    (reply, reader),
                    move || {
                        // A job ends when what it brought is on the disk, too, which nobody has to wait for.
                        while begun.elapsed() < deadline && file.backing().is_none() {
                            let progress = job.wait_for_more((begun.elapsed() / 8).clamp(LOOK, LATER));
                            let failed =
                                progress.failed.iter().any(|failure| failure.location == *file.location());
                            if progress.is_over || failed {
                                break;
                            }
                        }
                    },
                    // Whole or not: what could not be brought is asked for again by its reader, who is told why it fails.
                    move |(reply, reader), ()| done.answer(ino, reader, reply),
                    move |(reply, reader)| late.answer(ino, reader, reply),
                );
            }
        }
    }

    /// Begins to bring here the whole of a file that is to be waited for, and behind it the next of its series; `None` where it
    /// is opened as it is.
    fn brought(&self, ino: Ino, reader: &Reader) -> Option<Job> {
        let file = reader.handle.file();
        // Without passing through nothing would be gained.
        if !self.core.is_eager(file.size()) || self.is_refused() || self.opens.is_open(ino) {
            return None;
        }
        let is_whole = file.backing().is_some();
        let next = self.core.series.open(&reader.node.path);
        if is_whole && next.is_none() {
            return None;
        }
        let (location, version) = (file.location().clone(), Some(file.version().clone()));
        let this = (!is_whole).then_some(Wanted { location, version, range: None });
        let core = Arc::clone(&self.core);
        // Looked up when its turn has come: nobody waits for it.
        let next = next.into_iter().filter_map(move |path| core.wanted_next(&path));
        let job = self.core.hydrator.hydrate(Box::new(this.into_iter().chain(next).map(Ok)), None);
        job.inspect_err(|error| tracing::warn!("not waited for: {error}")).ok().filter(|_| !is_whole)
    }

    fn answer(&self, ino: Ino, reader: Reader, reply: ReplyOpen) {
        let operations = &self.core.operations;
        operations.open.fetch_add(1, Ordering::Relaxed);
        let (node, file) = (Arc::clone(&reader.node), reader.handle.file().clone());
        let (handle, way) = self.opens.open(ino, reader, || self.through(&file, &reply));
        match way {
            // What an inode holds never changes, so its pages are good for ever; there is nothing to flush.
            Way::Cached => {
                let flags = FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH;
                reply.opened(FileHandle(handle), flags);
            }
            Way::Through(file) => {
                operations.through.fetch_add(1, Ordering::Relaxed);
                reply.opened_passthrough(FileHandle(handle), FopenFlags::FOPEN_NOFLUSH, &file.id);
            }
        }
        self.core.opened(&node, &self.waiters);
    }

    /// A local file for the kernel to read, where the inode is hydrated and the kernel takes it.
    fn through(&self, file: &File, reply: &ReplyOpen) -> Option<Through> {
        if self.is_refused() {
            return None;
        }
        let file = file.backing()?;
        match reply.open_backing(&file) {
            Ok(id) => Some(Through { id, _file: file }),
            Err(error) => {
                self.refuse();
                tracing::info!("hydrated files are read through the page cache: passthrough: {error}");
                None
            }
        }
    }

    fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }
}
