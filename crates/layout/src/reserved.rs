//! Recognises reserved names in a layout: the layout file, files still being written, and files
//! that an NFS client keeps because a program has them open. Such names are never reported as files
//! of the layout.

use firstbyte_listing::is_silly_name;
use firstbyte_location::{PARTIAL_SUFFIX, is_partial_name};

/// The layout file's name.
pub(crate) const NAME: &str = ".firstbyte-layout";
/// Prefix of the temporary files that a layout itself writes.
const STAGED: &[u8] = b".put-";

/// True for three kinds of names: the layout file, a file that a layout or a copy is writing, and a
/// removed file that is still open on NFS.
pub(crate) fn is_reserved(name: &[u8]) -> bool {
    name == NAME.as_bytes() || is_partial_name(name) || is_silly_name(name)
}

/// True for the name of a temporary file that a layout is writing.
pub(crate) fn is_staged(name: &[u8]) -> bool {
    name.starts_with(STAGED) && is_partial_name(name)
}

/// Makes the name of a temporary file. `number` makes the name unique.
pub(crate) fn staged_name(number: u64) -> Vec<u8> {
    [STAGED, format!("{number:016x}").as_bytes(), PARTIAL_SUFFIX.as_bytes()].concat()
}
