//! Decides whether an object that was named by itself has to be copied. Such an object is in no
//! listing, so both the source and the destination are looked up.
//!
//! The engine calls this for one object, and the workers for many.

use firstbyte_location::{EntryKind, Location};
use firstbyte_store::{Error as StoreError, Metadata, Store};

use crate::compare;
use crate::error::{Error, Result};
use crate::settings::{Compare, TransferSettings};
use crate::times::{SourceTime, stored_times_at};

/// Returns whether the settings want an object to be copied. The settings may limit sources, or
/// compare them with the destination.
pub(crate) fn is_wanted(
    store: &Store,
    settings: &TransferSettings,
    source: &Location,
    destination: &Location,
) -> Result<bool> {
    let TransferSettings { compare, limits, .. } = settings;
    let compares = matches!(compare, Compare::Size | Compare::Newer | Compare::Existence);
    if !compares && !limits.is_any() {
        return Ok(true);
    }
    let from = store.stat_object(source)?;
    if !limits.take(from.size(), from.modified) {
        return Ok(false);
    }
    if !compares {
        return Ok(true);
    }
    match store.stat_object(destination) {
        Err(StoreError::NotFound { .. }) => Ok(true),
        Err(error) => Err(error.into()),
        Ok(there) => Ok(match compare {
            Compare::Size => from.size() != there.size(),
            Compare::Newer => {
                let stored = || stored_times_at(destination);
                !compare::is_newer(there.modified, SourceTime::of_stat(&from), stored)
            }
            _ => false,
        }),
    }
}

/// Returns whether the destination is a complete copy of the source as it is now, by size and time.
/// Local files are also compared by their bytes: a file that was never copied may have the length
/// and time of the source by chance, or because all files of a package have one time.
///
/// A local file is looked up first. That needs no request, and often makes the request for the
/// other side unnecessary.
///
/// `store` does not retry. The copy that follows retries its own requests, waits for a silent
/// server, and describes its failure better.
pub(crate) fn is_unchanged(
    store: &Store,
    settings: &TransferSettings,
    source: &Location,
    destination: &Location,
) -> Result<bool> {
    let is_upload = source.as_local().is_some();
    let is_described = settings.metadata != Metadata::default() || store.describes_writes();
    // If the settings choose how copies are stored, an existing copy may have been stored in
    // another way.
    if settings.compare != Compare::SizeMtime
        || settings.checksum.is_some()
        || (is_described && destination.as_local().is_none())
    {
        return Ok(false);
    }
    let look = |location| match store.stat_object(location) {
        // A pipe or device has no length. The copy that follows reads or refuses it.
        Ok(stat) => Ok(Some(stat).filter(|stat| stat.kind == EntryKind::File && stat.size().is_some())),
        Err(error) if error.is_transient() => Ok(None),
        Err(error) if error.concerns_store() || matches!(error, StoreError::Cancelled) => Err(error),
        Err(_) => Ok(None),
    };
    let (first, second) = if is_upload { (source, destination) } else { (destination, source) };
    let Some(first) = look(first)? else { return Ok(false) };
    let Some(second) = look(second)? else { return Ok(false) };
    let (from, there) = if is_upload { (first, second) } else { (second, first) };
    if !compare::is_copied(&from, &there, || stored_times_at(destination)) {
        return Ok(false);
    }
    if source.as_local().is_none() || destination.as_local().is_none() {
        return Ok(true);
    }
    match compare::has_same_bytes(store, source, destination) {
        Err(Error::Store(error @ StoreError::Cancelled)) => Err(error.into()),
        // The copy that follows reports the error.
        same => Ok(same.unwrap_or(false)),
    }
}
