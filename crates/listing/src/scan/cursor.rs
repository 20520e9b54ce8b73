//! The jobs of a worker: to open a directory, or to continue reading an open one.

use std::sync::Arc;

use crate::chain::Chain;
use crate::open::Open;
use crate::split::Part;

/// Something to do.
#[derive(Debug)]
pub(super) enum Job {
    /// Open a directory that was found, and read it.
    Enter(Found),
    /// Read on in one that is open.
    Read(Cursor),
    /// Read a part of a large one, from its own position.
    Part(Cursor, Part),
}

/// A directory that was found.
#[derive(Debug)]
pub(super) struct Found {
    /// The directory it is in, if that is still open.
    pub(super) at: Option<Arc<Open>>,
    /// From the root, with a `/` at its end.
    pub(super) path: Vec<u8>,
    /// Where its own name starts in its path.
    pub(super) name: usize,
    pub(super) depth: u32,
    /// Whether it is known to be on the root's file system.
    pub(super) on_root: bool,
    /// The directories it is in, where links are followed.
    pub(super) above: Option<Arc<Chain>>,
}

/// A directory being read.
#[derive(Debug)]
pub(super) struct Cursor {
    pub(super) open: Arc<Open>,
    pub(super) path: Vec<u8>,
    pub(super) depth: u32,
    /// Whether it is known to be on the root's file system.
    pub(super) on_root: bool,
    /// Itself and the directories above it, where links are followed.
    pub(super) chain: Option<Arc<Chain>>,
    /// Entries read of it.
    pub(super) so_far: u64,
    /// The position of the record that comes next.
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

    /// The same directory, nothing of it read.
    pub(super) fn another(&self) -> Self {
        Self::new(Arc::clone(&self.open), self.path.clone(), self.depth, self.on_root, self.chain.clone())
    }
}
