//! Implements the FUSE protocol: turns the kernel's requests into file operations, and their
//! results into replies. Only this module uses `fuser`, and only here are errors turned into error
//! numbers.
//!
//! A request that can be answered from memory is answered on the thread that received it. A request
//! that has to wait is passed to the blocking pool. A read is answered by the thread that fetches
//! its bytes. So a few threads serve any number of readers.

mod opening;
mod prune;
mod reply;
mod session;
mod splice;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fuser::{
    Errno, FileHandle, Filesystem, FopenFlags, INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags,
    ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyXattr, Request,
};

use crate::blocking_pool::BlockingPool;
use crate::dir_handles::{DirHandles, NamedEntry};
use crate::error::{Error, Result};
use crate::filesystem::{FileSystem, LookupResult};
use crate::inodes::{Fullness, Ino};
use crate::operations::{MountOperation, OperationOutcome};
use crate::readdir::ListingFreshness;
use crate::xattr::Attribute;
use session::InodeForgetter;
pub(crate) use session::ServedMount;

use opening::FileOpener;
use reply::{FailableReply, add, add_with_attributes, answer_lookup, answer_sized, attributes};
use splice::ReplySplicer;

/// Maximum number of read-ahead requests that the kernel may have in flight for all readers
/// together. The kernel's default of 12 is enough for three readers.
const MAX_BACKGROUND_REQUESTS: u16 = 512;
/// Maximum length of a read, bytes. It is the largest power of two that fits, with a header, into a
/// pipe of the size that any process may have.
const LARGEST_READ: u32 = 512 << 10;
/// Time for which the kernel may keep the attributes of an inode. A changed object is another
/// inode. The time of a directory may change: each reply to a lookup replaces it.
const ATTRIBUTE_VALIDITY: Duration = Duration::from_secs(86_400);

/// Number of blocks of 4 KiB that a mount reports as its size and as free (1 PiB), and number of
/// files, as in rclone (<https://github.com/rclone/rclone/blob/master/cmd/mount/fs.go>,
/// 2026-11-27). A store does not report how much data it contains. If the numbers were 0, `df`
/// would leave the mount out, and programs that check for free space would refuse it
/// (<https://github.com/awslabs/mountpoint-s3/issues/710>).
const REPORTED_BLOCKS: u64 = (1 << 50) / 4096;
const REPORTED_FILES: u64 = 1_000_000_000;

/// Maximum length of a name, bytes. The kernel passes on names of up to 1,024 bytes.
const MAX_NAME_LENGTH: usize = 255;

/// Whether the kernel reads hydrated files directly (FUSE passthrough).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passthrough {
    /// Every read passes through this process.
    Off,
    /// The kernel reads files directly if they are on an ordinary file system.
    Plain,
    /// The kernel also reads files on a file system that is stacked on others (overlayfs). The
    /// mount itself then cannot be a layer of an overlayfs.
    Stacked,
}

/// The FUSE interface of a file system.
pub(crate) struct Fuse {
    core: Arc<FileSystem>,
    pool: BlockingPool,
    opening: Arc<FileOpener>,
    forgetting: Arc<InodeForgetter>,
    splicing: Arc<ReplySplicer>,
    directories: Arc<DirHandles>,
    passthrough: Passthrough,
}

impl Fuse {
    pub(crate) fn new(core: Arc<FileSystem>, pool: BlockingPool, passthrough: Passthrough) -> Self {
        let directories = Arc::new(DirHandles::default());
        let opening = Arc::new(FileOpener::new(Arc::clone(&core), pool.clone()));
        Self {
            core,
            pool,
            opening,
            forgetting: Arc::default(),
            splicing: Arc::default(),
            directories,
            passthrough,
        }
    }

    /// Looks a name up among the names that a listing has just returned. Used for directories that
    /// are too wide to be kept.
    fn lookup_listed(&self, parent: Ino, name: &[u8]) -> Option<Result<LookupResult>> {
        if self.core.inodes.fullness() == Fullness::Room {
            return None;
        }
        let directory = self.core.directory(parent).ok()?;
        let (listed, valid) = self.directories.recent(&directory.path, name, self.core.ttl)?;
        self.core.lookup_listed(parent, &listed, valid).transpose()
    }

