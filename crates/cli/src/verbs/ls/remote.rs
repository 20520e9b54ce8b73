//! `ls` of a store: prints rows after each page of the listing.

use std::collections::VecDeque;
use std::num::NonZeroUsize;

use firstbyte_location::{Entry, EntryKind, Location};
use firstbyte_store::{Error as StoreError, ListOptions, Store};

use super::{Depth, Facts, View};
use crate::globals::Globals;
use crate::render::error::Result;
use crate::render::rows::{Printer, RowPage, time_of};
use crate::verbs::listed::{is_whole, requests};

/// Number of rows that are printed together: one page of S3, so that received rows appear before
/// the next page arrives.
const PAGE_ROWS: usize = 1_000;

/// Lists one operand.
///
/// # Errors
/// The root cannot be listed, or does not exist.
pub(super) fn list(store: &Store, view: &View<'_>, printer: &Printer<'_>, globals: &Globals) -> Result<()> {
    let mut lister = Lister { store, view, page: printer.page(), waiting: 0, requests: requests(globals) };
    let root = &view.operand.root;
    let listed = lister.list_root(root);
    lister.page.flush();
    match listed {
        Ok(0) if view.operand.glob.is_none() && !is_whole(root) => lister.list_object(root, None),
        Ok(_) => view.check_matched(),
        // The location may be an object: `ls` of a file prints its name.
        Err(error) if !root.is_directory_like() => lister.list_object(root, Some(error)),
        Err(error) => Err(error.into()),
    }
}

struct Lister<'l, 'p> {
    store: &'l Store,
    view: &'l View<'l>,
    page: RowPage<'l, 'p>,
    /// Number of rows on the page that are not printed yet.
    waiting: usize,
    requests: Option<NonZeroUsize>,
}

impl Lister<'_, '_> {
    /// Lists the root. If the number of levels is limited, lists prefixes one by one, so that
    /// deeper levels are never requested. Returns the number of names found.
    fn list_root(&mut self, root: &Location) -> firstbyte_store::Result<usize> {
        let levels = match self.view.depth {
            Depth::All => None,
            Depth::Levels(levels) => Some(levels),
        };
        let mut waiting = VecDeque::from([(Vec::new(), 1)]);
        let mut found = 0;
        while let Some((directory, level)) = waiting.pop_front() {
            let place = if directory.is_empty() { root.clone() } else { root.join(&directory) };
            let options = ListOptions {
                recursive: levels.is_none(),
                beginning: self.view.beginning(level - 1),
                requests: self.requests,
                ..ListOptions::default()
            };
            let listing = match self.store.list(&place, &options) {
                Ok(listing) => listing,
                Err(error) if level == 1 => return Err(error),
                Err(error) => {
                    self.view.failures.add(place.to_string(), error.into());
                    continue;
                }
            };
            for entry in listing {
                let entry = match entry {
                    Ok(entry) => entry,
                    Err(error) => {
                        self.view.failures.add(place.to_string(), error.into());
                        continue;
                    }
                };
                found += 1;
                let name = name_of(&directory, &entry);
                // A directory that is entered has no row of its own. As in a recursive listing, its
                // content is listed instead.
                if entry.kind == EntryKind::Directory && levels.is_some_and(|levels| level < levels) {
                    if self.view.enters(&name) {
                        waiting.push_back((name, level + 1));
                    }
                } else if !self.push(&name, &entry) {
                    return Ok(found);
                }
            }
        }
        Ok(found)
    }

    /// Adds a row. Returns false if no more rows can be printed.
    fn push(&mut self, name: &[u8], entry: &Entry) -> bool {
        if !self.view.takes(b"", name) {
            return true;
        }
        self.view.push(&mut self.page, &self.view.label, name, &facts(entry));
        self.waiting += 1;
        if self.waiting < PAGE_ROWS && !self.page.is_full() {
            return true;
        }
        self.waiting = 0;
        self.page.flush()
    }

    /// If the location is a single object, prints its row. Otherwise returns `error`.
    fn list_object(&mut self, location: &Location, error: Option<StoreError>) -> Result<()> {
        let stat = match (self.store.stat(location), error) {
            (Ok(stat), _) => stat,
            (Err(_), Some(error)) | (Err(error), None) => return Err(error.into()),
        };
        if stat.kind != EntryKind::Directory {
            let facts = Facts {
                kind: stat.kind,
                size: stat.size(),
                modified: stat.modified.and_then(time_of),
                etag: stat.version.etag.as_deref(),
                storage_class: stat.storage_class.as_deref(),
            };
            self.view.push(&mut self.page, b"", self.view.operand.root_text(), &facts);
            self.page.flush();
        }
        Ok(())
    }
}

/// Returns the name relative to the operand's root. The name of a directory ends in `/`, which is
/// part of the name in the store.
pub(super) fn name_of(directory: &[u8], entry: &Entry) -> Vec<u8> {
    let open = entry.kind == EntryKind::Directory && !entry.name.ends_with(b"/");
    [directory, &entry.name, if open { b"/" } else { b"" }].concat()
}

fn facts(entry: &Entry) -> Facts<'_> {
    Facts {
        kind: entry.kind,
        size: entry.size,
        modified: entry.modified.and_then(time_of),
        etag: entry.etag.as_deref(),
        storage_class: entry.storage_class.as_deref(),
    }
}
