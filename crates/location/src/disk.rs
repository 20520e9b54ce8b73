//! Errors of a disk without room, which callers answer by freeing some, or by naming it.

use std::io;

/// Whether a disk is full, or a quota reached.
#[must_use]
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
