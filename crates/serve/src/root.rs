//! The served directory: the only place that opens, makes or removes anything below it.
//!
//! Nothing outside is reachable: names are checked as they are parsed into an [`EntryPath`], and the kernel resolves them
//! beneath the directory (`openat2` with `RESOLVE_BENEATH`), so that a symbolic link may lead anywhere inside and nowhere
//! else, whoever changes the tree meanwhile. On kernels without `openat2` no link is followed at all.
//!
//! Lookups that the kernel answers from memory run where they are asked for; others go to a blocking thread.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::names::NameLocks;

/// The name below which the server keeps what it alone may see: uploads in progress.
pub(crate) const RESERVED: &str = ".firstbyte";

/// The longest name a Linux file system takes, in bytes.
const LONGEST_NAME: usize = 255;

/// A path below the served directory: no empty, `.` or `..` component, no NUL, nothing hidden by [`is_hidden`].
/// The empty path is the directory itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct EntryPath(PathBuf);

/// Why a text is no [`EntryPath`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PathError {
    /// `.`, `..`, an empty component or NUL.
    #[error("no file can have this name: an empty, `.` or `..` component, or a NUL byte")]
    Unnameable,
    /// A component above 255 bytes.
    #[error("no file can have this name: a component is longer than 255 bytes")]
    TooLong,
    /// A name the server keeps for itself.
    #[error("this name is reserved for files in the making")]
    Hidden,
}

/// Whether `name` belongs to writers: `.firstbyte`, and temporary files such as `.NAME.firstbyte-part`.
#[must_use]
pub(crate) fn is_hidden(name: &[u8]) -> bool {
    let marker = b".firstbyte-";
    name == RESERVED.as_bytes()
        || (name.first() == Some(&b'.') && name.windows(marker.len()).any(|window| window == marker))
}

impl EntryPath {
    /// The path the decoded bytes `path` name; one leading and one trailing slash are dropped.
    pub(crate) fn parse(path: &[u8]) -> Result<Self, PathError> {
        let path = path.strip_prefix(b"/").unwrap_or(path);
        let path = path.strip_suffix(b"/").unwrap_or(path);
        if path.is_empty() {
            return Ok(Self::default());
        }
        for name in path.split(|byte| *byte == b'/') {
            if name.is_empty() || name == b"." || name == b".." || name.contains(&0) {
                return Err(PathError::Unnameable);
            }
            if name.len() > LONGEST_NAME {
                return Err(PathError::TooLong);
            }
            if is_hidden(name) {
                return Err(PathError::Hidden);
            }
        }
        Ok(Self(PathBuf::from(OsStr::from_bytes(path))))
    }

    /// The path a percent-encoded URL path names, decoded exactly once.
    pub(crate) fn from_url(path: &str) -> Result<Self, PathError> {
        let decoded: Vec<u8> = percent_encoding::percent_decode_str(path).collect();
        Self::parse(&decoded)
    }

    /// The entry `name` in this directory.
    pub(crate) fn join(&self, name: &OsStr) -> Self {
        Self(self.0.join(name))
    }

    /// Whether it is the served directory itself.
    pub(crate) fn is_root(&self) -> bool {
        self.0.as_os_str().is_empty()
    }

    /// The last component; none for the root.
    pub(crate) fn name(&self) -> Option<&OsStr> {
        self.0.file_name()
    }

    /// The first component; the root for the root.
    pub(crate) fn first(&self) -> Self {
        Self(self.0.iter().next().map(PathBuf::from).unwrap_or_default())
    }

    /// The directory it lies in; the root for the root.
    pub(crate) fn parent(&self) -> Self {
        Self(self.0.parent().map(Path::to_path_buf).unwrap_or_default())
    }

    /// Its bytes, `/` between components.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_os_str().as_bytes()
    }

    /// It as a relative path.
    pub(crate) fn as_path(&self) -> &Path {
        &self.0
    }

    fn for_kernel(&self) -> &Path {
        if self.is_root() { Path::new(".") } else { &self.0 }
    }
}

impl std::fmt::Display for EntryPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "/{}", self.0.display())
    }
}

/// The served directory, held open.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    directory: Arc<OwnedFd>,
    names: Arc<NameLocks>,
}

