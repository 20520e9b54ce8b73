//! Proves that no directory of one tree is a directory of another where no path shows it: a FUSE or
//! network file system, an overlay, a server can show a directory of this machine, or of a host,
//! under a name above which nothing is shared. Both trees are listed for that, once a run, unless
//! the table of mounts answers. [`apart`](crate::apart) calls this.

use firstbyte_location::Location;
use firstbyte_store::{Directories, Error as StoreError, Links, ListOptions, Store};

use crate::error::Result;
use crate::job;
use crate::marker::Marker;
use crate::mounts;

/// Fails if the destination is a part of the source, or the source of the destination.
pub(crate) fn prove_apart(store: &Store, source: &Location, destination: &Location) -> Result<()> {
    if let (Some(from), Some(to)) = (source.as_local(), destination.as_local())
        && mounts::show_overlaps(from, to)
    {
        return Ok(());
    }
    // No marker is written to a bucket: a lock or versions may keep it.
    if !job::has_directories(destination) {
        return Ok(());
    }
    let (sources, destinations) = (roots(source), roots(destination));
    for from in &sources {
        for to in &destinations {
            if job::has_directories(from) {
                Marker::new(store, to, from, "")?.shows_nowhere_below(from)?;
            }
            prove_outside(store, from, to)?;
        }
    }
    Ok(())
}

/// A directory, and what is mounted below it.
fn roots(location: &Location) -> Vec<Location> {
    let below = location.as_local().map(mounts::points_below).unwrap_or_default();
    [location.clone()].into_iter().chain(below.into_iter().map(Location::Local)).collect()
}

/// Fails if a directory of `destination` is `source`. Each that holds the source's first name is
/// tried with a marker: the source may be read-only, and what is deleted in the destination is not.
fn prove_outside(store: &Store, source: &Location, destination: &Location) -> Result<()> {
    let listed = store.list(source, &ListOptions::default());
    let first = match listed.and_then(|mut entries| entries.next().transpose()) {
        Ok(Some(first)) => first,
        // Without names it cannot lose any.
        Ok(None) | Err(StoreError::NotFound { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let first = first.name.strip_suffix(b"/").unwrap_or(&first.name).to_vec();
    // What a link leads to is not deleted.
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
            Marker::new(store, &directory, source, "")?.shows_nowhere(std::slice::from_ref(source), "")?;
        }
    }
    Ok(())
}
