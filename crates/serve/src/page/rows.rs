//! Reads the first entries of a directory, for browsers that run no scripts.

use std::io;
use std::os::unix::ffi::OsStringExt;

use crate::access::keys::RequestRights;
use crate::object::directory::{EntryReader, VisibleKind};
use crate::object::root::ServedRoot;
use crate::path::EntryPath;

/// Maximum number of rows in a page without scripts, about 100 KB. Directories that users browse by
/// hand usually have fewer entries.
pub(crate) const ROWS_WITHOUT_SCRIPTS: usize = 1000;

/// One row of a page without scripts.
#[derive(Debug)]
pub(crate) struct PageRow {
    /// The entry's name, as on disk.
    pub(crate) name: Vec<u8>,
    pub(crate) is_file: bool,
    /// The length of a file in bytes. `None` for a directory, and if the origin of a gateway does
    /// not state the length.
    pub(crate) size: Option<u64>,
}

/// Reads at most [`ROWS_WITHOUT_SCRIPTS`] entries of `path` that `access` may see, then sorts them:
/// directories first, then by name. Entries that the file system returns later are left out,
/// whatever their names. Blocking.
pub(super) fn first(root: &ServedRoot, path: &EntryPath, access: &RequestRights) -> io::Result<Vec<PageRow>> {
    let mut reader = EntryReader::open_for(root, path, access)?;
    let mut rows = Vec::new();
    while rows.len() < ROWS_WITHOUT_SCRIPTS
        && let Some(entry) = reader.next()
    {
        let entry = entry?;
        let Some(identity) = reader.identity(&entry) else { continue };
        let is_file = entry.kind == VisibleKind::File;
        let size = is_file.then_some(identity.size);
        rows.push(PageRow { name: entry.name.into_vec(), is_file, size });
    }
    sort(&mut rows);
    Ok(rows)
}

/// Sorts directories first, then by name.
pub(crate) fn sort(rows: &mut [PageRow]) {
    rows.sort_by(|a, b| (a.is_file, &a.name).cmp(&(b.is_file, &b.name)));
}
