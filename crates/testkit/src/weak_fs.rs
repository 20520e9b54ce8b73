//! Mounts a directory by FUSE with one [`Weakness`] of another file system. With any weakness but
//! [`Weakness::FoldsCaseAsFat`], a rename cannot refuse to replace: renames with flags fail.
//!
//! Requests are answered one at a time. An inode has the same number and times as the underlying
//! file.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, Session, TimeOrNow, WriteFlags,
};
use rustix_futex_sync::Mutex;

/// Time for which the kernel may cache names and attributes.
const CACHE_TIME: Duration = Duration::ZERO;

/// A weakness of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weakness {
    /// `a` and `A` are the same name, as on exFAT and SMB.
    FoldsCase,
    /// `a` and `A` are the same name, and a rename can refuse to replace, as on FAT and on ext4
    /// with case folding.
    FoldsCaseAsFat,
    /// The length of every file is reported as 0, as in `/proc`.
    StatesNoLength,
    /// A change of the modification time alone is dropped, and reported as a success, as by the
    /// high-level interface of libfuse 2 (github.com/libfuse/libfuse issue 603).
    DropsLoneTimes,
    /// Names have at most 143 bytes, as on eCryptfs, and are UTF-8.
    ShortNames,
}

/// A mounted view of a directory. Dropping this value unmounts it.
#[derive(Debug)]
pub struct WeakFs {
    mountpoint: PathBuf,
    session: Option<BackgroundSession>,
}

impl WeakFs {
    /// Mounts a view of `directory` at `mountpoint`. Both must exist.
    ///
    /// # Panics
    /// The mount fails.
    #[must_use]
    pub fn mount(directory: &Path, mountpoint: &Path, weakness: Weakness) -> Self {
        let directory = directory.canonicalize().expect("the directory");
        let root = (1, directory);
        let tree = Tree {
            weakness,
            state: Mutex::new(WeakFsState { paths: HashMap::from([root]), open: HashMap::new(), next: 1 }),
        };
        let session = Session::new(tree, mountpoint, &Config::default()).expect("a mount");
        let session = session.spawn().expect("a thread");
        Self { mountpoint: mountpoint.to_owned(), session: Some(session) }
    }
}

impl Drop for WeakFs {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.mountpoint).status();
        if let Some(session) = self.session.take() {
            let _ = session.join();
        }
    }
}

struct Tree {
    weakness: Weakness,
    state: Mutex<WeakFsState>,
}

struct WeakFsState {
    /// Paths of the underlying files, by inode number.
    paths: HashMap<u64, PathBuf>,
    open: HashMap<u64, File>,
    next: u64,
}

impl WeakFsState {
    fn path(&self, ino: INodeNo) -> io::Result<PathBuf> {
        self.paths.get(&ino.0).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn keep(&mut self, file: File) -> FileHandle {
        self.next += 1;
        self.open.insert(self.next, file);
        FileHandle(self.next)
    }
}

impl Tree {
    /// Returns the path of the underlying file, in the spelling of the file's own name.
    fn underlying_path(&self, state: &WeakFsState, parent: INodeNo, name: &OsStr) -> io::Result<PathBuf> {
        let directory = state.path(parent)?;
        let length = name.len();
        if self.weakness == Weakness::ShortNames && (length > 143 || name.to_str().is_none()) {
            let error =
                if length > 143 { io::ErrorKind::InvalidFilename } else { io::ErrorKind::InvalidInput };
            return Err(error.into());
        }
        let folded = |name: &OsStr| name.to_string_lossy().to_lowercase();
        let same = |found: &OsString| folded(found) == folded(name);
        let spelled = match self.weakness {
            Weakness::FoldsCase | Weakness::FoldsCaseAsFat => {
                fs::read_dir(&directory)?.filter_map(|entry| Some(entry.ok()?.file_name())).find(same)
            }
            _ => None,
        };
        Ok(directory.join(spelled.as_deref().unwrap_or(name)))
    }

