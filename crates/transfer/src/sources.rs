//! Handles the sources of a move. A source is deleted after its copy is complete and on stable
//! storage, and only if it is still the version that was copied. A file is renamed instead if its
//! new name does not exist and is on the same file system. Anything else is moved only after source
//! and destination were proven to be different places. The scheduler's workers call this, and the
//! engine for renames of whole trees.

use std::path::{Path, PathBuf};

use firstbyte_location::{Location, Strength, Version, directory_of};
use firstbyte_store::{Beneath, CopyState, Error as StoreError, Store};

use crate::apart::{Separation, SeparationProver};
use crate::error::{Error, Result};
use crate::job::{CopyJob, Tree};
use crate::local_root::LocalRoot;
use crate::mounts;
use crate::report::{CompletedObject, Verified};

/// The reason why a link is not moved.
pub(crate) const LINK_REFUSED: &str =
    "is a link, and mv does not follow links; copy its target with cp, then rm the link";

/// The sources of a move.
pub(crate) struct MovedSources<'a> {
    store: &'a Store,
    /// The local directory that contains the sources, opened before it is listed.
    root: Option<(&'a Path, Beneath)>,
    /// The source and the destination of a tree. `None` if objects were named one by one.
    tree: Option<(&'a Location, &'a Location)>,
    separation: SeparationProver,
}

impl<'a> MovedSources<'a> {
    /// Creates the sources of a move of objects that were named one by one. Each local source is
    /// looked up in its directory.
    pub(crate) fn named(store: &'a Store) -> Self {
        Self { store, root: None, tree: None, separation: SeparationProver::new(store) }
    }

    /// Creates the sources of a move of a tree.
    pub(crate) fn below(store: &'a Store, tree: &'a Tree<'_>) -> Result<Self> {
        let source = &tree.source;
        if let (Some(from), Some(to)) = (source.as_local(), tree.destination.as_local()) {
            mounts::prove_apart(from, to)?;
        }
        let root = match source.as_local() {
            Some(path) => Some((path, Beneath::open(path)?)),
            None => None,
        };
        Ok(Self {
            store,
            root,
            tree: Some((source, &tree.destination)),
            separation: SeparationProver::new(store),
        })
    }

    /// Fails unless the source of a job and its destination are different places. Equal locations
    /// are one place, even in a store that copies an object onto itself.
    pub(crate) fn prove_apart(&self, job: &CopyJob) -> Result<()> {
        if job.source == job.destination {
            let (place, other) = (job.destination.to_string(), job.source.to_string());
            return Err(Error::OnePlace { place, other });
        }
        let Some((source, destination)) = self.tree else {
            return self.separation.prove_objects(&job.source, &job.destination);
        };
        self.separation.prove(source, destination, Separation::Trees)?;
        let name = job.destination.name_below(destination).unwrap_or_default();
        let directory = name.iter().rposition(|byte| *byte == b'/').map_or(&b""[..], |end| &name[..end]);
        self.separation.prove_below(source, destination, directory)
    }