    /// Runs `work` on a thread that may wait, counts the operation, and replies in time: with the
    /// result of `work`, or with EIO at the deadline.
    fn run_in_pool<R: FailableReply, T: 'static>(
        &self,
        operation: MountOperation,
        what: impl FnOnce() -> String + Send + 'static,
        reply: R,
        work: impl FnOnce(&FileSystem) -> Result<T> + Send + 'static,
        answer: impl FnOnce(&FileSystem, R, T) + Send + 'static,
    ) {
        let core = Arc::clone(&self.core);
        let answering = Arc::clone(&core);
        let begun = Instant::now();
        let work = move || {
            let result = work(&core);
            core.operations.count(operation, begun, OperationOutcome::from(&result), what);
            result
        };
        let answer = move |reply: R, result: Result<T>| match result {
            Ok(done) => answer(&answering, reply, done),
            Err(error) => reply.fail(&error),
        };
        self.pool.run_with_deadline(reply, work, answer, move |reply| {
            reply.fail(&Error::Deadline { what: operation.word(), seconds: begun.elapsed().as_secs() });
        });
    }
}

impl Filesystem for Fuse {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // An older kernel may lack some of these capabilities. The mount then works, but is slower.
        for wanted in [
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_ASYNC_DIO,
        ] {
            let _ = config.add_capabilities(wanted);
        }
        // Setting these values cannot fail, because both are within the library's limits.
        let _ = config.set_max_background(MAX_BACKGROUND_REQUESTS);
        let _ = config.set_max_write(LARGEST_READ);
        let depth = match self.passthrough {
            Passthrough::Off => {
                self.opening.refuse();
                return Ok(());
            }
            Passthrough::Plain => 1,
            Passthrough::Stacked => 2,
        };
        if config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_err()
            || config.set_max_stack_depth(depth).is_err()
        {
            self.opening.refuse();
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name.len() > MAX_NAME_LENGTH {
            return reply.error(Errno::ENAMETOOLONG);
        }
        let begun = Instant::now();
        self.bound_memory();
        let known = self.core.lookup_here(parent.0, name.as_bytes());
        if let Some(found) = known.or_else(|| self.lookup_listed(parent.0, name.as_bytes())) {
            self.core.operations.count(
                MountOperation::Lookup,
                begun,
                OperationOutcome::from(&found),
                String::new,
            );
            match found {
                Ok(found) => answer_lookup(&self.core, reply, found),
                Err(error) => reply.fail(&error),
            }
            return;
        }
        let (name, shown) = (name.as_bytes().to_vec(), name.to_os_string());
        let what = move || shown.to_string_lossy().into_owned();
        let work = move |core: &FileSystem| core.lookup(parent.0, &name);
        self.run_in_pool(MountOperation::Lookup, what, reply, work, answer_lookup);
    }

