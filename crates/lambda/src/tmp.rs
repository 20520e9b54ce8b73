//! Manages the function's directory: its free space, its used space, and the removal of a call's
//! files.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use firstbyte::size::human;
use firstbyte_location::shown;
use firstbyte_store::FailureKind;

use crate::error::{InvocationFailure, Result};

/// Number of bytes reserved for the journal of a download, which has at most 32,768 records of 17
/// bytes.
const JOURNAL_BYTES: u64 = 1 << 20;
/// Number of bytes in one unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

/// Returns the bytes of disk space that files below `directory` use.
pub(crate) fn used_bytes(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => used_bytes(&entry.path()),
            Ok(metadata) => metadata.blocks() * BLOCK_BYTES,
            // The file was removed in the meantime.
            Err(_) => 0,
        })
        .sum()
}

/// Returns the number of free bytes on the file system of `path`. `path` need not exist. `None` if
/// the system does not report them.
pub(crate) fn free(path: &Path) -> Option<u64> {
    let existing = path.ancestors().find(|path| path.exists())?;
    let file_system = rustix::fs::statvfs(existing).ok()?;
    Some(file_system.f_bavail * file_system.f_frsize)
}

/// Checks that a file of `size` bytes fits at `path`. The space of an earlier call's partial file
/// counts as free.
///
/// # Errors
/// [`FailureKind::Full`], with the required size.
pub(crate) fn check_room(path: &Path, size: u64) -> Result<()> {
    let here: u64 = partial_files(path)
        .iter()
        .filter_map(|path| path.metadata().ok())
        .map(|m| m.blocks() * BLOCK_BYTES)
        .sum();
    let Some(free) = free(path) else { return Ok(()) };
    if size.saturating_add(JOURNAL_BYTES) <= free.saturating_add(here) {
        return Ok(());
    }
    Err(too_small(path, &human(size.saturating_add(JOURNAL_BYTES)), free.saturating_add(here)))
}

/// Returns the failure for a call that needs more space than is free.
pub(crate) fn too_small(path: &Path, needed: &str, free: u64) -> InvocationFailure {
    InvocationFailure::new(
        FailureKind::Full,
        format!(
            "{}: needs {needed}, and {} are free; give the function more ephemeral storage, or read it with \
             action `open`, which writes nothing",
            shown(path),
            human(free)
        ),
    )
}

/// Returns the partial file of `path` and its journal, in the same directory.
pub(crate) fn partial_files(path: &Path) -> Vec<PathBuf> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Vec::new() };
    let beginning = [b".", name.as_bytes(), b".firstbyte-"].concat();
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().as_bytes().starts_with(&beginning))
        .map(|entry| entry.path())
        .collect()
}

/// Whether `path` does not exist or is an empty directory.
pub(crate) fn is_vacant(path: &Path) -> bool {
    match fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Removes files with their partial files, and directories with all their content. Of `root`,
/// removes only the content.
pub(crate) fn remove(paths: &[PathBuf], root: &Path) {
    for path in paths {
        let partial = partial_files(path);
        for path in partial.iter().chain([path]) {
            // Errors are ignored. Paths that cannot be removed count in the next answer's
            // `tmp_bytes`.
            let _ = match path.symlink_metadata() {
                Ok(metadata) if metadata.is_dir() && path == root => remove_contents(path),
                Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
                Ok(_) => fs::remove_file(path),
                Err(error) => Err(error),
            };
        }
    }
}

fn remove_contents(directory: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?
        } else {
            fs::remove_file(entry.path())?
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_removed_with_its_unfinished_copy_and_the_root_stays() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        for name in ["a", ".a.firstbyte-part", ".a.firstbyte-journal", "ab", ".ab.firstbyte-part"] {
            fs::write(path(name), vec![1; 5000]).unwrap();
        }
        assert!(used_bytes(root.path()) >= 25_000);
        remove(&[path("a"), path("missing")], root.path());
        let left: Vec<_> =
            fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "{left:?}");
        fs::create_dir_all(path("d/e")).unwrap();
        remove(&[root.path().to_owned()], root.path());
        assert!(is_vacant(root.path()) && root.path().exists() && is_vacant(&path("none")));
    }

    #[test]
    fn a_file_that_cannot_fit_is_refused_with_the_required_size() {
        let root = tempfile::tempdir().unwrap();
        let failure = check_room(&root.path().join("deep/er"), 1 << 60).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Full);
        assert!(failure.message.contains("needs 1024 PiB"), "{failure}");
        assert!(check_room(&root.path().join("small"), 1).is_ok());
    }
}
