//! Reports the free and the used space of the function's directory.

use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use firstbyte::size::human;
use firstbyte_location::shown;
use firstbyte_store::{FailureKind, LocalFile};

use crate::error::{InvocationFailure, Result};

/// Number of bytes reserved for the journal of a download, which has at most 32,768 records of 17
/// bytes.
const JOURNAL_BYTES: u64 = 1 << 20;
/// Number of bytes in one unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

/// Returns the bytes of disk space that files below `directory` use. `None` if `go_on` returned
/// false before all were found.
pub(crate) fn used_bytes(directory: &Path, go_on: &dyn Fn() -> bool) -> Option<u64> {
    let mut entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.try_fold(0, |sum, entry| match entry.metadata() {
        _ if !go_on() => None,
        Ok(metadata) if metadata.is_dir() => Some(sum + used_bytes(&entry.path(), go_on)?),
        Ok(metadata) => Some(sum + metadata.blocks() * BLOCK_BYTES),
        // The file was removed in the meantime.
        Err(_) => Some(sum),
    })
}

/// Returns the number of free bytes on the file system of `path`. `path` need not exist. `None` if
/// the system does not report them.
pub(crate) fn free(path: &Path) -> Option<u64> {
    let existing = path.ancestors().find(|path| path.exists())?;
    // File systems without a size of their own report a size of 0.
    let file_system = rustix::fs::statvfs(existing).ok().filter(|stat| stat.f_blocks > 0)?;
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

/// Returns the disk space that a file and the unfinished copy beside it use.
pub(crate) fn present_bytes(path: &Path) -> u64 {
    let files = [path, &LocalFile::partial_path(path)].map(Path::symlink_metadata);
    files.into_iter().flatten().filter(Metadata::is_file).map(|file| file.blocks() * BLOCK_BYTES).sum()
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

/// Returns whether `path` does not exist or is an empty directory.
pub(crate) fn is_vacant(path: &Path) -> bool {
    match fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_counted_until_time_runs_out() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("a"), vec![1; 5000]).unwrap();
        assert!(used_bytes(root.path(), &|| true).unwrap() >= 5000);
        assert_eq!(used_bytes(root.path(), &|| false), None);
        assert!(!is_vacant(root.path()) && is_vacant(&root.path().join("none")));
    }

    #[test]
    fn a_file_system_that_states_no_size_is_not_full() {
        assert_eq!(free(Path::new("/proc/none")), None);
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
