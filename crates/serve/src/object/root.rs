//! Resolves paths below the served directory, to open, make and remove entries. Other modules use
//! only single names in directories that this module has opened.
//!
//! Files outside the directory are not reachable. Names are checked when they are parsed into an
//! [`EntryPath`], and the kernel resolves them beneath the directory (`openat2` with
//! `RESOLVE_BENEATH`). So a relative symbolic link can lead anywhere inside the directory, but
//! never outside, even if the tree changes meanwhile. An absolute link is refused. On kernels
//! without `openat2` no link is followed at all.
//!
//! A look-up that the kernel answers from memory runs on the calling thread. Other look-ups run on
//! a blocking thread.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix_futex_sync::MutexGuard;

use crate::object::metadata;
use crate::object::names::NameLocks;
use crate::path::{EntryPath, is_hidden};

/// Maximum number of attempts at a look-up that the kernel gives up on.
const LOOK_UP_ATTEMPTS: usize = 1_000;

/// The open served directory.
#[derive(Clone, Debug)]
pub(crate) struct ServedRoot {
    directory: Arc<OwnedFd>,
    names: Arc<NameLocks>,
}

impl ServedRoot {
    /// Opens `path` as the directory to serve.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self { directory: Arc::new(directory), names: Arc::default() })
    }

    /// Opens a regular file for reading. `IsADirectory` for directories, `InvalidInput` for other
    /// kinds.
    pub(crate) async fn open_file(&self, path: &EntryPath) -> io::Result<File> {
        // Non-blocking, so that a FIFO in the tree cannot block a thread. The flag has no effect on
        // regular files.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(self.resolve(path, flags).await?);
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if metadata.is_file() { Ok(file) } else { Err(not_regular()) }
    }

    /// Opens an entry of any kind without the right to read it, for its metadata.
    pub(crate) async fn open_entry(&self, path: &EntryPath) -> io::Result<File> {
        Ok(self.resolve(path, OFlags::PATH | OFlags::CLOEXEC).await?.into())
    }

    /// Opens an entry of any kind for reading or, if reading is not allowed, only for its metadata.
    pub(crate) async fn open_to_read(&self, path: &EntryPath) -> io::Result<File> {
        match self.resolve(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC).await {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => self.open_entry(path).await,
            opened => Ok(opened?.into()),
        }
    }

    /// Opens a directory for listing. Blocking.
    pub(crate) fn open_directory(&self, path: &EntryPath) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(open_entry(&self.directory, path, flags, ResolveFlags::empty())?)
    }

    /// Opens a file with `flags` on the calling thread. Blocking.
    pub(crate) fn open_blocking(&self, path: &EntryPath, flags: OFlags) -> io::Result<File> {
        let opened = open_entry(&self.directory, path, flags | OFlags::CLOEXEC, ResolveFlags::empty());
        Ok(opened.map_err(of_kernel)?.into())
    }

    /// Opens the directory `path`, making missing directories. Blocking.
    pub(crate) fn make_directory(&self, path: &EntryPath) -> io::Result<OwnedFd> {
        self.make_directory_below(&EntryPath::default(), path)
    }

    /// Opens the directory `path`, making missing directories below `base`. `NotFound` if `base` is
    /// missing. Blocking.
    pub(crate) fn make_directory_below(&self, base: &EntryPath, path: &EntryPath) -> io::Result<OwnedFd> {
        match self.open_directory(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && path != base && !path.is_root() => {}
            done => return done,
        }
        let parent = self.make_directory_below(base, &path.parent())?;
        if let Some(name) = path.name() {
            match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.open_directory(path)
    }

    /// Locks `name` in the open directory `parent` against changes by other threads. Every function
    /// that publishes or removes a name holds this lock, so that the condition and the change are
    /// one step. Blocking.
    pub(crate) fn lock_name(&self, parent: &OwnedFd, name: &OsStr) -> io::Result<MutexGuard<'_, ()>> {
        self.names.lock(parent, name)
    }

    /// Removes a file or, with `REMOVEDIR` in `flags`, an empty directory. Blocking.
    pub(crate) fn remove(&self, path: &EntryPath, flags: AtFlags) -> io::Result<()> {
        let name = path.name().ok_or(io::ErrorKind::PermissionDenied)?;
        let parent = self.open_directory(&path.parent())?;
        Ok(rustix::fs::unlinkat(parent, name, flags)?)
    }

    /// Removes the directories above `path` while they are empty and no objects of their own,
    /// innermost first. Keeps the directory `keep`, and the directory that the fence of `path`
    /// names. Blocking.
    pub(crate) fn remove_empty_parents(&self, path: &EntryPath, keep: &EntryPath) {
        let mut directory = path.parent();
        while directory != *keep && directory.as_bytes().len() > path.fence() {
            if self.remove_prefix(&directory).is_err() {
                return;
            }
            directory = directory.parent();
        }
    }

    /// Removes the empty directory `path`, unless the directory is an object. The lock keeps a
    /// concurrent PUT of the directory's key from being lost.
    fn remove_prefix(&self, path: &EntryPath) -> io::Result<()> {
        let name = path.name().ok_or(io::ErrorKind::PermissionDenied)?;
        let parent = self.open_directory(&path.parent())?;
        let _alone = self.lock_name(&parent, name)?;
        if metadata::is_object(self.open_directory(path)?) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        Ok(rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)?)
    }

    async fn resolve(&self, path: &EntryPath, flags: OFlags) -> io::Result<OwnedFd> {
        match open_entry(&self.directory, path, flags, ResolveFlags::CACHED) {
            // The kernel does not have the name in memory. The look-up may wait for a disk or a
            // network, so it runs on a blocking thread and delays no other connection.
            Err(error) if error == Errno::AGAIN || error == Errno::INVAL || is_refused(error) => {}
            done => return done.map_err(of_kernel),
        }
        let (directory, path) = (self.directory.clone(), path.clone());
        let task = move || open_entry(&directory, &path, flags, ResolveFlags::empty());
        tokio::task::spawn_blocking(task).await.map_err(io::Error::other)?.map_err(of_kernel)
    }
}

fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")
}

/// Converts an error of opening an entry. With `ENXIO` the kernel refuses to open a socket, or a
/// device without a driver.
fn of_kernel(error: Errno) -> io::Error {
    if error == Errno::NXIO { not_regular() } else { error.into() }
}

impl AsFd for ServedRoot {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

/// Opens `path`, resolved below `root` and below the fence of `path`.
fn open_entry(
    root: &OwnedFd,
    path: &EntryPath,
    flags: OFlags,
    more_resolve_flags: ResolveFlags,
) -> rustix::io::Result<OwnedFd> {
    // Only `reserved` opens hidden names, and it follows no links.
    if path.as_path().iter().any(|name| is_hidden(name.as_bytes())) {
        return Err(Errno::NOENT);
    }
    let Some((directory, below)) = path.at_fence() else {
        return open_beneath(root, path.for_kernel(), flags, more_resolve_flags);
    };
    let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = open_beneath(root, directory, step, more_resolve_flags)?;
    open_beneath(&directory, below, flags, more_resolve_flags)
}

fn open_beneath(
    root: &OwnedFd,
    path: &Path,
    flags: OFlags,
    more_resolve_flags: ResolveFlags,
) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | more_resolve_flags;
    let open = || rustix::fs::openat2(root, path, flags, Mode::empty(), resolve);
    if !more_resolve_flags.is_empty() {
        return open();
    }
    // The kernel gives up on `..` in a link if any rename happens at the same time (openat2(2)).
    let raced = |opened: &rustix::io::Result<OwnedFd>| matches!(opened, Err(Errno::AGAIN));
    match (0..LOOK_UP_ATTEMPTS).map(|_| open()).find(|opened| !raced(opened)).unwrap_or(Err(Errno::AGAIN)) {
        Err(error) if is_refused(error) => open_without_links(root, path, flags),
        done => done,
    }
}

/// Returns whether a call failed because the kernel lacks it, or because a sandbox refuses it.
/// Docker refuses calls that its profile does not list with EPERM
/// (<https://github.com/moby/moby/issues/42871>,
/// <https://github.com/opencontainers/runc/issues/2151>, as of 28 November 2026).
pub(super) fn is_refused(error: Errno) -> bool {
    matches!(error, Errno::NOSYS | Errno::PERM | Errno::OPNOTSUPP)
}

