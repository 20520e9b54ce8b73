//! The jobs of a worker: to open a directory, or to continue reading an open one.

use std::sync::Arc;

use crate::chain::Chain;
use crate::open::Open;
use crate::split::Part;

/// A job of a worker.
#[derive(Debug)]
pub(super) enum Job {
    /// Open a directory that was found, and read it.
    Enter(Found),
    /// Continue to read an open directory.
    Read(Cursor),
    /// Read a part of a large directory, through a new descriptor.
    Part(Cursor, Part),
}

/// A directory that was found.
#[derive(Debug)]
pub(super) struct Found {
    /// The parent directory, if it is still open.
    pub(super) at: Option<Arc<Open>>,
    /// Path from the root, with a `/` at its end.
    pub(super) path: Vec<u8>,
    /// Offset of the directory's own name in `path`.
    pub(super) name: usize,
    pub(super) depth: u32,
    /// True if the directory is known to be on the root's file system.
    pub(super) on_root: bool,
    /// The directories above, which detect loops if links are followed.
    pub(super) above: Option<Arc<Chain>>,
}

/// A directory being read.
#[derive(Debug)]
pub(super) struct Cursor {
    pub(super) open: Arc<Open>,
    pub(super) path: Vec<u8>,
    pub(super) depth: u32,
    /// True if the directory is known to be on the root's file system.
    pub(super) on_root: bool,
    /// This directory and those above it, which detect loops if links are followed.
    pub(super) chain: Option<Arc<Chain>>,
    /// Number of entries read.
    pub(super) so_far: u64,
    /// Position of the next record.
    pub(super) next: i64,
    /// The part of the directory to read; `None` for all of it.
    pub(super) part: Option<Part>,
}

impl Cursor {
    pub(super) fn new(
        open: Arc<Open>,
        path: Vec<u8>,
        depth: u32,
        on_root: bool,
        chain: Option<Arc<Chain>>,
    ) -> Self {
        Self { open, path, depth, on_root, chain, so_far: 0, next: 0, part: None }
    }

    /// A new cursor for the same directory, with nothing read.
    pub(super) fn another(&self) -> Self {
        Self::new(Arc::clone(&self.open), self.path.clone(), self.depth, self.on_root, self.chain.clone())
    }
}
