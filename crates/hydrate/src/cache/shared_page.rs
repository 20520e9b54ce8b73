//! One page that all processes map, in a file that carries their locks. Used for the counters of
//! the cache and for the state of its packs.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use firstbyte_store::{Opening, PrivateDirectory};

use super::lock::{LockFile, Opener, Waiting, lock_open};
use super::mapping::SharedMapping;

/// The smallest page size.
pub(super) const LEN: usize = 4096;

/// Opens the page `name`, zeros if it is new or has another length. The first opener must
/// prepare it, and both call [`opened`](super::lock::opened) then.
pub(super) fn open(
    directory: &PrivateDirectory,
    name: &Path,
) -> io::Result<(LockFile, SharedMapping, Opener)> {
    let file = LockFile::new(directory.file(name, Opening::Create)?);
    let opener = lock_open(&file, Waiting::Briefly)?;
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