    fn forget(&self, _: &Request, ino: INodeNo, lookups: u64) {
        self.core.inodes.forget(ino.0, lookups);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.core.inodes.attributes(ino.0) {
            Ok(found) => reply.attr(&ATTRIBUTE_VALIDITY, &attributes(&self.core, found)),
            Err(error) => reply.fail(&error),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.opening.open(ino.0, reply);
    }

    fn read(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let reader = match self.opening.handles.get(handle.0) {
            Ok(reader) => reader,
            Err(error) => return reply.fail(&error),
        };
        let (core, begun) = (Arc::clone(&self.core), Instant::now());
        self.core.note_read(&reader.node, offset, size);
        let id = request.unique();
        let reply = match self
            .splicing
            .answer_read(id, reply, size, || reader.handle.pin_blocks(offset, size as usize))
        {
            Ok(bytes) => {
                core.operations.bytes.fetch_add(bytes, Ordering::Relaxed);
                core.operations.count(MountOperation::Read, begun, OperationOutcome::Done, String::new);
                return;
            }
            Err(reply) => reply,
        };
        if let Some(error) = reader.last_failure.error_to_repeat(begun) {
            return reply.fail(&error.into());
        }
        let finished_read = Arc::clone(&reader);
        let done = move |result: firstbyte_hydrate::Result<&[u8]>| {
            let (outcome, node) = (OperationOutcome::from(&result), &finished_read.node);
            match result {
                Ok(bytes) => {
                    core.operations.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                    reply.data(bytes);
                }
                Err(error) => {
                    core.note_stale(node, &error);
                    finished_read.last_failure.record_failure(&error, begun, Instant::now());
                    let error = Error::from(error);
                    tracing::warn!("read of {} at {offset}: {error}", node.name());
                    reply.fail(&error);
                }
            }
            core.operations
                .count(MountOperation::Read, begun, outcome, || format!("{} at {offset}", node.name()));
        };
        reader.handle.read_then(offset, size as usize, Box::new(done));
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.opening.handles.close(handle.0);
        self.core.operations.open.fetch_sub(1, Ordering::Relaxed);
        reply.ok();
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.core.open_directory(ino.0) {
            Ok(stream) => {
                // The kernel keeps the names that it reads. It drops them when the directory is
                // opened again, unless FOPEN_KEEP_CACHE says that they are still valid.
                let keep = match stream.freshness {
                    ListingFreshness::InKernel => FopenFlags::FOPEN_KEEP_CACHE,
                    ListingFreshness::Unknown => FopenFlags::empty(),
                };
                let handle = self.directories.insert(stream);
                reply.opened(FileHandle(handle), FopenFlags::FOPEN_CACHE_DIR | keep);
            }
            Err(error) => reply.fail(&error),
        }
    }

    fn readdir(&self, _: &Request, ino: INodeNo, handle: FileHandle, offset: u64, reply: ReplyDirectory) {
        let stream = match self.directories.get(handle.0) {
            Ok(stream) => stream,
            Err(error) => return reply.fail(&error),
        };
        let directory = Arc::clone(&stream);
        let work = move |_: &FileSystem| stream.names(ino.0, offset);
        let answer = move |_: &FileSystem, mut reply: ReplyDirectory, names: Vec<NamedEntry>| {
            directory.adapt_reply_size(
                names.iter().take_while(|named| !add(named, &mut reply)).count(),
                names.len(),
            );
            reply.ok();
        };
        self.run_in_pool(MountOperation::ReadDirectory, String::new, reply, work, answer);
    }

    fn readdirplus(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        let stream = match self.directories.get(handle.0) {
            Ok(stream) => stream,
            Err(error) => return reply.fail(&error),
        };
        let directory = Arc::clone(&stream);
        let work = move |core: &FileSystem| stream.names_with_attributes(&core.source, ino.0, offset);
        self.bound_memory();
        let answer = move |core: &FileSystem, mut reply: ReplyDirectoryPlus, names: Vec<NamedEntry>| {
            let path = directory.path();
            let mut full = |named: &NamedEntry| add_with_attributes(core, path, named, &mut reply);
            directory.adapt_reply_size(names.iter().take_while(|named| !full(named)).count(), names.len());
            reply.ok();
        };
        self.run_in_pool(MountOperation::ReadDirectory, String::new, reply, work, answer);
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.directories.remove(handle.0);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(
            REPORTED_BLOCKS,
            REPORTED_BLOCKS,
            REPORTED_BLOCKS,
            REPORTED_FILES,
            REPORTED_FILES,
            4096,
            MAX_NAME_LENGTH as u32,
            4096,
        );
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        match self.core.attribute(ino.0, name.as_bytes()) {
            Ok(Attribute::Value(value)) => answer_sized(reply, size, value.as_bytes()),
            Ok(Attribute::Missing) => reply.error(Errno::NO_XATTR),
            Ok(Attribute::Unsupported) => reply.error(Errno::EOPNOTSUPP),
            Err(error) => reply.fail(&error),
        }
    }

    fn listxattr(&self, _: &Request, _: INodeNo, size: u32, reply: ReplyXattr) {
        // The reply has no names, because attributes are readable by name only: see `xattr`.
        answer_sized(reply, size, b"");
    }
}
