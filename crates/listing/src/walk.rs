//! Lists a tree in the form of a store's listing: one entry at a time, each with its name relative
//! to the root.

use std::path::{Path, PathBuf};

use firstbyte_location::Entry;

use crate::batch::Batch;
use crate::bounds::WalkBounds;
use crate::error::Result;
use crate::options::{ListingOptions, Symlinks};
use crate::scan::Scan;
use crate::sorted::{SortedWalk, describe};
use crate::stream::{BatchStream, stream_of};

/// Order of the entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EntryOrder {
    /// The order in which several threads find the entries.
    #[default]
    Any,
    /// By the bytes of the whole name, where a directory counts as `NAME/`. This is the order of an
    /// object store's listing. One thread reads, and keeps the names of one directory per level in
    /// memory, within limits (see `sorted.rs`).
    Bytes,
}

/// The entries below a root. If links are followed, a dangling link is returned as an error.
#[derive(Debug)]
pub struct Walk(Kinds);

#[derive(Debug)]
enum Kinds {
    Any(UnsortedEntries),
    Bytes(Box<SortedWalk>),
}

/// Lists the entries below the directory `root`.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io) if `root` cannot be opened as a directory.
pub fn walk(root: &Path, order: EntryOrder, options: &ListingOptions) -> Result<Walk> {
    walk_within(root, order, options, WalkBounds::default())
}

/// Lists the entries below the directory `root`, within `bounds`.
///
/// # Errors
/// The errors of [`walk`].
pub fn walk_within(
    root: &Path,
    order: EntryOrder,
    options: &ListingOptions,
    bounds: WalkBounds,
) -> Result<Walk> {
    Ok(Walk(match order {
        EntryOrder::Any => Kinds::Any(UnsortedEntries {
            root: root.to_owned(),
            symlinks: options.symlinks,
            stream: stream_of(root, Scan::within(root, options, bounds.clone())?)?,
            bounds,
            found: Vec::new().into_iter(),
        }),
        EntryOrder::Bytes => Kinds::Bytes(Box::new(SortedWalk::open(root, options, bounds)?)),
    }))
}

impl Iterator for Walk {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Kinds::Any(unsorted) => unsorted.next(),
            Kinds::Bytes(sorted) => sorted.next(),
        }
    }
}

/// The entries of a stream's batches, one at a time.
#[derive(Debug)]
struct UnsortedEntries {
    root: PathBuf,
    symlinks: Symlinks,
    bounds: WalkBounds,
    stream: BatchStream,
    /// The remaining entries of the last batch.
    found: std::vec::IntoIter<Result<Entry>>,
}

impl UnsortedEntries {
    fn entries(&self, batch: &mut Batch) -> Vec<Result<Entry>> {
        let mut found: Vec<_> = batch.take_errors().into_iter().map(Err).collect();
        for directory in batch.directories() {
            found.extend(directory.entries().filter_map(|entry| {
                let name = [directory.path(), entry.name()].concat();
                describe(&self.root, self.symlinks, &self.bounds, name, entry.kind(), entry.stat())
            }));
        }
        found
    }
}

impl Iterator for UnsortedEntries {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.found.next() {
                return Some(entry);
            }
            let mut batch = self.stream.next()?;
            self.found = self.entries(&mut batch).into_iter();
            self.stream.recycle(batch);
        }
    }
}

#[cfg(test)]
mod tests;
