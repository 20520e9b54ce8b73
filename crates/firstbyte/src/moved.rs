//! Recognizes moves that an earlier run has finished. A run that is killed after its last deletion
//! leaves no source to parse or list. When the same move is run again, it has nothing to do and
//! must not fail. The command line and Python share this rule.

use std::ffi::OsStr;

use firstbyte_location::{EntryKind, Location};
use firstbyte_store::{Error as StoreError, Store};

use crate::copy_rules::{Destination, ParsedSource};

/// Returns the source and the target of a tree that an earlier run has moved. Returns `None` if the
/// source exists or the target does not. `parsed` is the result of parsing `text`.
pub fn moved_tree<E>(
    parsed: &Result<ParsedSource, E>,
    text: &OsStr,
    destination: &Destination,
    store: &Store,
) -> Option<(Location, Location)> {
    let is_gone = match parsed {
        Err(_) => true,
        Ok(ParsedSource::Object(Location::Local(path))) => path.symlink_metadata().is_err(),
        Ok(_) => false,
    };
    let tree = ParsedSource::tree(text).ok().filter(|_| is_gone)?;
    let target = tree.target(destination).ok()?;
    match tree {
        ParsedSource::Tree { root, .. } if is_moved(store, &root, &target) => Some((root, target)),
        _ => None,
    }
}

/// Returns true if `root` does not exist and `target` is a directory.
#[must_use]
pub fn is_moved(store: &Store, root: &Location, target: &Location) -> bool {
    let is_gone = match store.stat(root) {
        Err(error @ StoreError::NotFound { .. }) => !error.concerns_store(),
        _ => false,
    };
    is_gone && store.stat(target).is_ok_and(|found| found.kind == EntryKind::Directory)
}
