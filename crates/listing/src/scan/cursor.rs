//! Defines the jobs of a worker: to open a directory, or to continue reading an open one.

use std::sync::Arc;

use crate::chain::DirectoryChain;
use crate::open::DirectoryHandle;
use crate::split::DirectoryPart;

/// A job of a worker.
#[derive(Debug)]
pub(super) enum ScanJob {
    /// Open a directory that was found, and read it.
    Enter(FoundDirectory),
    /// Continue to read an open directory.
    Read(DirectoryCursor),
    /// Read a part of a large directory, through a new descriptor.
    Part(DirectoryCursor, DirectoryPart),
}

/// A directory that was found and is not open yet.
#[derive(Debug)]
pub(super) struct FoundDirectory {
    /// The parent directory, if it is still open.
    pub(super) parent: Option<Arc<DirectoryHandle>>,
    /// Path from the root, with a `/` at its end.
    pub(super) path: Vec<u8>,
    /// Offset of the directory's own name in `path`.
    pub(super) name_start: usize,
    pub(super) depth: u32,
    /// True if the directory is known to be on the root's file system.
    pub(super) on_root: bool,
    /// The directories above this one, by which loops are detected if links are followed.
    pub(super) above: Option<Arc<DirectoryChain>>,
}

/// A directory being read.
#[derive(Debug)]
pub(super) struct DirectoryCursor {
    pub(super) open: Arc<DirectoryHandle>,
    pub(super) path: Vec<u8>,
    pub(super) depth: u32,
    /// True if the directory is known to be on the root's file system.
    pub(super) on_root: bool,
    /// This directory and those above it, by which loops are detected if links are followed.
    pub(super) chain: Option<Arc<DirectoryChain>>,
    /// Number of entries read.
    pub(super) so_far: u64,
    /// Position of the next record.
    pub(super) next: i64,
    /// The part of the directory to read; `None` for all of it.
    pub(super) part: Option<DirectoryPart>,
}

impl DirectoryCursor {
    pub(super) fn new(
        open: Arc<DirectoryHandle>,
        path: Vec<u8>,
        depth: u32,
        on_root: bool,
        chain: Option<Arc<DirectoryChain>>,
    ) -> Self {
        Self { open, path, depth, on_root, chain, so_far: 0, next: 0, part: None }
    }

    /// Returns a new cursor for the same directory, at its start.
    pub(super) fn another(&self) -> Self {
        Self::new(Arc::clone(&self.open), self.path.clone(), self.depth, self.on_root, self.chain.clone())
    }
}
