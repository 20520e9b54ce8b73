//! Reserved names in a layout: the layout file, files still being written, and files that an NFS
//! client keeps because a program has them open. They are never reported as files of the layout.

use firstbyte_listing::is_silly_name;

/// The layout file's name.
pub(crate) const NAME: &str = ".firstbyte-layout";
/// Suffix of the names of files being written, which do not count as files of a layout.
const PARTIAL: &[u8] = b".firstbyte-part";
/// Prefix of the files that a layout writes itself.
const STAGED: &[u8] = b".put-";

/// True for the name of the layout file, of a file that a layout or a copy is writing, and of a
/// removed file that is still open on NFS.
pub(crate) fn is_reserved(name: &[u8]) -> bool {
    name == NAME.as_bytes() || name.starts_with(b".") && name.ends_with(PARTIAL) || is_silly_name(name)
}

/// True for the name of a file that a layout is writing.
pub(crate) fn is_staged(name: &[u8]) -> bool {
    name.starts_with(STAGED) && name.ends_with(PARTIAL)
}

/// Makes the name of a file being written. `number` makes it unique.
pub(crate) fn staged_name(number: u64) -> Vec<u8> {
    [STAGED, format!("{number:016x}").as_bytes(), PARTIAL].concat()
}
