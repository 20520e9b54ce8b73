//! Reserved names in a layout: the layout file, files still being written, and files that an NFS
//! client keeps because a program has them open. They are never reported as files of the layout.

use firstbyte_listing::is_silly_name;

/// The layout file's name.
pub(crate) const NAME: &str = ".firstbyte-layout";
/// The end of the names of files being written, which no layout takes for files of its own.
const PARTIAL: &[u8] = b".firstbyte-part";
/// The start of those that a layout writes itself.
const STAGED: &[u8] = b".put-";

/// Whether a name is the layout file's, that of a file still being written, here or by a copy, or
/// that of a file that is gone but open.
pub(crate) fn is_reserved(name: &[u8]) -> bool {
    name == NAME.as_bytes() || name.starts_with(b".") && name.ends_with(PARTIAL) || is_silly_name(name)
}

/// Whether a name is that of a file a layout is writing.
pub(crate) fn is_staged(name: &[u8]) -> bool {
    name.starts_with(STAGED) && name.ends_with(PARTIAL)
}

/// The name of a file being written; `number` keeps it from being another's.
pub(crate) fn staged_name(number: u64) -> Vec<u8> {
    [STAGED, format!("{number:016x}").as_bytes(), PARTIAL].concat()
}
