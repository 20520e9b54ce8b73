//! Chooses the content type of a file that was stored without one.

use std::ffi::OsStr;

/// The content type for unknown extensions. Browsers then save the file.
pub(crate) const UNKNOWN: &str = "application/octet-stream";

/// Returns the content type for a file of this name.
pub(crate) fn content_type(name: Option<&OsStr>) -> &'static str {
    name.and_then(firstbyte_location::content_type).unwrap_or(UNKNOWN)
}
