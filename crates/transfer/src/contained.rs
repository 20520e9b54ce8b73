//! Proves that no directory of one tree is also a directory of another. Their paths cannot prove
//! that: a FUSE or network file system, an overlay or a server can show a directory of one tree
//! under a name in the other, without sharing the directories above it. Unless the table of mounts
//! is enough, both trees are listed for the proof, once per run. [`apart`](crate::apart) calls
//! this.

use std::io;

use firstbyte_location::Location;
use firstbyte_store::{Directories, Error as StoreError, Links, ListOptions, Store};

use crate::error::{Error, Result};
use crate::job;
use crate::marker::MarkerFile;
use crate::mounts;

/// Fails if one of the two locations is part of the other.
pub(crate) fn prove_apart(store: &Store, source: &Location, destination: &Location) -> Result<()> {
    if let (Some(from), Some(to)) = (source.as_local(), destination.as_local())
        && mounts::is_every_overlap_in_table(from, to)
    {
        return Ok(());
    }
    // No marker is created in a bucket, where an object lock or versioning may keep it.
    if !job::has_directories(destination) {
        return Ok(());
    }
    let roots = |location: &Location| {
        roots(location).map_err(|error| Error::Unproven {
            place: destination.to_string(),
            other: source.to_string(),
            why: error.to_string(),
        })
    };
    let (sources, destinations) = (roots(source)?, roots(destination)?);
    for from in &sources {
        for to in &destinations {
            if job::has_directories(from) {
                MarkerFile::new(store, to, from, "")?.prove_absent_below(from)?;
            }
            prove_outside(store, from, to)?;
        }
    }
    Ok(())
}

/// Returns a directory and the mount points below it.
fn roots(location: &Location) -> io::Result<Vec<Location>> {
    let below = location.as_local().map_or(Ok(Vec::new()), mounts::points_below)?;
    Ok([location.clone()].into_iter().chain(below.into_iter().map(Location::Local)).collect())
}

/// Fails if a directory below `destination` is the `source` itself. Such a directory must contain
/// the first name of the source. So a marker is created in each directory that has this name, and
/// must not appear in the source. No marker is created in the source, which may be read-only, while
/// the run deletes names in the destination anyway.
fn prove_outside(store: &Store, source: &Location, destination: &Location) -> Result<()> {
    let listed = store.list(source, &ListOptions::default());
    let first = match listed.and_then(|mut entries| entries.next().transpose()) {
        Ok(Some(first)) => first,
        // A source without names has nothing that could be deleted.
        Ok(None) | Err(StoreError::NotFound { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let first = first.name.strip_suffix(b"/").unwrap_or(&first.name).to_vec();
    // A deletion does not follow links, so their targets are safe.
    let options = ListOptions {
        recursive: true,
        links: Links::Report,
        directories: Directories::Listed,
        ..ListOptions::default()
    };
    for entry in store.list(destination, &options)? {
        let name = entry?.name;
        let name = name.strip_suffix(b"/").unwrap_or(&name);
        let Some(directory) = name.strip_suffix(&first[..]) else { continue };
        if directory.is_empty() || directory.ends_with(b"/") {
            let directory = destination.join(directory);
            MarkerFile::new(store, &directory, source, "")?.prove_absent(std::slice::from_ref(source), "")?;
        }
    }
    Ok(())
}
