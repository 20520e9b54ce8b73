//! Lists the files that a [`Spec`] covers at this moment. Called by `bring` and `observe`.

use std::path::PathBuf;

use super::Error;
use super::files;
use super::spec::Spec;
use crate::mounts::{self, Mounts};

/// The files of the spec that can be opened now: none below a mount that is still to be made.
pub(super) fn present(spec: &Spec) -> Result<Vec<PathBuf>, Error> {
    let is_missing = is_unmounted(spec);
    let below = |path: &PathBuf| spec.mount.as_ref().is_some_and(|mount| path.starts_with(mount));
    let paths: Vec<PathBuf> =
        spec.files.iter().filter(|path| !(is_missing && below(path))).cloned().collect();
    files::expand(&paths).map_err(|(path, source)| Error::File { path, source })
}

/// True if the spec has a mount and nothing is mounted there now.
pub(super) fn is_unmounted(spec: &Spec) -> bool {
    spec.mount
        .as_ref()
        .is_some_and(|mount| Mounts::current().is_ok_and(|mounts| mounts.at(&mounts::real(mount)).is_none()))
}

/// The files of the caches of blocks.
pub(super) fn caches(spec: &Spec) -> Result<Vec<PathBuf>, Error> {
    let mut directories: Vec<PathBuf> = spec.objects.iter().map(|object| object.cache.clone()).collect();
    directories.retain(|directory| directory.is_dir());
    files::expand(&directories).map_err(|(path, source)| Error::File { path, source })
}
