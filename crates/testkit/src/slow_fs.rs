//! A slow file system: mirrors a directory through FUSE, and delays and counts each request. It
//! emulates network storage on which names and attributes cost a round trip, without server-side
//! caches and bundled attributes. It answers as many requests at once as it has threads.
//!
//! It serves names and attributes only. Mounting needs root or `fusermount3`.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen,
    Request,
};

/// Requests answered at once: the default number of threads of a listing of remote storage.
const THREADS: usize = 16;

/// Validity of attributes in the kernel's cache: none, so that a listing sends as many requests as
/// on a cold client.
const KEPT: Duration = Duration::ZERO;

/// A mounted slow file system; dropping it unmounts.
#[derive(Debug)]
pub struct SlowFs {
    requests: Arc<AtomicU64>,
    /// Ends the session when dropped.
    _session: BackgroundSession,
}

impl SlowFs {
    /// Mounts a mirror of `source` at the directory `at`; each request takes `delay`.
    ///
    /// # Errors
    /// The mount failed.
    pub fn mount(source: &Path, at: &Path, delay: Duration) -> io::Result<Self> {
        let requests = Arc::new(AtomicU64::new(0));
        let files = Files {
            delay,
            requests: Arc::clone(&requests),
            paths: Mutex::new(HashMap::from([(INodeNo::ROOT.0, source.to_owned())])),
            open: Mutex::default(),
            handles: AtomicU64::new(1),
        };
        let mut config = Config::default();
        config.mount_options = vec![MountOption::RO, MountOption::FSName("slow".into())];
        config.n_threads = Some(THREADS);
        config.clone_fd = true;
        Ok(Self { requests, _session: fuser::spawn_mount(files, at, &config)? })
    }

    /// Requests answered so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

/// A directory entry.
type Named = (INodeNo, FileType, OsString);

struct Files {
    delay: Duration,
    requests: Arc<AtomicU64>,
    /// The paths of the inodes that the kernel knows.
    paths: Mutex<HashMap<u64, PathBuf>>,
    /// The entries of open directories, read when they were opened.
    open: Mutex<HashMap<u64, Vec<Named>>>,
    handles: AtomicU64,
}

impl Files {
    fn answer(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(self.delay);
    }

    fn path(&self, inode: INodeNo) -> io::Result<PathBuf> {
        lock(&self.paths).get(&inode.0).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn find(&self, parent: INodeNo, name: &OsStr) -> io::Result<FileAttr> {
        let path = self.path(parent)?.join(name);
        let attributes = attributes(&std::fs::symlink_metadata(&path)?);
        lock(&self.paths).insert(attributes.ino.0, path);
        Ok(attributes)
    }

    fn attributes(&self, inode: INodeNo) -> io::Result<FileAttr> {
        let mut found = attributes(&std::fs::symlink_metadata(self.path(inode)?)?);
        found.ino = inode;
        Ok(found)
    }

    fn list(&self, inode: INodeNo) -> io::Result<Vec<Named>> {
        let own = |name: &str| (inode, FileType::Directory, OsString::from(name));
        let mut found = vec![own("."), own("..")];
        for entry in std::fs::read_dir(self.path(inode)?)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            found.push((INodeNo(metadata.ino()), kind(&metadata), entry.file_name()));
        }
        Ok(found)
    }
}

impl Filesystem for Files {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.answer();
        match self.find(parent, name) {
            Ok(attributes) => reply.entry(&KEPT, &attributes, Generation(0)),
            Err(error) => reply.error(Errno::from(error)),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.answer();
        match self.attributes(inode) {
            Ok(attributes) => reply.attr(&KEPT, &attributes),
            Err(error) => reply.error(Errno::from(error)),
        }
    }

    fn readlink(&self, _: &Request, inode: INodeNo, reply: ReplyData) {
        self.answer();
        match self.path(inode).and_then(std::fs::read_link) {
            Ok(target) => reply.data(target.as_os_str().as_bytes()),
            Err(error) => reply.error(Errno::from(error)),
        }
    }

    fn opendir(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.answer();
        match self.list(inode) {
            Ok(found) => {
                let handle = self.handles.fetch_add(1, Ordering::Relaxed);
                lock(&self.open).insert(handle, found);
                reply.opened(FileHandle(handle), FopenFlags::empty());
            }
            Err(error) => reply.error(Errno::from(error)),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        self.answer();
        let open = lock(&self.open);
        let found = open.get(&handle.0).map_or(&[][..], Vec::as_slice);
        for (index, (inode, kind, name)) in found.iter().enumerate().skip(offset as usize) {
            if reply.add(*inode, index as u64 + 1, *kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        // Not delayed and not counted: the kernel does not wait for this request.
        lock(&self.open).remove(&handle.0);
        reply.ok();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn kind(metadata: &Metadata) -> FileType {
    match metadata.file_type() {
        kind if kind.is_dir() => FileType::Directory,
        kind if kind.is_symlink() => FileType::Symlink,
        kind if kind.is_fifo() => FileType::NamedPipe,
        kind if kind.is_socket() => FileType::Socket,
        kind if kind.is_block_device() => FileType::BlockDevice,
        kind if kind.is_char_device() => FileType::CharDevice,
        _ => FileType::RegularFile,
    }
}

fn attributes(metadata: &Metadata) -> FileAttr {
    let time = |time: io::Result<SystemTime>| time.unwrap_or(UNIX_EPOCH);
    FileAttr {
        ino: INodeNo(metadata.ino()),
        size: metadata.size(),
        blocks: metadata.blocks(),
        atime: time(metadata.accessed()),
        mtime: time(metadata.modified()),
        ctime: time(metadata.modified()),
        crtime: UNIX_EPOCH,
        kind: kind(metadata),
        perm: (metadata.mode() & 0o7777) as u16,
        nlink: metadata.nlink() as u32,
        uid: metadata.uid(),
        gid: metadata.gid(),
        rdev: metadata.rdev() as u32,
        blksize: 4096,
        flags: 0,
    }
}
