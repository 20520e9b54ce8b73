//! Copies the attributes that the movers do not copy: links, owners, mode bits beyond permissions,
//! and times of directories ([`KeptAttributes::All`](crate::KeptAttributes)).
//!
//! Links of a tree are created while their names are listed. All other attributes are set at the
//! end, in a pass over the tree, when no directory changes any more. If a run is killed before that
//! pass, repeating the same copy sets the attributes of every entry. The engine calls this.

use std::fs;
use std::path::Path;

use firstbyte_location::{EntryKind, Location, directory_of, shown};
use firstbyte_store::{Beneath, CopyState, Directories, Error as StoreError, Links, ListOptions};

use crate::context::CallScope;
use crate::error::{Error, Failure, Result};
use crate::job::as_path;
use crate::job::{Effect, Extent};
use crate::report::{Observer, Summary};
use crate::settings::Compare;
use crate::tree::TreeCopy;

/// Copies the attributes of everything below a tree's source to the tree's destination. With
/// [`Extent::Whole`], also copies the attributes of the root.
pub(crate) fn of_tree(
    scope: &CallScope<'_>,
    copy: &TreeCopy<'_>,
    extent: Extent,
    observer: &dyn Observer,
    summary: &mut Summary,
) -> Result<()> {
    let (tree, Some(root)) = (copy.tree, &copy.root) else { return Ok(()) };
    let Some(source) = tree.source.as_local().filter(|_| tree.effect == Effect::Apply) else {
        return Ok(());
    };
    let options = ListOptions {
        recursive: true,
        links: Links::Report,
        directories: Directories::Listed,
        ..ListOptions::default()
    };
    let mut report = |failure: Failure| {
        observer.failed(&failure);
        summary.fail(failure);
    };
    let failed = |location: &Path, error: StoreError| Failure {
        location: shown(location).to_string(),
        error: error.into(),
    };
    let from = Beneath::new(source, None);
    // Other comparisons skip files that differ, and limits skip files that an earlier run copied.
    let compares = matches!(scope.settings.compare, Compare::SizeMtime | Compare::Checksum | Compare::None);
    let is_complete = compares && !scope.settings.limits.is_any();
    let state = if is_complete { CopyState::Complete } else { CopyState::Perhaps };
    for entry in scope.store.list(&tree.source, &options)? {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error @ StoreError::Cancelled) => return Err(error.into()),
            Err(error) => {
                report(Failure::of_listing(&tree.source, error));
                continue;
            }
        };
        let name = as_path(&entry.name);
        if entry.kind != EntryKind::Other && tree.contains(&entry.name) {
            let taken = root.beneath.take_attributes(name, &from, name, state);
            taken.unwrap_or_else(|error| report(failed(&source.join(name), error)));
        }
    }
    // The root is included, unless the filter selects only among the contents of the root.
    if extent == Extent::Whole && (tree.select)(b"") {
        let whole = root.beneath.take_attributes(Path::new(""), &from, Path::new(""), state);
        whole.unwrap_or_else(|error| report(failed(source, error)));
    }
    Ok(())
}

/// Copies `source` as a link. Returns `None` if `source` is not a link: its content must then be
/// copied.
pub(crate) fn one_link(source: &Path, destination: &Path) -> Result<Option<Summary>> {
    if !fs::symlink_metadata(source).is_ok_and(|metadata| metadata.is_symlink()) {
        return Ok(None);
    }
    let target = fs::read_link(source).map_err(Error::io(shown(source)))?;
    let ((above, name), (from, own)) = (open_parent(destination)?, open_parent(source)?);
    let made = above.make_link(name, &target)?;
    above.take_attributes(name, &from, own, CopyState::Complete)?;
    Ok(Some(Summary { objects: u64::from(made), skipped: u64::from(!made), ..Summary::default() }))
}

/// Copies the attributes of one file or link.
pub(crate) fn of_one(source: &Path, destination: &Path) -> Result<()> {
    let ((above, name), (from, own)) = (open_parent(destination)?, open_parent(source)?);
    Ok(above.take_attributes(name, &from, own, CopyState::Complete)?)
}

/// Opens the directory of a path. Returns it together with the last component of the path.
fn open_parent(path: &Path) -> Result<(Beneath, &Path)> {
    let name = path
        .file_name()
        .ok_or_else(|| Error::invalid(&Location::Local(path.to_owned()), "is no name for a copy"))?;
    let above = directory_of(path);
    Ok((Beneath::new(above, None), Path::new(name)))
}
