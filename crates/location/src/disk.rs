//! Recognises the errors of a full disk. Callers free space, or name the disk in their message.

use std::io;

/// Returns true if an error means that a disk is full or a quota is reached.
#[must_use]
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
