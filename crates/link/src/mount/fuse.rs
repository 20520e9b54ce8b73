//! Speaks the FUSE protocol: turns requests of the kernel into calls of the mirror, and the results
//! into replies, which the wire sends. Only this file uses `fuser`, and only here errors become
//! error numbers.

use std::ffi::OsStr;
use std::fs::{FileType as Kind, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, Request, Session,
};

use super::counters::MountCounters;
use super::mirror::{Mirror, PageValidity};
use super::wire::ReplyWire;

/// Number of threads of a mount that handle requests. These threads do not wait for the wire.
const REQUEST_THREADS: usize = 4;

/// Maximum number of read-ahead requests that the kernel keeps in flight, for all readers together.
const MAX_BACKGROUND_READS: u16 = 128;

/// Time for which the kernel caches names and attributes. It is zero, so a client sends as many
/// requests as without a cache.
const CACHE_VALIDITY: Duration = Duration::ZERO;

/// A client, that is, one mount of the mirror.
pub(super) struct MirrorClient {
    pub(super) mirror: Arc<Mirror>,
    pub(super) wire: Arc<ReplyWire>,
    pub(super) counters: Arc<MountCounters>,
    /// The index of the client on the wire.
    pub(super) number: usize,
}

/// A mount that is being served.
#[derive(Debug)]
pub(super) struct ServedMirror(BackgroundSession);

impl ServedMirror {
    /// Waits until the mount is unmounted and all files on it are closed.
    pub(super) fn join(self) -> io::Result<()> {
        self.0.join()
    }
}

impl MirrorClient {
    /// Mounts the mirror at `directory`, and serves it. `source` is the name of the mount in the
    /// mount table.
    pub(super) fn mount(self, directory: &Path, source: &str, subtype: &str) -> io::Result<ServedMirror> {
        let mut config = Config::default();
        // The helper program would take a comma for the end of the name.
        let name = MountOption::FSName(source.replace(',', "_"));
        config.mount_options = vec![MountOption::RO, name, MountOption::CUSTOM(format!("subtype={subtype}"))];
        config.n_threads = Some(REQUEST_THREADS);
        config.clone_fd = true;
        Ok(ServedMirror(Session::new(self, directory, &config)?.spawn()?))
    }

    /// Counts a completed request, and sends the reply one round trip after the request began.
    fn answer(&self, began: Instant, send: impl FnOnce() + Send + 'static) {
        self.counters.count_request();
        self.wire.delay(send, began);
    }
}