/// Opens `path` component by component without following links, where `openat2` is refused, as by
/// kernels before 5.6.
fn open_without_links(root: &OwnedFd, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut directory = rustix::fs::openat(root, ".", step, Mode::empty())?;
    let mut names = path.iter().peekable();
    while let Some(name) = names.next() {
        if names.peek().is_none() {
            return rustix::fs::openat(&directory, name, flags | OFlags::NOFOLLOW, Mode::empty());
        }
        directory = rustix::fs::openat(&directory, name, step, Mode::empty())?;
    }
    rustix::fs::openat(root, ".", flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_inside_and_nowhere_else_with_and_without_openat2() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "x").unwrap();
        let inside = tempfile::tempdir().unwrap();
        std::fs::write(inside.path().join("file"), "x").unwrap();
        std::os::unix::fs::symlink(outside.path(), inside.path().join("out")).unwrap();
        std::os::unix::fs::symlink("file", inside.path().join("in")).unwrap();
        let root = ServedRoot::open(inside.path()).unwrap();
        let read = OFlags::RDONLY | OFlags::CLOEXEC;
        let beneath =
            |path: &str| open_beneath(&root.directory, Path::new(path), read, ResolveFlags::empty());
        assert!(beneath("in").is_ok());
        assert!(beneath("out/secret").is_err());
        assert!(open_without_links(&root.directory, Path::new("file"), read).is_ok());
        assert!(open_without_links(&root.directory, Path::new("in"), read).is_err());
        assert!(open_without_links(&root.directory, Path::new("out/secret"), read).is_err());
    }

    #[test]
    fn a_link_upwards_opens_while_other_files_are_renamed() {
        let inside = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(inside.path().join("own")).unwrap();
        std::fs::write(inside.path().join("file"), "x").unwrap();
        std::os::unix::fs::symlink("../file", inside.path().join("own/up")).unwrap();
        let root = ServedRoot::open(inside.path()).unwrap();
        let path = EntryPath::parse(b"own/up").unwrap();
        let ended = std::sync::atomic::AtomicBool::new(false);
        let (one, other) = (inside.path().join("one"), inside.path().join("other"));
        std::fs::write(&one, "").unwrap();
        let failed = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(std::sync::atomic::Ordering::Relaxed) {
                    std::fs::rename(&one, &other).unwrap();
                    std::fs::rename(&other, &one).unwrap();
                }
            });
            let opens = (0..20_000).map(|_| root.open_blocking(&path, OFlags::RDONLY));
            let failed = opens.filter_map(Result::err).next();
            ended.store(true, std::sync::atomic::Ordering::Relaxed);
            failed
        });
        assert!(failed.is_none(), "{failed:?}");
    }

    #[test]
    fn below_a_fence_links_lead_nowhere_else() {
        let inside = tempfile::tempdir().unwrap();
        for name in ["own/sub", "other"] {
            std::fs::create_dir_all(inside.path().join(name)).unwrap();
            std::fs::write(inside.path().join(name).join("file"), "x").unwrap();
        }
        std::os::unix::fs::symlink("../other", inside.path().join("own/out")).unwrap();
        std::os::unix::fs::symlink("sub", inside.path().join("own/in")).unwrap();
        std::os::unix::fs::symlink("own", inside.path().join("named")).unwrap();
        let root = ServedRoot::open(inside.path()).unwrap();
        let opens = |path: &str, fence: usize| {
            let path = EntryPath::parse(path.as_bytes()).unwrap().fenced(fence);
            root.open_blocking(&path, OFlags::RDONLY).is_ok()
        };
        assert!(opens("own/out/file", 0) && !opens("own/out/file", 3));
        assert!(opens("own/in/file", 3) && opens("named/in/file", 5) && !opens("named/out/file", 5));
        assert!(opens("own", 3) && opens("own/sub", 3));
        let path = EntryPath::parse(b"own/sub/file").unwrap().fenced(3);
        assert_eq!(path.parent().parent().fence(), 3);
        assert_eq!(path.parent().parent().parent().fence(), 0);
        assert_eq!(path.parent(), EntryPath::parse(b"own/sub").unwrap());
        std::fs::remove_file(inside.path().join("own/sub/file")).unwrap();
        std::fs::remove_file(inside.path().join("own/in")).unwrap();
        std::fs::remove_file(inside.path().join("own/out")).unwrap();
        root.remove_empty_parents(&path, &EntryPath::default());
        assert!(!inside.path().join("own/sub").exists() && inside.path().join("own").exists());
    }
}
