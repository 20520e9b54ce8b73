//! Lists the files below a directory without following links. Called wherever a tree is read,
//! copied or compared.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A path that cannot be read, and the error.
pub(crate) type UnreadPath = (PathBuf, io::Error);

/// Returns everything below `root` except directories, sorted.
pub(crate) fn files_below(root: &Path) -> Result<Vec<PathBuf>, UnreadPath> {
    let mut files = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        let failed = |error| (directory.clone(), error);
        for entry in fs::read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let is_directory = entry.file_type().map_err(failed)?.is_dir();
            if is_directory { &mut directories } else { &mut files }.push(entry.path());
        }
    }
    files.sort_unstable();
    Ok(files)
}