impl Filesystem for MirrorClient {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Older kernels lack these capabilities. There, the requests of a client wait for each
        // other.
        for wanted in [InitFlags::FUSE_PARALLEL_DIROPS, InitFlags::FUSE_ASYNC_DIO] {
            let _ = config.add_capabilities(wanted);
        }
        // Cannot fail: the value is within the limit of the library.
        let _ = config.set_max_background(MAX_BACKGROUND_READS);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let began = Instant::now();
        let found = self.mirror.find(parent.0, name);
        self.answer(began, move || match found {
            Ok((ino, found)) => reply.entry(&CACHE_VALIDITY, &attributes(ino, &found), Generation(0)),
            Err(error) => reply.error(Errno::from(error)),
        });
    }

    fn forget(&self, _: &Request, ino: INodeNo, lookups: u64) {
        self.mirror.forget(ino.0, lookups);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let began = Instant::now();
        let found = self.mirror.metadata(ino.0);
        self.answer(began, move || match found {
            Ok(found) => reply.attr(&CACHE_VALIDITY, &attributes(ino.0, &found)),
            Err(error) => reply.error(Errno::from(error)),
        });
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let began = Instant::now();
        let target = self.mirror.read_link(ino.0);
        self.answer(began, move || match target {
            Ok(target) => reply.data(target.as_os_str().as_bytes()),
            Err(error) => reply.error(Errno::from(error)),
        });
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let began = Instant::now();
        let opened = self.mirror.open(ino.0);
        self.answer(began, move || match opened {
            Ok((handle, PageValidity::Valid)) => {
                reply.opened(FileHandle(handle), FopenFlags::FOPEN_KEEP_CACHE)
            }
            Ok((handle, PageValidity::Stale)) => reply.opened(FileHandle(handle), FopenFlags::empty()),
            Err(error) => reply.error(Errno::from(error)),
        });
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let began = Instant::now();
        match self.mirror.read(handle.0, offset, size as usize) {
            Ok(bytes) => {
                let length = bytes.len() as u64;
                self.counters.count_request();
                self.counters.count_read();
                let counters = Arc::clone(&self.counters);
                let send = move || {
                    counters.count_sent(length);
                    reply.data(&bytes);
                };
                self.wire.meter(self.number, length, send, began);
            }
            Err(error) => self.answer(began, move || reply.error(Errno::from(error))),
        }
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
        // Neither delayed nor counted, because the kernel does not wait for this reply.
        self.mirror.close(handle.0);
        reply.ok();
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let began = Instant::now();
        let opened = self.mirror.open_directory(ino.0);
        self.answer(began, move || match opened {
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::empty()),
            Err(error) => reply.error(Errno::from(error)),
        });
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let began = Instant::now();
        let entries = self.mirror.entries(handle.0);
        self.answer(began, move || match entries {
            Ok(entries) => {
                let seen = usize::try_from(offset).unwrap_or(usize::MAX);
                for (index, entry) in entries.iter().enumerate().skip(seen) {
                    let kind = entry.kind.map_or(FileType::Directory, file_type);
                    if reply.add(INodeNo(entry.ino), index as u64 + 1, kind, &entry.name) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(error) => reply.error(Errno::from(error)),
        });
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.mirror.close_directory(handle.0);
        reply.ok();
    }

    fn statfs(&self, _: &Request, ino: INodeNo, reply: ReplyStatfs) {
        let began = Instant::now();
        let space = self.mirror.space(ino.0);
        self.answer(began, move || match space {
            Ok(of) => {
                let small = |value: i64| u32::try_from(value).unwrap_or(u32::MAX);
                let (block, name, fragment) = (small(of.f_bsize), small(of.f_namelen), small(of.f_frsize));
                reply.statfs(
                    of.f_blocks,
                    of.f_bfree,
                    of.f_bavail,
                    of.f_files,
                    of.f_ffree,
                    block,
                    name,
                    fragment,
                );
            }
            Err(error) => reply.error(Errno::from(error)),
        });
    }
}

fn file_type(kind: Kind) -> FileType {
    match kind {
        kind if kind.is_dir() => FileType::Directory,
        kind if kind.is_symlink() => FileType::Symlink,
        kind if kind.is_fifo() => FileType::NamedPipe,
        kind if kind.is_socket() => FileType::Socket,
        kind if kind.is_block_device() => FileType::BlockDevice,
        kind if kind.is_char_device() => FileType::CharDevice,
        _ => FileType::RegularFile,
    }
}

fn attributes(ino: u64, found: &Metadata) -> FileAttr {
    let time = |time: io::Result<SystemTime>| time.unwrap_or(UNIX_EPOCH);
    let changed = u64::try_from(found.ctime()).unwrap_or(0);
    let changed = Duration::new(changed, u32::try_from(found.ctime_nsec()).unwrap_or(0));
    FileAttr {
        ino: INodeNo(ino),
        size: found.size(),
        blocks: found.blocks(),
        atime: time(found.accessed()),
        mtime: time(found.modified()),
        ctime: UNIX_EPOCH + changed,
        crtime: UNIX_EPOCH,
        kind: file_type(found.file_type()),
        perm: (found.mode() & 0o7777) as u16,
        nlink: u32::try_from(found.nlink()).unwrap_or(u32::MAX),
        uid: found.uid(),
        gid: found.gid(),
        rdev: u32::try_from(found.rdev()).unwrap_or(0),
        blksize: 4096,
        flags: 0,
    }
}