    /// Deletes a source whose version `copied` is complete at the destination.
    pub(crate) fn delete(&self, source: &Location, copied: Option<&Version>) -> Result<()> {
        let unknown =
            || Error::invalid(source, "was copied, and stays: it has no version to tell a change by");
        let copied = copied.filter(|copied| copied.strength() > Strength::None).ok_or_else(unknown)?;
        if let Some(path) = source.as_local() {
            return self.with_parent(path, |beneath, name| Ok(beneath.remove_version(name, copied)?));
        }
        match self.store.stat_object(source) {
            Ok(stat) if is_untouched(&stat.version, copied) => Ok(self.store.delete(source)?),
            Ok(stat) => Err(StoreError::Changed {
                location: source.to_string(),
                expected: Box::new(copied.clone()),
                found: Box::new(stat.version),
                trace: None,
            }
            .into()),
            Err(StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Renames the source of a job. Returns `None` if the source has to be copied instead.
    pub(crate) fn rename(
        &self,
        job: &CopyJob,
        root: Option<&LocalRoot<'_>>,
    ) -> Result<Option<CompletedObject>> {
        let Some(from) = job.source.as_local() else { return Ok(None) };
        match self.with_both(job, root, Beneath::rename)? {
            Some(true) => Ok(Some(already_there(job))),
            Some(false) | None => self.refuse_link(&job.source, from),
        }
    }

    /// Deletes the source of a job whose destination is another name of the same file (a hard
    /// link). Returns `None` if the source has to be copied instead. Both names must have been
    /// [proven](Self::prove_apart) to be different.
    pub(crate) fn remove_other_name(
        &self,
        job: &CopyJob,
        root: Option<&LocalRoot<'_>>,
    ) -> Result<Option<CompletedObject>> {
        let removed = self.with_both(job, root, Beneath::remove_other_name)?;
        Ok(removed.filter(|removed| *removed).map(|_| already_there(job)))
    }

    /// Gives the copy of a local file the file's owner, mode and times where this process may set
    /// them, because a move to another file system keeps these attributes.
    pub(crate) fn take_over(&self, job: &CopyJob, root: Option<&LocalRoot<'_>>) -> Result<()> {
        self.with_both(job, root, |source, name, target, new| {
            target.take_attributes(new, source, name, CopyState::Complete)
        })
        .map(|_| ())
    }

    /// Calls `with` with the source and the destination of a job, each as an open directory and a
    /// name beneath it. Returns `None` unless both are local.
    fn with_both<T>(
        &self,
        job: &CopyJob,
        root: Option<&LocalRoot<'_>>,
        with: impl FnOnce(&Beneath, &Path, &Beneath, &Path) -> firstbyte_store::Result<T>,
    ) -> Result<Option<T>> {
        let (Some(from), Some(to)) = (job.source.as_local(), job.destination.as_local()) else {
            return Ok(None);
        };
        self.with_parent(from, |source, name| match root.and_then(|root| root.name(to)) {
            Some((target, new)) => Ok(Some(with(source, name, target, new)?)),
            None => {
                let (target, new) = open_parent(to, &job.destination)?;
                Ok(Some(with(source, name, &target, &new)?))
            }
        })
    }

    /// Fails if the source is a link: the move would copy the target and delete the link, and leave
    /// the target where it is. In a tree, the listing has already refused links.
    fn refuse_link(&self, source: &Location, path: &Path) -> Result<Option<CompletedObject>> {
        if self.root.is_none() && path.is_symlink() {
            Err(Error::invalid(source, LINK_REFUSED))
        } else {
            Ok(None)
        }
    }

    /// Calls `with` with an open directory above a path, and the name of the path beneath that
    /// directory.
    fn with_parent<T>(&self, path: &Path, with: impl FnOnce(&Beneath, &Path) -> Result<T>) -> Result<T> {
        if let Some((root, beneath)) = &self.root
            && let Ok(name) = path.strip_prefix(root)
        {
            return with(beneath, name);
        }
        let (above, name) = open_parent(path, &Location::Local(path.to_owned()))?;
        with(&above, &name)
    }
}

/// Returns the result of a job that needed no copy, because the destination already is the source's
/// file.
fn already_there(job: &CopyJob) -> CompletedObject {
    let found = job.destination.as_local().and_then(|path| std::fs::symlink_metadata(path).ok());
    let bytes = found.map_or(0, |metadata| metadata.len());
    CompletedObject { bytes, verified: Verified::Full, version: None, source: None }
}

/// Returns whether an object is still the one that was copied. The time is compared too: if one
/// bucket has two names, the copy may have replaced its own source, with the same content.
fn is_untouched(found: &Version, copied: &Version) -> bool {
    found.has_etag_of(copied) && found.last_modified == copied.last_modified && found.agrees_with(copied)
}

/// Opens the directory of a path. Returns it together with the last component of the path.
fn open_parent(path: &Path, location: &Location) -> Result<(Beneath, PathBuf)> {
    let name = path.file_name().ok_or_else(|| Error::invalid(location, "has no name to move"))?;
    Ok((Beneath::new(directory_of(path), None), name.into()))
}

/// Renames a whole tree or a link. Returns false if this is not possible, because the destination
/// exists or is on another file system.
pub(crate) fn rename(source: &Location, destination: &Location) -> Result<bool> {
    let (Some(from), Some(to)) = (source.as_local(), destination.as_local()) else { return Ok(false) };
    let (from, name) = open_parent(from, source)?;
    let (into, new) = open_parent(to, destination)?;
    Ok(from.rename(&name, &into, &new)?)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use firstbyte_store::{ReplaceKind, StoreOptions, WalkBounds};

    use super::*;
    use crate::job::{Effect, Levels, Shard, TreeNames};

    #[test]
    fn no_object_is_moved_onto_itself_alone_or_in_a_tree() {
        let store = Store::new(StoreOptions::default()).unwrap();
        let at = |text: &str| Location::parse(OsStr::new(text)).unwrap();
        for (root, name) in [
            ("s3://b/d/", "s3://b/d/x"),
            ("s3://b/", "s3://b/x"),
            ("gs://b/d/", "gs://b/d/x"),
            ("az://b/d/", "az://b/d/x"),
        ] {
            let select = |_: &[u8]| true;
            let tree = Tree {
                source: at(root),
                names: TreeNames::Listed,
                destination: at(root),
                beginning: String::new(),
                levels: Levels::All,
                bounds: WalkBounds::default(),
                select: &select,
                shard: Shard::default(),
                effect: Effect::Apply,
            };
            let job = |source: &str, destination: &str| CopyJob {
                source: at(source),
                destination: at(destination),
                entry: None,
                over: ReplaceKind::File,
            };
            for sources in [MovedSources::named(&store), MovedSources::below(&store, &tree).unwrap()] {
                let onto_itself = sources.prove_apart(&job(name, name));
                assert!(matches!(onto_itself, Err(Error::OnePlace { .. })), "{name}");
                sources.prove_apart(&job(name, &format!("{name}y"))).unwrap();
            }
        }
    }
}
