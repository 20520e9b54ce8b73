//! One page that all processes map, in a file that carries their locks. Used for the counters of
//! the cache and for the state of its packs.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::lock::{LockFile, Opener, lock_open};
use super::mapping::SharedMapping;

/// The smallest page size.
pub(super) const LEN: usize = 4096;

/// Opens the page at `path`, zeros if it is new or has another length. The first opener must
/// prepare it, and both call [`opened`](super::lock::opened) then.
pub(super) fn open(path: &Path) -> io::Result<(LockFile, SharedMapping, Opener)> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    let file = LockFile::new(file);
    let opener = lock_open(&file)?;
    if opener == Opener::First && file.metadata()?.len() != LEN as u64 {
        file.write_all_at(&[0; LEN], 0)?;
        file.set_len(LEN as u64)?;
    }
    if file.metadata()?.len() < LEN as u64 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let page = SharedMapping::new(&file, LEN)?;
    Ok((file, page, opener))
}