    fn attributes(&self, found: &Metadata, ino: u64) -> FileAttr {
        let time = |seconds: i64, nanoseconds: i64| {
            UNIX_EPOCH + Duration::new(seconds.unsigned_abs(), u32::try_from(nanoseconds).unwrap_or(0))
        };
        let kind = match found.file_type() {
            kind if kind.is_dir() => FileType::Directory,
            kind if kind.is_symlink() => FileType::Symlink,
            _ => FileType::RegularFile,
        };
        let is_stated = self.weakness != Weakness::StatesNoLength || kind == FileType::Directory;
        FileAttr {
            ino: INodeNo(ino),
            size: if is_stated { found.size() } else { 0 },
            blocks: found.blocks(),
            atime: time(found.atime(), found.atime_nsec()),
            mtime: time(found.mtime(), found.mtime_nsec()),
            ctime: time(found.ctime(), found.ctime_nsec()),
            crtime: UNIX_EPOCH,
            kind,
            perm: (found.mode() & 0o7777) as u16,
            nlink: u32::try_from(found.nlink()).unwrap_or(u32::MAX),
            uid: found.uid(),
            gid: found.gid(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    fn describe(&self, state: &mut WeakFsState, path: PathBuf) -> io::Result<FileAttr> {
        let found = fs::symlink_metadata(&path)?;
        let attributes = self.attributes(&found, found.ino());
        state.paths.insert(found.ino(), path);
        Ok(attributes)
    }

    /// Returns the metadata of the underlying file, also if the file was unlinked while it was
    /// open.
    fn metadata(&self, state: &WeakFsState, ino: INodeNo) -> io::Result<FileAttr> {
        Ok(self.attributes(&fs::metadata(state.path(ino)?)?, ino.0))
    }
}

fn reply_empty(reply: ReplyEmpty, result: io::Result<()>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(Errno::from(error)),
    }
}

fn reply_entry(reply: ReplyEntry, result: io::Result<FileAttr>) {
    match result {
        Ok(found) => reply.entry(&CACHE_TIME, &found, Generation(0)),
        Err(error) => reply.error(Errno::from(error)),
    }
}

fn reply_attributes(reply: ReplyAttr, result: io::Result<FileAttr>) {
    match result {
        Ok(found) => reply.attr(&CACHE_TIME, &found),
        Err(error) => reply.error(Errno::from(error)),
    }
}

impl Filesystem for Tree {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut state = self.state.lock();
        let path = self.underlying_path(&state, parent, name);
        reply_entry(reply, path.and_then(|path| self.describe(&mut state, path)));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply_attributes(reply, self.metadata(&self.state.lock(), ino));
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let state = self.state.lock();
        let set = || {
            let path = state.path(ino)?;
            if let Some(mode) = mode {
                fs::set_permissions(&path, fs::Permissions::from_mode(mode & 0o7777))?;
            }
            if let Some(size) = size {
                OpenOptions::new().write(true).open(&path)?.set_len(size)?;
            }
            let is_dropped = self.weakness == Weakness::DropsLoneTimes && atime.is_none();
            if let Some(TimeOrNow::SpecificTime(time)) = mtime.filter(|_| !is_dropped) {
                File::open(&path)?.set_modified(time)?;
            }
            self.metadata(&state, ino)
        };
        reply_attributes(reply, set());
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        let mut state = self.state.lock();
        let made = self.underlying_path(&state, parent, name).and_then(|path| {
            fs::DirBuilder::new().mode(mode & !umask).create(&path)?;
            self.describe(&mut state, path)
        });
        reply_entry(reply, made);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut state = self.state.lock();
        let removed = self.underlying_path(&state, parent, name).and_then(|path| {
            let ino = fs::symlink_metadata(&path)?.ino();
            let is_it = |file: &&File| file.metadata().is_ok_and(|found| found.ino() == ino);
            if let Some(descriptor) = state.open.values().find(is_it).map(AsRawFd::as_raw_fd) {
                state.paths.insert(ino, format!("/proc/self/fd/{descriptor}").into());
            }
            fs::remove_file(path)
        });
        reply_empty(reply, removed);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(reply, self.underlying_path(&self.state.lock(), parent, name).and_then(fs::remove_dir));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mut state = self.state.lock();
        let is_exclusive =
            self.weakness == Weakness::FoldsCaseAsFat && flags == RenameFlags::RENAME_NOREPLACE;
        if !flags.is_empty() && !is_exclusive {
            return reply.error(Errno::EINVAL);
        }
        let mut rename = || {
            let from = self.underlying_path(&state, parent, name)?;
            let to = self.underlying_path(&state, newparent, newname)?;
            if is_exclusive && to.symlink_metadata().is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            fs::rename(&from, &to)?;
            self.describe(&mut state, to).map(drop)
        };
        reply_empty(reply, rename());
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let mut state = self.state.lock();
        let made = self.underlying_path(&state, parent, name).and_then(|path| {
            let mut options = OpenOptions::new();
            let file = options
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(mode & !umask)
                .open(&path)?;
            Ok((self.describe(&mut state, path)?, state.keep(file)))
        });
        match made {
            Ok((found, handle)) => {
                reply.created(&CACHE_TIME, &found, Generation(0), handle, FopenFlags::FOPEN_DIRECT_IO);
            }
            Err(error) => reply.error(Errno::from(error)),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let mut state = self.state.lock();
        let writes = flags.0 & 3 != 0;
        let opened = state.path(ino).and_then(|path| OpenOptions::new().read(true).write(writes).open(path));
        match opened {
            Ok(file) => reply.opened(state.keep(file), FopenFlags::FOPEN_DIRECT_IO),
            Err(error) => reply.error(Errno::from(error)),
        }
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
        let mut bytes = vec![0; size as usize];
        let read =
            self.state.lock().open.get(&handle.0).map_or(Ok(0), |file| file.read_at(&mut bytes, offset));
        match read {
            Ok(read) => reply.data(&bytes[..read]),
            Err(error) => reply.error(Errno::from(error)),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written =
            self.state.lock().open.get(&handle.0).map_or(Ok(()), |file| file.write_all_at(data, offset));
        match written {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(0)),
            Err(error) => reply.error(Errno::from(error)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
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
        self.state.lock().open.remove(&handle.0);
        reply.ok();
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let read = self.state.lock().path(ino).and_then(fs::read_dir);
        let Ok(entries) = read else { return reply.error(Errno::ENOENT) };
        let mut names: Vec<_> = entries.filter_map(Result::ok).collect();
        names.sort_by_key(fs::DirEntry::file_name);
        let seen = usize::try_from(offset).unwrap_or(usize::MAX);
        for (index, found) in names.iter().enumerate().skip(seen) {
            let kind = match found.file_type() {
                Ok(kind) if kind.is_dir() => FileType::Directory,
                _ => FileType::RegularFile,
            };
            let ino = found.metadata().map_or(0, |found| found.ino());
            if reply.add(INodeNo(ino), index as u64 + 1, kind, found.file_name()) {
                break;
            }
        }
        reply.ok();
    }
}
