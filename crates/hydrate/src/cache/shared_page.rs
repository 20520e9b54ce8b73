//! Opens a page of memory that all processes map, in a file that also has their locks. Used for the
//! usage counters and for the state of the packs.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use firstbyte_store::{FileAccess, PrivateDirectory};

use super::lock::{LockFile, LockWait, Opener, lock_open};
use super::mapping::SharedMapping;

/// Length of the page, bytes: the smallest page size.
pub(super) const PAGE_BYTES: usize = 4096;

/// Treatment of a page file that another program has cut short while processes use it. These
/// processes die at their next access to the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CutAction {
    /// Start again with a page of zeros, because its counts can be counted again.
    Restore,
    Fail,
}

/// Opens the page `name`, which is all zeros if it is new or had another length. The first opener
/// must initialize the page. Every opener must then call
/// [`let_others_open`](super::lock::let_others_open).
pub(super) fn open(
    directory: &PrivateDirectory,
    name: &Path,
    if_cut: CutAction,
) -> io::Result<(LockFile, SharedMapping, Opener)> {
    let file = LockFile::new(directory.file(name, FileAccess::Create)?);
    let mut opener = lock_open(&file, LockWait::Briefly)?;
    let length = file.metadata()?.len();
    if length < PAGE_BYTES as u64 && if_cut == CutAction::Restore {
        opener = Opener::First;
    }
    if opener == Opener::First && length != PAGE_BYTES as u64 {
        file.write_all_at(&[0; PAGE_BYTES], 0)?;
        file.set_len(PAGE_BYTES as u64)?;
    } else if length < PAGE_BYTES as u64 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let page = SharedMapping::new(&file, PAGE_BYTES)?;
    Ok((file, page, opener))
}
