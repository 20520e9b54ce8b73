//! Where tests keep files.

use std::path::Path;

use tempfile::TempDir;

/// A directory that goes when it is dropped; in memory where the machine has room for that.
///
/// # Panics
/// When no directory can be made.
#[must_use]
pub fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a directory for test files")
}
