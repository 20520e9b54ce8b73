//! Holds the mirrored directory: its inodes, open files and open directories. This module depends
//! neither on FUSE nor on time. `fuse` calls it from several threads.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, FileType, Metadata};
use std::io;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix_futex_sync::Mutex;

/// The inode number of the root.
pub(super) const ROOT: u64 = 1;

/// A directory entry.
pub(super) struct MirrorEntry {
    pub(super) ino: u64,
    /// Type of the entry. `None` for `.` and `..`.
    pub(super) kind: Option<FileType>,
    pub(super) name: OsString,
}

/// State of a file's pages in the kernel's cache: `Valid` if they match the content of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageValidity {
    Valid,
    Stale,
}

/// An inode that the kernel knows.
struct Node {
    path: PathBuf,
    /// Number of look-ups by the kernel, minus the number that the kernel has forgotten.
    lookups: u64,
    /// Length and times of the file when it was last opened.
    opened: Option<Stamp>,
}

/// The values that change with the content of a file: length, mtime (s, ns) and ctime (s, ns).
type Stamp = (u64, i64, i64, i64, i64);

/// A mirrored directory.
pub(super) struct Mirror {
    device: u64,
    root: u64,
    nodes: Mutex<HashMap<u64, Node>>,
    files: Mutex<HashMap<u64, Arc<File>>>,
    directories: Mutex<HashMap<u64, Arc<Vec<MirrorEntry>>>>,
    handles: AtomicU64,
}

impl Mirror {
    /// Returns a mirror of the directory `path`.
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        let metadata = std::fs::metadata(path)?;
        let root = Node { path: path.to_owned(), lookups: 1, opened: None };
        Ok(Self {
            device: metadata.dev(),
            root: metadata.ino(),
            nodes: Mutex::new(HashMap::from([(ROOT, root)])),
            files: Mutex::default(),
            directories: Mutex::default(),
            handles: AtomicU64::new(1),
        })
    }

    /// Returns the inode number to show. It is the file's own number, unless that could be
    /// ambiguous.
    fn number(&self, device: u64, ino: u64) -> u64 {
        if (device, ino) == (self.device, self.root) {
            return ROOT;
        }
        // The file is on another file system below the directory. The shown number depends only on
        // its device and inode, so every look-up returns the same number.
        match ino ^ (device ^ self.device).rotate_left(40) {
            ROOT => u64::MAX,
            number => number,
        }
    }

    fn path(&self, ino: u64) -> io::Result<PathBuf> {
        self.nodes.lock().get(&ino).map(|node| node.path.clone()).ok_or_else(|| Errno::STALE.into())
    }

    /// Looks up a name. From then on, the kernel knows the inode.
    pub(super) fn find(&self, parent: u64, name: &OsStr) -> io::Result<(u64, Metadata)> {
        let path = self.path(parent)?.join(name);
        let metadata = std::fs::symlink_metadata(&path)?;
        let number = self.number(metadata.dev(), metadata.ino());
        let mut nodes = self.nodes.lock();
        let node = nodes.entry(number).or_insert(Node { path: PathBuf::new(), lookups: 0, opened: None });
        node.path = path;
        node.lookups += 1;
        Ok((number, metadata))
    }

    /// Subtracts the number of look-ups that the kernel has forgotten.
    pub(super) fn forget(&self, ino: u64, lookups: u64) {
        let mut nodes = self.nodes.lock();
        let Some(node) = nodes.get_mut(&ino).filter(|_| ino != ROOT) else { return };
        node.lookups = node.lookups.saturating_sub(lookups);
        if node.lookups == 0 {
            nodes.remove(&ino);
        }
    }

    pub(super) fn metadata(&self, ino: u64) -> io::Result<Metadata> {
        std::fs::symlink_metadata(self.path(ino)?)
    }

    pub(super) fn read_link(&self, ino: u64) -> io::Result<PathBuf> {
        std::fs::read_link(self.path(ino)?)
    }

    pub(super) fn space(&self, ino: u64) -> io::Result<rustix::fs::StatFs> {
        Ok(rustix::fs::statfs(self.path(ino)?)?)
    }

    /// Opens a file. Returns its handle, and whether the kernel's cached pages of the file are
    /// valid. As with NFS, they are valid if the file has not changed since it was last opened.
    pub(super) fn open(&self, ino: u64) -> io::Result<(u64, PageValidity)> {
        let file = File::open(self.path(ino)?)?;
        let found = file.metadata()?;
        let stamp = (found.len(), found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec());
        let before = self.nodes.lock().get_mut(&ino).and_then(|node| node.opened.replace(stamp));
        let cached = if before == Some(stamp) { PageValidity::Valid } else { PageValidity::Stale };
        let handle = self.handle();
        self.files.lock().insert(handle, Arc::new(file));
        Ok((handle, cached))
    }

    /// Reads up to `size` bytes at `offset`. Returns fewer only at the end of the file.
    pub(super) fn read(&self, handle: u64, offset: u64, size: usize) -> io::Result<Vec<u8>> {
        let file = self.files.lock().get(&handle).cloned().ok_or(Errno::BADF)?;
        let mut bytes = Vec::with_capacity(size);
        while bytes.len() < size {
            let at = offset + bytes.len() as u64;
            match rustix::io::pread(&*file, rustix::buffer::spare_capacity(&mut bytes), at) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        bytes.truncate(size);
        Ok(bytes)
    }

    pub(super) fn close(&self, handle: u64) {
        self.files.lock().remove(&handle);
    }

    /// Opens a directory, and reads its entries. The entries stay the same until the directory is
    /// closed.
    pub(super) fn open_directory(&self, ino: u64) -> io::Result<u64> {
        let own = |name: &str| MirrorEntry { ino, kind: None, name: OsString::from(name) };
        let mut found = vec![own("."), own("..")];
        let path = self.path(ino)?;
        let device = std::fs::metadata(&path)?.dev();
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            let (ino, kind) = (self.number(device, entry.ino()), Some(entry.file_type()?));
            found.push(MirrorEntry { ino, kind, name: entry.file_name() });
        }
        let handle = self.handle();
        self.directories.lock().insert(handle, Arc::new(found));
        Ok(handle)
    }

    pub(super) fn entries(&self, handle: u64) -> io::Result<Arc<Vec<MirrorEntry>>> {
        self.directories.lock().get(&handle).cloned().ok_or_else(|| Errno::BADF.into())
    }

    pub(super) fn close_directory(&self, handle: u64) {
        self.directories.lock().remove(&handle);
    }

    fn handle(&self) -> u64 {
        self.handles.fetch_add(1, Ordering::Relaxed)
    }
}
