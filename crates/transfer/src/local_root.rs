//! Represents the local directory into which a tree is copied. Every name is opened, replaced and
//! deleted beneath this directory, and no link below it is followed ([`Beneath`]).

use std::path::Path;

use firstbyte_location::shown;
use firstbyte_store::{Beneath, LocalFile, PartialPermissions, ReplaceKind};

use crate::error::{Error, Result};
use crate::job::{Tree, as_path, is_unfinished_file};
use crate::settings::SourceLimits;

/// The destination of a tree, if the destination is local.
pub(crate) struct LocalRoot<'a> {
    tree: &'a Tree<'a>,
    path: &'a Path,
    /// The limits on length and time that a file must meet to be deleted.
    limits: SourceLimits,
    pub(crate) beneath: Beneath,
}

impl<'a> LocalRoot<'a> {
    pub(crate) fn of(tree: &'a Tree<'a>, limits: SourceLimits) -> Option<Self> {
        let path = tree.destination.as_local()?;
        Some(Self { tree, path, limits, beneath: Beneath::new(path, tree.source.as_local()) })
    }

    /// Opens the partial file of `path`. Returns `None` if `path` is not beneath the root.
    pub(crate) fn open_partial(
        &self,
        path: &Path,
        over: ReplaceKind,
        privacy: PartialPermissions,
    ) -> Option<firstbyte_store::Result<LocalFile>> {
        let (beneath, name) = self.name(path)?;
        Some(LocalFile::open_beneath(beneath, name, over, privacy))
    }

    /// Returns the root, and the name of `path` beneath it. `None` if `path` is not beneath the
    /// root.
    pub(crate) fn name<'p>(&self, path: &'p Path) -> Option<(&Beneath, &'p Path)> {
        Some((&self.beneath, path.strip_prefix(self.path).ok()?))
    }

    /// Creates the link `name` with the same target as the source's link. Returns false if the link
    /// exists already.
    pub(crate) fn link(&self, name: &[u8], source: &Path) -> Result<bool> {
        let path = source.join(as_path(name));
        let target = std::fs::read_link(&path).map_err(Error::io(shown(&path)))?;
        Ok(self.beneath.make_link(as_path(name), &target)?)
    }

    /// Removes the directory that a complete file replaces. Returns how many files were in the
    /// directory.
    pub(crate) fn remove_replaced(&self, path: &Path) -> Result<u64> {
        let Some((beneath, name)) = self.name(path) else { return Ok(0) };
        let in_limits = |name: &[u8]| {
            let found = beneath.find(as_path(name)).ok().flatten();
            !self.limits.is_any()
                || found.is_some_and(|found| self.limits.take(Some(found.size), Some(found.modified)))
        };
        let deletable =
            |name: &[u8]| is_unfinished_file(name) || (self.tree.contains(name) && in_limits(name));
        Ok(beneath.remove_tree(name, &deletable)?)
    }
}
