//! `du` of a store: adds up object lengths by prefix.

use firstbyte_location::EntryKind;
use firstbyte_store::{ListOptions, Store};

use super::View;
use super::totals::{DirectorySums, DirectoryTotals, ThreadSums, shorten_path};
use crate::globals::Globals;
use crate::render::error::Result;
use crate::verbs::listed::{is_whole, requests};

/// Number of objects after which the counter is updated.
const COUNTER_STEP: u64 = 1_000;

/// Sums up one operand.
///
/// # Errors
/// The root cannot be listed, or does not exist.
pub(super) fn sum(store: &Store, view: &View<'_>, globals: &Globals) -> Result<DirectorySums> {
    let root = &view.operand.root;
    let glob = view.operand.glob.as_ref();
    let options = ListOptions {
        recursive: true,
        beginning: glob.map(|glob| glob.beginning(0)).unwrap_or_default(),
        requests: requests(globals),
        ..ListOptions::default()
    };
    let sums = DirectorySums::new(view.memory);
    let mut tree = ThreadSums::new(&sums);
    let (mut objects, mut bytes) = (0, 0);
    let listing = match store.list(root, &options) {
        Ok(listing) => listing,
        Err(error) if root.is_directory_like() => return Err(error.into()),
        Err(error) => return object(store, view).map_err(|_| error.into()),
    };
    for entry in listing {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                view.failures.add(root.to_string(), error.into());
                continue;
            }
        };
        let totals = DirectoryTotals { bytes: entry.size.unwrap_or(0), files: 1, directories: 0 };
        let directory = entry.name.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        match glob {
            Some(glob) => glob.part(&entry.name).into_iter().for_each(|name| tree.add(name, totals)),
            None => tree.add(shorten_path(&entry.name[..directory], view.args.depth), totals),
        }
        (objects, bytes) = (objects + 1, bytes + totals.bytes);
        if objects == COUNTER_STEP {
            view.counter.add(std::mem::take(&mut objects), std::mem::take(&mut bytes));
        }
    }
    view.counter.add(objects, bytes);
    drop(tree);
    match glob {
        Some(_) => view.unless_unmatched(sums),
        None if sums.is_empty() && !is_whole(root) => object(store, view),
        None => {
            // An empty bucket also gets a row.
            sums.add(b"", DirectoryTotals::default());
            Ok(sums)
        }
    }
}

/// Sums up a location that is a single object.
fn object(store: &Store, view: &View<'_>) -> Result<DirectorySums> {
    let stat = store.stat(&view.operand.root)?;
    let sums = DirectorySums::new(view.memory);
    let files = u64::from(stat.kind != EntryKind::Directory);
    sums.add(b"", DirectoryTotals { bytes: stat.size().unwrap_or(0), files, directories: 0 });
    Ok(sums)
}
