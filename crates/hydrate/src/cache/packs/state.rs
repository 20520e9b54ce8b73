//! Holds the state of the packs, in a page of memory that all processes map. The page's file is
//! never replaced, because the locks are on it.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firstbyte_store::PrivateDirectory;

use super::super::clock::boot;
use super::super::lock::{LockFile, LockMode, OPEN, Opener, let_others_open, try_lock};
use super::super::mapping::{Atomics, SharedMapping};
use super::super::shared_page::{self, CutAction};

/// Magic number and format. The format changes with the meaning of any byte of a state, a table or
/// a pack.
const MAGIC: u64 = u64::from_ne_bytes(*b"fbpack\0\x01");

#[repr(C)]
pub(super) struct PackStatePage {
    magic: AtomicU64,
    /// Number of the boot during which a process last opened the packs.
    boot: AtomicU64,
    /// 1 while a process has the packs open. Stays 1 if that process is killed.
    in_use: AtomicU64,
    /// Bytes of disk that the usage counters include for the packs and their table. Raised before
    /// the bytes are used.
    pub(super) charged: AtomicU64,
    /// The number of the next pack to create.
    pub(super) next_pack: AtomicU64,
    /// Number of the first pack to which records may be appended.
    pub(super) first_open_pack: AtomicU64,
    /// The number of the current table; 0 if there is no table yet.
    pub(super) table: AtomicU64,
    /// 1 while a table is copied into the next one. Stays 1 if the copying process is killed.
    pub(super) replacing: AtomicU64,
}

// SAFETY: all fields are atomics.
unsafe impl Atomics for PackStatePage {}

/// How the last processes have stopped using the packs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UncleanStop {
    No,
    /// A process was killed while it had the packs open.
    Killed,
    /// The machine has restarted, or the packs are new.
    Restarted,
}

#[derive(Debug)]
pub(super) struct PackState {
    file: Arc<LockFile>,
    mapped: SharedMapping,
}

impl PackState {
    /// Opens the page `name`. The first process that opens the page calls `recover` while others
    /// wait.
    pub(super) fn open(
        directory: &PrivateDirectory,
        name: &Path,
        recover: impl FnOnce(&Self, UncleanStop) -> io::Result<()>,
    ) -> io::Result<Self> {
        let (file, mapped, opener) = shared_page::open(directory, name, CutAction::Fail)?;
        let state = Self { file: Arc::new(file), mapped };
        if opener == Opener::First {
            let page = state.page();
            if page.magic.load(Ordering::Relaxed) != MAGIC {
                state.file.write_all_at(&[0; shared_page::PAGE_BYTES], 0)?;
            }
            let unclean = if page.boot.load(Ordering::Relaxed) != boot() {
                UncleanStop::Restarted
            } else if page.in_use.load(Ordering::Relaxed) != 0 {
                UncleanStop::Killed
            } else {
                UncleanStop::No
            };
            recover(&state, unclean)?;
            page.boot.store(boot(), Ordering::Relaxed);
            page.in_use.store(1, Ordering::Relaxed);
            page.magic.store(MAGIC, Ordering::Release);
        }
        let_others_open(&state.file)?;
        Ok(state)
    }

    pub(super) fn page(&self) -> &PackStatePage {
        self.mapped.at(0)
    }

    pub(super) fn file(&self) -> &Arc<LockFile> {
        &self.file
    }
}

impl Drop for PackState {
    fn drop(&mut self) {
        // The last process that closes the packs marks them as closed.
        if try_lock(&self.file, &OPEN, LockMode::Exclusive).unwrap_or(false) {
            self.page().in_use.store(0, Ordering::Relaxed);
        }
    }
}