impl Root {
    /// Opens `path` as the directory to serve.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self { directory: Arc::new(directory), names: Arc::default() })
    }

    /// Opens a regular file for reading; other kinds are `InvalidInput`, directories `IsADirectory`.
    pub(crate) async fn open_file(&self, path: &EntryPath) -> io::Result<File> {
        // Non-blocking, so that a FIFO in the tree cannot hold a thread; it changes nothing for regular files.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(self.resolve(path, flags).await?);
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(file)
    }

    /// Opens anything that is there without reading it, for its metadata.
    pub(crate) async fn open_entry(&self, path: &EntryPath) -> io::Result<File> {
        Ok(self.resolve(path, OFlags::PATH | OFlags::CLOEXEC).await?.into())
    }

    /// Opens a directory for listing. Blocking.
    pub(crate) fn open_directory(&self, path: &EntryPath) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(open_beneath(&self.directory, path.for_kernel(), flags, ResolveFlags::empty())?)
    }

    /// Opens a file with `flags` without waiting for other tasks. Blocking.
    pub(crate) fn open_blocking(&self, path: &EntryPath, flags: OFlags) -> io::Result<File> {
        Ok(open_beneath(&self.directory, path.for_kernel(), flags | OFlags::CLOEXEC, ResolveFlags::empty())?
            .into())
    }

    /// Opens the directory `path`, making what is missing on the way. Blocking.
    pub(crate) fn make_directory(&self, path: &EntryPath) -> io::Result<OwnedFd> {
        self.make_directory_below(&EntryPath::default(), path)
    }

    /// Opens the directory `path`, making what is missing below `base`; `NotFound` where `base` is missing. Blocking.
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

    /// Waits until no other thread changes what `name` in the open directory `parent` stands for. Whatever puts a
    /// file under a name or removes a name holds this, so that a condition and the change are one step. Blocking.
    pub(crate) fn lock_name(&self, parent: &OwnedFd, name: &OsStr) -> io::Result<MutexGuard<'_, ()>> {
        self.names.lock(parent, name)
    }

    /// Removes a file; `flags` with `REMOVEDIR` an empty directory. Blocking.
    pub(crate) fn remove(&self, path: &EntryPath, flags: AtFlags) -> io::Result<()> {
        let name = path.name().ok_or(io::ErrorKind::PermissionDenied)?;
        let parent = self.open_directory(&path.parent())?;
        Ok(rustix::fs::unlinkat(parent, name, flags)?)
    }

    /// Removes the directories that `path` left empty, from the innermost up to, not including, `keep`. Blocking.
    pub(crate) fn remove_empty_parents(&self, path: &EntryPath, keep: &EntryPath) {
        let mut directory = path.parent();
        while directory != *keep && !directory.is_root() {
            if self.remove(&directory, AtFlags::REMOVEDIR).is_err() {
                return;
            }
            directory = directory.parent();
        }
    }

    async fn resolve(&self, path: &EntryPath, flags: OFlags) -> io::Result<OwnedFd> {
        match open_beneath(&self.directory, path.for_kernel(), flags, ResolveFlags::CACHED) {
            // Not in the kernel's memory: the lookup may wait for a disk or a network, other connections must not.
            Err(Errno::AGAIN | Errno::INVAL | Errno::NOSYS) => {}
            done => return Ok(done?),
        }
        let (directory, path) = (self.directory.clone(), path.clone());
        let task = move || open_beneath(&directory, path.for_kernel(), flags, ResolveFlags::empty());
        Ok(tokio::task::spawn_blocking(task).await.map_err(io::Error::other)??)
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

fn open_beneath(
    root: &OwnedFd,
    path: &Path,
    flags: OFlags,
    extra: ResolveFlags,
) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | extra;
    match rustix::fs::openat2(root, path, flags, Mode::empty(), resolve) {
        Err(Errno::NOSYS) if extra.is_empty() => open_without_links(root, path, flags),
        done => done,
    }
}

/// For kernels before 5.6: component by component, following no link.
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
    fn names_that_lead_elsewhere_are_no_entry_paths() {
        for bad in ["..", "a/../b", "a//b", "./a", "a\0b", "//etc/passwd", "a/."] {
            assert_eq!(EntryPath::parse(bad.as_bytes()), Err(PathError::Unnameable), "{bad:?}");
        }
        assert_eq!(EntryPath::parse(&[b'x'; 256]), Err(PathError::TooLong));
        assert_eq!(EntryPath::parse(b"a/.b.firstbyte-part"), Err(PathError::Hidden));
        assert_eq!(EntryPath::parse(b"/a/b/").unwrap().as_bytes(), b"a/b");
    }

    #[test]
    fn percent_signs_are_decoded_exactly_once() {
        assert_eq!(EntryPath::from_url("/%252e%252e").unwrap().as_bytes(), b"%2e%2e");
        assert_eq!(EntryPath::from_url("/%2e%2e/x"), Err(PathError::Unnameable));
    }

    #[test]
    fn links_lead_inside_and_nowhere_else_with_and_without_openat2() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "x").unwrap();
        let inside = tempfile::tempdir().unwrap();
        std::fs::write(inside.path().join("file"), "x").unwrap();
        std::os::unix::fs::symlink(outside.path(), inside.path().join("out")).unwrap();
        std::os::unix::fs::symlink("file", inside.path().join("in")).unwrap();
        let root = Root::open(inside.path()).unwrap();
        let read = OFlags::RDONLY | OFlags::CLOEXEC;
        let beneath =
            |path: &str| open_beneath(&root.directory, Path::new(path), read, ResolveFlags::empty());
        assert!(beneath("in").is_ok());
        assert!(beneath("out/secret").is_err());
        assert!(open_without_links(&root.directory, Path::new("file"), read).is_ok());
        assert!(open_without_links(&root.directory, Path::new("in"), read).is_err());
        assert!(open_without_links(&root.directory, Path::new("out/secret"), read).is_err());
    }
}
